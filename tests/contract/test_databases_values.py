"""Values of a chunk: those that Debezium's events of the same rows have (`tests/databases/record.py`), or refusals."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine import types as engine
from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.formats.change_event import FILE_UNIT
from tests.change_events.recordings import Message, chunk, reading
from tests.databases import tables
from tests.databases.fixtures import KINDS
from tests.databases.reading import read, refused
from tests.databases.servers import Server
from tidegate.core.base.hivetypes import PRIMITIVES, parse
from tidegate.core.copy.port import SourceColumn, SourceTable
from tidegate.databases import kinds
from tidegate.databases.documents import as_in_events
from tidegate.databases.types import conversion

MESSAGES = Path(__file__).parents[1] / "databases" / "messages"
STREAMED = 100
MARIADB = """
ti tinyint | ti smallint | tb tinyint | bo int | si smallint | mi int | i int | iu bigint | b bigint | i decimal(12,2)
b double | d decimal(12,2) as text | d decimal(20,5) as text | d string | d double as text | d0 decimal(10,0) as text
d0 bigint as text | big string | f float | fs float | fs double | r double | rs double | c string | vc string
l1 string | t string | e string | s string | j string | bn string | vb string | bl string | b1 boolean | y int
da int | da bigint | dt bigint | dt3 bigint | dt6 bigint | dt timestamp | dt3 timestamp | ts string | ts timestamp
ts6 string | ts6 timestamp | dan int | dtn bigint | tsn timestamp | tsn string | dn int
"""
POSTGRESQL = """
si smallint | i int | b bigint | i decimal(12,2) | b double | n decimal(12,2) as text | n string | n double as text
n0 decimal(10,0) as text | n0 bigint as text | nn string | f float | r double | bo boolean | c string | vc string
t string | e string | j string | jb string | u string | by string | b1 boolean | da int | da bigint | ts bigint
ts3 bigint | ts3 timestamp | ts0 bigint | ts0 timestamp | tz string | tz timestamp | tz3 string | tz3 timestamp
tz0 string | tz0 timestamp | dom string | pr decimal(8,3) as text | dn int | nt string
"""


_AGAIN = "DROP TABLE IF EXISTS shop.kinds"
"""Each file that has these fixtures makes the table anew."""
_KINDS_OF_POSTGRESQL = (("TYPE", "mood"), ("DOMAIN", "shorter"), ("DOMAIN", "short"), ("DOMAIN", "price"))


@pytest.fixture(scope="session")
def mariadb_kinds(mariadb: Server) -> Server:
    zeros = tables.mariadb_zero_dates(11 + STREAMED)
    mariadb.run(_AGAIN, tables.MARIADB_TABLE, *tables.mariadb_rows(1 + STREAMED), *zeros)
    return mariadb


@pytest.fixture(scope="session")
def mysql_kinds(mysql: Server) -> Server:
    zeros = tables.mariadb_zero_dates(11 + STREAMED)
    mysql.run(_AGAIN, tables.MARIADB_TABLE, *tables.mariadb_rows(1 + STREAMED), *zeros)
    return mysql


@pytest.fixture(scope="session")
def postgresql_kinds(postgresql: Server) -> Server:
    kinds_of = [f"DROP {what} IF EXISTS shop.{name} CASCADE" for what, name in _KINDS_OF_POSTGRESQL]
    postgresql.run(_AGAIN, *kinds_of, *tables.POSTGRESQL_TABLE, *tables.postgresql_rows(1 + STREAMED))
    return postgresql


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(f"{request.param}_kinds")
    found.run("DROP TABLE IF EXISTS shop.t")
    return found


def described(server: Server, table: str = "shop.kinds") -> SourceTable:
    database = kinds.opened(server.connection, 10.0)
    found = database.describe(table)
    database.close()
    return found


def recorded(server: Server) -> list[Message]:
    """Events that came while the connector streamed."""
    lines = [json.loads(line) for line in (MESSAGES / f"{server.product}.jsonl").read_text().splitlines()]
    return [(one["key"].encode(), one["value"].encode()) for one in lines if json.loads(one["key"])["id"] > STREAMED]


def afters(server: Server) -> list[dict[str, Any]]:
    return [json.loads(value or b"")["after"] for _, value in recorded(server)]


def columns_of(server: Server) -> list[str]:
    text = MARIADB if server.kind == "mariadb" else POSTGRESQL
    return [part.strip() for line in text.strip().splitlines() for part in line.split("|")]


def test_chunks_have_the_values_of_the_events(server: Server) -> None:
    """For the same types, through the decoder that lands events."""
    columns = columns_of(server)
    spec = [
        f"c{n} {kind} from $.{name}{' as text' if text else ''}"
        for n, (name, kind, *text) in enumerate(c.split(" ", 2) for c in columns)
    ]
    decoded = decoder_for(reading("id bigint", *spec)).decode(chunk(recorded(server)))
    assert not decoded.bad
    expected = {row["id"]: [row[f"c{n}"] for n in range(len(spec))] for row in decoded.table.to_pylist()}
    wanted = [("id", "bigint"), *((c.split()[0], c.split()[1]) for c in columns)]
    found = values(server, wanted)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        for column, is_, should_be in zip(columns, found[key], row, strict=True):
            assert (key, column, repr(is_)) == (key, column, repr(should_be))


def values(server: Server, wanted: list[tuple[str, str]], **changes: Any) -> dict[int, list[Any]]:
    """Values of the columns behind the first one, which is the key; a column may come twice."""
    from tidegate.core.copy.port import KeyRange, ReadAfter

    reader = kinds.reader(kinds.for_workers(server.connection), **changes)
    with reader.read(described(server), wanted, KeyRange(), ReadAfter((1, 0))) as rows:
        (batch,) = rows.batches()
    columns = [column.to_pylist() for column in batch.columns]
    return {key: list(row) for key, *row in zip(*columns, strict=True)}


def test_dates_and_bytes_as_events_of_other_settings_have_them(server: Server) -> None:
    """Avro, or a time precision that gives texts: what the numbers and the Base64 of the recording mean."""
    import datetime

    maria = server.kind == "mariadb"
    time, blob, day = ("dt6", "bl", "da") if maria else ("ts", "by", "da")
    wanted = [("id", "bigint"), (time, "timestamp"), (blob, "binary"), (day, "date")]
    found = values(server, [*wanted, ("bu", "decimal(20,0)")] if maria else wanted)
    base = values(server, wanted, binary="base64")
    for after in afters(server):
        at, raw, days = after[time], after[blob], after[day]
        row = found[after["id"]]
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        utc = row[0] and row[0].replace(tzinfo=datetime.UTC)
        assert utc == (None if at is None else epoch + datetime.timedelta(microseconds=at))
        assert row[1] == (None if raw is None else base64.b64decode(raw))
        assert base[after["id"]][1] == (None if raw is None else raw.encode())
        assert row[2] == (None if days is None else epoch.date() + datetime.timedelta(days=days))
        if maria:
            number = after["bu"]
            assert row[3] == (None if number is None else int.from_bytes(base64.b64decode(number), signed=True))


# ---------------------------------------------------------------- refusals of values

BAD = {
    "mariadb": [
        ("v INT", "300", "tinyint"),
        ("v INT UNSIGNED", "4294967295", "int"),
        ("v BIGINT UNSIGNED", "18446744073709551615", "bigint"),
        ("v TINYINT(1)", "2", "boolean"),
        ("v DECIMAL(12,4)", "1.2345", "decimal(12,2)"),
        ("v DECIMAL(12,2)", "12345678.00", "decimal(9,2)"),
        ("v DECIMAL(45,0)", "123456789012345678901234567890123456789", "decimal(38,0)"),
        ("v DATE NOT NULL DEFAULT '2020-01-02'", "'0000-00-00'", "date"),
        ("v DATE", "'0099-12-31'", "date"),
        ("v DATETIME(6)", "'0001-01-01'", "bigint"),
        ("v YEAR", "0", "int"),
    ],
    "postgresql": [
        ("v int", "300", "tinyint"),
        ("v numeric", "'NaN'", "decimal(10,2)"),
        ("v numeric", "'NaN'", "string"),
        ("v numeric", "'-Infinity'", "string"),
        ("v numeric", "1e60", "decimal(38,0)"),
        ("v numeric(12,4)", "1.2345", "decimal(12,2)"),
        ("v real", "'NaN'", "float"),
        ("v double precision", "'Infinity'", "double"),
        ("v date", "'infinity'", "date"),
        ("v date", "'-infinity'", "int"),
        ("v date", "'0044-03-15 BC'", "date"),
        ("v date", "'10000-01-01'", "date"),
        ("v timestamp", "'infinity'", "timestamp"),
        ("v timestamp", "'0044-03-15 BC'", "bigint"),
        ("v timestamptz", "'infinity'", "timestamp"),
        ("v timestamptz", "'infinity'", "string"),
        ("v timestamptz", "'0044-03-15 BC'", "string"),
        ("v timestamptz", "'10000-01-01'", "string"),
    ],
}

BAD_OF = {"mariadb": ("mariadb", "mysql"), "postgresql": ("postgresql",)}


@pytest.mark.parametrize(
    ("kind", "column", "value", "wanted"),
    [(name, *case) for kind, cases in BAD.items() for case in cases for name in KINDS if name in BAD_OF[kind]],
)
def test_a_value_that_does_not_fit_is_refused_by_its_key(
    request: pytest.FixtureRequest, kind: str, column: str, value: str, wanted: str
) -> None:
    server: Server = request.getfixturevalue(kind)
    server.run(
        "DROP TABLE IF EXISTS shop.t", f"CREATE TABLE shop.t (a INT, k VARCHAR(9), {column}, PRIMARY KEY (a, k))"
    )
    good = "'2026-01-02'" if "date" in column.lower() or "time" in column.lower() else "1"
    server.run(*[f"INSERT INTO shop.t VALUES ({n}, 'x', {value if n == 7 else good})" for n in range(12)])
    table = described(server, "shop.t")
    said = refused(lambda: read(server, table, [("a", "int"), ("k", "string"), ("v", wanted)]))
    assert "the row with the key a 7, k x: the value of v (" in said
    assert f"does not fit {wanted}" in said


def test_zero_dates_of_a_column_with_a_default_only_matter_where_it_is_read(mariadb_kinds: Server) -> None:
    said = refused(lambda: values(mariadb_kinds, [("id", "bigint"), ("dad", "date")]))
    assert f"the row with the key id {STREAMED + 11}: the value of dad (date)" in said


def test_a_row_that_is_too_long_for_one_text_is_refused(mariadb: Server) -> None:
    mariadb.run(
        "DROP TABLE IF EXISTS shop.t",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v LONGTEXT)",
        "INSERT INTO shop.t VALUES (1, REPEAT('x', 1000000)), (2, 'y')",
    )
    table, packet = described(mariadb, "shop.t"), mariadb.run("SELECT @@GLOBAL.max_allowed_packet")[0][0]
    assert len(read(mariadb, table, [("id", "int"), ("v", "string")])[0][0]["v"]) == 1_000_000
    mariadb.run("SET GLOBAL max_allowed_packet = 524288")
    try:
        assert "max_allowed_packet" in refused(lambda: read(mariadb, table, [("id", "int"), ("v", "string")]))
    finally:
        mariadb.run(f"SET GLOBAL max_allowed_packet = {packet}")


def test_rows_of_many_megabytes_come_whole(server: Server) -> None:
    """Longer than a packet of MariaDB's protocol, and in batches by their size."""
    big = "LONGTEXT" if server.kind == "mariadb" else "text"
    if server.kind == "mariadb":
        server.run("SET GLOBAL max_allowed_packet = 1073741824")
    server.run(f"CREATE TABLE shop.t (id INT PRIMARY KEY, v {big})")
    control = "CHAR(1)" if server.mysql else "CHR(1)"
    server.run(f"INSERT INTO shop.t VALUES (1, REPEAT('é\"', 9000000)), (2, ''), (3, NULL), (4, {control})")
    found = read(server, described(server, "shop.t"), [("v", "string"), ("id", "int")])[0]
    assert [(row["id"], row["v"] and len(row["v"])) for row in found] == [
        (1, 18_000_000), (2, ""), (3, None), (4, 1),
    ]  # fmt: skip
    assert found[0]["v"] == 'é"' * 9_000_000
    assert found[3]["v"] == "\x01"


