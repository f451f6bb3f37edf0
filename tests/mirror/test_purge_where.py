"""`tidegate where --key` after several purges: of their positions the newest alone is known (M5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mirror.test_purge import DAY, KEPT, ask, old_deletes
from tests.mirror.worlds import MirrorWorld, event
from tidegate.core.mirror.key_history import OLDER, PURGED, ROW, UNSURE, Event, EventState, Purge, history


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path, KEPT)
    yield made
    made.close()


def test_what_an_earlier_purge_kept_out_is_not_told_as_a_row(world: MirrorWorld) -> None:
    old_deletes(world)
    world.apply()
    world.land(event(6, "late", 19))
    world.apply()
    assert 6 not in world.rows()
    assert [e.state for e in ask(world, 6).events] == ["below-purge"]
    world.land(event(7, "x", 35))
    world.apply()
    world.clock.advance(4 * DAY)
    world.land(event(1, "d", 40))
    assert world.apply().purged == 1
    found = ask(world, 6)
    assert found.seen is not None
    assert [e.state for e in found.events] == [found.seen.state] == [UNSURE]
    assert "unless an earlier purge has kept it out" in found.seen.words
    assert [e.state for e in ask(world, 4).events] == [ROW, OLDER], "it had a row before"
    assert [e.state for e in ask(world, 1).events] == [ROW, OLDER, OLDER]
    assert [e.state for e in ask(world, 2).events] == [PURGED, OLDER]


def test_where_nothing_was_ever_kept_out_a_row_is_a_row(world: MirrorWorld) -> None:
    old_deletes(world)
    world.land(event(6, "once", 19))
    world.land(event(7, "x", 35))
    world.apply()
    world.clock.advance(4 * DAY)
    world.land(event(1, "d", 40))
    assert world.apply().purged == 1
    assert 6 in world.rows()
    assert [e.state for e in ask(world, 6).events] == [ROW]


def _event(commit: int, batch_id: int, operation: str = "u") -> Event:
    return Event(
        partition=0,
        offset=commit,
        batch_id=batch_id,
        commit=commit,
        row=0,
        n=0,
        operation=operation,
        digest=7,
        file="f",
    )


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([_event(9, 3)], UNSURE),
        ([_event(9, 4)], UNSURE),
        ([_event(9, 3), _event(8, 2)], ROW),  # a batch before its own has left a row
        ([_event(9, 3), _event(8, 2, "d")], UNSURE),
        ([_event(9, 3), _event(8, 2, "d"), _event(7, 1)], UNSURE),
        ([_event(9, 3), _event(8, 3)], UNSURE),
        ([_event(10, 3)], ROW),  # at the marker
        ([_event(9, -3)], ROW),  # S7: a row of a copy
        ([_event(9, 3), _event(8, -1)], UNSURE),  # nobody knows when a copy's row came
    ],
)
def test_what_an_earlier_purge_may_have_kept_out(events: list[Event], state: EventState) -> None:
    purge = Purge(below=(10, 0, 0), upto=4, others=True)
    found = history(events, [], len(events), 100, purge)
    assert found.seen is not None
    assert found.seen.state is state
    assert found.events[0].state is state
    known = history(events, [], len(events), 100, Purge(below=(10, 0, 0), upto=4))
    assert known.seen is not None
    assert known.seen.state is ROW
