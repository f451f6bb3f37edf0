"""S12 on real databases: a connector whose binary log is purged, or whose slot is dropped, while it is down.

A part of the tier `make test-copies`."""

from __future__ import annotations

import os
import random
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dev.stack.errors import StackError
from dev.stack.info import StackInfo
from tests.copies.real import RealWorld, as_mirrored, real_world
from tests.copies.real_parts import drop_slot
from tests.copies.test_real import first_event, read
from tests.copies.test_real_exact import merged
from tests.copies.writer import TICK
from tests.databases.servers import Server
from tests.real_kafka import eventually
from tidegate.databases import connector
from tidegate.workflow.copy import copy as reading

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TIDEGATE_COPIES") != "all", reason="make test-copies"),
]


def loses_its_place(world: RealWorld) -> None:
    """While the connector is down."""
    if world.server.kind == "postgresql":
        drop_slot(world.server, world.prefix)
        return
    world.server.run("FLUSH BINARY LOGS")
    *_, (newest, *_) = world.server.run("SHOW BINARY LOGS")

    def purged() -> bool:
        """What the connector that was killed reads stays until the server has noticed."""
        world.server.run(f"PURGE BINARY LOGS TO '{newest}'")
        return len(world.server.run("SHOW BINARY LOGS")) == 1

    eventually(purged)


@contextmanager
def started(world: RealWorld) -> Iterator[None]:
    """Kafka Connect runs meanwhile, whether its connector does or not."""
    with suppress(StackError):
        world.connect.start()
    try:
        yield
    finally:
        world.connect.kill()


def goes_on(world: RealWorld) -> None:
    """Its operator does what makes it run."""
    if world.server.kind == "postgresql":
        return
    url = f"http://127.0.0.1:{world.port}"
    eventually(lambda: _failed(connector.connect_state(url, world.prefix, 5.0)), 90.0)
    world.apply()
    for method, what in (("PUT", "stop"), ("DELETE", "offsets"), ("PUT", "resume")):
        asked = urllib.request.Request(f"{url}/connectors/{world.prefix}/{what}", method=method)
        eventually(lambda asked=asked: _done(asked), 60.0)


def _failed(state: connector.ConnectorState) -> bool:
    return any(what == "FAILED" for _, what, _ in state.parts)


def _done(asked: urllib.request.Request) -> bool:
    try:
        with urllib.request.urlopen(asked, timeout=10):
            return True
    except urllib.error.HTTPError:
        return False


def settled(world: RealWorld) -> None:
    """Nothing changes, and the connector has noted it."""
    end = world.looking.position()
    eventually(lambda: world._delivered(end), 90.0)


def more(world: RealWorld, commits: int) -> None:
    upto = world.writer.commits + commits
    eventually(lambda: world.writer.commits >= upto)


def same(world: RealWorld) -> bool:
    """Whether the table has the source's rows, column by column, but for the one that changes to make events."""
    source = {key: as_mirrored(row) for key, row in world.writer.content().items()}
    mirror = world.mirror()
    for rows in (source, mirror):
        rows.pop(TICK[world.server.kind], None)
    return source == mirror


def gaps(world: RealWorld) -> tuple[str, ...]:
    return world.context().ledger.reads.readings([world.prefix])[world.prefix].gaps


@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_what_a_connector_has_left_out_is_not_told(
    request: pytest.FixtureRequest, kind: str, kafka: StackInfo, tmp_path: Path, rng: random.Random
) -> None:
    server: Server = request.getfixturevalue(kind)
    with real_world(tmp_path, server, kafka.kafka_bootstrap, rng.randrange(10**6), rows=300) as world:
        world.writer.first()
        with world.connected():
            first_event(world)
            read(world)
            world.writer.start()
            more(world, 100)
            with world.writer.at_rest():
                settled(world)
                before = merged(world)
                assert same(world)
                assert gaps(world) == ()
        more(world, 100)  # they never come
        loses_its_place(world)
        world.apply()  # as every ten minutes
        with started(world):
            goes_on(world)
            more(world, 50)
            with world.writer.at_rest():
                settled(world)
                after = merged(world)
                assert not same(world)
                assert (after.position, after.exact) == (before.position, False)
                assert gaps(world) == ("",)
            reading.again(world.context(), world.base, "its place was lost")
            world.close()
            read(world)
            more(world, 20)
            with world.writer.at_rest():
                settled(world)
                after = merged(world)
                assert same(world)
                assert after.position > before.position
                assert gaps(world) == ()
            world.writer.stop()
