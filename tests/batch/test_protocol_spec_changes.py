"""What a changed spec may do to rows that have landed: nothing, or what its keys say; never hide or double them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.audit.audits import balanced
from tests.hooks import Died, Hook, die, use_catalogue
from tests.world import HOUR, T0, World, record, window
from tidegate.core.base.errors import BatchRefused, CatalogueMismatch, SpecError
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def two_hours(world: World) -> None:
    """Rows for hours 0 to 2; the watermark (delay one hour) then stands at 02:30."""
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)


def values(world: World) -> list[int]:
    """The column `value` of every published row."""
    found: list[int] = []
    for location in world.partitions("lake.readings").values():
        for file in Path(location.removeprefix("file://")).glob("*.parquet"):
            found += pq.ParquetFile(file).read(columns=["value"]).to_pydict()["value"]
    return found


# ---------------------------------------------------------------- what is refused


def windows(**changes: Any) -> Callable[[Pipeline], dict[str, Any]]:
    return lambda p: {"windows": replace(p.windows, **changes)}


REFUSED: dict[str, tuple[Callable[[Pipeline], dict[str, Any]], str]] = {
    "a dynamic column less": (
        lambda p: {"partition_by": ("date", "hour")},
        r"partition_by was date, hour, site, is date, hour$",
    ),
    "a dynamic column more": (
        lambda p: {"partition_by": ("date", "hour", "site", "value")},
        "partition_by was date, hour, site, is date, hour, site, value",
    ),
    "smaller windows": (windows(size_ms=HOUR // 4), "windows.size was 60 min, is 15 min"),
    "larger windows": (windows(size_ms=2 * HOUR), "windows.size was 60 min, is 120 min"),
    "another time zone": (windows(timezone="Europe/Berlin"), "windows.timezone was UTC, is Europe/Berlin"),
    "start moved forward": (
        windows(start_ms=T0 + 2 * HOUR),
        "windows.start was 2013-01-05T00:00Z, is 2013-01-05T02:00Z",
    ),
    "start moved by a part of a window": (
        windows(start_ms=T0 - HOUR // 2),
        "windows.start moved from 2013-01-05T00:00Z to 2013-01-04T23:30Z",
    ),
    "a narrower column": (
        lambda p: {"columns": (*p.columns[:2], replace(p.columns[2], type="smallint"))},
        "column value was int, is smallint",
    ),
    "a column of another type": (
        lambda p: {"columns": (*p.columns[:2], replace(p.columns[2], type="string"))},
        "column value was int, is string: the files that are there cannot be read so",
    ),
    "a column that Spark could not read any more": (
        lambda p: {"columns": (*p.columns[:2], replace(p.columns[2], type="bigint"))},
        "column value was int, is bigint: Spark 3.5 cannot read it from the Parquet files that are there",
    ),
    "a partition column of another type": (
        lambda p: {"columns": (p.columns[0], replace(p.columns[1], type="int"), p.columns[2])},
        "partition column site was string, is int",
    ),
    "no Kafka columns": (lambda p: {"kafka_columns": False}, "kafka_columns was true, is false"),
    "another workdir": (
        lambda p: {"sink": replace(p.sink, workdir=f"{p.sink.location}/_other")},
        "sink.workdir was .*/_tidegate, is .*/_other",
    ),
}


@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=REFUSED)
def test_a_change_that_would_hide_or_double_landed_rows_is_refused_by_every_step(
    world: World, change: Callable[[Pipeline], dict[str, Any]], said: str
) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    before = world.pipeline
    world.change_spec(**change(before))
    for step in (
        lambda: ingest.plan(world.context(), "r2"),
        lambda: ingest.write(world.context(), "r1"),
        lambda: ingest.land(world.context(), "r1"),
        lambda: archive.ready(world.context(), window(1)),
        lambda: archive.publish(world.context(), window(1)),
        lambda: replay.replay(world.context(), window(0)),
        lambda: reconcile.maintain(world.context()),
    ):
        with pytest.raises(SpecError, match=f"(?m){said}") as refused:
            step()
        assert not refused.value.retry
    world.pipeline = before
    world.archive(1)
    assert world.by_window() == {"00": [(0, 0), (0, 1)], "01": [(0, 2)]}


def test_before_the_first_batch_everything_may_change(world: World) -> None:
    two_hours(world)
    reconcile.maintain(world.context())
    world.change_spec(partition_by=("date", "hour"), windows=replace(world.pipeline.windows, start_ms=T0 + HOUR))
    world.ingest("r1")
    assert world.archive(1).rows == 1


def test_start_may_move_back_by_whole_windows(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    world.change_spec(windows=replace(world.pipeline.windows, start_ms=T0 - 2 * HOUR))
    assert list(reconcile.due(world.context())) == [window(-2), window(-1), window(1)]
    world.produce(record("early", -0.5), record("n", 3.6))
    world.ingest("r2")
    assert world.archive(-1).rows == 1
    assert world.archive(1).rows == 1


# ---------------------------------------------------------------- columns


EXTRA = Column(name="extra", type="int", path="$.extra")


def rows(world: World, table: str = "lake.readings") -> list[dict[str, Any]]:
    """What a reader who finds columns by name sees: those of the table, null where a file has none."""
    names = [name for name, _ in world.catalogue._tables[table].definition.columns]
    found: list[dict[str, Any]] = []
    for location in world.partitions(table).values():
        for file in sorted(Path(location.removeprefix("file://")).glob("*.parquet")):
            found += [{n: row.get(n) for n in names} for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(found, key=lambda r: (r["_partition"], r["_offset"]))


def test_columns_come_and_go_while_the_pipeline_runs(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    before = world.table()
    world.change_spec(columns=(EXTRA, site, replace(id_, type="string")))  # value is dropped, the order is another
    world.produce(record("late", 0.2) | {"extra": 6}, record("n", 1.7) | {"extra": 7}, record("z", 4.0), partition=0)
    world.produce(record("y", 4.9), partition=1)
    world.ingest("r2")
    world.archive(1)
    seen = {r["id"]: (r["value"], r["extra"]) for r in rows(world)}
    assert seen == {"a0": (1, None), "a1": (1, None), "b0": (1, None), "n": (None, 7)}
    (late,) = rows(world, "lake.readings__late")
    assert (late["id"], late["extra"], late["site"]) == ("late", 6, "a")
    balanced(world)

    assert world.archive(0).generation == 1, "Clear verifies: a window that is published keeps its columns"
    assert world.replay(0).generation == 2, "today's columns are another content"
    assert {r["id"]: (r["value"], r["extra"]) for r in rows(world)}["a0"] == (None, None)
    assert sorted(world.table()) == sorted(before + world.by_window()["01"])
    balanced(world)


def test_types_grow_and_a_replay_reads_both(world: World) -> None:
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, replace(value, type="tinyint")))
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    world.change_spec(columns=(id_, site, replace(value, type="int")))
    world.produce(record("big", 1.5, value=1000), record("z", 4.0))
    world.produce(record("y", 4.9), partition=1)
    world.ingest("r2")
    world.archive(1)
    assert {r["id"]: r["value"] for r in rows(world)} == {"a0": 1, "a1": 1, "b0": 1, "big": 1000}
    world.replay(0)
    assert sorted(values(world)) == [1, 1, 1, 1000]
    balanced(world)


def test_the_table_has_the_columns_before_a_batch_is_planned_with_them(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    world.change_spec(columns=(*world.pipeline.columns, EXTRA))
    ctx = world.context()
    use_catalogue(ctx, Hook(world.catalogue, before={"evolve_table": die}))
    world.produce(record("n", 2.2))
    with pytest.raises(Died):
        ingest.plan(ctx, "r2")
    assert world.context().ledger.batches.open("readings") is None, "Hive first: nothing was planned"
    ctx = world.context()
    ctx.ledger.batches = Hook(ctx.ledger.batches, before={"insert_plan": die})  # type: ignore[assignment]
    with pytest.raises(Died):
        ingest.plan(ctx, "r2")
    assert ("extra", "int") in world.catalogue._tables["lake.readings"].definition.columns
    world.ingest("r2")


def test_what_the_table_cannot_take_is_refused_before_a_batch_is_planned(world: World) -> None:
    """The column was dropped, so the spec before knows nothing of it; the table does, and old files do."""
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site))
    world.produce(record("n", 2.2))
    world.ingest("r2")
    world.change_spec(columns=(id_, site, replace(value, type="string")))
    world.produce(record("m", 2.3))
    with pytest.raises(CatalogueMismatch, match="column value was int, is string") as refused:
        ingest.plan(world.context(), "r3")
    assert not refused.value.retry
    assert world.context().ledger.batches.open("readings") is None
    world.change_spec(columns=(id_, site, value))
    world.ingest("r3")


def test_a_table_of_an_earlier_release_gets_the_columns_that_this_one_writes(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    table = world.catalogue._tables["lake.readings"]
    now = table.definition
    table.definition = replace(now, columns=tuple(c for c in now.columns if c[0] != "_overflow"))
    assert table.definition != now
    world.archive(1)
    assert table.definition == now


def test_a_pipeline_whose_columns_stay_needs_no_catalogue_to_plan(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.change_spec(dirty=replace(world.pipeline.dirty, max_count=7))
    ctx = world.context()
    use_catalogue(ctx, Hook(world.catalogue, before={"ensure_table": die, "evolve_table": die}))
    world.produce(record("n", 2.2))
    assert ingest.plan(ctx, "r2") == 2


def test_a_refused_batch_goes_on_with_the_column_that_it_lacked(world: World) -> None:
    world.change_spec(format=replace(world.pipeline.format, unknown_fields="fail"))
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("n", 1.5) | {"gate": "B7"}, record("z", 4.0))
    world.produce(record("y", 4.9), partition=1)
    ingest.plan(world.context(), "r2")
    with pytest.raises(BatchRefused) as refused:
        ingest.write(world.context(), "r2")
    assert "unknown field 'gate', for example \"B7\" (partition 0, offset 4" in str(refused.value)
    assert "- {name: gate, type: string}" in refused.value.advice
    stored = world.context().ledger.batches.refusal("readings", 2)
    assert stored is not None
    assert (stored.kind, stored.is_releasable) == (RefusalKind.UNKNOWN_FIELD, False)
    batch = world.context().ledger.batches.open("readings")
    assert batch is not None
    world.change_spec(columns=(*world.pipeline.columns, Column(name="gate", type="string", path="$.gate")))
    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, before={"run": die})  # type: ignore[assignment]
    with pytest.raises(Died):
        ingest.write(ctx, "r2")
    assert ("gate", "string") in world.catalogue._tables["lake.readings"].definition.columns, "Hive first, data after"
    assert world.ingest("r2") == 2
    world.archive(1)
    assert {r["id"]: r["gate"] for r in rows(world)}["n"] == "B7"
    balanced(world)