# ---------------------------------------------------------------- refusals of types


@pytest.mark.parametrize(
    ("kind", "type", "wanted", "says"),
    [
        ("mariadb", "time", "string", "column v of the source is time: there is no rule by which it becomes string"),
        ("mariadb", "geometry", "binary", "geometry: there is no rule"),
        ("mariadb", "uuid", "string", "uuid: there is no rule"),
        ("mariadb", "bit(9)", "binary", "there is no rule"),
        (
            "mariadb",
            "bigint unsigned",
            "string",
            "does not become string | declare the column as decimal(20,0)",
        ),
        ("mariadb", "float", "double", "declare the column as float"),
        ("mariadb", "double", "float", "declare the column as double"),
        ("mariadb", "int unsigned zerofill", "string", "does not become string"),
        ("mariadb", "varchar(3)", "int", "declare the column as string"),
        ("mariadb", "date", "timestamp", "declare the column as date, or int (days since 1970)"),
        ("postgresql", "integer[]", "array<int>", "there is no rule"),
        ("postgresql", "interval", "string", "interval: there is no rule"),
        ("postgresql", "time without time zone", "string", "there is no rule"),
        ("postgresql", "bit(3)", "string", "there is no rule"),
        ("postgresql", "boolean", "int", "declare the column as boolean"),
        ("postgresql", "numeric(12,2)", "bigint", "declare the column as decimal(12,2) or string"),
        ("postgresql", "timestamp with time zone", "bigint", "declare the column as timestamp"),
        ("postgresql", "uuid", "binary", "declare the column as string"),
    ],
)
def test_types_that_do_not_become_others_are_refused_by_name(kind: str, type: str, wanted: str, says: str) -> None:
    assert says in refused(lambda: conversion(kind, SourceColumn("v", type), wanted))


