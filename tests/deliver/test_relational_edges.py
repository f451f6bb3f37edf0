"""Values, windows and names at the edges of PostgreSQL and of MariaDB: they come back as they are, or are refused."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.databases.fixtures import mariadb, mysql, postgresql  # noqa: F401
from tests.databases.servers import Server
from tests.deliver.rows import COLUMNS, FULL, T0, Made, attempt
from tests.deliver.test_relational import Open, name, opened, server, yes  # noqa: F401
from tests.world import make_pipeline
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.spec.pipeline import Column, Delivery
from tidegate.kinds import delivery_kind

_UTC = datetime.UTC
_TIMES = [(1, 1, 1), (99, 12, 31), (100, 1, 1), (999, 10, 4), (1582, 10, 10), (1969, 12, 31), (9999, 12, 31)]
_TEXTS = (
    "\x01", "\x01\x01a,\x01", "\\.", "a\n\\.\nb", "\ufeff", "\r\n", "\u2028\x85", "\\N", " ", "\U0010ffff", "\0",
)  # fmt: skip


def at(*day: int) -> datetime.datetime:
    return datetime.datetime(*day, 23, 59, 59, 999_999, tzinfo=_UTC)  # type: ignore[arg-type,misc]


EDGES: list[dict[str, Any]] = [
    *({"ts": at(*day), "d": at(*day).date(), "st": {"a": None, "t": at(*day), "n": []}} for day in _TIMES),
    *({"f32": v, "f64": v} for v in (-0.0, 1e-45, 5e-324, 3.4028234663852886e38, float("nan"), float("-inf"))),
    *({"s": s, "tags": [s, None], "m": [(s, 1), ("", None)]} for s in _TEXTS),
    {"dec": Decimal("9" * 28 + "." + "9" * 10), "small": Decimal("-999.99")},
    {"dec": Decimal("-0.0000000001"), "small": Decimal("-0.01"), "bin": b"\1\0\1", "m": [], "tags": []},
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(EDGES)))
def test_a_value_at_an_edge_comes_back_or_is_refused_by_name(
    opened: Open,  # noqa: F811
    server: Server,  # noqa: F811
    number: int,
) -> None:
    row = EDGES[number]
    system, rows = opened(), Made([row, {}])
    system.prepare()
    held = server.kind == "mariadb" or row.get("s") != "\0"
    if server.kind != "postgresql":
        held = row.get("f64") == row.get("f64") != float("-inf") and (row.get("ts") is None or row["ts"].year >= 100)
    if held:
        found = system.send(attempt(1, 1, rows), rows, yes)
        assert (found.content.rows, system.standing(found.token.unit)) == (2, found)  # type: ignore[union-attr]
        return
    with pytest.raises(DeliveryRefused) as caught:
        system.send(attempt(1, 1, rows), rows, yes)
    assert not caught.value.retry
    assert "skip the window here" in caught.value.advice


@pytest.mark.parametrize("year", [1, 99, 100, 999, 1969, 9999])
def test_a_window_of_any_year_stands_or_is_refused(
    opened: Open,  # noqa: F811
    server: Server,  # noqa: F811
    year: int,
) -> None:
    start = int(datetime.datetime(year, 1, 1, 5, tzinfo=_UTC).timestamp() * 1000)
    system, rows = opened(), Made([FULL], start)
    system.prepare()
    if server.kind == "postgresql" or year >= 100:
        assert system.standing(start).content.rows == 0
        assert system.send(attempt(1, 1, rows, start), rows, yes) == system.standing(start)
        return
    with pytest.raises(DeliveryRefused, match="read back from"):
        system.send(attempt(1, 1, rows, start), rows, yes)


def test_a_text_that_is_longer_than_a_statement_may_be_is_refused(
    opened: Open,  # noqa: F811
    server: Server,  # noqa: F811
) -> None:
    columns = (COLUMNS[0], ("s", "string"))
    system, rows = opened(columns=columns), Made([{"s": "x" * 20_000_000}], columns=columns)
    system.prepare()
    if server.kind == "postgresql":
        assert system.send(attempt(1, 1, rows), rows, yes).content.rows == 1
    elif server.kind == "mariadb":
        with pytest.raises(DeliveryRefused, match="max_allowed_packet") as caught:
            system.send(attempt(1, 1, rows), rows, yes)
        assert not caught.value.retry
        assert "skip the window here" in caught.value.advice


def test_a_token_is_not_told_of_rows_that_somebody_has_changed_since(
    opened: Open,  # noqa: F811
    server: Server,  # noqa: F811
    name: str,  # noqa: F811
) -> None:
    """Else a try whose answer was lost would be taken for done, with values that nobody has sent."""
    columns = (COLUMNS[0], ("i32", "int"))
    system, rows = opened(columns=columns), Made([{"i32": 1}, {"i32": 2}], columns=columns)
    system.prepare()
    token = system.send(attempt(1, 1, rows), rows, yes).token
    assert system.standing(T0).token == token is not None
    server.run(f"UPDATE {name} SET i32 = 3 WHERE i32 = 2")
    assert (system.standing(T0).token, system.standing(T0).content.rows) == (None, 2)


def problems(kind: str, column: str = "id", table: str = "hours") -> list[tuple[str, str]]:
    pipeline = make_pipeline("file:///lake/readings")
    spec = replace(pipeline, columns=(*pipeline.columns, Column(name=column, type="string", path=("x",))))
    return delivery_kind(kind).problems(spec, Delivery(name="shop", kind=kind, conn_id="x", table=table))


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "mysql"])
def test_names_that_the_database_would_cut_or_refuse_are_told_with_the_yaml(kind: str) -> None:
    most = 63 if kind == "postgresql" else 64
    assert problems(kind, "c" * most, f"{'d' * most}.{'t' * most}") == []
    assert [key for key, _ in problems(kind, "c" * (most + 1), f"d.{'t' * (most + 1)}")] == ["table", "kind"]
    assert len(problems(kind, "XMIN")) == (kind == "postgresql")
