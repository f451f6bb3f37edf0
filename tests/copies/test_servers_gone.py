"""A server that copy.servers names no more: its rows stay, and so does what the table knows of its log (S11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies import test_servers_purge
from tests.copies.servers import A, B, ServersWorld
from tests.copies.test_servers import begun, copied
from tests.copies.test_servers_purge import purged
from tests.mirror.audits import deep, dropped
from tidegate.core.copy.words import how_far
from tidegate.core.spec.pipeline import Pipeline


def gone(world: ServersWorld) -> Pipeline:
    """The second server's line goes, and its connector with it. Returns what the YAML was."""
    before, copy = world.pipeline, world.pipeline.copy
    assert copy is not None
    world.pipeline = replace(before, copy=replace(copy, servers=copy.servers[:1]))
    world.connectors = {A: world.source_tables[A].how_far}
    world.source_tables[A].set(5, "of the server that stays")
    world.deliver(A)
    world.apply()
    return before


def back(world: ServersWorld, before: Pipeline) -> None:
    world.pipeline = before
    world.connectors = {name: of.how_far for name, of in world.source_tables.items()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ServersWorld]:
    made = copied(tmp_path)
    yield made
    made.close()


def test_m5_the_marker_of_a_server_that_is_gone_stays(tmp_path: Path) -> None:
    """It comes back, and its connector sends again what a purge has forgotten."""
    world = test_servers_purge.begun(tmp_path)
    second = world.source_tables[B]
    log = list(second.log)
    second.end -= 15
    second.set(41, "long gone")
    second.rows.pop(41)
    second.end += 15
    second.log, late = log, second.log[-1]
    assert purged(world) == 4
    known = world.log_of(B)
    before = gone(world)
    assert replace(known, gone=True) in world.standing().copied.servers
    back(world, before)
    world.land(late)
    world.apply()
    assert (B, 41) not in world.found()
    assert world.standing().below_purge == 1
    assert deep(world).problems == ()
    world.close()


def test_s9_no_time_is_told_while_the_table_has_rows_that_nobody_follows(world: ServersWorld) -> None:
    world.apply()
    known = world.standing().copied.complete
    assert known is not None
    assert known.at_ms is not None
    gone(world)
    world.apply()
    told = world.standing().copied.complete
    assert told is not None
    assert (list(dict(told.servers)), told.at_ms) == ([A], None)
    words = how_far(None, world.standing(), True)
    assert f"server {B}: copy.servers names it no more, and its rows stay as they are" in words


def test_readers_do_not_wait_for_a_server_that_is_gone(tmp_path: Path) -> None:
    world = begun(tmp_path)
    gone(world)
    world.read()
    world.apply()
    assert {key for name, key in world.found() if name == A} == set(world.source_tables[A].rows)
    world.close()


def test_a_table_that_was_dropped_is_made_anew_with_rows_of_a_server_that_is_gone(world: ServersWorld) -> None:
    gone(world)
    rows = world.found()
    dropped(world)
    world.apply()
    assert world.found() == rows
    assert deep(world).problems == ()
