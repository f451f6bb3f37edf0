"""What a copy needs of a source database: its table, ranges of its key, and rows with the place in its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tidegate.core.base.plain import LEFT_OUT

Value = str | int
"""A key's value in a form that JSON keeps: an int of integers and booleans, else the database's own text of it, of
binary columns lower-case hex. Only the database compares them (collations)."""
Bound = tuple[Value, ...]
"""Values of the key's columns, in the key's order."""
LogPosition = tuple[int, int]
"""(commit, row) as positions of change events have them (`core.mirror.jobs.Position` without its `n`)."""
NOWHERE: LogPosition = (0, 0)
"""Below every place in a log."""


class Place(NamedTuple):
    """How far a connector is, and its source's log, asked in this order. `position`: the connector has delivered, and
    noted that it has, whatever committed below it. NOWHERE: it has no place. `log_end`: where the log ends;
    `log_begin`: the oldest of it that is there, NOWHERE where nothing goes before the connector has had it."""

    position: LogPosition
    log_end: LogPosition
    log_begin: LogPosition = NOWHERE


@dataclass(frozen=True)
class SourceColumn:
    """`type`: as the database calls it, in lower case: `decimal(12,2)`, `bigint unsigned`, `timestamp with time
    zone`."""

    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    """A table as its database describes it. `key`: columns of its primary key, in the key's order."""

    schema: str
    name: str
    key: tuple[str, ...]
    columns: tuple[SourceColumn, ...]


@dataclass(frozen=True)
class KeyGroups:
    """Keys by a digest, which asks for no order: those whose number, made of the key's columns as a row's of all
    (`Checksum`), has one of `numbers` in its first `bits` bits. `types`: Hive types that the key's columns become, in
    the key's order."""

    bits: int
    numbers: tuple[int, ...]
    types: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of all keys, about."""
        return len(self.numbers) / (1 << self.bits)


@dataclass(frozen=True)
class KeyRange:
    """Rows with `lower` < key <= `upper`, as the database orders keys. None: no end on that side. `groups`: of these
    rows those of these groups alone."""

    lower: Bound | None = None
    upper: Bound | None = None
    groups: KeyGroups | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True)
class TableRange:
    """A key range of the table `schema.name`."""

    table: str
    keys: KeyRange


@dataclass(frozen=True)
class Times:
    """Rows with `lower` <= column < `upper`: texts that the database compares with the column's values."""

    column: str
    lower: str
    upper: str


@dataclass(frozen=True)
class ReadAfter:
    """What is known before a chunk is read (S2). `position`: of the log; what the database itself says when it is read
    is used instead where that belongs to the read's own snapshot (MariaDB, MySQL); None: nothing has landed yet.
    `unseen`: transactions that were in progress when `position` was known; a read must see the end of each of them,
    since one of them may have been logged below `position` and not be visible yet (PostgreSQL)."""

    position: LogPosition | None
    unseen: tuple[int, ...] = field(default=())


@dataclass(frozen=True)
class Form:
    """The text of a column's values that a database and a worker make alike (docs/mirrors.md). `digits`: how many of a
    second's fraction the database writes; None: as many as are not zero."""

    name: str
    digits: int | None = None


@dataclass(frozen=True)
class Checksum:
    """Of a key range: how many rows it has, and the sum of their numbers, modulo 2^64. A row's number is the first 60
    bits of the SHA-256 of its columns' texts: a sum, since equal numbers would be gone from an exclusive or."""

    rows: int
    total: int


class Checksums(Protocol):
    """Checksums that the database computes itself, so that rows stay where they are. `forms`: of each wanted column;
    None: its database has no text of it that a worker makes too, so that nothing can be summed."""

    forms: tuple[Form | None, ...]

    def of(self, keys: KeyRange) -> Checksum:
        """Of one statement, so that all of its rows are seen at one moment; which one, nobody says. Raises as
        `Database` does."""
        ...

    def of_groups(self, keys: KeyRange, groups: KeyGroups) -> Sequence[Checksum]:
        """The same of each of these groups of the range, which are all of so many bits."""
        ...


class Database(Protocol):
    """The control plane's side: one connection, for questions that are answered at once.

    All methods raise SourceUnavailable for a server that does not answer, else SourceError that is not to be tried
    again."""

    def describe(self, table: str) -> SourceTable:
        """`table`: `schema.name`. Raises SourceError for one that is missing or has no primary key."""
        ...

    def tables(self) -> Sequence[str]:
        """`schema.name` of all tables with rows of their own that the connection may see, in any order."""
        ...

    def event_names(self, table: SourceTable) -> Mapping[str, str]:
        """What an event of the table says of where it is from: `source.<key>` -> value."""
        ...

    def rows_about(self, table: SourceTable) -> int:
        """The database's own estimate of the number of rows; 0: it has none."""
        ...

    def bounds(self, table: SourceTable, after: Bound | None, rows: int, most: int) -> Sequence[Bound]:
        """Upper bounds (inclusive) of the next at most `most` chunks of `rows` rows each, above `after`. Fewer of them:
        what is above the last one has fewer than `rows` rows. By keyset steps: each reads the key's index alone."""
        ...

    def position(self) -> LogPosition:
        """The end of the log now: nothing that commits later is below it."""
        ...

    def log_begin(self) -> LogPosition:
        """Where the oldest part of the log that is there begins; NOWHERE where a connector's slot keeps what it has not
        read."""
        ...

    def in_progress(self) -> tuple[int, ...]:
        """Transactions that write, or have written, and have not ended as others see it; empty where a read's snapshot
        has a position of its own. Ask it after `ReadAfter.position` is known, never before: it then has every
        transaction that was logged below and is not visible yet."""
        ...

    def checksums(
        self, table: SourceTable, columns: Sequence[tuple[str, str]], base64: bool, rate: int | None = None
    ) -> Checksums:
        """`columns`: (name in the source, Hive type wanted). `base64`: a `binary` column holds the text of its bytes'
        Base64. `rate`: no more than so many rows a second are summed."""
        ...

    def now_ms(self) -> int:
        """The server's clock, UTC ms."""
        ...

    def close(self) -> None: ...


class Rows(Protocol):
    """A chunk while it is read. `low`: once it is open; `high`: once `batches` has ended (S2).

    The query saw every commit up to `low`, and none behind `high`."""

    low: LogPosition

    def batches(self) -> Iterator[Any]:
        """Record batches (pyarrow) with the wanted columns, in the wanted types and order."""
        ...

    @property
    def high(self) -> LogPosition: ...


class ChunkReader(Protocol):
    """The worker's side."""

    def read(
        self,
        table: SourceTable,
        columns: Sequence[tuple[str, str]],
        keys: KeyRange,
        after: ReadAfter | None,
        times: Times | None = None,
    ) -> AbstractContextManager[Rows]:
        """`columns`: (name in the source, Hive type wanted). `after` None: the rows need no place in the log, so that
        `low` and `high` say nothing. Raises JobError: to be tried again where the server does
        not answer or transactions of `after.unseen` stay open, refused where a type does not become the wanted one, or
        where a value does not fit."""
        ...
