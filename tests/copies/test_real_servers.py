"""Two real servers, of MariaDB or of PostgreSQL, of which one is killed in the middle of its copy: the other one is
copied, compared and purged meanwhile (S6, S7, S11).

A part of the tier `make test-copies`."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from dev.stack import debian
from dev.stack.info import StackInfo
from tests.copies.real_servers import RealServers, real_servers
from tests.copies.servers import SERVERS
from tests.copies.test_servers_compared import rounds
from tests.databases.servers import Server, mariadb, postgresql
from tests.real_kafka import eventually
from tidegate.core.mirror.jobs import START
from tidegate.workflow.copy import copy as reading

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TIDEGATE_COPIES") != "all", reason="make test-copies"),
]
KEPT = SERVERS.replace("buckets: 3", "buckets: 3, tombstones: 30s")


def goes_on(world: RealServers, name: str) -> bool:
    """Rows change, and what has come is merged. Returns whether the server has a whole copy."""
    world.change(4)
    world.land_next()
    world.read()
    world.apply()
    return world.standing().copied.whole_of(name) is not None


KINDS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "mariadb": partial(mariadb, durable=True),
    "postgresql": postgresql,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_killed_in_its_copy_holds_up_no_other(
    kafka: StackInfo, tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It is away for a while; then its copy goes on where it was. So does Kafka Connect, which is killed with it."""
    if kind == "mariadb" and not debian.is_here():
        pytest.skip("no Debian here, whose packages bring MariaDB")
    monkeypatch.setattr("tidegate.core.mirror.purge.EVERY_MS", 0)
    (tmp_path / "world").mkdir()
    seed = rng.randrange(10**6)
    with (
        KINDS[kind](tmp_path / "first") as killed,
        KINDS[kind](tmp_path / "second") as other,
        real_servers(tmp_path / "world", (killed, other), kafka.kafka_bootstrap, seed, 300, KEPT) as world,
    ):
        first, second = world.servers

        def begun() -> bool:
            world.change(4)
            world.land_next()
            found = world.apply().told.copied.servers
            return bool(found) and all(log.begins is not None for log in found)

        eventually(begun, 120.0)
        ends = world.ends()
        eventually(lambda: world.noted(ends), 120.0)
        with monkeypatch.context() as patch:
            patch.setattr(reading, "CHUNKS_FOR_A_TASK", 1)
            assert world.read(go_on=lambda: False, server=first)[first].read.chunks == 1
        assert killed.crash is not None
        world.connect.kill()
        killed.crash()
        world.bases[first].close()
        world.connect.start()
        world.down = {first}

        eventually(lambda: goes_on(world, second), 120.0)
        found = world.compared()
        assert (found[second].differ, bool(found[first].unanswered)) == ({}, True)
        eventually(lambda: goes_on(world, second) and world.log_of(second).purged_below > START, 240.0)
        assert world.standing().purged > 0
        assert world.log_of(first).purged_below == START
        assert (f"copy 1 (server {first})", "OPEN") in rounds(world)

        world.down = set()
        eventually(lambda: goes_on(world, first), 120.0)
        assert (f"copy 1 (server {first})", "WHOLE") in rounds(world)
        eventually(lambda: goes_on(world, first) and world.log_of(first).purged_below > START, 240.0)
        eventually(lambda: world.land_next() is None and world.apply() and world.found() == world.content(), 120.0)
        assert world.standing().below_purge == 0
