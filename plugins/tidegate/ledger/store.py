"""One transaction at a time on the ledger's database, with its failures in the framework's words."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    and_,
    bindparam,
    create_engine,
    event,
    insert,
    inspect,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import (
    IntegrityError,
    InterfaceError,
    InvalidRequestError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError,
)
from sqlalchemy.sql import ClauseElement, ColumnElement, Insert, Select

from tidegate.core.base.choice import Choice
from tidegate.core.base.errors import LedgerError, LostComparison, WrongRevision
from tidegate.core.base.fields import columns as columns
from tidegate.core.base.fields import read_as as read_as
from tidegate.core.base.plain import dumps
from tidegate.core.base.wording import first_line
from tidegate.ledger import schema
from tidegate.ledger.texts import storable

T = TypeVar("T")
V = TypeVar("V", int, str)

HEAD = "0023"
"""The schema revision that this code reads and writes."""
FIRST = "0006"
"""The schema revision of 0.1.0, the oldest one that can be upgraded."""

IDLE_MS = 60_000
"""PostgreSQL ends a transaction whose client says nothing for so long: a frozen or lost host would keep its locks."""
_KEPT = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
"""A server that is tuned so would lose the commits of its last moments when it dies."""

LIMITS = {
    "connect_timeout": 15,  # s
    "keepalives_idle": 30,  # s; with the next two a host that is gone is noticed after a minute
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # ms; the same while a request is under way
}
"""libpq's own: without them a connection to a lost host waits for ever. The connection's extra may say otherwise."""


_NOW = {
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
}
"""UTC ms by the database's clock, at the moment of the statement."""


def wrong_revision(found: str | None) -> WrongRevision:
    """`found`: the database's; None for a database that has none yet."""
    if found is not None and found < FIRST:
        return WrongRevision(
            f"the ledger's schema is at revision {found}, of a version before 0.1.0: it cannot be upgraded",
            advice="0.1.0 was the first release: name an empty database as the ledger, run `tidegate db migrate`, and "
            "give each pipeline a new sink.table and sink.location",
        )
    newer = (
        "a newer release has migrated it: use that one. To go back to this one restore the ledger's backup of before "
        "the migration"
    )
    return WrongRevision(
        f"the ledger's schema is at revision {found or 'none'}, this version needs {HEAD}",
        advice=newer if found is not None and found > HEAD else "",
    )


def make_engine(url: str) -> Engine:
    """An engine for `postgresql+psycopg2://...` or `sqlite:///...`; a connection is checked before it is used."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        limits = {key: value for key, value in LIMITS.items() if key not in parsed.query}
        found = create_engine(
            url, connect_args=limits, pool_size=2, max_overflow=4, pool_pre_ping=True, pool_recycle=600
        )
        event.listen(found, "connect", _keeps_commits)
        return found
    engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})

    def _own_transactions(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # pysqlite would begin late, after the reads that a comparison rests on

    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", _own_transactions)
    event.listen(engine, "begin", _begin)
    return engine


def _keeps_commits(connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_KEPT)
    connection.commit()


class Store:
    """What the parts of the ledger share: the engine, the clock of its rows, and who is acting.

    `now_ms` stands in for the database's clock and the host's; without it each is what it is."""

    def __init__(self, engine: Engine, now_ms: Callable[[], int] | None, actor: Callable[[], str]) -> None:
        self.engine, self._now_ms, self._actor = engine, now_ms, actor
        self._checked = False

    @property
    def instant(self) -> ColumnElement:
        """Now (UTC ms) by the database's clock, to be written or compared: one clock for all hosts."""
        if self._now_ms is not None:
            return literal(self._now_ms(), BigInteger)
        return literal_column(_NOW[self.engine.dialect.name], BigInteger)

    def read_now(self, connection: Connection) -> int:
        """The same, read."""
        return int(connection.scalar(select(self.instant)))

    def now_ms(self) -> int:
        """The time by this host's clock: for what rests on no comparison with other hosts."""
        return self._now_ms() if self._now_ms is not None else time.time_ns() // 1_000_000

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction. Raises LostComparison where a unique row was taken by somebody else, LedgerError otherwise."""
        try:
            if not self._checked:
                self.check_revision()
            with self.engine.begin() as connection:
                if self.engine.dialect.name == "postgresql":
                    connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_MS}")
                yield connection
        except SQLAlchemyError as e:
            raise in_our_words(e) from e

    def check_revision(self) -> None:
        """Raises WrongRevision unless the database is at this code's schema revision."""
        with self.engine.connect() as connection:
            found = None
            if inspect(connection).has_table("alembic_version"):
                found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        if found != HEAD:
            raise wrong_revision(found)
        self._checked = True

    def compare_and_set(self, connection: Connection, statement: ClauseElement, what: str) -> None:
        """Execute an UPDATE that must hit exactly one row. Raises LostComparison otherwise."""
        if connection.execute(statement).rowcount != 1:
            raise LostComparison(f"{what}: somebody else has moved on")

    def raise_version(self, connection: Connection, pipeline: str, expected: int | None = None) -> None:
        """Raise the pipeline's version, which every plan compares (R5)."""
        p = schema.pipelines
        statement = update(p).where(p.c.name == pipeline).values(version=p.c.version + 1)
        if expected is not None:
            statement = statement.where(p.c.version == expected)
        self.compare_and_set(connection, statement, f"pipeline {pipeline}")

    @property
    def actor(self) -> str:
        """The name of who is acting, as the event log has it."""
        return storable(self._actor())[:500]

    def note(self, connection: Connection, pipeline: str, what: str, subject: str, detail: Any = None) -> None:
        """Append to the event log, in the transaction of the change itself."""
        told = dumps(detail if detail is not None else {})
        said: dict[str, object] = {"pipeline": pipeline, "actor": self.actor, "what": what, "subject": subject}
        at = {} if self._now_ms is None else {"at_ms": self._now_ms()}
        connection.execute(_note("" if at else self.engine.dialect.name), said | at | {"detail": told})


