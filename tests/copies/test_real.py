"""Mirrors of tables in a real PostgreSQL and a real MariaDB, by real Debezium and Kafka, copied while they change.

A tier of its own: `make test-copies`. TIDEGATE_COPIES_SEEDS=20 lives 20 lives of each, TIDEGATE_COPIES_SECONDS=60 is how
long each changes; TIDEGATE_COPIES_SEED=7 takes that one."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from dev.stack.info import StackInfo
from tests.copies.real import real_world
from tests.databases.fixtures import mariadb, postgresql  # noqa: F401
from tests.databases.servers import Server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TIDEGATE_COPIES") != "all", reason="make test-copies"),
]
LIVES = int(os.environ.get("TIDEGATE_COPIES_SEEDS", "1"))
SECONDS = float(os.environ.get("TIDEGATE_COPIES_SECONDS", "40"))
GIVEN = os.environ.get("TIDEGATE_COPIES_SEED")


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("number", range(LIVES))
def test_a_mirror_is_the_table(
    server: Server, kafka: StackInfo, tmp_path: Path, rng: random.Random, number: int
) -> None:
    seed = rng.randrange(10**6) if GIVEN is None else int(GIVEN)
    with real_world(tmp_path, server, kafka.kafka_bootstrap, seed) as world:
        try:
            world.live(SECONDS)
        except Exception as e:
            tail = "\n".join(world.said[-40:])
            pytest.fail(f"{server.kind}, TIDEGATE_COPIES_SEED={seed}: {type(e).__name__}: {e}\n{tail}")
        w = world.writer
        print(
            f"{server.kind} {seed}: {w.statements:,} statements, {w.commits:,} commits, {w.rollbacks} rolled back, "
            f"{len(w.quiet)} quiet moments; {world.counts}"
        )
        assert world.counts["certificates"]
