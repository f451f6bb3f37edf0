"""S2 on PostgreSQL: a commit may have landed before others see it, so a read waits for what was open then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pytest

from tests.databases.reading import known, numbers, read, refused
from tests.databases.servers import Server
from tidegate.core.copy.port import KeyRange, ReadAfter, SourceTable
from tidegate.databases import kinds
from tidegate.databases.postgresql.worker import PostgreSQLChunks


@pytest.fixture
def writer(postgresql: Server) -> Iterator[Any]:
    """A transaction that is open and has written key 1."""
    postgresql.run("DROP TABLE IF EXISTS shop.t")
    numbers(postgresql, 3)
    session = postgresql.session(autocommit=False)
    session.cursor().execute("INSERT INTO shop.t VALUES (1, 'open')")
    yield session
    session.close()


def own_number(session: Any) -> int:
    with session.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text")
        return int(cursor.fetchone()[0])


def patient(postgresql: Server, sleep: Callable[[float], None], patience_s: float = 60.0) -> PostgreSQLChunks:
    slept = [0.0]

    def counted(seconds: float) -> None:
        slept[0] += seconds
        sleep(seconds)

    settings = kinds.for_workers(postgresql.connection)
    return PostgreSQLChunks(settings, patience_s=patience_s, clock=lambda: slept[0], sleep=counted)


def test_the_only_open_transaction_of_a_quiet_server_is_in_progress(postgresql: Server, writer: Any) -> None:
    """No snapshot lists it: it is behind the newest that has ended."""
    database = kinds.opened(postgresql.connection, 10.0)
    number = own_number(writer)
    assert (number,) == database.in_progress()
    postgresql.run("SELECT pg_current_xact_id()")  # one that ends behind it
    assert (number,) == database.in_progress()
    other = postgresql.session(autocommit=False)
    own_number(other)
    assert database.in_progress() == tuple(sorted((number, own_number(other))))
    writer.commit()
    assert database.in_progress() == (own_number(other),)
    other.close()
    database.close()


def test_a_transaction_of_another_database_does_not_count(postgresql: Server, writer: Any) -> None:
    at = postgresql.connection
    other = psycopg2.connect(host=at.host, port=at.port, user=at.login, password=at.password, dbname="iceberg")
    own_number(other)
    database = kinds.opened(postgresql.connection, 10.0)
    assert database.in_progress() == (own_number(writer),)
    other.close()
    database.close()


def test_an_open_transaction_delays_a_read_until_it_ends(postgresql: Server, writer: Any) -> None:
    database = kinds.opened(postgresql.connection, 10.0)
    after, table = known(postgresql, database), database.describe("shop.t")
    assert len(after.unseen) == 1
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            writer.commit()

    with patient(postgresql, sleep).read(table, [("id", "bigint")], KeyRange(), after) as rows:
        found = {row["id"] for batch in rows.batches() for row in batch.to_pylist()}
    assert len(waited) == 3
    assert found == {1, 10, 20, 30}
    assert rows.low == after.position
    database.close()


def test_an_open_transaction_is_refused_by_name_when_patience_ends(postgresql: Server, writer: Any) -> None:
    database = kinds.opened(postgresql.connection, 10.0)
    after, table = known(postgresql, database), database.describe("shop.t")
    with writer.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    reader = patient(postgresql, lambda seconds: None)
    said = refused(lambda: reader.read(table, [("id", "bigint")], KeyRange(), after).__enter__(), retry=True)
    assert f"{own_number(writer)}, pid {pid}, since 20" in said
    assert "after 60 s" in said
    later = ReadAfter(after.position, ())  # one that began later need not be seen
    assert len(read(postgresql, table, [("id", "bigint")], after=later)[0]) == 3
    writer.rollback()
    assert len(read(postgresql, table, [("id", "bigint")], after=after)[0]) == 3
    database.close()


def test_a_commit_that_is_delivered_before_it_is_visible_is_waited_for(postgresql: Server, writer: Any) -> None:
    """Synchronous replication to nobody: the commit is in the log and a connector has it; no snapshot sees it."""
    writer.rollback()  # a slot is made only after open writing transactions end
    postgresql.run("CREATE PUBLICATION late FOR TABLE shop.t")
    postgresql.run("SELECT pg_create_logical_replication_slot('late', 'pgoutput')")
    postgresql.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    postgresql.run("CHECKPOINT")  # by the process that makes it known to all
    with writer.cursor() as cursor:
        cursor.execute("INSERT INTO shop.t VALUES (1, 'late'), (2, 'late')")
    thread = threading.Thread(target=writer.commit)
    database = kinds.opened(postgresql.connection, 10.0)

    def release() -> None:
        postgresql.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        thread.join(10)

    try:
        thread.start()
        while postgresql.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == [(0,)]:
            assert thread.is_alive()
            threading.Event().wait(0.02)
        peek = "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('late', NULL, NULL, 'proto_version', '1', "
        assert postgresql.run(f"{peek}'publication_names', 'late')")[0][0] >= 4  # begin, relation, rows, commit
        after, table = known(postgresql, database), database.describe("shop.t")
        assert after.unseen
        unaware = read(postgresql, table, [("id", "bigint")], after=ReadAfter(after.position))[0]
        assert {row["id"] for row in unaware} == {10, 20, 30}  # what a read would do that knows of no open transactions
        waited: list[float] = []

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 2:
                release()

        with patient(postgresql, sleep).read(table, [("id", "bigint")], KeyRange(), after) as rows:
            found = {row["id"] for batch in rows.batches() for row in batch.to_pylist()}
        assert len(waited) == 2
        assert found == {1, 2, 10, 20, 30}
    finally:
        release()
        postgresql.run("SELECT pg_drop_replication_slot('late')", "DROP PUBLICATION late")
        database.close()


def test_a_prepared_transaction_is_named(postgresql: Server, writer: Any) -> None:
    database = kinds.opened(postgresql.connection, 10.0)
    writer.cursor().execute("PREPARE TRANSACTION 'later'")
    after, table = known(postgresql, database), database.describe("shop.t")
    assert len(after.unseen) == 1
    reader = patient(postgresql, lambda seconds: None)
    said = refused(lambda: reader.read(table, [("id", "bigint")], KeyRange(), after).__enter__(), retry=True)
    assert "prepared as later, since 20" in said
    postgresql.run("COMMIT PREPARED 'later'")
    assert len(read(postgresql, table, [("id", "bigint")], after=after)[0]) == 4
    database.close()


def test_postgresql_needs_an_event_that_has_landed(postgresql: Server) -> None:
    table = SourceTable(schema="shop", name="t", key=("id",), columns=())
    assert "no change event" in refused(lambda: read(postgresql, table, [], after=ReadAfter(None)))


def test_a_rewritten_table_is_waited_for_and_never_looks_empty(postgresql: Server) -> None:
    """A snapshot that is older than the rewriting sees no rows: the lock comes first."""
    postgresql.run("DROP TABLE IF EXISTS shop.t")
    numbers(postgresql, 3)
    database = kinds.opened(postgresql.connection, 10.0)
    table, after = database.describe("shop.t"), known(postgresql, database)
    altering = postgresql.session(autocommit=False)
    altering.cursor().execute("ALTER TABLE shop.t ALTER COLUMN word TYPE varchar(30) USING upper(word)")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(read(postgresql, table, [("id", "bigint")], after=after)[0]))
    thread.start()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'tidegate'"
    while postgresql.run(waiting) == [(0,)] and thread.is_alive():
        threading.Event().wait(0.02)
    altering.commit()
    thread.join()
    assert len(found) == 3
    database.close()
