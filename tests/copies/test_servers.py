"""Tables that lie on several servers make one mirror (S11): what goes by positions is of one server's log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.copies.servers import FIRST, A, B, ServersWorld
from tests.copies.worlds import copy_words
from tests.fakes.source_table import position
from tests.mirror.audits import deep
from tidegate.adapters.connections import Connection, ConnectionMissing
from tidegate.core.base.errors import BatchRefused, JobFailed, NotReady, SpecError
from tidegate.core.copy.complete import Look
from tidegate.core.copy.words import how_far
from tidegate.core.spec.pipeline import Column
from tidegate.ledger.migrate import migrate
from tidegate.ledger.sql import SqlLedger
from tidegate.wiring import job_secrets
from tidegate.workflow.copy.copy import again, copy


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ServersWorld]:
    made = begun(tmp_path)
    yield made
    made.close()


def begun(folder: Path) -> ServersWorld:
    """Both servers have rows of the same keys, and each an event."""
    made = ServersWorld(folder)
    made.source_tables[A].rows |= {key: f"a {key}" for key in range(1, 9)}
    made.source_tables[B].rows |= {key: f"b {key}" for key in range(1, 6)}
    for name in (A, B):
        made.source_tables[name].set(3, f"first event of {name}")
    made.deliver()
    made.apply()
    return made


def copied(folder: Path) -> ServersWorld:
    """Each server has a whole copy."""
    made = begun(folder)
    assert made.mirror() == made.source
    return made


def test_rows_of_equal_keys_are_told_apart(world: ServersWorld) -> None:
    assert world.mirror() == world.source
    world.source_tables[A].set(1, "changed")
    world.source_tables[B].set(2, None)
    world.source_tables[B].set(20, "new")
    assert world.mirror() == world.source
    rounds = world.context().ledger.copies.rounds(world.pipeline.name)
    assert [(one.server, one.state, one.words) for one in rounds] == [
        (A, "WHOLE", f"copy 1 (server {A})"),
        (B, "WHOLE", f"copy 2 (server {B})"),
    ]
    assert deep(world).problems == ()


def test_readers_see_nothing_before_each_server_has_a_whole_copy(world: ServersWorld) -> None:
    world.read(server=A)
    world.apply()
    assert world.standing().copied.whole_of(A) is not None
    assert (world.standing().copied.whole, world.found()) == (None, {})
    assert list(world.read()) == [B]
    world.apply()
    assert world.found() == world.source
    assert world.read() == {}


def test_s4_an_event_of_one_server_says_nothing_of_the_others_topic(tmp_path: Path) -> None:
    world = ServersWorld(tmp_path)
    world.source_tables[A].set(1, "an event")
    world.source_tables[B].rows[1] = "row of before"
    world.deliver()
    world.apply()
    found = world.read()
    world.apply()
    assert (found[A].error, found[A].read.rows) == (None, 1)
    assert isinstance(found[B].error, NotReady)
    assert f"server {B}: not read: readings: server {B}: no event of the table has been merged yet" in found[B].words
    world.source_tables[B].set(2, "an event")
    assert world.mirror() == world.source
    world.close()


def test_s4_a_chunk_is_compared_with_the_events_of_its_own_server(world: ServersWorld) -> None:
    """All positions of the second server are below those of the first one."""
    assert FIRST[B] < FIRST[A]
    assert world.mirror() == world.source
    first, second = world.log_of(A), world.log_of(B)
    assert first.begins is not None
    assert second.begins is not None
    assert second.begins < first.begins
    assert (first.last, second.last) == (first.begins, second.begins)


def test_s5_a_sweep_is_of_one_server(tmp_path: Path) -> None:
    world = copied(tmp_path)
    world.source_tables[A].lose(1)
    world.source_tables[B].lose(1)
    world.again(A)
    assert world.mirror() == world.source | {(B, 1): "b 1"}
    world.again(B)
    assert world.mirror() == world.source
    world.close()


def test_s5_the_marker_of_one_server_stops_no_event_of_the_other(tmp_path: Path) -> None:
    """The sweep of the first one is at a position that is above all of the second one's."""
    world = copied(tmp_path)
    world.again(A)
    assert world.mirror() == world.source
    world.source_tables[B].set(40, "new, at a low position")
    assert world.mirror() == world.source
    world.close()


