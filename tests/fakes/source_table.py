"""A source's table in memory, with a log: both sides of `core.copy.port`, as MariaDB answers them.

`tests/contract/test_databases.py` asks real databases the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_jobs.engine.types import schema_of
from tests.mirror.worlds import event
from tidegate.core.base.errors import NoPlace
from tidegate.core.copy.port import (
    Bound,
    Checksum,
    Form,
    KeyGroups,
    KeyRange,
    LogPosition,
    Place,
    ReadAfter,
    SourceColumn,
    SourceTable,
)

TABLE = SourceTable(
    schema="shop",
    name="readings",
    key=("id",),
    columns=(SourceColumn("id", "bigint", nullable=False), SourceColumn("word", "varchar(40)")),
)


class FakeSource:
    """`rows` by key; `log`: its events in the order of their commits. `during`: called between the batches of a read,
    for what others do meanwhile; `begin`, `end`: of the log; `idle_low`: a read tells
    this position as its LOW; `added`: columns that came later, with the value that each row has."""

    def __init__(self) -> None:
        self.rows: dict[int, str] = {}
        self.end, self.begin = 100, 0
        self.log: list[tuple[bytes, bytes]] = []
        self.during: Callable[[], None] = lambda: None
        self.reads: list[KeyRange] = []
        self.summed: list[KeyRange] = []
        self.batch_rows = 2
        self.table = TABLE
        self.added: dict[str, str] = {}

    # ------------------------------------------------------------ its users

    def set(self, key: int, word: str | None) -> None:
        """A transaction: the row is that from now on, None: it is deleted."""
        self.end += 10
        if word is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = word
        self.log.append(event(key, word, self.end, more=self.added))

    def alter(self, column: str, default: str) -> None:
        """ALTER TABLE ... ADD COLUMN ... DEFAULT: each row has the value, and no event says so."""
        self.added[column] = default
        self.table = replace(self.table, columns=(*self.table.columns, SourceColumn(column, "varchar(40)")))

    def lose(self, key: int) -> None:
        """The row is gone without an event."""
        del self.rows[key]

    def sneak(self, key: int, word: str) -> None:
        """The row comes, or changes, without an event."""
        self.rows[key] = word

    # ------------------------------------------------------------ core.copy.port.Database

    def describe(self, table: str) -> SourceTable:
        return self.table

    def tables(self) -> Sequence[str]:
        return [f"{self.table.schema}.{self.table.name}"]

    def event_names(self, table: SourceTable) -> Mapping[str, str]:
        return {"db": table.schema, "table": table.name}

    def rows_about(self, table: SourceTable) -> int:
        return len(self.rows)

    def bounds(self, table: SourceTable, after: Bound | None, rows: int, most: int) -> Sequence[Bound]:
        keys = self._keys(KeyRange(after, None))
        return [(key,) for key in keys[rows - 1 :: rows][:most]]

    def position(self) -> LogPosition:
        return position(self.end)

    def log_begin(self) -> LogPosition:
        return position(self.begin)

    def in_progress(self) -> tuple[int, ...]:
        return ()

    def checksums(
        self, table: SourceTable, columns: Sequence[tuple[str, str]], base64: bool, rate: int | None = None
    ) -> _Checksums:
        return _Checksums(self, columns)

    def now_ms(self) -> int:
        raise NotImplementedError("a copy asks for no time")

    def close(self) -> None:
        pass

    # ------------------------------------------------------------ core.copy.port.ChunkReader

    @contextmanager
    def read(
        self, table: SourceTable, columns: Sequence[tuple[str, str]], keys: KeyRange, after: ReadAfter
    ) -> Iterator[_Rows]:
        self.reads.append(keys)
        yield _Rows(self, columns, [(key, self.rows[key]) for key in self._keys(keys)])

    def _keys(self, keys: KeyRange) -> list[int]:
        found = sorted(self.rows, key=self.order)
        if keys.lower is not None:
            found = [k for k in found if self.order(k) > self.order(keys.lower[0])]
        if keys.upper is not None:
            found = [k for k in found if self.order(k) <= self.order(keys.upper[0])]
        groups = keys.groups
        return found if groups is None else [k for k in found if group_of(k, groups.bits) in groups.numbers]

    def order(self, key: Any) -> Any:
        """By which keys are compared."""
        return key


def position(end: int) -> LogPosition:
    """As the log's events have it."""
    return (1 << 40) + end, 0


def place(source: Any, delivered: int | None) -> Place:
    """What a connector says that has delivered all below this place in the source's log; None: it has none."""
    if delivered is None:
        raise NoPlace("the connector has noted no place yet")
    return Place(position(delivered), source.position(), source.log_begin())


class _Checksums:
    """By the page of documentation alone: `during` is called after each."""

    def __init__(self, source: FakeSource, columns: Sequence[tuple[str, str]]) -> None:
        self._source, self._names = source, [name for name, _ in columns]
        self.forms = tuple(_FORMS.get(wanted) for _, wanted in columns)

    def of(self, keys: KeyRange) -> Checksum:
        self._source.summed.append(keys)
        found = self._sum(self._source._keys(keys))
        self._source.during()
        return found

    def of_groups(self, keys: KeyRange, groups: KeyGroups) -> Sequence[Checksum]:
        self._source.summed.append(keys)
        there = self._source._keys(keys)
        found = [self._sum([k for k in there if group_of(k, groups.bits) == number]) for number in groups.numbers]
        self._source.during()
        return found

    def _sum(self, keys: Sequence[int]) -> Checksum:
        rows = [{"id": key, "word": self._source.rows[key], **self._source.added} for key in keys]
        total = sum(_number([row[name] for name in self._names]) for row in rows)  # type: ignore[misc]
        return Checksum(len(rows), total % 2**64)


def group_of(key: int | str, bits: int) -> int:
    """The number of a key's group."""
    return _number([key]) >> (60 - bits)


def _number(values: Sequence[int | str | None]) -> int:
    return int(hashlib.sha256(",".join(map(_text, values)).encode()).hexdigest()[:15], 16)


def _text(value: int | str | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{len(value.encode())}:{value}"


_FORMS = {"bigint": Form("integer"), "string": Form("text")}


class _Rows:
    """A read's snapshot is taken when it is opened."""

    def __init__(self, source: FakeSource, columns: Sequence[tuple[str, str]], rows: list[tuple[int, str]]) -> None:
        self.low = position(source.end)
        self._source, self._rows = source, rows
        self._schema = schema_of(tuple(columns))
        self._high: LogPosition | None = None

    def batches(self) -> Iterator[Any]:
        for at in range(0, len(self._rows), self._source.batch_rows):
            some = self._rows[at : at + self._source.batch_rows]
            values: dict[str, list[Any]] = {"id": [key for key, _ in some], "word": [word for _, word in some]}
            values |= {name: [default] * len(some) for name, default in self._source.added.items()}
            yield pa.record_batch([pa.array(values[f.name], f.type) for f in self._schema], schema=self._schema)
            self._source.during()
        self._high = self._source.position()

    @property
    def high(self) -> LogPosition:
        assert self._high is not None, "asked before the rows were read"
        return self._high