@functools.cache
def _note(dialect: str) -> Insert:
    """A row of the event log; `dialect`: of the database whose clock says when. Making it costs more than executing
    it."""
    row = insert(schema.events)
    return row.values(at_ms=literal_column(_NOW[dialect], BigInteger)) if dialect else row


class Part:
    """A part of the ledger: some of its tables' questions and changes."""

    def __init__(self, store: Store) -> None:
        self._store = store


def in_our_words(error: SQLAlchemyError) -> LedgerError:
    """A taken key is a lost comparison; a database that is away comes back; anything else no retry can repair."""
    first = first_line(error)
    if isinstance(error, IntegrityError) and re.search("unique", first, re.IGNORECASE):
        return LostComparison(f"somebody else wrote the same row: {first}")
    if isinstance(error, OperationalError | InterfaceError | TimeoutError | InvalidRequestError):
        return LedgerError(
            f"the ledger does not answer as it should: {first}",
            advice="the next try goes on by itself once the database is back",
        )
    advice = "this is a defect: report it with this line"
    return LedgerError(f"the ledger's database refuses: {first}", advice=advice, retry=False)


SPANS = 5_000
"""Rows of values in one statement; SQLite takes no more than about 32,000 values."""
AT_ONCE = 500
"""Values in one IN."""


def sql_list(words: Sequence[Choice]) -> str:
    """For IN, in a statement in plain SQL."""
    texts = ", ".join(f"'{word}'" for word in words)
    return f"({texts})"


def asked(c: Connection, statement: str, values: Sequence[tuple[Any, ...]]) -> list[Any]:
    """`statement` with these rows in place of `{rows}`; of too many in parts. Joined with them as rows: with IN or
    OR, PostgreSQL walks over the whole table, or costs more to plan than to answer."""
    found: list[Any] = []
    for at in range(0, len(values), SPANS):
        some = values[at : at + SPANS]
        row = f"({', '.join(_marks(c, some[0]))})"
        sql = statement.format(rows=", ".join([row] * len(some)))
        found += c.exec_driver_sql(sql, tuple(value for one in some for value in one))
    return found


def _marks(c: Connection, values: tuple[Any, ...]) -> list[str]:
    if c.dialect.paramstyle == "qmark":
        return ["?"] * len(values)
    return ["CAST(%s AS BIGINT)" if isinstance(value, int) else "%s" for value in values]


def in_parts(values: Iterable[V], most: int = AT_ONCE) -> Iterator[list[V]]:
    """All of them, once and in order, so many for one statement."""
    wanted = sorted(set(values))
    for at in range(0, len(wanted), most):
        yield wanted[at : at + most]


def rows_of(connection: Connection, table: Any, **where: Any) -> list[Any]:
    """Rows whose columns equal `where`, in primary-key order."""
    if None in where.values():  # is compared in other words than a value
        rows = select(table).where(*(table.c[column] == value for column, value in where.items()))
        return list(connection.execute(rows.order_by(*table.primary_key.columns)))
    return list(connection.execute(_rows_where(table, tuple(where)), where))


@functools.cache
def _rows_where(table: Any, columns: tuple[str, ...]) -> Select:
    """Making a statement costs more than executing it, and a batch looks dozens of times."""
    equal = (table.c[column] == bindparam(column) for column in columns)
    return select(table).where(*equal).order_by(*table.primary_key.columns)


def row_of(connection: Connection, table: Any, **where: Any) -> Any | None:
    rows = rows_of(connection, table, **where)
    return rows[0] if rows else None


def matched(one: Any, other: Any, *names: str) -> ColumnElement:
    """That rows of two tables agree in the pipeline and these columns."""
    return and_(*(one.c[name] == other.c[name] for name in ("pipeline", *names)))


def scalar(connection: Connection, statement: ClauseElement, kind: type[T]) -> T | None:
    """The one value, of this `kind`; None if the statement gives no row, or null."""
    found: T | None = connection.scalar(statement)
    return found


def insert_all(connection: Connection, table: Any, found: Sequence[Mapping[str, Any]]) -> None:
    """Rows with the same columns, by one statement however many they are."""
    if found:
        connection.execute(insert(table), found)


def update_all(
    connection: Connection, table: Any, found: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> None:
    """Update rows, each given by the columns that name it and those that change; the same ones of all rows."""
    if found:
        statement = update(table).where(*(table.c[n] == bindparam(f"of_{n}") for n in found[0][0]))
        connection.execute(statement, [{f"of_{n}": v for n, v in key.items()} | dict(values) for key, values in found])