def test_a_column_that_is_missing_is_refused(server: Server) -> None:
    assert "shop.kinds has no column ID" in refused(lambda: values(server, [("ID", "bigint")]))


# ---------------------------------------------------------------- what stands twice


def test_types_and_positions_are_those_of_the_engine() -> None:
    from tidegate.databases.arrow import arrow_type
    from tidegate.databases.mariadb import places

    for name in (*PRIMITIVES, "decimal(38,9)"):
        assert arrow_type(parse(name)) == engine.arrow_type(parse(name))
    assert places.FILE_UNIT == FILE_UNIT


@pytest.mark.parametrize(
    ("text", "in_events"),
    [
        ('{"b": 1, "c": true, "aa": [1, 2.5, {"x": null}]}', '{"b":1,"c":true,"aa":[1,2.5,{"x":null}]}'),
        (r'{"a, : ": "x, y: \\", "b": "\" , 1e20"}', r'{"a, : ":"x, y: \\","b":"\" , 1e20"}'),
        ("[1e20, 12345678.9]", "[100000000000000000000,12345678.90000000037252902984619140625]"),
        ("-0.0001", "-0.000100000000000000004792173602385929598312941379845142364501953125"),
        ("[0.0, -0.0, 0.001, 9999999.5, 18446744073709551615]", "[0.0,-0.0,0.001,9999999.5,18446744073709551615]"),
        ("12345678901234567890123456789012345.50", "12345678901234567890123456789012345.50"),
        ("[]", "[]"),
    ],
)  # fmt: skip
def test_documents_of_mysql_become_those_of_events(text: str, in_events: str) -> None:
    """Recorded of MySQL 9.7 and Debezium 3.1."""
    assert as_in_events(text) == in_events


def test_kinds_import_no_driver() -> None:
    heavy = "psycopg2", "pymysql", "pyarrow"
    code = f"import sys, tidegate.databases.kinds; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    for kind in ("mariadb", "postgresql"):
        code = f"import sys, tidegate.databases.{kind}.control; print('pyarrow' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"
