"""Tombstones of a mirror of several servers are purged below a position of each server's own log (M5, M6, S11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies.servers import SERVERS, A, B, ServersWorld
from tests.fakes.source_table import position
from tests.mirror.audits import deep, dropped
from tests.mirror.test_where_key import ask
from tidegate.core.copy.words import how_far
from tidegate.core.mirror.balance import imbalance
from tidegate.core.mirror.jobs import START, ServerLog

DAY = 86_400_000
KEPT = SERVERS.replace("buckets: 3", "buckets: 3, tombstones: 2d")


def begun(folder: Path) -> ServersWorld:
    """Of each server keys 1 to 5 are copied; then 1 and 2 were deleted long ago, the last old event is of key 3."""
    made = ServersWorld(folder, KEPT)
    for name, of in made.source_tables.items():
        of.rows |= {key: f"{name} {key}" for key in range(1, 6)}
        of.set(3, "first event")
    assert made.mirror() == made.source
    for of in made.source_tables.values():
        of.set(1, None)
        of.set(2, None)
        of.set(3, "long ago")
    made.deliver()
    made.apply()
    made.clock.advance(4 * DAY)
    return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ServersWorld]:
    made = begun(tmp_path)
    yield made
    made.close()


def purged(world: ServersWorld) -> int:
    """How many tombstones go once another batch has read the whole topic."""
    before = world.standing().purged
    world.source_tables[A].set(5, f"lately, {world.source_tables[A].end}")
    world.deliver()
    world.apply()
    standing = world.standing()
    assert imbalance(standing) is None
    return standing.purged - before


def test_m5_each_server_has_a_marker_of_its_own(world: ServersWorld) -> None:
    """All positions of the second server are below those of the first one: what was deleted lately there stays."""
    ends = {name: position(of.end) for name, of in world.source_tables.items()}
    world.source_tables[B].set(4, None)
    assert purged(world) == 4
    standing = world.standing()
    assert {log.name: log.purged_below for log in standing.copied.servers} == {A: (*ends[A], 0), B: (*ends[B], 0)}
    assert (standing.purged_below, standing.tombstones) == (START, 1)
    assert standing.purge_words == f"{A}={ends[A][0]},0,0 {B}={ends[B][0]},0,0"
    current = world.loaded().metadata.current_snapshot()
    assert current.summary["tidegate.purged-below"] == standing.purge_words
    assert world.context().ledger.applies.told(world.pipeline.name) == world.apply().told
    assert [e.state for e in ask(world, f"server={B}", "id=4").events][:1] == ["tombstone"]
    assert [e.state for e in ask(world, f"server={B}", "id=1").events][:1] == ["purged"]
    assert deep(world).problems == ()
    assert world.found() == world.source


def test_m5_the_marker_of_one_server_keeps_out_no_event_of_the_other(world: ServersWorld) -> None:
    assert purged(world) == 4
    world.source_tables[B].set(40, "new, at a low position")
    assert world.mirror() == world.source
    assert world.standing().below_purge == 0
    assert [e.state for e in ask(world, f"server={B}", "id=40").events] == ["row"]


def kept_out(world: ServersWorld) -> None:
    """The second server's connector breaks its promise, and sends what was long ago."""
    second = world.source_tables[B]
    log_before = list(second.log)
    second.end -= 15
    second.set(41, "too late")
    second.rows.pop(41)
    second.end += 5
    second.log, late = log_before, second.log[-1]
    assert purged(world) == 4
    world.land(late)
    world.apply()


def test_m5_an_event_below_the_marker_of_its_server_is_kept_out(world: ServersWorld) -> None:
    kept_out(world)
    assert world.found() == world.source
    assert world.standing().below_purge == 1
    assert [e.state for e in ask(world, f"server={B}", "id=41").events] == ["below-purge"]
    assert deep(world).problems == ()