def test_s5_an_event_of_before_its_servers_copy_brings_nothing_back(world: ServersWorld) -> None:
    second = world.source_tables[B]
    second.set(30, "was there once")
    second.lose(30)
    for _ in range(2):
        world.read()
        world.apply()
    assert world.mirror() == world.source
    world.close()


def test_s5_positions_of_copies_rise_for_each_server(tmp_path: Path) -> None:
    """The second server's first copy is far below the first one's."""
    world = copied(tmp_path)
    for key in range(5):
        world.source_tables[B].set(key, "changed")
    world.deliver()
    world.again(B)
    assert world.mirror() == world.source
    world.again(B)
    world.source_tables[B].end -= 20
    found = world.read()[B].error
    assert isinstance(found, JobFailed)
    assert "its LOW is below that of an earlier copy" in str(found)
    world.close()


def test_an_event_of_another_server_is_refused(world: ServersWorld) -> None:
    """No copy would read its rows, and nobody would say how far its connector is."""
    copy = world.pipeline.copy
    assert copy is not None
    world.pipeline = replace(world.pipeline, copy=replace(copy, servers=copy.servers[:1]))
    world.source_tables[B].set(1, "of a server that nobody names")
    with pytest.raises(BatchRefused, match=f"an event of server {B}, which copy.servers does not name"):
        world.deliver()


def test_a_server_that_comes_later_is_read_by_itself(tmp_path: Path) -> None:
    """What readers have seen stays; until the new one is whole nothing is told of it, and no time."""
    world = ServersWorld(tmp_path)
    both, copy = world.pipeline, world.pipeline.copy
    assert copy is not None
    world.pipeline = replace(both, copy=replace(copy, servers=copy.servers[:1]))
    world.connectors = {A: world.source_tables[A].how_far}
    world.source_tables[A].rows[7] = "row of before"
    world.source_tables[A].set(1, "an event")
    assert world.mirror() == world.source
    world.apply()
    assert world.standing().copied.complete is not None
    world.pipeline = both
    world.connectors = {name: of.how_far for name, of in world.source_tables.items()}
    world.source_tables[B].rows[7] = "another row of before"
    world.source_tables[B].set(1, "an event")
    world.deliver()
    world.apply()
    assert world.found() == {(A, 1): "an event", (A, 7): "row of before", (B, 1): "an event"}
    told = world.standing().copied.complete
    assert told is not None
    assert (world.standing().copied.whole, told.at_ms, list(dict(told.servers))) == (None, None, [A])
    assert f"nothing in it is older than {told.spelled}; of server {B} it cannot say so" in how_far(
        None, world.standing(), True
    )
    assert world.mirror() == world.source
    world.close()


def test_each_server_is_told_of_and_the_smallest_time(tmp_path: Path) -> None:
    world = copied(tmp_path)
    behind, ahead = world.source_tables[A], world.source_tables[B]
    behind.set(1, "not delivered yet")
    noted = behind.delivered
    looked_at = world.clock.now_ms()
    world.apply()
    world.clock.advance(60_000)
    ahead.set(1, "delivered")
    world.deliver(B)
    world.apply()
    told = world.standing().copied.complete
    assert told is not None
    assert dict(told.servers) == {A: position(noted), B: position(ahead.end)}
    assert told.at_ms is not None
    assert told.at_ms <= looked_at
    assert not told.exact
    assert told.spelled == f"{A}={position(noted)[0]},0 {B}={position(ahead.end)[0]},0"
    world.close()


def test_nothing_is_told_of_a_server_whose_connector_says_nothing(tmp_path: Path) -> None:
    world = ServersWorld(tmp_path)
    world.connectors = {A: world.source_tables[A].how_far}
    for name in (A, B):
        world.source_tables[name].set(3, "an event")
    assert world.mirror() == world.source
    assert world.standing().copied.whole is not None
    assert {one.server for one in world.context().ledger.copies.looks(world.pipeline.name)} == {A}
    told = world.standing().copied.complete
    assert told is not None
    assert (told.at_ms, list(dict(told.servers))) == (None, [A])
    world.close()


def test_positions_that_go_back_are_seen_whatever_the_clock_of_the_other_server_says(tmp_path: Path) -> None:
    """M8 of each server: the first one's clock runs ahead of the second one's by years."""
    world = copied(tmp_path)
    first, second = world.source_tables[A], world.source_tables[B]
    first.ms, second.ms = 2_000_000_000_000, 1_700_000_000_000
    first.set(1, "by a clock that is ahead")
    second.set(1, "by a clock that is right")
    world.deliver()
    world.apply()
    second.end, second.ms = 100, 1_700_000_060_000  # it was set up anew
    second.set(1, "of a new log")
    world.deliver()
    with pytest.raises(BatchRefused, match="positions go back"):
        world.apply()
    world.close()


