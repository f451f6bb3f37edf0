"""Mirrors of tables in a real PostgreSQL and a real MariaDB, by real Debezium and Kafka, copied while they change.

A tier of its own: `make test-copies`, with a MySQL `make test-mysql`. TIDEGATE_COPIES_SEEDS=20 lives 20 lives of each
database, of which each changes for TIDEGATE_COPIES_SECONDS=40; TIDEGATE_COPIES_SEED=7 draws one by that seed. A seed
gives the same statements and turns again, not the moments at which they meet."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.stack import debian
from dev.stack.info import StackInfo
from tests.copies.real import RealWorld, real_world
from tests.copies.real_servers import RealServers, real_servers
from tests.copies.real_shards import RealShards, real_shards
from tests.copies.writer import Key
from tests.databases.fixtures import KINDS
from tests.databases.servers import Server
from tests.databases.servers import mariadb as another
from tests.real_kafka import eventually
from tidegate.core.base.errors import JobFailed, NotReady
from tidegate.databases.kinds import for_workers
from tidegate.databases.postgresql.worker import PostgreSQLChunks
from tidegate.workflow.copy import copy as reading

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TIDEGATE_COPIES") != "all", reason="make test-copies"),
]
LIVES = int(os.environ.get("TIDEGATE_COPIES_SEEDS", "1"))
SECONDS = float(os.environ.get("TIDEGATE_COPIES_SECONDS", "40"))
GIVEN = os.environ.get("TIDEGATE_COPIES_SEED")


@pytest.fixture(params=KINDS)
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
            pytest.fail(f"{server.product}, TIDEGATE_COPIES_SEED={seed}: {type(e).__name__}: {e}\n{tail}")
        w = world.writer
        print(
            f"{server.product} {seed}: {w.statements:,} statements, {w.commits:,} commits, {w.rollbacks} rolled back, "
            f"{len(w.quiet)} quiet moments; {world.counts}"
        )
        assert world.counts["certificates"]


def test_a_database_that_is_killed_again_and_again(kafka: StackInfo, tmp_path: Path, rng: random.Random) -> None:
    """Whatever reads it, and whatever listens to its log, goes on; the truth is what it has after its recovery."""
    if not debian.is_here():
        pytest.skip("no Debian here, whose packages bring MariaDB")
    seed = rng.randrange(10**6) if GIVEN is None else int(GIVEN)
    (tmp_path / "world").mkdir()
    with (
        another(tmp_path / "database", durable=True) as killed,
        real_world(tmp_path / "world", killed, kafka.kafka_bootstrap, seed) as world,
    ):
        try:
            world.live(SECONDS)
        except Exception as e:
            tail = "\n".join(world.said[-40:])
            pytest.fail(f"TIDEGATE_COPIES_SEED={seed}: {type(e).__name__}: {e}\n{tail}")
        print(f"mariadb {seed}, killed: {world.counts}")
        assert world.counts["crashes"]


def merged(world: RealWorld, events: int) -> None:
    """So many events of the table are in its mirror."""
    eventually(lambda: world.land_next() is None and world.apply().told.events >= events)


def first_event(world: RealWorld) -> int:
    """A change is merged: a connector that runs may not have begun to listen yet. How many there are."""
    for _ in range(20):
        world.writer.tick()
        deadline = time.monotonic() + 6
        while time.monotonic() < deadline:
            if world.land_next() is not None:
                return world.apply().told.events
    raise AssertionError("no event has come")


def read(world: RealWorld) -> reading.Read:
    """As the schedule starts it, until the connector has noted a place (S4)."""
    found: list[reading.Read] = []

    def once() -> bool:
        try:
            found.append(reading.copy(world.context(), world.base))
        except NotReady:
            return False
        finally:
            world.close()
        return True

    eventually(once)
    return found[0]


def test_one_change_of_a_quiet_table_is_enough_for_a_copy(server: Server, kafka: StackInfo, tmp_path: Path) -> None:
    """S4, as docs/mirrors.md says how to begin."""
    with real_world(tmp_path, server, kafka.kafka_bootstrap, 1, rows=40) as world:
        world.writer.first()
        with world.connected():
            first_event(world)
            assert read(world).rows == 40
            world.apply()
            assert world.standing().copied.whole is not None
            world.compare()


def test_a_commit_that_is_in_the_log_and_not_yet_visible_holds_a_copy(
    postgresql: Server, kafka: StackInfo, tmp_path: Path
) -> None:
    """S2: it waits for a standby that never answers, while its event and that of a later commit are merged."""
    with real_world(tmp_path, postgresql, kafka.kafka_bootstrap, 2, rows=40) as world:
        world.writer.first()
        key = min(world.writer.there)
        world.source_table = PostgreSQLChunks(for_workers(postgresql.connection), patience_s=1)
        with world.connected(), unanswered(postgresql, world) as answer:
            events = first_event(world)
            pid, commit = invisible(world, key)
            world.writer.tick()
            merged(world, events + 2)
            with pytest.raises(JobFailed, match=f"still open after 1 s.*pid {pid}"):
                read(world)
            assert world.writer.content()[key][-1] != "late", "nobody sees it yet"
            answer()
            commit.join()
            read(world)
            world.apply()
            world.compare()
            assert world.mirror()[key][-1] == "late"


@contextmanager
def unanswered(server: Server, world: RealWorld) -> Iterator[Callable[[], None]]:
    """Commits of sessions that wait for a standby wait for one that does not exist, until what it gives is called. The
    writer's own session must know that it does not wait before there is that standby."""

    def waits_for_nobody() -> bool:
        with world.writer._look.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            return bool(cursor.fetchone()[0] == "local")

    def answer() -> None:
        server.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")

    server.run("ALTER SYSTEM SET synchronous_commit = local", "SELECT pg_reload_conf()")
    eventually(waits_for_nobody)
    server.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    try:
        yield answer
    finally:
        answer()
        server.run("ALTER SYSTEM RESET synchronous_commit", "SELECT pg_reload_conf()")


