"""What PostgreSQL and MariaDB do each in its own way: statements, writing and reading of rows, what errors mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any, Protocol

from tidegate.core.copy.port import SourceTable
from tidegate.databases.driver import Driver
from tidegate.targets.relational.columns import Column


class Blame(Enum):
    """Whom an error is about: a VALUE that the database cannot hold; the USER, who is refused, or a server that only
    reads, whatever the rows are; the TABLE, which somebody has dropped; a LOCK of another session; a disk that has no
    SPACE; ANOTHER thing."""

    VALUE = auto()
    USER = auto()
    TABLE = auto()
    LOCK = auto()
    SPACE = auto()
    ANOTHER = auto()


class Dialect(Protocol):
    """One kind of database. Every method but `connect` works on an open connection and raises the driver's errors."""

    kind: str
    driver: Driver
    count: str
    """Type of the token table's numbers, and a text of bounded length."""
    short: str
    when: str
    sessions: str
    """Where one finds who holds a lock."""

    def connect(self, settings: Mapping[str, str], timeout_s: float) -> Any:
        """With autocommit. The server ends the session's transaction if it hears nothing for some minutes."""
        ...

    def named(self, settings: Mapping[str, str], table: str) -> SourceTable:
        """The table's schema and name; without columns."""
        ...

    def quoted(self, name: str) -> str: ...

    def columns(self, cursor: Any, table: SourceTable) -> dict[str, str]:
        """Type of each column, by its name, as `columns.column` spells it; empty where there is no table."""
        ...

    def forgets(self, cursor: Any, table: SourceTable) -> tuple[str, str] | None:
        """Why the table's rows do not come and go with their token, and what to do about it; None: they do."""
        ...

    def widen(self, table: str, column: Column) -> str:
        """The statement that gives a column a wider type."""
        ...

    def write(self, found: Any, table: str, rows: Any, columns: Sequence[Column]) -> None:
        """Insert a record batch, in the form that was sent."""
        ...

    def read(self, found: Any, table: str, columns: Sequence[Column], where: str) -> Iterator[Any]:
        """Record batches of the rows there. `where`: a condition without parameters."""
        ...

    def blamed(self, error: Exception) -> Blame: ...

    def instant(self, ms: int) -> str:
        """A literal of a window's start."""
        ...


def utc(ms: int) -> str:
    """An instant as both databases write it."""
    return datetime.fromtimestamp(ms // 1000, UTC).replace(tzinfo=None).isoformat(" ") + f".{ms % 1000:03d}"
