"""`tidegate doctor` of a mirror: its source's tables as a copy reads them, and the connector that brings their
events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.copies.test_later_columns import takes_up
from tests.copies.worlds import COPYING, CopyWorld
from tidegate.adapters.connections import ConnectionMissing
from tidegate.cli import examined_copy
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.copy.port import SourceColumn
from tidegate.core.doctor.connectors import ConnectorState
from tidegate.core.doctor.findings import OK, WARNING, WRONG, Finding
from tidegate.core.spec.copy import CopiedServer

WELL = {"skipped.operations": "none", "heartbeat.interval.ms": "10000"}
RUNS = [("the connector", "RUNNING", ""), ("task 0", "RUNNING", "")]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = CopyWorld(tmp_path)
    yield made
    made.close()


def lookup(conn_id: str) -> Connection:
    kind = "http" if conn_id == "connect" else "mysql"
    return Connection(conn_id=conn_id, conn_type=kind, host="127.0.0.1", port=1)


def found(world: CopyWorld, monkeypatch: pytest.MonkeyPatch, **server: Any) -> list[Finding]:
    @contextmanager
    def opened(*_: object) -> Iterator[Any]:
        yield world.source_table

    monkeypatch.setattr(examined_copy, "open_database", opened)
    one = CopiedServer(name="", conn_id="shop", **server)
    return examined_copy.examined(world.context(), one, lookup, 1.0)


def test_tables_that_can_be_read_are_well(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = found(world, monkeypatch)
    assert (one.check, one.level, one.what) == ("copy", OK, "shop.readings can be read, and its log")


def test_a_column_that_the_source_may_get_later_is_a_warning(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it puts into rows then has no event."""
    takes_up(world)
    (one,) = found(world, monkeypatch)
    assert (one.level, one.what) == (WARNING, "shop.readings can be read, but has no column shade")
    world.source_table.alter("shade", "grey")
    (one,) = found(world, monkeypatch)
    assert one.level == OK


def test_what_stops_a_copy_is_wrong(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    described = world.source_table.describe

    def other(**changes: Any) -> list[Finding]:
        monkeypatch.setattr(world.source_table, "describe", lambda name: replace(described(name), **changes))
        return found(world, monkeypatch)

    (one,) = other(key=("word",))
    assert (one.level, "the primary key of shop.readings is word" in one.what) == (WRONG, True)
    (one,) = other(columns=(SourceColumn("id", "bigint", False), SourceColumn("word", "geometry")))
    assert (one.level, one.means) == (WRONG, "nothing can be copied or compared")
    assert "geometry" in one.what

    def refuses(name: str) -> Any:
        raise SourceError("MariaDB refused: SELECT command denied", advice="GRANT it", retry=False)

    monkeypatch.setattr(world.source_table, "describe", refuses)
    (one,) = found(world, monkeypatch)
    assert (one.level, one.what, one.mend) == (WRONG, "MariaDB refused: SELECT command denied", "GRANT it")


def test_a_log_that_says_no_place_is_wrong(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_log() -> Any:
        raise SourceError("the server keeps no binary log", advice="log_bin", retry=False)

    monkeypatch.setattr(world.source_table, "position", no_log)
    (one,) = found(world, monkeypatch)
    assert (one.level, one.what) == (WRONG, "the server keeps no binary log")


def test_a_column_that_its_first_event_takes_up_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = CopyWorld(tmp_path, COPYING.replace("{{type: debezium}}", "{{type: debezium, unknown_fields: evolve}}"))
    described = world.source_table.describe

    def grown(name: str) -> Any:
        table = described(name)
        return replace(table, columns=(*table.columns, SourceColumn("late", "int")))

    monkeypatch.setattr(world.source_table, "describe", grown)
    (one,) = found(world, monkeypatch)
    world.close()
    assert (one.level, one.means) == (WARNING, "the copy waits")


def test_a_connector_that_says_how_far_it_is(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    state = ConnectorState(name="orders", parts=RUNS, settings=WELL)
    monkeypatch.setattr(examined_copy.connector, "connect_state", lambda *what: state)
    monkeypatch.setattr(examined_copy.connector, "connect_position", lambda *what: asked.append(what))
    named = {"connect_conn_id": "connect", "connector": "orders"}
    _, one = found(world, monkeypatch, **named)
    assert (one.check, one.level) == ("connector", OK)
    assert asked == [("http://127.0.0.1:1", "orders", 1.0)]

    def silent(*_: object) -> Any:
        raise SourceUnavailable("Kafka Connect did not say where", advice="look")

    monkeypatch.setattr(examined_copy.connector, "connect_position", silent)
    _, one = found(world, monkeypatch, **named)
    assert (one.level, one.what, one.mend) == (WARNING, "Kafka Connect did not say where", "look")


def test_a_slot_that_is_missing(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> Any:
        raise SourceError("there is no slot", advice="name it", retry=False)

    monkeypatch.setattr(examined_copy.connector, "slot_position", missing)
    _, one = found(world, monkeypatch, slot="debezium")
    assert (one.level, one.what) == (WARNING, "there is no slot")


def test_a_connection_that_is_missing(world: CopyWorld) -> None:
    def none(conn_id: str) -> Connection:
        raise ConnectionMissing(f"connection {conn_id} is missing")

    (one,) = examined_copy.examined(world.context(), CopiedServer(name="", conn_id="shop"), none, 1.0)
    assert (one.level, one.what) == (WRONG, "connection shop is missing")
