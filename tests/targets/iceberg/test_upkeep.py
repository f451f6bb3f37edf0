"""Tables in Iceberg over time: whose they are, bounds in manifests, a whole life, and what is let go."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

from tests.late.reopenings import balanced
from tests.target_suite import KEY, ROWS, Lab, again, publish
from tests.targets.iceberg.lab import Tables, reader, sqlite
from tests.targets.iceberg.test_rules import by_somebody, compact, lab, loaded, problems
from tests.world import World, record, window
from tidegate.core.base.errors import CatalogueError, CatalogueMismatch
from tidegate.core.files.receipt import DATA, LATE
from tidegate.targets.iceberg import metadata
from tidegate.targets.iceberg.live import look, newest_token, token_in
from tidegate.targets.iceberg.table import IcebergTable
from tidegate.targets.iceberg.tags import FIRST_COPY, TAG, tag_of
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.publish import archive

__all__ = ["lab"]  # fixtures


# ---------------------------------------------------------------- tables


def test_a_table_of_another_pipeline_is_refused(lab: Lab) -> None:
    lab.until_done(publish)
    table = lab.world.context().target
    for owner, words in (("other", "the table of pipeline other"), ("", "the table of pipeline ")):
        table.catalogue.commit(loaded(lab), (), (SetPropertiesUpdate(updates={"tidegate.pipeline": owner}),))  # type: ignore[attr-defined]
        with pytest.raises(CatalogueMismatch, match=words):
            table.prepare()


def test_manifests_have_the_bounds_that_jobs_have_written(lab: Lab) -> None:
    """Of merged and of rebuilt files, too; without them nothing but speed is lost."""

    def bounded() -> list[tuple[int, int, int]]:
        now = loaded(lab)
        offset = now.metadata.schema().find_field("_offset").field_id
        files = look(now.metadata, now.io, {KEY.start_ms * 1000}).files
        return sorted(
            (
                from_bytes(LongType(), f.lower_bounds[offset]),
                from_bytes(LongType(), f.upper_bounds[offset]),
                f.null_value_counts[offset],
            )
            for f in files
        )

    lab.until_done(publish)
    written = bounded()
    assert [first for first, _, _ in written] == sorted({first for first, _, _ in written})
    assert (min(written)[0], max(last for _, last, _ in written)) == (0, 3)
    lab.other_columns()
    lab.until_done(again)
    assert (min(bounded())[0], max(last for _, last, _ in bounded())) == (0, 3)


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_somebodys_branch_by_the_name_of_a_first_copys_means_nothing(lab: Lab, kind: str) -> None:
    """Tidegate has such a branch in keyed tables alone. A commit on this one would take back what came since."""
    lab.until_done(publish)
    old = loaded(lab).metadata.current_snapshot_id
    lab.other_columns()
    lab.until_done(again)
    theirs = SetSnapshotRefUpdate(ref_name=FIRST_COPY, type=kind, snapshot_id=old)
    lab.world.context().target.catalogue.commit(loaded(lab), (), (theirs,))  # type: ignore[attr-defined]
    archive.publish(lab.context(), window(1))
    assert (lab.rows(), problems(lab)) == (ROWS, [])
    assert loaded(lab).metadata.refs[FIRST_COPY].snapshot_id == old
    clean(lab.world.context())
    assert loaded(lab).metadata.refs[FIRST_COPY].snapshot_id == old


# ---------------------------------------------------------------- a whole life


def test_a_whole_life(tmp_path: Path) -> None:
    """Ingest, publish, an empty hour, late rows, a reopening, a replay, cleaning, and the audit of the table."""
    catalogue = sqlite(tmp_path)
    world = World(tmp_path)
    world.change_spec(sink=replace(world.pipeline.sink, kind="iceberg", conn_id="lake", table="lake.readings"))
    world.tables = lambda w: Tables(catalogue)
    rows = reader(world, catalogue)
    lab = Lab(world, ("commit",), read=rows, waits=False)
    world.produce(record("a", 0.1), record("b", 0.2), record("next", 2.1), record("later", 4.5))
    world.produce(record("later", 4.5), partition=1)
    world.ingest("r1")
    data = Counter({(0, 0): 1, (0, 1): 1, (0, 2): 1})
    for hour in (0, 1, 2):
        world.archive(hour)
    assert rows(DATA) == data
    assert {t.unit for s in loaded(lab).metadata.snapshots if (t := token_in(s))} == {
        window(h).start_ms for h in (0, 1, 2)
    }
    world.produce(record("late", 0.7), b"not json")
    world.produce(record("later", 6.5), partition=1)
    world.ingest("r2")
    assert rows(LATE) == Counter({(0, 4): 1})
    assert problems(lab) == []
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, replace(value, path="$.other")))
    assert world.replay(0).generation == 2
    assert rows(DATA) == data
    assert problems(lab) == []
    world.close()


# ---------------------------------------------------------------- what is let go


def test_the_cleaner_lets_go_of_answered_tags_and_old_snapshots(lab: Lab) -> None:
    """C5: a tag stays while its generation is on its way to CURRENT."""
    lab.until_done(publish)
    table = lab.world.context().target
    keep = SetPropertiesUpdate(updates={"history.expire.min-snapshots-to-keep": "2"})
    table.catalogue.commit(loaded(lab), (), (keep,))  # type: ignore[attr-defined]
    for _ in range(3):
        lab.other_columns()
        lab.until_done(again)
    before = loaded(lab).metadata
    newest = newest_token(before, KEY.start_ms)
    assert newest is not None
    assert len([name for name in before.refs if name.startswith(TAG)]) == 4
    assert table.sweep(lambda all_: all_ - {(newest.unit, newest.generation)}) != []
    after = loaded(lab).metadata
    assert [name for name in after.refs if name.startswith(TAG)] == [tag_of(newest)]
    assert len(after.snapshots) == 2
    ctx = lab.world.context()
    clean(ctx)
    assert [name for name in loaded(lab).metadata.refs if name.startswith(TAG)] == []
    assert (lab.rows(), problems(lab)) == (ROWS, [])
    compact(lab)
    compact(lab)
    compact(lab)
    clean(lab.world.context())
    assert newest_token(loaded(lab).metadata, KEY.start_ms) is None, "its snapshot is beyond the newest"
    assert problems(lab) == [], "welcome, though nothing says any more of whose rows they are"


def with_property(lab: Lab, key: str, value: str, name: str = "") -> None:
    """As a catalogue sets it for somebody who is not asked for a number."""
    catalogue: Any = lab.world.context().target.catalogue  # type: ignore[attr-defined]
    now = catalogue.load(name or lab.world.pipeline.sink.table)
    said = now.metadata.model_copy(update={"properties": {**now.metadata.properties, key: value}})
    place = metadata.place(said, now.metadata_location)
    metadata.write(said, now.io, place)
    with catalogue._engine.begin() as connection:
        is_it = catalogue._tables.c.metadata_location == now.metadata_location
        connection.execute(catalogue._tables.update().where(is_it).values(metadata_location=place))


@pytest.mark.parametrize("key", ["history.expire.min-snapshots-to-keep", "tidegate.day-tags"])
def test_a_number_that_is_none_holds_up_nothing_but_its_own_table(lab: Lab, key: str) -> None:
    lab.until_done(publish)
    lab.world.produce(record("late", 0.7), partition=1)
    lab.world.ingest("r2")
    with_property(lab, key, "many")
    late = f"{lab.world.pipeline.sink.table}__late"
    side = lab.world.context().sides[LATE]
    with_property(lab, "history.expire.min-snapshots-to-keep", "1", late)
    side.publish({2: ()}, lambda: True)
    clean(lab.world.context())
    words = f"has the property {key} = 'many', which is no whole number"
    assert [words in line and "ALTER TABLE" in line for line in lab.world.said if "is swept by" in line] == [True]


def test_a_log_of_metadata_whose_length_is_no_number_is_named(lab: Lab) -> None:
    """The library has an error of its own for it."""
    lab.until_done(publish)
    with_property(lab, "write.metadata.previous-versions-max", "rubbish")
    lab.other_columns()
    with pytest.raises(CatalogueMismatch, match="previous-versions-max = 'rubbish', which is no whole number"):
        again(lab.context())
    assert lab.rows() == ROWS
    with_property(lab, "write.metadata.previous-versions-max", "")
    lab.until_done(again)
    assert (lab.rows(), problems(lab)) == (ROWS, [])


def test_another_format_version_holds_up_no_cleaning(lab: Lab) -> None:
    """The library cannot write it; what is let go in the table stays."""
    lab.until_done(publish)
    catalogue: Any = lab.world.context().target.catalogue  # type: ignore[attr-defined]
    now = loaded(lab)
    said = now.metadata.model_dump_json().replace('"format-version":2', '"format-version":3,"next-row-id":0')
    Path(now.metadata_location.removeprefix("file://")).write_text(said)
    assert catalogue.load(lab.world.pipeline.sink.table).metadata.format_version == 3
    lab.world.clock.advance(40 * 86_400_000)
    clean(lab.world.context())
    assert any("is swept by the next run" in line and "has format version 3" in line for line in lab.world.said)


def test_a_snapshot_that_tells_of_a_change_stays_until_the_hour_is_put_right(lab: Lab) -> None:
    """An UPDATE leaves as many rows: once nothing told of it, its files would pass for a compaction's."""
    lab.until_done(publish)
    keep = SetPropertiesUpdate(updates={"history.expire.min-snapshots-to-keep": "1"})
    lab.world.context().target.catalogue.commit(loaded(lab), (), (keep,))  # type: ignore[attr-defined]
    first = loaded(lab).metadata.current_snapshot_id
    compact(lab, Operation.OVERWRITE)
    changed = loaded(lab).metadata.current_snapshot_id
    compact(lab)
    archive.publish(lab.context(), window(1))
    for _ in range(2):
        clean(lab.world.context())
        kept = {s.snapshot_id for s in loaded(lab).metadata.snapshots}
        assert kept == {changed, loaded(lab).metadata.current_snapshot_id}, first
        assert problems(lab)
        assert all("changed by another writer" in p and "window 20130105T00" in p for p in problems(lab))
    lab.until_done(publish)
    assert (lab.rows(), problems(lab)) == (ROWS, [])
    clean(lab.world.context())
    assert [s.snapshot_id for s in loaded(lab).metadata.snapshots] == [loaded(lab).metadata.current_snapshot_id]
    assert problems(lab) == []


