"""A checksum that a real database computes is the one that a worker computes of the rows that it reads there."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.engine.mirror.checksums import OUTSIDE, grouped, located, row_numbers, sums_of
from spark_jobs.engine.mirror.numbers import numbers
from spark_jobs.engine.types import schema_of
from tests.contract.test_databases_values import (
    MARIADB,
    POSTGRESQL,
    described,
    mariadb_kinds,
    mysql_kinds,
    postgresql_kinds,
    server,
)
from tests.databases.servers import Server
from tidegate.core.copy.port import Checksum, Form, KeyGroups, KeyRange, ReadAfter, SourceTable
from tidegate.core.files.failure import JobError
from tidegate.databases import kinds
from tidegate.databases.types import Bytes

__all__ = ["mariadb_kinds", "mysql_kinds", "postgresql_kinds", "server"]  # fixtures
ID = ("id", "bigint")
ALL = KeyRange((100,), (105,))
WANTED = {"mariadb": MARIADB, "postgresql": POSTGRESQL}
MORE = {"mariadb": (("bn", "binary"), ("vb", "binary"), ("bl", "binary"), ("da", "date"), ("id", "decimal(20,0)")),
        "postgresql": (("by", "binary"), ("da", "date"))}  # fmt: skip
NO_TEXT = {"mariadb": {("b", "double"), ("d", "double"), ("f", "float"), ("fs", "float"), ("fs", "double"),
                       ("r", "double"), ("rs", "double")},
           "postgresql": {("b", "double"), ("n", "double")}}  # fmt: skip
"""Columns whose text is not made alike."""


def columns_of(kind: str) -> list[tuple[str, str]]:
    words = [each.split() for line in WANTED[kind].strip().splitlines() for each in line.split("|")]
    return [(name, wanted) for name, wanted, *_ in words] + [*MORE[kind]]


def rows_of(
    server: Server, table: SourceTable, columns: Sequence[tuple[str, str]], keys: KeyRange, binary: Bytes
) -> pa.Table:
    reader = kinds.reader(kinds.for_workers(server.connection), binary)
    with reader.read(table, columns, keys, ReadAfter((1, 0))) as rows:
        batches = list(rows.batches())
    return pa.Table.from_batches(batches) if batches else schema_of(tuple(columns)).empty_table()


def of_the_worker(rows: pa.Table, forms: Sequence[Form | None]) -> Checksum:
    found = sums_of(located([numbers(rows.column(0))], [KeyRange()]), row_numbers(*texts_of(rows, forms)), 1)
    return Checksum(found.rows[0], found.totals[0])


def test_each_type_of_column(server: Server) -> None:
    """The plain values, nulls, the greatest, the smallest, odd ones."""
    table, without = described(server), set()
    database = kinds.opened(server.connection, 30.0)
    for column in columns_of(server.kind):
        spellings: tuple[Bytes, ...] = ("bytes", "base64") if column[1] in ("binary", "string") else ("bytes",)
        for binary in spellings:
            found = database.checksums(table, [ID, column], binary == "base64")
            if found.forms[1] is None:
                without.add(column)
                continue
            for keys in ranges_that_are_read(server, table, column, binary):
                rows = rows_of(server, table, [ID, column], keys, binary)
                assert found.of(keys) == of_the_worker(rows, found.forms), (column, rows[1])
    database.close()
    assert without == NO_TEXT[server.kind] | ({("j", "string")} if server.product == "mysql" else set())


def ranges_that_are_read(server: Server, table: SourceTable, column: tuple[str, str], binary: Bytes) -> list[KeyRange]:
    """All rows, or each that is not refused: who reads it says why."""
    try:
        rows_of(server, table, [ID, column], ALL, binary)
        return [ALL]
    except JobError:
        some = [KeyRange((key - 1,), (key,)) for key in range(101, 106)]
        return [keys for keys in some if not is_refused(server, table, column, keys, binary)]


def is_refused(server: Server, table: SourceTable, column: tuple[str, str], keys: KeyRange, binary: Bytes) -> bool:
    try:
        rows_of(server, table, [ID, column], keys, binary)
    except JobError:
        return True
    return False


# ---------------------------------------------------------------- random rows, and single changes of them

TEXTS = ("", " ", "a ", " a", "é", "e\u0301", "😀", ",", "1:", '"', "\\", "\n", "NULL", "\x01")
MOMENTS = ("0101-01-01 00:00:00", "1582-10-10 23:59:59.999999", "1969-12-31 23:59:59.5", "2026-06-30 02:30:00.000001",
           "9999-12-31 23:59:59.999")  # fmt: skip
INSTANTS = ("1970-01-01 00:00:01", "2026-03-29 01:30:00.5", "2026-10-25 01:30:00.000001", "2038-01-19 03:14:07")
RANDOM = {
    "mariadb": [
        ("i", "INT", "int", (0, -1, 2147483647, None)), ("bu", "BIGINT UNSIGNED", "decimal(20,0)", (0, 2**64 - 1, 10)),
        ("z", "INT(8) ZEROFILL", "bigint", (0, 7, 100)), ("bo", "TINYINT(1)", "boolean", (0, 1, None)),
        ("d", "DECIMAL(12,2)", "decimal(14,4)", ("0", "-0.01", "100", "1.5", None)),
        ("d0", "DECIMAL(12,0)", "bigint", ("0", "-100", None)),
        ("dz", "DECIMAL(8,2) ZEROFILL", "decimal(8,2)", ("7.5",)),
        ("big", "DECIMAL(38,20)", "decimal(38,20)", ("1e-20", "123456789012345678.1", "0")),
        ("ds", "DECIMAL(12,2)", "string", ("1.50", "0", None)), ("vc", "VARCHAR(40)", "string", (*TEXTS, None)),
        ("c", "CHAR(8)", "string", TEXTS), ("l1", "VARCHAR(40) CHARACTER SET latin1", "string", ("é", "\x81", None)),
        ("t", "TEXT", "string", (*TEXTS, "x" * 3000)), ("j", "JSON", "string", ('{"a": 1}', "[]", None)),
        ("bl", "BLOB", "binary", (b"", b"\x00", b"\xff" * 100, None)), ("bs", "BLOB", "string", (b"", b"a" * 58, None)),
        ("da", "DATE", "date", ("1582-10-10", "0100-01-01", "9999-12-31", None)),
        ("dn", "DATE", "int", ("1582-10-10", "1970-01-01", None)), ("dt", "DATETIME", "timestamp", (*MOMENTS, None)),
        ("dt3", "DATETIME(3)", "bigint", (*MOMENTS, None)), ("dt6", "DATETIME(6)", "bigint", (*MOMENTS, None)),
        ("e", "ENUM('a','B;c')", "string", ("a", "B;c", None)), ("s", "SET('a','b')", "string", ("", "a,b", None)),
        ("y", "YEAR", "int", (1901, 2155, None)), ("b1", "BIT(1)", "boolean", (0, 1, None)),
        ("mu", "MEDIUMINT UNSIGNED", "string", (0, 16777215, None)),
        ("u", "VARCHAR(40) CHARACTER SET utf16", "string", (*TEXTS, None)),
        ("nb", "VARCHAR(40) COLLATE utf8mb4_bin", "string", (*TEXTS, None)),
        ("zd", "DATE NOT NULL", "date", ("0000-00-00", "2026-01-02")),
        ("z6", "DATETIME(6) NOT NULL", "timestamp", ("0000-00-00", "1969-12-31 23:59:59.5")),
        ("z3", "TIMESTAMP(3) NULL", "timestamp", ("0000-00-00", "2026-01-02 03:04:05.5", None)),
        ("zn", "DATETIME(3)", "bigint", ("0000-00-00", "2026-01-02 03:04:05.5", None)),
        ("ts6", "TIMESTAMP(6) NULL", "timestamp", (*INSTANTS, None)), ("ts", "TIMESTAMP NULL", "string", (*INSTANTS,)),
    ],
    "postgresql": [
        ("i", "int", "int", (0, -1, 2147483647, None)), ("bo", "boolean", "boolean", (False, True, None)),
        ("b1", "bit(1)", "boolean", ("0", "1", None)),
        ("d", "numeric(12,2)", "decimal(14,4)", ("0", "-0.01", "100", None)),
        ("nn", "numeric", "decimal(38,20)", ("0.000", "100", "1.50", "1e-20", None)),
        ("d0", "numeric(12,0)", "bigint", ("0", "-100", None)), ("ds", "numeric", "string", ("1.50", "0.0", None)),
        ("f", "real", "float", (0.0, -0.0, 1.5, 3.4028235e38, 0.1, None)),
        ("r", "double precision", "double", (0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, None)),
        ("vc", "varchar(40)", "string", (*TEXTS, None)), ("c", "char(8)", "string", (*TEXTS, None)),
        ("t", "text", "string", (*TEXTS, "x" * 3000, None)), ("j", "json", "string", ('{"a":  1}', "[]", None)),
        ("jb", "jsonb", "string", ('{"b":1,"a":  2}', None)),
        ("by", "bytea", "binary", (b"", b"\x00", b"\xff" * 99, None)),
        ("bs", "bytea", "string", (b"", b"a" * 58, None)), ("da", "date", "date", ("1582-10-10", "0001-01-01", None)),
        ("dn", "date", "int", ("1582-10-10", "9999-12-31", None)), ("ts", "timestamp", "timestamp", (*MOMENTS, None)),
        ("ts3", "timestamp(3)", "bigint", (*MOMENTS, None)), ("ts6", "timestamp", "bigint", (*MOMENTS, None)),
        ("tz", "timestamptz", "timestamp", (*MOMENTS, None)), ("tzs", "timestamptz(3)", "string", (*INSTANTS, None)),
        ("u", "uuid", "string", ("00000000-0000-0000-0000-0000000000ff", None)),
    ],
}  # fmt: skip


def test_random_rows_and_each_change_of_one(server: Server, rng: random.Random) -> None:
    """By ranges; and whatever a column's value becomes, both say another number, and the same."""
    kinds_of = [each for each in RANDOM[server.kind] if each[0] != "j" or server.product != "mysql"]
    columns = ", ".join(f"{name} {kind}" for name, kind, _, _ in kinds_of)
    server.run(f"CREATE TABLE shop.t (id BIGINT PRIMARY KEY, {columns})")
    session, marks = server.session(), ", ".join(["%s"] * (1 + len(kinds_of)))
    keys = sorted(rng.sample(range(-1000, 1000), 200))
    with session.cursor() as cursor:
        for key in keys:
            values = [key, *(rng.choice(some) for *_, some in kinds_of)]
            cursor.execute(f"INSERT INTO shop.t VALUES ({marks})", values)
    table, wanted = described(server, "shop.t"), [ID, *((name, hive) for name, _, hive, _ in kinds_of)]
    ends = sorted(rng.sample(range(-1100, 1100), 4))
    database = kinds.opened(server.connection, 30.0)
    found = database.checksums(table, wanted, base64=False)
    assert None not in found.forms
    for low, high in zip([None, *ends], [*ends, None], strict=True):
        some = KeyRange(None if low is None else (low,), None if high is None else (high,))
        assert found.of(some) == of_the_worker(rows_of(server, table, wanted, some, "bytes"), found.forms)
    of_each_value(session, kinds_of, keys[0])
    rows = rows_of(server, table, wanted, KeyRange((FIRST,), None), "bytes")
    content, seen = database.checksums(table, wanted[1:], base64=False), {}
    for n, key in enumerate(rows.column(0).to_pylist()):
        mine, row = content.of(KeyRange((key - 1,), (key,))), rows.slice(n, 1)
        assert mine == of_the_worker(row, [None, *content.forms]), row.to_pylist()
        seen[repr([row[name][0].as_py() for name, *_ in kinds_of])] = mine
    assert len(set(seen.values())) == len(seen) > len(rows) / 2
    database.close()


