"""Several tables of one server in memory, with one log: shards of a mirror (S11), as `FakeSource` has one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.fakes.source_table import FakeSource, position
from tests.mirror.worlds import event
from tidegate.core.base.errors import SourceError
from tidegate.core.copy.port import Bound, KeyRange, LogPosition, ReadAfter, SourceTable


class FakeShards:
    """Both sides of `core.copy.port`. `shards`: by `schema.name`; `kind`: of each table."""

    def __init__(self, *names: str, kind: type[FakeSource] = FakeSource) -> None:
        self.kind = kind
        self.end = 100
        self.log: list[tuple[bytes, bytes]] = []
        self.shards: dict[str, FakeSource] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> FakeSource:
        """A further table."""
        made = self.kind()
        schema, _, table = name.partition(".")
        made.table = replace(made.table, schema=schema, name=table)
        self.shards[name] = made
        return made

    @property
    def rows(self) -> dict[tuple[str, int], str]:
        """By table (without its schema) and key."""
        return {
            (name.partition(".")[2], key): word for name, one in self.shards.items() for key, word in one.rows.items()
        }

    def set(self, name: str, key: int, word: str | None) -> None:
        """A transaction on one table."""
        self.end += 10
        rows = self.shards[name].rows
        if word is None:
            rows.pop(key, None)
        else:
            rows[key] = word
        schema, _, table = name.partition(".")
        self.log.append(event(key, word, self.end, of=(schema, table)))

    # ------------------------------------------------------------ core.copy.port.Database

    def tables(self) -> Sequence[str]:
        return [*self.shards, "other.things"]

    def describe(self, table: str) -> SourceTable:
        if table not in self.shards:
            raise SourceError(f"there is no table {table}", retry=False)
        return self.shards[table].table

    def event_names(self, table: SourceTable) -> Mapping[str, str]:
        return {"db": table.schema, "table": table.name}

    def rows_about(self, table: SourceTable) -> int:
        return len(self._of(table).rows)

    def bounds(self, table: SourceTable, after: Bound | None, rows: int, most: int) -> Sequence[Bound]:
        return self._of(table).bounds(table, after, rows, most)

    def checksums(
        self, table: SourceTable, columns: Sequence[tuple[str, str]], base64: bool, rate: int | None = None
    ) -> Any:
        return self._of(table).checksums(table, columns, base64, rate)

    def position(self) -> LogPosition:
        return position(self.end)

    def log_begin(self) -> LogPosition:
        return position(0)

    def in_progress(self) -> tuple[int, ...]:
        return ()

    def close(self) -> None:
        pass

    # ------------------------------------------------------------ core.copy.port.ChunkReader

    @contextmanager
    def read(
        self, table: SourceTable, columns: Sequence[tuple[str, str]], keys: KeyRange, after: ReadAfter
    ) -> Iterator[Any]:
        shard = self._of(table)
        shard.end = self.end
        with shard.read(table, columns, keys, after) as rows:
            yield rows

    def _of(self, table: SourceTable) -> FakeSource:
        return self.shards[f"{table.schema}.{table.name}"]