def test_files_that_others_have_put_into_fewer_partitions_are_named_and_replaced(lab: Lab) -> None:
    """Somebody takes `site` out of the partitions, compacts, and takes that back."""
    lab.until_done(publish)
    catalogue: Any = lab.world.context().target.catalogue  # type: ignore[attr-defined]
    fewer = PartitionSpec(loaded(lab).metadata.spec().fields[0], spec_id=1)
    catalogue.commit(loaded(lab), (), (AddPartitionSpecUpdate(spec=fewer), SetDefaultSpecUpdate(spec_id=-1)))

    def joined(files: list[DataFile]) -> list[DataFile]:
        args = {"partition": Record(KEY.start_ms * 1000), "record_count": sum(f.record_count for f in files)}
        file = DataFile.from_args(
            content=0, file_path="file:///joined", file_format="PARQUET", file_size_in_bytes=9, **args
        )
        file.spec_id = 1
        return [file]

    by_somebody(lab, joined, operation=Operation.REPLACE)
    catalogue.commit(loaded(lab), (), (SetDefaultSpecUpdate(spec_id=0),))
    found = problems(lab)
    assert any("site=a is not in the catalogue" in p and p.startswith("window 20130105T00") for p in found), found
    lab.until_done(publish)
    assert (lab.rows(), problems(lab)) == (ROWS, [])