FIRST = 10_000


# ---------------------------------------------------------------- groups of keys

SPELLED = (*TEXTS[1:13], "a", "A", "E", "e", "STRASSE", "straße", "日本", *(f"Key {n}" for n in range(40)))
BYTES = tuple(text.encode() for text in SPELLED)
MORE_KEYS = {
    "mariadb": [
        (("VARCHAR(40)", "string", SPELLED),), (("VARCHAR(40) COLLATE utf8mb4_bin", "string", SPELLED),),
        (("VARCHAR(40) CHARACTER SET latin1", "string", ("é", "e", "ÿ ", "b", "B ")),),
        (("CHAR(8)", "string", SPELLED), ("DATETIME(3)", "timestamp", MOMENTS)),
        (("VARBINARY(40)", "string", BYTES), ("DECIMAL(12,2)", "decimal(12,2)", (1, "-0.5"))),
    ],
    "postgresql": [
        (("varchar(40)", "string", SPELLED),), (("int", "int", (1, -5)), ("text COLLATE \"C\"", "string", SPELLED)),
        (("char(8)", "string", SPELLED), ("timestamptz(3)", "timestamp", INSTANTS)),
        (("bytea", "string", BYTES), ("numeric(12,2)", "decimal(12,2)", (1, "-0.5"))),
    ],
}  # fmt: skip
GROUPED = {
    "mariadb": "INSERT IGNORE INTO shop.t VALUES ({}) ",
    "postgresql": "INSERT INTO shop.t VALUES ({}) ON CONFLICT DO NOTHING",
}


