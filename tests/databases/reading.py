"""A chunk read whole, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.databases.servers import Server
from tidegate.core.copy.port import Database, KeyRange, LogPosition, ReadAfter, SourceTable
from tidegate.core.files.failure import JobError
from tidegate.databases import kinds


def read(
    server: Server,
    table: SourceTable,
    columns: Sequence[tuple[str, str]],
    keys: KeyRange = KeyRange(),
    after: ReadAfter | None = None,
    **changes: Any,
) -> tuple[list[dict[str, Any]], LogPosition, LogPosition]:
    """All rows of a range, LOW and HIGH."""
    reader = kinds.reader(kinds.for_workers(server.connection), **changes)
    with reader.read(table, columns, keys, after or ReadAfter((1, 0))) as rows:
        found = [row for batch in rows.batches() for row in batch.to_pylist()]
        return found, rows.low, rows.high


def refused(run: Callable[[], Any], retry: bool = False) -> str:
    """What it says, and its advice."""
    with pytest.raises(JobError) as caught:
        run()
    assert caught.value.failure.retry is retry
    return f"{caught.value.failure.what} | {caught.value.failure.advice}"


def known(server: Server, database: Database) -> ReadAfter:
    """As the caller knows it before a chunk."""
    return ReadAfter(database.position(), database.in_progress())


def series(server: Server, first: int, last: int) -> str:
    """A FROM clause of the numbers n."""
    if server.mysql is not None:
        rows = f"SELECT {first} AS n UNION ALL SELECT n + 1 FROM r WHERE n < {last}"
        return f"(WITH RECURSIVE r AS ({rows}) SELECT /*+ SET_VAR(cte_max_recursion_depth = 10000000) */ n FROM r) s"
    if server.kind == "mariadb":
        return f"(SELECT seq AS n FROM seq_{first}_to_{last}) s"
    if server.kind == "jdbc":
        return f'(SELECT "X" AS n FROM system_range({first}, {last})) s'
    return f"generate_series({first}, {last}) n"


def numbers(server: Server, count: int) -> None:
    """A table with the keys 10, 20, ..."""
    server.run(
        "CREATE TABLE shop.t (id BIGINT PRIMARY KEY, word VARCHAR(20))",
        f"INSERT INTO shop.t SELECT n * 10, CONCAT('w', n) FROM {series(server, 1, count)}",
    )