def invisible(world: RealWorld, key: Key) -> tuple[int, threading.Thread]:
    """Commit a change that others do not see: its process, and the thread that waits for the commit's end."""
    session = world.server.session(autocommit=False)
    with session.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
        cursor.execute(f"UPDATE {world.data.name} SET note = 'late' WHERE {world.data.where()}", key)
    pid = session.info.backend_pid
    thread = threading.Thread(target=session.commit, daemon=True)
    thread.start()
    waits = f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'SyncRep'"
    eventually(lambda: world.server.run(waits))
    return pid, thread


def changes_until_it_is_read(world: RealShards | RealServers) -> None:
    """Readers see nothing of it before it is whole."""
    whole = False
    while not whole:
        world.change()
        world.land_next()
        whole = world.step()
        world.apply()
        assert world.found() == {} or world.standing().copied.whole is not None


def test_shards_of_a_server_are_one_mirror(
    server: Server, kafka: StackInfo, tmp_path: Path, rng: random.Random
) -> None:
    """They change while they are copied; in the end the mirror has the rows of all, by table (S11)."""
    with real_shards(tmp_path, server, kafka.kafka_bootstrap, rng.randrange(10**6), rows=500) as world:

        def begun() -> bool:
            world.change(4)
            world.land_next()
            return world.apply().told.begins is not None

        eventually(begun, 60.0)
        changes_until_it_is_read(world)
        end = world.looking.position()
        eventually(lambda: world.change(2) or world.connector()[0] >= end, 60.0)  # type: ignore[func-returns-value]
        eventually(lambda: world.land_next() is None and world.apply() and world.found() == world.content(), 60.0)
        assert world.standing().copied.complete is not None


def test_two_servers_are_one_mirror(mariadb: Server, kafka: StackInfo, tmp_path: Path, rng: random.Random) -> None:
    """They change while they are copied, one after the other; in the end the mirror has the rows of both (S11).
    A row of one goes without an event: a comparison finds it there, and nothing on the other."""
    (tmp_path / "world").mkdir()
    with (
        another(tmp_path / "second") as second,
        real_servers(
            tmp_path / "world", (mariadb, second), kafka.kafka_bootstrap, rng.randrange(10**6), rows=300
        ) as world,
    ):

        def begun() -> bool:
            world.change(4)
            world.land_next()
            found = world.apply().told.copied.servers
            return bool(found) and all(log.begins is not None for log in found)

        eventually(begun, 120.0)
        changes_until_it_is_read(world)
        ends = world.ends()
        eventually(lambda: world.noted(ends), 120.0)
        eventually(lambda: world.land_next() is None and world.apply() and world.found() == world.content(), 120.0)
        complete = world.standing().copied.complete
        assert complete is not None
        assert all(position >= ends[name] for name, position in complete.servers)
        assert len(complete.servers) == 2
        first, second = world.servers
        world.lose(second)
        found = world.compared()
        assert {name: (one.differ, one.exact) for name, one in found.items()} == {
            first: ({}, True),
            second: ({"surplus": 1}, True),
        }
        assert world.compared("by hand", server=second)[second].mended
        assert all(one.differ == {} for one in world.compared().values())