def test_keys_are_in_the_groups_that_the_worker_makes(server: Server, rng: random.Random) -> None:
    """Whatever their collation: sums of each group, and the rows that are read of some, also of a range."""
    for key in MORE_KEYS[server.kind]:
        table, wanted = made_with_key(server, key, rng)
        database = kinds.opened(server.connection, 30.0)
        found, count = database.checksums(table, wanted, base64=True), len(key)
        types = tuple(hive for _, hive, _ in key)
        groups = KeyGroups(3, tuple(range(8)), types)
        rows = rows_of(server, table, wanted, KeyRange(), "base64")
        assert None not in found.forms
        (middle,) = database.bounds(table, None, len(rows) // 2, 1)
        some = KeyGroups(3, tuple(sorted(rng.sample(range(8), 3))), types)
        for keys in (KeyRange(), KeyRange(None, middle), KeyRange(middle, None)):
            there = rows_of(server, table, wanted, keys, "base64")
            assert len(there) == len(rows) or keys != KeyRange()
            at, numbers_of = (
                grouped(of_key(there, found.forms, count), groups),
                row_numbers(*texts_of(there, found.forms)),
            )
            sums = sums_of(at, numbers_of, 8)
            assert found.of_groups(keys, groups) == [Checksum(*one) for one in zip(sums.rows, sums.totals, strict=True)]
            mine = there.filter(pa.array(grouped(of_key(there, found.forms, count), some) != OUTSIDE))
            read = rows_of(server, table, wanted, KeyRange(keys.lower, keys.upper, some), "base64")
            assert sorted(map(repr, read.to_pylist())) == sorted(map(repr, mine.to_pylist())), (key, keys)
        database.close()


def made_with_key(server: Server, key: Any, rng: random.Random) -> tuple[SourceTable, list[tuple[str, str]]]:
    """A table with a key of these columns, of as many rows as differ to the database."""
    names = [f"k{n}" for n in range(len(key))]
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, (kind, *_) in zip(names, key, strict=True))
    server.run(
        "DROP TABLE IF EXISTS shop.t", f"CREATE TABLE shop.t ({columns}, w INT, PRIMARY KEY ({', '.join(names)}))"
    )
    marks = ", ".join(["%s"] * (len(names) + 1))
    session = server.session()
    with session.cursor() as cursor:
        for _ in range(100):
            values = [rng.choice(some) for *_, some in key]
            cursor.execute(GROUPED[server.kind].format(marks), [*values, rng.randrange(9)])
    session.close()
    hive = [(name, kind) for name, (_, kind, _) in zip(names, key, strict=True)]
    return described(server, "shop.t"), [*hive, ("w", "int")]


def texts_of(rows: pa.Table, forms: Sequence[Form | None]) -> tuple[pa.Table, list[tuple[str, Form]]]:
    named = rows.rename_columns([str(i) for i in range(rows.num_columns)])
    return named, [(str(i), form) for i, form in enumerate(forms) if form is not None]


def of_key(rows: pa.Table, forms: Sequence[Form | None], columns: int) -> Any:
    return row_numbers(*texts_of(rows, forms[:columns]))


def of_each_value(session: Any, kinds_of: list[Any], key: int) -> None:
    """Rows behind FIRST, each of which has another value of one column than the row of the key."""
    names, number = [name for name, *_ in kinds_of], FIRST
    for name, _, _, some in kinds_of:
        others = ", ".join(one for one in names if one != name)
        for value in some:
            number += 1
            with session.cursor() as cursor:
                cursor.execute(
                    f"INSERT INTO shop.t (id, {name}, {others}) SELECT %s, %s, {others} FROM shop.t WHERE id = %s",
                    (number, value, key),
                )
