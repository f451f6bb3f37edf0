"""Windows of a table without a log by a column that says when a row has changed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.audit.audits import balanced
from tests.offline.test_life import ids, noon
from tests.offline.worlds import TableWorld
from tidegate.core.copy.port import KeyRange


def changed(world: TableWorld, key: int, day: float) -> None:
    world.fake.rows[key] = (f"at {day}", noon(0) + timedelta(days=day - 0.5))


def test_a_window_has_what_changed_in_it(tmp_path: Path) -> None:
    world = TableWorld(tmp_path, "column: changed")
    for key, day in ((1, 0), (2, 0.5), (3, 1), (4, 1.5), (5, -1)):
        changed(world, key, day)
    world.fake.rows[6] = ("never", None)
    world.read(1)
    world.ingest("second")
    for day in (0, 1):
        world.publish(day)
    assert (ids(world, 0), ids(world, 1)) == ([1, 2], [3, 4])
    assert world.fake.reads == [KeyRange(), KeyRange()]
    balanced(world)
    world.close()


def test_an_overlap_takes_up_what_came_late(tmp_path: Path) -> None:
    world = TableWorld(tmp_path, "column: changed, overlap: 2h")
    changed(world, 1, 0.9)
    changed(world, 2, 0.95)
    world.read(0)
    changed(world, 3, 0.96)  # it was committed after the reading, with a time of before
    changed(world, 4, 1.2)
    world.read(1)
    for day in (0, 1):
        world.publish(day)
    assert (ids(world, 0), ids(world, 1)) == ([1, 2], [2, 3, 4])
    balanced(world)
    world.close()