def test_a_change_that_was_rolled_back_is_not_kept(lab: Lab) -> None:
    lab.until_done(publish)
    keep = SetPropertiesUpdate(updates={"history.expire.min-snapshots-to-keep": "1"})
    catalogue: Any = lab.world.context().target.catalogue  # type: ignore[attr-defined]
    catalogue.commit(loaded(lab), (), (keep,))
    first = loaded(lab).metadata.current_snapshot_id
    compact(lab, Operation.OVERWRITE)
    back = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=first)
    catalogue.commit(loaded(lab), (), (back,))
    clean(lab.world.context())
    assert [s.snapshot_id for s in loaded(lab).metadata.snapshots] == [first]
    assert problems(lab) == []


def test_an_audit_finds_a_first_generation_that_waits_for_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are where they will stay, and it is not in force."""
    catalogue = sqlite(tmp_path)
    world = World(tmp_path)
    world.change_spec(sink=replace(world.pipeline.sink, kind="iceberg", conn_id="lake", table="lake.readings"))
    world.tables = lambda w: Tables(catalogue)
    world.produce(record("a0", 0.1), record("c0", 2.5))
    world.produce(record("d0", 2.5), partition=1)
    world.ingest("r1")

    def gone(*_: object) -> list[str]:
        raise CatalogueError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(IcebergTable, "_commit", gone)
        with pytest.raises(CatalogueError):
            world.archive(0)
    balanced(world)
    world.archive(0)
    balanced(world)
