"""A window's bounds as the database gets them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.offline.worlds import TableWorld
from tidegate.core.base.errors import SourceError
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.planning import plan_batch
from tidegate.core.batch.readings import Reading, instant_of, offset_at, whole_window
from tidegate.core.copy.port import KeyRange, SourceColumn, SourceTable
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end
from tidegate.core.window.states import WindowKey
from tidegate.sources.database.times import times_of

HOUR = 3_600_000
BERLIN = Windows(size_ms=24 * HOUR, timezone="Europe/Berlin", start_ms=0, watermark_delay_ms=0)


def table(kind: str) -> SourceTable:
    return SourceTable(schema="s", name="t", key=(), columns=(SourceColumn("at", kind),))


def days(first: datetime, count: int) -> list[WindowKey]:
    """Local days of Berlin."""
    starts = [round(first.timestamp() * 1000)]
    for _ in range(count):
        starts.append(window_end(starts[-1], BERLIN))
    return [WindowKey(a, b) for a, b in pairwise(starts)]


@pytest.mark.parametrize("first", [datetime(2026, 3, 27, 23, tzinfo=UTC), datetime(2026, 10, 22, 22, tzinfo=UTC)])
@pytest.mark.parametrize(
    ("kind", "zone"),
    [
        ("timestamp with time zone", "UTC"),
        ("timestamp without time zone", "Europe/Berlin"),
        ("timestamp without time zone", "America/New_York"),
        ("date", "Europe/Berlin"),
        ("date", "UTC"),
    ],
)
def test_days_share_their_bounds_over_changes_of_clocks(first: datetime, kind: str, zone: str) -> None:
    """No value is between two windows, or in both, and bounds go on."""
    found = [times_of("postgresql", table(kind), "at", day, 0, zone) for day in days(first, 6)]
    assert all(a.upper == b.lower for a, b in pairwise(found))
    assert [t.lower for t in found] == sorted({t.lower for t in found})


def test_bounds_are_wall_times_where_values_are() -> None:
    (day,) = days(datetime(2026, 10, 24, 22, tzinfo=UTC), 1)
    assert day.end_ms - day.start_ms == 25 * HOUR
    at = times_of("mariadb", table("datetime(6)"), "at", day, 0, "Europe/Berlin")
    assert (at.lower, at.upper) == ("2026-10-25 00:00:00.000000", "2026-10-26 00:00:00.000000")
    at = times_of("mariadb", table("timestamp"), "at", day, 2 * HOUR, "Europe/Berlin")
    assert (at.lower, at.upper) == ("2026-10-24 20:00:00.000000", "2026-10-25 23:00:00.000000")
    at = times_of("mariadb", table("date"), "at", day, 0, "Europe/Berlin")
    assert (at.lower, at.upper) == ("2026-10-25", "2026-10-26")


def test_a_lane_is_time() -> None:
    assert instant_of(offset_at(1_793_491_200_000) + 12_345) == 1_793_491_200_000
    last = round(datetime(2200, 1, 1, tzinfo=UTC).timestamp() * 1000)
    assert offset_at(last) + timedelta(days=1) // timedelta(milliseconds=1) < 2**63
    day = WindowKey(0, 24 * HOUR)
    assert whole_window(OffsetRange("t", 0, offset_at(0), offset_at(24 * HOUR))) == day
    with pytest.raises(SourceError, match="are no window"):
        whole_window(OffsetRange("t", 0, 5, offset_at(24 * HOUR)))


def test_a_window_that_is_cut_otherwise_than_before_is_not_read(tmp_path: Path) -> None:
    """Its first part has been read already, by other zone data."""
    world = TableWorld(tmp_path)
    world.fake.rows[1] = ("w", None)
    world.read(0)
    world.yaml = world.yaml.replace("timezone: UTC", "timezone: Europe/Berlin")
    world.alter("2024-11-01T00:00:00Z", "2024-11-01T00:00:00")
    ctx = world.context()
    view, first = ctx.ledger.batches.planning_view("readings"), {0: 0}
    world.ends(1)
    with pytest.raises(
        SourceError, match="come to 2024-11-02T00:00Z, and the window there begins at 2024-11-01T23:00Z"
    ):
        plan_batch(world.pipeline, 1, view, ctx.log(), first, world.clock.now_ms())
    world.close()


@pytest.mark.parametrize("chunks", [1, 2, 7, 1000])
def test_chunks_share_the_whole_range(chunks: int) -> None:
    whole = OffsetRange("t", 0, offset_at(5 * HOUR), offset_at(29 * HOUR))
    made = Reading(
        server="db", table=table("date"), window=WindowKey(5 * HOUR, 29 * HOUR), complete_ms=29 * HOUR,
        chunks=(KeyRange(),) * chunks,
    )  # fmt: skip
    parts = made.parts(whole)
    assert (parts[0].start, parts[-1].end, len(parts)) == (whole.start, whole.end, chunks)
    assert all(a.end == b.start for a, b in pairwise(parts))
