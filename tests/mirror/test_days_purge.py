"""Days purge old tombstones where the source's promise allows it (M6), and what comes too late stays out (M5)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import in_process
from tests.fakes.clock import FakeClock
from tests.mirror.audits import deep
from tests.mirror.days import DAY, YAML, DailyWorld, by_days, event, harm
from tests.mirror.test_days_where import ask
from tests.world import T0
from tidegate.core.base.plain import loads
from tidegate.core.daily.day import Day
from tidegate.core.look.overdue import Concern
from tidegate.core.mirror.applies import Horizon
from tidegate.core.target.paths import DAY as DAY_FILE
from tidegate.ledger.applies import SqlApplies
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.look.status import status

KEPT = YAML.replace("buckets: 3", "buckets: 3, tombstones: 2d")
LOG = 2**40
"""Positions of the first binlog begin there."""
LAST = event(4, "b", 22, 0.3)
PURGES = 5
"""The first day that ends 2 x 2 days after the first one was built."""


class Lived(DailyWorld):
    """Its clock goes with its days."""

    def __init__(self, folder: Path, yaml: str = KEPT) -> None:
        super().__init__(folder, yaml)
        self.clock = FakeClock(T0)
        self.commit = 100

    def at(self, day: float) -> None:
        self.clock.advance(int(T0 + day * DAY) - self.clock.now_ms())

    def day(self, n: int, *events: tuple[bytes, bytes]) -> None:
        """Day `n` goes by with these events, and is published when it is over."""
        self.at(n + 0.5)
        if events:
            self.land(*events)
        self.commit += 10
        self.at(n + 1.1)
        self.land(event(9, f"day {n}", self.commit, n + 1.1))
        self.publish(n)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Lived]:
    """Keys 2 and 3 were deleted on the first day, key 5 lately; three days have gone by since."""
    made = Lived(tmp_path)
    made.day(
        0, *(event(n, "a", 10 + n, 0.1) for n in range(1, 6)), *(event(n, None, 18 + n, 0.2) for n in (2, 3)), LAST
    )
    for n in range(1, PURGES):
        made.day(n)
    yield made
    made.close()


def told(world: DailyWorld, n: int) -> Day:
    place = world.place(n)
    assert place is not None
    return loads(Day, (place.parent / DAY_FILE).read_text())


def concerns(world: DailyWorld) -> list[Concern]:
    ctx = world.context()
    try:
        found = status(ctx, ctx.ledger.reads, None).concerns
    finally:
        world.close()
    return [one for one in found if one.kind == "below_purge"]


def sound(world: DailyWorld) -> None:
    ctx = world.context()
    assert [str(p) for p in audit(ctx, ctx.ledger.reads, in_process).problems] == []
    world.close()
    found = deep(world)
    assert found.balanced, [str(p) for p in (*found.problems, *found.unsettled)]


def test_m5_old_tombstones_go_and_the_day_says_so(world: Lived) -> None:
    assert set(world.gone(PURGES - 1)) == {2, 3}
    world.day(PURGES, event(5, None, 500, 5.2))
    assert set(world.gone(PURGES)) == {5}
    found = told(world, PURGES)
    assert (found.purged, found.tombstones, found.purged_below) == (2, 1, (LOG + 22, 0, 0))
    assert set(world.gone(PURGES - 1)) == {2, 3}, "days that are published stay"
    world.day(PURGES + 1)
    assert told(world, PURGES + 1).purged_below >= found.purged_below
    sound(world)


def test_m5_an_event_below_the_marker_makes_no_row(world: Lived) -> None:
    world.day(PURGES)
    world.said.clear()
    world.day(PURGES + 1, event(2, "long ago", 15, 0.1), event(2, None, 20, 0.2), event(7, "long ago", 16, 0.1))
    found = world.rows(PURGES + 1)
    assert found is not None
    assert set(found) == {1, 4, 5, 9}
    assert told(world, PURGES + 1).below_purge == 3
    assert any("3 events older than the purge" in line for line in world.said), world.said
    (concern,) = concerns(world)
    assert concern.kind == "below_purge"
    assert concern.what.startswith("2013-01-11T00:00Z was built without 3 events older than the purge: id=")
    world.replay_day(PURGES + 1)
    with sqlite3.connect(world.database) as c:
        (told_of,) = c.execute("SELECT detail FROM events WHERE what = 'kept out by a purge'").fetchall()
    assert "2013-01-11" in told_of[0], "once, however often the day is built again"
    world.day(PURGES + 2, event(2, "news", 900, 7.1))
    assert (world.rows(PURGES + 2) or {})[2] == "news"
    sound(world)
    world.clock.advance(8 * DAY)
    assert concerns(world) == []


def test_a_day_that_is_built_again_purges_the_same(world: Lived) -> None:
    world.day(PURGES)
    before = told(world, PURGES)
    place = world.place(PURGES)
    assert place is not None
    for path in place.iterdir():
        path.unlink()
    world.at(60)
    world.pipeline = by_days(world.folder)  # whatever the YAML says by now
    world.publish(PURGES)
    after = told(world, PURGES)
    assert (after.purged_below, after.purged, after.seen) == (before.purged_below, before.purged, before.seen)
    assert not world.replay_day(PURGES).new
    sound(world)


def test_m6_tombstones_stay_while_records_are_unread(world: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits in the topic may be older than anything that was read."""
    original = SqlApplies.horizon

    def unread(*asked: Any) -> Horizon:
        return replace(original(*asked), read_ms=None)

    monkeypatch.setattr(SqlApplies, "horizon", unread)
    world.day(PURGES)
    assert set(world.gone(PURGES)) == {2, 3}
    assert any("no merged batch has read the whole topic" in line for line in world.said), world.said
    sound(world)