def test_what_was_read_of_no_server_is_refused(world: ServersWorld) -> None:
    """It would sweep the keys of all."""
    for name in ("", "shop-c"):
        with pytest.raises(SpecError, match="copy.servers names no server"):
            copy(world.context(), world.source_tables[A], server=name)
        with pytest.raises(SpecError, match="copy.servers names no server"):
            again(world.context(), world.source_tables[A], "test", server=name)


def test_status_says_how_far_each_server_is(world: ServersWorld) -> None:
    world.read(server=A)
    world.apply()
    told = world.standing()
    assert f"server {A}: whole since copy 1; server {B}: no copy is whole yet" in how_far(None, told, True)
    world.mirror()
    words = how_far(None, world.standing(), True)
    assert f"server {B}: whole since copy 2; nothing in it is older than {A}=" in words


def test_looks_of_before_are_of_the_only_server(tmp_path: Path) -> None:
    """A ledger of revision 0017 has them."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    migrate(url, "0017")
    engine = sa.create_engine(url)
    with engine.begin() as c:
        c.execute(
            sa.text(
                "INSERT INTO source_looks (pipeline, look, position, log_end, at_ms, ends) "
                "VALUES ('orders', 1, '7,0', '9,0', 5, '{}')"
            )
        )
    engine.dispose()
    migrate(url)
    ledger = SqlLedger(url, "test")
    before = Look(position=(7, 0), log_end=(9, 0), at_ms=5, ends={}, number=1)
    assert list(ledger.copies.looks("orders")) == [before]
    of_one = replace(before, server=A, number=2)
    ledger.copies.looked("orders", of_one)
    assert list(ledger.copies.looks("orders")) == [before, of_one]
    ledger.close()


def test_looks_of_each_server_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.ledger.copies.LOOKS_KEPT", 2)
    world = ServersWorld(tmp_path)
    ledger = world.context().ledger
    for n in range(5):
        ledger.copies.looked("p", Look(position=(n, 0), log_end=(n, 0), at_ms=n, ends={}, server=A, number=n))
    ledger.copies.looked("p", Look(position=(9, 0), log_end=(9, 0), at_ms=9, ends={}, server=B, number=5))
    kept = [(one.server, one.position[0]) for one in ledger.copies.looks("p")]
    assert kept == [(A, 3), (A, 4), (B, 9)]
    world.close()


def test_a_column_that_came_later_is_read_of_each_server(tmp_path: Path) -> None:
    """One server's copy has it, and the other's does not: rows of that one lack it still."""
    world = copied(tmp_path)
    own = world.pipeline.columns
    for name in (A, B):
        world.source_tables[name].alter("shade", "grey")
    world.change_spec(columns=(*own[:3], Column(name="shade", type="string", path="$.shade"), *own[3:]))
    for last, name in enumerate((A, B)):
        world.source_tables[name].set(1, f"changed {last}")
        world.mirror()
        told = world.standing().copied.complete
        assert ([] if told is None else list(dict(told.servers))) == [A][:last]
        assert "column shade came after copy" in copy_words(world)
        world.again(name)
        world.mirror()
        world.source_tables[name].set(2, f"changed {last}")
        world.mirror()
    assert world.standing().copied.complete is not None
    assert "shade" not in copy_words(world)
    world.close()


@pytest.mark.parametrize(("kind", "expected"), [("mysql", "word"), ("generic", None)])
def test_a_job_gets_the_secrets_of_connections_that_are_there(
    world: ServersWorld, kind: str, expected: str | None
) -> None:
    """Ingest, and the copy of another server, need none of one that is missing or invalid."""

    def lookup(conn_id: str) -> Connection:
        if conn_id == "shop_a":
            raise ConnectionMissing(f"no connection {conn_id}")
        if conn_id == "shop_b":
            return Connection(conn_id=conn_id, conn_type=kind, host="b", login="reader", password="word")
        return Connection(conn_id=conn_id, conn_type="kafka", extra={"bootstrap.servers": "a:9092"})

    secrets = job_secrets(world.pipeline, lookup)
    assert secrets.get(f"tidegate.copy.{B}/password") == expected
    assert not any(A in name for name in secrets)