def test_m5_what_is_kept_out_of_one_server_silences_that_one_alone(world: ServersWorld) -> None:
    """So it does where others are compared with their source."""
    kept_out(world)
    assert {log.name: log.below_purge for log in world.standing().copied.servers} == {A: 0, B: 1}
    told = world.standing().copied.complete
    assert told is not None
    assert (dict(told.servers), told.at_ms) == ({A: position(world.source_tables[A].delivered)}, None)
    said = world.loaded().metadata.current_snapshot().summary
    assert (said.get("tidegate.complete-to"), said.get("tidegate.complete-ms")) == (told.spelled, None)
    words = how_far(None, world.standing(), True)
    assert f"nothing in it is older than {told.spelled}; of server {B} it cannot say so: a purge has kept" in words
    for of in world.source_tables.values():
        of.lose(5)
    assert {name: one.exact for name, one in world.compared().items()} == {A: True, B: False}
    world.source_tables[B].set(4, "later")
    world.mirror()
    assert {log.name: log.below_purge for log in world.standing().copied.servers} == {A: 0, B: 1}


def test_m5_what_an_earlier_release_has_kept_out_may_be_of_any_server(world: ServersWorld) -> None:
    """Its tables say how many, and not whose; so do those of a server that is named no more."""
    kept_out(world)
    told = world.standing()
    assert (told.of_server(A).below_purge, told.of_server(B).below_purge) == (0, 1)
    older = replace(told, copied=replace(told.copied, servers=(world.log_of(A), ServerLog(B))))
    assert (older.of_server(A).below_purge, older.of_server(B).below_purge) == (1, 1)
    assert older.of_server("").below_purge == 1


def test_m6_a_server_without_an_old_event_keeps_its_marker(tmp_path: Path) -> None:
    """The batch that has settled says nothing of its log."""
    world = begun(tmp_path)
    world.source_tables[A].set(4, None)
    world.source_tables[A].set(5, "of one server alone")
    world.deliver()
    world.apply()
    world.source_tables[B].set(4, None)
    first, second = (world.log_of(name).purged_below for name in (A, B))
    assert START < second < first
    world.clock.advance(4 * DAY)
    assert purged(world) == 1
    assert world.log_of(B).purged_below == second
    assert world.log_of(A).purged_below > first
    world.close()


def test_s7_tombstones_of_a_server_stay_while_a_copy_of_it_is_under_way(world: ServersWorld) -> None:
    """A row that was read and then deleted would come back. Those of the other server go."""
    world.again(B)
    end = position(world.source_tables[A].end)
    assert purged(world) == 2
    assert {name: world.log_of(name).purged_below for name in (A, B)} == {A: (*end, 0), B: START}
    assert world.standing().tombstones == 2
    assert world.mirror() == world.source
    assert world.standing().tombstones == 0, "the sweep took its own server's"
    assert deep(world).problems == ()


def test_a_copy_puts_no_purge_off(world: ServersWorld) -> None:
    """One that is read each day would put off every one."""
    world.again(B)
    assert world.mirror() == world.source
    assert purged(world) == 2


def test_s7_nothing_is_purged_while_a_copy_of_each_server_is_under_way(world: ServersWorld) -> None:
    for name in (A, B):
        world.again(name)
    assert purged(world) == 0
    assert world.mirror() == world.source


def test_s7_a_copy_is_compared_with_the_purge_of_its_own_server(world: ServersWorld) -> None:
    """All that it reads of the second server is below the first one's marker."""
    assert purged(world) == 4
    world.source_tables[B].lose(5)
    world.again(B)
    assert world.mirror() == world.source
    world.again(A)
    assert world.mirror() == world.source
    assert deep(world).problems == ()


def test_a_table_that_was_dropped_has_its_markers_again(world: ServersWorld) -> None:
    assert purged(world) == 4
    dropped(world)
    world.apply()
    assert world.found() == world.source
    assert imbalance(world.standing()) is None
    assert deep(world).problems == ()
