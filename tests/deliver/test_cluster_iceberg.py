"""Hours of an Iceberg table on their way to one of another cluster: its own metadata, its own commits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import index_by_name

from tests.crash import lakehouse
from tests.deliver.cluster_lab import TABLE, Around, more_columns, send, take
from tests.deliver.iceberg_lab import IcebergLab
from tests.world import T0, record, window
from tidegate.core.base.errors import CatalogueError, CatalogueUnsure, DeliveryAhead, DeliveryRefused, LostComparison
from tidegate.core.spec.pipeline import Column
from tidegate.targets.iceberg.live import newest_token
from tidegate.workflow.replay import rollback

WAYS: dict[str, dict[str, Any]] = {
    "disk": {},
    "between two object stores": {"objects": True, "own": "s3://lake/readings"},
}


@pytest.fixture(params=WAYS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> IcebergLab:
    return IcebergLab(tmp_path, **WAYS[request.param])


def test_an_hour_arrives_and_no_path_is_the_pipelines(lab: IcebergLab) -> None:
    lab.hours(2)
    assert lab.deliver() == ["delivered", "delivered"]
    for hour in (0, 1):
        assert lab.copied(hour) == lab.own(hour) != []
        assert lab.ids(hour) == [f"{hour}-0", f"{hour}-1"]
        assert all(uri.startswith(f"{lab.there}/_tidegate/generations/") for uri in lab.uris(hour))
    assert lab.metadata.location == lab.there
    assert str(lab.world.folder / "lake") not in lab.metadata.model_dump_json()
    token = newest_token(lab.metadata, T0)
    assert token is not None
    assert (token.generation, token.epoch) == (1, 1)
    assert lab.states() == ["STANDING 1.1", "STANDING 1.1"]
    assert lab.deliver() == []
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]


def test_a_replay_and_a_rollback_follow(lab: IcebergLab) -> None:
    lab.hours(2)
    lab.deliver()
    first = lab.own()
    more_columns(lab)
    lab.world.replay(0)
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own() != first
    assert {row["x"] for row in lab.rows()} == {"0-0", "0-1"}
    with lab.context() as ctx:
        rollback.rollback(ctx, window(0), 1, "worse")
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own() == first
    assert lab.states() == ["STANDING 3.3", "STANDING 1.1"]
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]
    lab.world.clock.advance(86_400_001)
    lab.deliver()
    kept = {uri.split("/generations/")[1].split("/")[1] for uri in lab.uris()}
    home = f"{lab.there}/_tidegate/generations/20130105T000000Z"
    assert {*(lab.storage.list_names(home) or [])} == kept
    assert lab.copied() == lab.own()


def test_columns_keep_the_numbers_that_files_call_them_by(lab: IcebergLab) -> None:
    """Though the table there begins when the pipeline's own has a history, and would be numbered otherwise."""
    tags = {"tags": [{"a": 1, "b": {"k": 2}}]}
    lab.world.produce(*(record(f"{h}-0", h + 0.1) | tags for h in range(2)), record("open", 4.5))
    lab.world.produce(record("open", 4.5), partition=1)
    lab.world.ingest("first")
    lab.world.archive(0)
    more = Column(name="tags", type="array<struct<a:int,b:map<string,int>>>", path="$.tags")
    lab.world.change_spec(columns=(lab.pipeline.columns[0], more, *lab.pipeline.columns[1:]))
    assert lab.world.replay(0).generation == 2
    lab.world.archive(1)
    assert lab.deliver() == ["delivered", "delivered"]
    assert [row["tags"] for row in lab.rows()] == [[{"a": 1, "b": [("k", 2)]}]]
    own = lakehouse.loaded(lab.world)
    assert own is not None
    here, there_ = index_by_name(own.metadata.schema()), index_by_name(lab.metadata.schema())
    assert there_.items() <= here.items()
    assert here.keys() - there_.keys() <= {"_overflow", "_overflow.key", "_overflow.value"}
    assert here["tags"] > here["value"]
    fields = {f.name: f.source_id for f in lab.metadata.spec().fields}
    assert fields == {"_window": here["_window"], "site": here["site"]}
    assert lab.verify(0, 1) == ["unchanged", "unchanged"]