def test_m6_what_came_lately_says_nothing_of_what_is_to_come(tmp_path: Path) -> None:
    """Days that are published long after their events: these were readable no earlier than they landed."""
    world = Lived(tmp_path)
    world.at(20)
    world.land(event(1, "a", 10, 0.1), event(2, "b", 11, 0.1), event(2, None, 12, 0.2), event(9, "z", 99, 20.0))
    for n in range(10):
        world.publish(n)
    assert set(world.gone(9)) == {2}
    sound(world)
    world.close()


def test_tombstones_may_be_changed_at_any_time(world: Lived) -> None:
    world.pipeline = by_days(world.folder)
    world.day(PURGES)
    assert set(world.gone(PURGES)) == {2, 3}
    world.pipeline = by_days(world.folder, KEPT)
    world.day(PURGES + 1)
    for n in range(PURGES + 2, PURGES + 7):
        world.day(n)
    assert set(world.gone(PURGES + 6)) == set()
    sound(world)


def test_a_balance_with_a_purge(world: Lived) -> None:
    world.day(PURGES)
    found = told(world, PURGES)
    assert found.rows + found.tombstones + found.purged == found.inserted
    assert replace(found, purged=0) != found


def test_a_row_that_is_lost_below_the_purge_is_told(world: Lived) -> None:
    """A purge takes tombstones: rows of before it that nobody kept out must be there."""
    world.day(PURGES)
    place = world.place(PURGES)
    assert place is not None
    harm(place, lambda rows: [row for row in rows if row["id"] != 1])
    found = deep(world)
    assert any("1 row below its purge" in p.what for p in found.problems), found.problems


def test_where_says_that_the_purge_has_kept_an_event_out(world: Lived) -> None:
    world.day(PURGES)
    world.day(PURGES + 1, event(7, "long ago", 16, 0.1), event(2, "long ago", 15, 0.1))
    found = ask(world, 7)
    assert (found.seen, [e.state for e in found.events]) == (None, ["below-purge"])
    assert [e.state for e in ask(world, 2).events] == ["purged", "below-purge", "older"]
    assert [e.state for e in ask(world, 4).events] == ["row", "older"]
    world.day(PURGES + 2, event(7, "news", 900, 7.1))
    assert [e.state for e in ask(world, 7).events] == ["row", "below-purge"]
