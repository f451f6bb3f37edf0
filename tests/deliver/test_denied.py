"""Who is refused is not the window's fault: which errors say so, and how the process that sends tells them."""

from __future__ import annotations

import psycopg2
import pymysql
import pytest

from spark_jobs.handlers.deliver import Conversation
from tidegate.adapters import delivery
from tidegate.core.base.errors import DeliveryDenied, DeliveryRefused, StorageError, TidegateError
from tidegate.core.deliver.due import may_pass
from tidegate.targets.relational.mariadb import MariaDB
from tidegate.targets.relational.postgresql import PostgreSQL

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


@pytest.mark.parametrize("code", ["28P01", "42501", "25006", "3D000", "42P01"])
def test_postgresql_refuses_the_user(code: str) -> None:
    assert PostgreSQL().is_denied(Said(code))


@pytest.mark.parametrize("code", ["22001", "23505", "P0001"])
def test_postgresql_refuses_the_rows(code: str) -> None:
    assert not PostgreSQL().is_denied(Said(code))


@pytest.mark.parametrize("code", [1045, 1142, 1146, 1290, 1836, 4151])
def test_mariadb_refuses_the_user(code: int) -> None:
    assert MariaDB().is_denied(pymysql.err.OperationalError(code, "the server's words"))


@pytest.mark.parametrize("code", [1062, 1366, 1644, 4025])
def test_mariadb_refuses_the_rows(code: int) -> None:
    assert not MariaDB().is_denied(pymysql.err.OperationalError(code, "the server's words"))