def test_a_table_that_calls_its_columns_otherwise_is_refused(tmp_path: Path) -> None:
    """Somebody has made the pipeline's own table anew, or the one there."""
    lab = IcebergLab(tmp_path)
    lab.hours(2)
    lab.deliver()
    loaded = lab.loaded()
    assert loaded is not None
    system = lab.system()
    ids = index_by_name(loaded.metadata.schema())
    with pytest.raises(DeliveryRefused, match="calls it"):
        _fit(system, ids | {"value": 77})
    with pytest.raises(DeliveryRefused, match="by that id"):
        _fit(system, ids | {"further": ids["value"]})
    _fit(system, ids)


def _fit(system: Any, ids: dict[str, int]) -> None:
    from tidegate.targets.cluster.table import _told

    with _told():
        system._fitted(ids)


def test_an_hour_that_has_no_rows_any_more_is_a_commit(lab: IcebergLab) -> None:
    """D6: what a late commit of the older generation would be made on is not the table any more."""
    lab.hours(2)
    lab.deliver()
    row, generation = take(lab)
    newer = replace(row, generation=2), replace(generation, files=())
    standing = send(lab, newer, holds=True)
    assert (standing.content.rows, lab.uris()) == (0, [])
    assert lab.system().standing(T0) == standing
    assert lab.ids(1) == ["1-0", "1-1"]


@pytest.mark.parametrize("first", [1, 0])
def test_a_commit_that_comes_late_finds_another_table(tmp_path: Path, first: int) -> None:
    """The older try stood still between its question and its commit; meanwhile a newer generation, of no rows."""
    around = Around()
    lab = IcebergLab(tmp_path, wrap_far=around)
    lab.hours(2)
    if first:
        lab.deliver()
    old = take(lab)

    def meanwhile(do: Callable[[], Any]) -> Any:
        row, generation = take(lab)
        newer = replace(row, generation=2), replace(generation, files=())
        send(lab, newer, holds=True)
        return do()

    if first:  # nothing is to be committed for files that stand: they are gone first
        lab.storage.delete(lab.uris()[0])
    around.changes["commit"] = meanwhile
    with pytest.raises(DeliveryAhead):
        send(lab, old, holds=True)
    assert lab.uris() == []


def test_a_commit_without_an_answer_is_looked_at(tmp_path: Path) -> None:
    def lost(do: Callable[[], Any]) -> Any:
        do()
        raise CatalogueUnsure("no answer")

    around = Around(commit=lost)
    lab = IcebergLab(tmp_path, wrap_far=around)
    lab.hours(1)
    assert lab.deliver() == ["delivered"]
    assert lab.copied() == lab.own()
    assert len([call for call in around.calls if call.startswith("commit")]) == 1


def test_who_does_not_hold_any_more_commits_nothing(lab: IcebergLab) -> None:
    lab.hours(1)
    with pytest.raises(LostComparison):
        send(lab, take(lab), holds=False)
    assert lab.uris() == []
    assert lab.deliver() == ["delivered"]


@pytest.mark.parametrize("damage", ["bytes", "gone"])
def test_what_somebody_changes_there_is_found_when_it_is_compared(tmp_path: Path, damage: str) -> None:
    lab = IcebergLab(tmp_path)
    lab.hours(1)
    lab.deliver()
    path = Path(lab.uris()[0].removeprefix("file://"))
    if damage == "bytes":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
    else:
        path.unlink()
    assert lab.verify(0) == ["delivered"]
    assert lab.copied() == lab.own()
    assert lab.verify(0) == ["unchanged"]


def test_an_object_stores_hour_that_was_whole_is_not_copied_again(tmp_path: Path) -> None:
    def down(do: Callable[[], Any]) -> Any:
        raise CatalogueError("connection refused")

    around = Around(create=down)
    lab = IcebergLab(tmp_path, True, wrap_far=around)
    lab.hours(1)
    assert lab.deliver() == ["failed"]
    around.calls.clear()
    assert lab.deliver() == ["delivered"]
    assert [call for call in around.calls if call.startswith("open_new")] == []
    assert lab.copied() == lab.own()


def test_another_pipelines_table_is_refused(tmp_path: Path) -> None:
    lab = IcebergLab(tmp_path)
    lab.hours(1)
    lab.deliver()
    loaded = lab.loaded()
    assert loaded is not None
    system = lab.system()
    definition = system._definition
    other = replace(definition, pipeline=replace(definition.pipeline, name="flights"))
    system._definition = other
    system._site.pipeline = other.pipeline
    system._claim = lambda: None  # type: ignore[method-assign]
    with pytest.raises(DeliveryRefused, match=f"{TABLE} is the table of pipeline readings"):
        system.prepare()
