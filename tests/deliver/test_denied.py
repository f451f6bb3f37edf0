"""Who is refused is not the window's fault: which errors say so, and how the process that sends tells them."""

from __future__ import annotations

from pathlib import Path

import psycopg2
import pymysql
import pytest

from spark_jobs.engine.delivered import checksum
from spark_jobs.handlers.deliver import Conversation
from tests.deliver.lab import Lab
from tests.deliver.rows import table
from tidegate.adapters import delivery
from tidegate.core.base.errors import DeliveryDenied, DeliveryRefused, StorageError, TidegateError
from tidegate.core.deliver.due import may_pass
from tidegate.targets.relational.dialect import Blame
from tidegate.targets.relational.mariadb import MariaDB
from tidegate.targets.relational.postgresql import PostgreSQL
from tidegate.targets.relational.system import mariadb

EXPIRED = StorageError("s3://lake/x: refused (400 ExpiredToken)", retry=False)


class Failing:
    """A system that ends each request so."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def standing(self, window_ms: int) -> None:
        raise self._error


def told(error: Exception) -> TidegateError:
    """What the control plane is told by the process."""
    process = Conversation(lambda question: None)
    process._table, process._limit_s = table("t"), 60.0
    process._system = Failing(error)  # type: ignore[assignment]
    with pytest.raises(TidegateError) as caught:
        delivery._refuse(process.answer({"standing": 0}))
    return caught.value


@pytest.mark.parametrize(
    ("error", "kind", "passes"),
    [
        (EXPIRED, DeliveryDenied, True),
        (DeliveryDenied("no right"), DeliveryDenied, True),
        (StorageError("no answer"), DeliveryRefused, True),
        (DeliveryRefused("a text holds NUL", retry=False), DeliveryRefused, False),
    ],
)
def test_what_the_process_tells(error: Exception, kind: type[TidegateError], passes: bool) -> None:
    found = told(error)
    assert (type(found), may_pass(found)) == (kind, passes)


class Said(psycopg2.OperationalError):
    """With a SQLSTATE, which the driver's own has from the server alone."""

    def __init__(self, code: str) -> None:
        super().__init__("the server's words")
        self.code = code

    @property
    def pgcode(self) -> str:  # type: ignore[override]
        return self.code


@pytest.mark.parametrize(
    ("code", "blame"),
    [
        ("28P01", Blame.USER), ("42501", Blame.USER), ("25006", Blame.USER), ("3D000", Blame.USER),
        ("42P01", Blame.TABLE), ("55P03", Blame.LOCK), ("22001", Blame.VALUE), ("23505", Blame.ANOTHER),
        ("P0001", Blame.ANOTHER), ("53100", Blame.SPACE),
    ],
)  # fmt: skip
def test_whom_postgresql_blames(code: str, blame: Blame) -> None:
    assert PostgreSQL().blamed(Said(code)) is blame


@pytest.mark.parametrize(
    ("code", "blame"),
    [
        (1045, Blame.USER), (1142, Blame.USER), (1290, Blame.USER), (1836, Blame.USER), (4151, Blame.USER),
        (1114, Blame.SPACE), (1021, Blame.SPACE),
        (1146, Blame.TABLE),
        (1205, Blame.LOCK), (1366, Blame.VALUE), (1062, Blame.ANOTHER), (1644, Blame.ANOTHER),
    ],
)  # fmt: skip
def test_whom_mariadb_blames(code: int, blame: Blame) -> None:
    assert MariaDB().blamed(pymysql.err.OperationalError(code, "the server's words")) is blame


class Open:
    """A connection of a database whose disk is full."""

    def cursor(self) -> Open:
        return self

    def __enter__(self) -> Open:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, *_: object) -> None:
        raise pymysql.err.OperationalError(1114, "The table 'hours' is full")

    def close(self) -> None: ...


def test_a_full_disk_there_refuses_no_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MariaDB, "connect", lambda *_: Open())
    settings = {"connection": "shop", "database": "shop"}
    with pytest.raises(DeliveryRefused, match="^MariaDB or MySQL refused: The table 'hours' is full") as caught:
        mariadb(settings, table("shop.hours"), checksum, 20.0).standing(0)
    assert caught.value.retry
    assert caught.value.advice == "make room on the server's disk; the next try goes on by itself"


def test_a_system_that_is_down_before_the_first_window_is_told_of(tmp_path: Path) -> None:
    """Each run ends before it begins a window: the one that waits longest says why."""
    lab = Lab(tmp_path)
    lab.hours(2)

    def told() -> list[tuple[str, int, str]]:
        with lab.context() as ctx:
            rows = (d.row for d in ctx.ledger.deliveries.due("readings", "shop", None, 9))
            return [("never sent", 0, "") if row is None else (row.state, row.epoch, row.why) for row in rows]

    lab.server.down = True
    for _ in range(3):
        with pytest.raises(DeliveryRefused, match="the server did not answer"):
            lab.deliver()
        assert told() == [("SENDING", 1, "the server did not answer"), ("never sent", 0, "")]
    lab.server.down = False
    assert lab.deliver() == ["delivered"] * 2
    assert told() == []
    lab.server.down = True
    with pytest.raises(DeliveryRefused, match="the server did not answer"):
        lab.deliver()
    assert lab.states() == ["STANDING 1.2", "STANDING 1.1"], "nothing is due, and what stands there stands"
