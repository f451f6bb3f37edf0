"""A checksum that a real database computes is the one that a worker computes of the rows that it reads there."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.engine.mirror.checksums import located, row_numbers, sums
from spark_jobs.engine.mirror.numbers import numbers
from tests.contract.test_databases_values import (
    MARIADB,
    POSTGRESQL,
    described,
    mariadb_kinds,
    postgresql_kinds,
    server,
)
from tests.databases.servers import Server
from tidegate.core.copy.port import Checksum, Form, KeyRange, ReadAfter, SourceTable
from tidegate.databases import kinds
from tidegate.databases.types import Bytes

__all__ = ["mariadb_kinds", "postgresql_kinds", "server"]  # fixtures
ID = ("id", "bigint")
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


def of_the_database(
    server: Server, table: SourceTable, columns: Sequence[tuple[str, str]], keys: KeyRange, binary: Bytes
) -> tuple[tuple[Form | None, ...], Checksum]:
    database = kinds.opened(server.connection, 30.0)
    try:
        found = database.checksums(table, columns, binary == "base64")
        return found.forms, found.of(keys)
    finally:
        database.close()


def rows_of(
    server: Server, table: SourceTable, columns: Sequence[tuple[str, str]], keys: KeyRange, binary: Bytes
) -> pa.Table:
    reader = kinds.reader(kinds.for_workers(server.connection), binary)
    with reader.read(table, columns, keys, ReadAfter((1, 0))) as rows:
        return pa.Table.from_batches(list(rows.batches()))


def of_the_worker(rows: pa.Table, forms: Sequence[Form | None]) -> Checksum:
    named = rows.rename_columns([str(i) for i in range(rows.num_columns)])
    wanted = [(str(i), form) for i, form in enumerate(forms) if form is not None]
    found = sums(located([numbers(rows.column(0))], [KeyRange()]), row_numbers(named, wanted), 1)
    return Checksum(found.rows[0], found.totals[0])


@pytest.mark.parametrize("binary", ["bytes", "base64"])
def test_each_type_of_column(server: Server, binary: Bytes) -> None:
    """Row by row: the plain ones, nulls, the greatest, the smallest, odd ones."""
    table, without, wrong = described(server), set(), []
    for column in columns_of(server.kind):
        for key in range(101, 106):
            keys = KeyRange((key - 1,), (key,))
            forms, found = of_the_database(server, table, [ID, column], keys, binary)
            if forms[1] is None:
                without.add(column)
                continue
            try:
                rows = rows_of(server, table, [ID, column], keys, binary)
            except Exception:  # a value that does not become that type is refused by who reads it
                continue
            if found != of_the_worker(rows, forms):
                wrong.append((column, rows[1][0]))
    assert not wrong
    assert without == NO_TEXT[server.kind]
