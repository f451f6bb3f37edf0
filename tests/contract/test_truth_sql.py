"""Counts that a database is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.truth_tellers import Postgres, Sqlite, asked, telling
from tests.world import HOUR, window
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TruthUnknown
from tidegate.core.spec.pipeline import Completeness


@pytest.fixture
def postgres_teller(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Postgres]:
    with telling("postgres", request, tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select nothing from counts where :start_ms > 0", 'column "nothing" does not exist'),
        ("select 1 where :start_ms > 0 union all select 2", "must give one row with one column"),
        ("select 1, 2 where :start_ms > 0", "must give one row with one column"),
        ("select '12' where :start_ms > 0", "'12' is not a number"),
        ("select true where :start_ms > 0", "True is not a number"),
        ("select 'NaN'::numeric where :start_ms > 0", "NaN is not a whole number"),
        ("select 1e20::numeric where :start_ms > 0", "is not a count of rows"),
        ("with gone as (delete from counts returning 1) select 1 where :start_ms > 0", "DECLARE CURSOR|read-only"),
        ("select setval('seq', 7) where :start_ms > 0", "read-only transaction"),
    ],
)
def test_what_postgres_refuses_is_unknown(postgres_teller: Postgres, query: str, message: str) -> None:
    postgres_teller.do("create sequence seq")
    with pytest.raises(TruthUnknown, match=message):
        postgres_teller.asking(query).expected(window(1))


def test_a_query_that_gives_a_million_rows_is_not_fetched(postgres_teller: Postgres) -> None:
    with pytest.raises(TruthUnknown, match="one row"):
        postgres_teller.asking("select i from generate_series(1, 1000000) as s(i) where :start_ms > 0").expected(
            window(1)
        )


def test_sums_are_counts(postgres_teller: Postgres) -> None:
    """`sum` of bigints is numeric."""
    assert (
        postgres_teller.asking("select sum(i::bigint) from generate_series(1, 4) s(i) where :end_ms > 0;").expected(
            window(1)
        )
        == 10
    )


def test_instants_in_columns_with_and_without_a_zone(postgres_teller: Postgres) -> None:
    postgres_teller.do("create table seen (a timestamp, b timestamptz)")
    postgres_teller.do("insert into seen values ('2013-01-05 01:00', '2013-01-05 01:59:59.999+00')")
    query = "select count(*) from seen where a >= :start and a < :end and b >= :start and b < :end"
    truth = postgres_teller.asking(query)
    assert [truth.expected(window(hour)) for hour in (0, 1, 2)] == [0, 1, 0]


def test_a_slow_database_is_unknown(postgres_teller: Postgres, tmp_path: Path) -> None:
    from tidegate.adapters.connections import database_url
    from tidegate.completeness.query import SqlTruth

    connection = postgres_teller.connection()
    slow = SqlTruth(connection, lambda: database_url(connection), "select count(pg_sleep(30)), :start", timeout_s=0.2)
    with pytest.raises(TruthUnknown, match="statement timeout"):
        slow.expected(window(1))
    other = Sqlite(tmp_path)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n where :start > ''"
    slow = SqlTruth(
        Connection(conn_id="c", conn_type="sqlite", host=str(other.path)), lambda: None, endless, timeout_s=0.1
    )
    with pytest.raises(TruthUnknown, match="interrupted"):
        slow.expected(window(1))


def test_sqlite_is_only_read(tmp_path: Path) -> None:
    from tidegate.completeness.query import SqlTruth

    connection = Connection(conn_id="c", conn_type="sqlite", host=str(Sqlite(tmp_path).path))
    with pytest.raises(TruthUnknown, match="readonly database"):
        SqlTruth(connection, lambda: None, "insert into counts values (:start, 1, 2, 3)").expected(window(1))
    with pytest.raises(TruthUnknown, match="there is no file"):
        SqlTruth(
            Connection(conn_id="c", conn_type="sqlite", host=f"{tmp_path}/none"), lambda: None, "select 1"
        ).expected(window(1))
    assert not (tmp_path / "none").exists()


def test_the_password_is_in_no_reason(postgres_teller: Postgres) -> None:
    from dataclasses import replace

    connection = replace(postgres_teller.connection(), login="somebody", password="s3cret-word")
    truth = asked(Completeness(source="sql", conn_id="counts", query="select 1 where :start is null"), connection)
    with pytest.raises(TruthUnknown) as caught:
        truth.expected(window(1))
    assert "s3cret-word" not in str(caught.value)


@pytest.mark.parametrize("kind", ["mysql", "http", None])
def test_other_databases_are_refused_by_name(kind: str | None) -> None:
    truth = asked(
        Completeness(source="sql", conn_id="counts", query="select 1"),
        Connection(conn_id="counts", conn_type=kind, host="db"),
    )
    with pytest.raises(TruthUnknown, match=f"is of type {kind}: counts can be asked of postgres, sqlite, hiveserver2"):
        truth.expected(window(1))


def test_hive(hive_spark: Any) -> None:
    connection = Connection(
        conn_id="counts", conn_type="hiveserver2", host=hive_spark.hive_host, port=hive_spark.hive_port
    )
    when = "timestamp '2013-01-05 01:30:00' >= :start and timestamp '2013-01-05 01:30:00' < :end"
    ask = {
        "select count(*) from (select 1 as a union all select 2) t where " + when: [0, 2, 0],
        "select cast(:end_ms - :start_ms as bigint)": [HOUR] * 3,
        "select 1 where 1 = 2": [None] * 3,
        "select cast(null as bigint)": [None] * 3,
    }
    for query, counts in ask.items():
        truth = asked(Completeness(source="sql", conn_id="counts", query=query), connection)
        assert [truth.expected(window(hour)) for hour in (0, 1, 2)] == counts, query
    for query, message in {
        "select a from no_such_table": "no_such_table",
        "select explode(array(1,2,3))": "one row",
    }.items():
        with pytest.raises(TruthUnknown, match=message):
            asked(Completeness(source="sql", conn_id="counts", query=query), connection).expected(window(1))
