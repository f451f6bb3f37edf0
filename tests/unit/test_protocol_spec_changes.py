"""What a changed spec may do to rows that have landed: nothing, or what its keys say; never hide or double them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.hooks import Died, Hook, die
from tests.world import HOUR, T0, World, record, window
from tidegate.core.errors import CatalogueMismatch, SpecError
from tidegate.core.pipeline import Column, Pipeline
from tidegate.core.tables import data_table
from tidegate.workflow import archive, ingest, reconcile, replay


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
    assert reconcile.due_windows(world.context()) == [window(-2), window(-1), window(1)]
    world.produce(record("early", -0.5), record("n", 3.6))
    world.ingest("r2")
    assert world.archive(-1).rows == 1
    assert world.archive(1).rows == 1


# ---------------------------------------------------------------- columns


def test_a_replay_with_a_column_that_the_table_lacks_is_refused_before_anything_is_built(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    before, columns = world.table(), world.pipeline.columns
    world.change_spec(columns=(*columns, Column("extra", "int", "$.extra")))
    with pytest.raises(CatalogueMismatch):
        world.replay(0)
    assert world.context().ledger.windows.get("readings", window(0)).newest == 1

    world.change_spec(columns=columns)
    assert world.archive(0).generation == 1, "taken back, Clear verifies as ever"
    assert world.table() == before

    world.change_spec(columns=(*columns, Column("extra", "int", "$.extra")))
    world.catalogue._tables["lake.readings"].definition = data_table(world.pipeline)  # ALTER TABLE, as the error says
    assert world.replay(0).new
    assert world.table() == before


def test_a_replay_after_an_unfinished_one_uses_todays_columns(world: World) -> None:
    """The operator saw the mistake in the spec while the first replay ran, and took it back."""
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))
    ctx = world.context()
    ctx.ledger.windows = Hook(ctx.ledger.windows, after={"built": die})
    with pytest.raises(Died):
        replay.replay(ctx, window(0))
    world.change_spec(columns=(id_, site, value))
    world.replay(0)
    assert values(world) == [1, 1]
    assert not any("published generation 2" in line for line in world.said), "readers never meet the mistake"


def test_a_replay_that_readers_may_have_met_is_finished_before_the_next(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)
    before = world.table()
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))
    ctx = world.context()
    ctx.catalogue = Hook(world.catalogue, after={"set_location": die})  # type: ignore[assignment]
    with pytest.raises(Died):
        replay.replay(ctx, window(0))
    assert world.table() == before, "one partition switched, one not: every row once"
    world.change_spec(columns=(id_, site, value))
    world.clock.advance(ctx.request_ttl_ms)  # until then the dead task's last change might still be executed
    world.replay(0)
    assert world.table() == before
    assert values(world) == [1, 1]


# ---------------------------------------------------------------- event times


ZONES = {"UTC": T0, "Europe/Berlin": T0 - HOUR, "America/New_York": T0 + 5 * HOUR}


@pytest.mark.parametrize("size", [HOUR, 24 * HOUR], ids=["hours", "days"])
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
def test_sentinel_event_times_become_side_rows_in_every_zone(world: World, at: str, zone: str, size: int) -> None:
    """In some zones their windows begin or end outside the calendar: arithmetic on them must not fail the job."""
    spec = world.pipeline
    world.change_spec(
        event_time=replace(spec.event_time, format="iso8601", path="$.iso"),
        windows=replace(spec.windows, timezone=zone, size_ms=size, start_ms=ZONES[zone]),
        partition_by=("date", "hour", "site") if size == HOUR else ("date", "site"),
    )
    world.produce({"id": "x", "site": "a", "iso": "2013-01-05T12:00:00Z"}, {"id": "y", "site": "a", "iso": at})
    world.ingest("r1")
    assert world.table("__late") + world.table("__dirty") == [(0, 1)]
