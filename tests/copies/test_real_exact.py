"""S9 by a real connector: what a mirror tells of a quiet source is the source, and while changes go on it tells nothing
of the kind. The lives of `test_real.py` look at random moments.

A part of the tiers `make test-copies` and `make test-mysql`."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.stack.info import StackInfo
from tests.copies.real import REST_S, RealWorld, as_mirrored, real_world
from tests.copies.test_real import first_event, read
from tests.databases.fixtures import KINDS
from tests.databases.servers import Server
from tests.real_kafka import eventually
from tidegate.core.copy.port import LogPosition, Place
from tidegate.core.mirror.copied import Complete
from tidegate.targets.iceberg.live import said_by

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TIDEGATE_COPIES") != "all", reason="make test-copies"),
]
BINLOG = [kind for kind in KINDS if kind != "postgresql"]
EXACTLY = "tidegate.complete-exactly"


def merged(world: RealWorld) -> Complete:
    """What the table tells once all that is in the topic is in it, and there was something."""
    eventually(lambda: world.land_next() is not None)
    while world.land_next() is not None:
        pass
    world.apply()
    found = world.standing().copied.complete
    world.close()
    assert found is not None
    newest = world.opened().metadata.current_snapshot()
    assert (said_by(newest).get(EXACTLY) == "true") is found.exact
    return found


def quiet(world: RealWorld) -> LogPosition:
    """Nothing changes, and the connector has noted it. Where the log ends."""
    end = end_of(world.server)
    eventually(lambda: world._noted(end), 60.0)
    assert end_of(world.server) == end
    return end


def end_of(server: Server) -> LogPosition:
    """Asked by the test itself."""
    ((file, offset, *_),) = server.run("SHOW BINARY LOG STATUS" if server.mysql else "SHOW MASTER STATUS")
    return int(file.rpartition(".")[2]) * 2**40 + int(offset), 0


def same(world: RealWorld) -> None:
    """The table has the source's rows, all of them, column by column."""
    assert world.mirror() == {key: as_mirrored(row) for key, row in world.writer.content().items()}


def burst(world: RealWorld, commits: int) -> None:
    """Random transactions, of which none is open in the end."""
    world.writer.start()
    eventually(lambda: world.writer.commits >= commits)
    world.writer.stop()


@contextmanager
def changing(world: RealWorld) -> Iterator[None]:
    """A row changes meanwhile, each time that somebody asks how far the connector is and the log."""
    how_far = world.connector

    def changed() -> Place:
        found = world._how_far()
        world.writer.tick()
        return found._replace(log_end=world.looking.position())

    world.connector = changed
    try:
        yield
    finally:
        world.connector = how_far


@pytest.mark.parametrize("kind", BINLOG)
def test_a_quiet_source_is_told_exactly(
    request: pytest.FixtureRequest, kind: str, kafka: StackInfo, tmp_path: Path, rng: random.Random
) -> None:
    server: Server = request.getfixturevalue(kind)
    with real_world(tmp_path, server, kafka.kafka_bootstrap, rng.randrange(10**6), rows=300) as world:
        world.writer.first()
        with world.connected():
            first_event(world)
            read(world)
            burst(world, 200)
            end = quiet(world)
            found = merged(world)
            assert (found.exact, found.position) == (True, end)
            same(world)

            with changing(world):
                world.writer.tick()
                told = [merged(world) for _ in range(4)]
            assert [one.exact for one in told] == [False] * len(told)
            assert [one.position for one in told] == sorted(one.position for one in told)

            world.writer.tick()
            after = quiet(world)
            found = merged(world)
            assert (found.exact, found.position) == (True, after)
            assert after > end
            same(world)

            world.writer.tick()
            merged(world)  # before the connector has noted it, or just then
            after = quiet(world)
            world.apply()
            found = world.standing().copied.complete
            world.close()
            assert found is not None
            assert (found.exact, found.position) == (True, after)
            same(world)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_never_told_wrongly(
    request: pytest.FixtureRequest, kind: str, kafka: StackInfo, tmp_path: Path, rng: random.Random
) -> None:
    """At moments that a seed draws, while transactions go on, rest, and go on; `RealWorld.check` replays them.
    PostgreSQL's log moves on by itself, and its slot does not: there it may never be told."""
    server: Server = request.getfixturevalue(kind)
    with real_world(tmp_path, server, kafka.kafka_bootstrap, rng.randrange(10**6), rows=300) as world:
        world.writer.first()
        with world.connected():
            first_event(world)
            read(world)
            world.writer.start()
            for rests in rng.sample([True] * 4 + [False] * 8, 12):
                if rests:
                    world._rest(60.0 if kind in BINLOG else REST_S)
                else:
                    eventually(lambda: world.land_next() is not None)
                    world._apply()
                world.close()
            world.writer.stop()
        print(f"{server.product} {world.seed}: {world.counts}")
        assert world.counts["exact"] < world.counts["certificates"]
        assert world.counts["exact"] or kind not in BINLOG


def test_postgresql_is_told_before_its_log_moves_on(
    postgresql: Server, kafka: StackInfo, tmp_path: Path, rng: random.Random
) -> None:
    """Its log's end is where the newest commit ends until the server writes something of its own."""
    with real_world(tmp_path, postgresql, kafka.kafka_bootstrap, rng.randrange(10**6), rows=300) as world:
        world.writer.first()
        with world.connected():
            first_event(world)
            read(world)

            def told() -> bool:
                world.writer.tick()
                end = world.looking.position()
                for _ in range(40):
                    if world._noted(end):
                        break
                    time.sleep(0.2)
                if not merged(world).exact:
                    return False
                same(world)
                return True

            eventually(told, 120.0)
