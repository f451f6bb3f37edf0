"""A table of a relational database: what stands for a window is exchanged, and named, in one transaction.

The window's row of `tidegate_deliveries` is its token. It is locked first and compared: a try that comes late meets a
later one's token, and ends there. A commit without an answer is looked at behind that lock, which an unfinished one
still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tidegate.core.base.errors import (
    GOES_ON,
    DeliveryAhead,
    DeliveryDenied,
    DeliveryRefused,
    DeliveryUnsure,
    LostComparison,
)
from tidegate.core.base.fields import read_as
from tidegate.core.base.instants import iso
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.deliver.parts import added, paired
from tidegate.core.deliver.port import (
    WINDOW_COLUMN,
    Attempt,
    Checksum,
    Content,
    Holds,
    Missing,
    Needed,
    Part,
    Rows,
    Standing,
    Table,
    Tries,
)
from tidegate.core.files.failure import JobError
from tidegate.core.files.receipt import CHECKSUM_MODULUS
from tidegate.core.target.port import Token
from tidegate.databases.sql import look_at
from tidegate.targets.grouping import by_partition
from tidegate.targets.relational.columns import Column, column
from tidegate.targets.relational.definition import Definition
from tidegate.targets.relational.dialect import Blame, Dialect
from tidegate.targets.relational.values import as_sent

_LOCKED = (
    "another session there holds the window's rows: {sessions} names it. That of a try which stands still ends by "
    f"itself within 15 minutes; {GOES_ON}"
)
_FULL = f"make room on the server's disk; {GOES_ON}"
_NO_VALUE = "make its column one that the database can hold (a string), or skip the window here with a reason"


class Relational:
    """Implements `core.deliver.port.FurtherSystem`."""

    def __init__(
        self, dialect: Dialect, settings: Mapping[str, Any], table: Table, checksum: Checksum, timeout_s: float
    ) -> None:
        self._dialect, self._settings, self._checksum, self._timeout_s = dialect, settings, checksum, timeout_s
        self._columns: tuple[Column, ...] = tuple(column(dialect.kind, n, kind) for n, kind in table.columns)
        self._partitions = table.partitions
        self._definition = Definition(dialect, settings, table, self._columns)
        self._found: Any = None

    def missing(self) -> Missing | None:
        with self._answering() as found, found.cursor() as cursor:
            return Missing() if self._definition.missing(cursor) else None

    def prepare(self) -> list[str]:
        with self._answering() as found, found.cursor() as cursor:
            return self._definition.prepare(cursor)

    def tries(self) -> Tries:
        with self._answering() as found, found.cursor() as cursor:
            return self._definition.tries(cursor)

    def send(self, attempt: Attempt, rows: Rows, holds: Holds) -> Standing:
        window_ms = attempt.token.unit
        with self._answering() as found, found.cursor() as cursor:
            cursor.execute(*self._definition.first_token(window_ms))
            cursor.execute("BEGIN")
            self._compare(cursor, attempt)
            cursor.execute(f"DELETE FROM {self._definition.table} WHERE {self._where(window_ms)}")
            sent = self._write(found, rows)
            stands = self._content(found, window_ms)
            self._refuse_other(attempt, sent, stands)
            cursor.execute(*self._definition.token(attempt, stands))
            if not holds():
                raise LostComparison(f"{iso(window_ms)}: a later try or generation has taken over")
            self._commit(cursor, attempt)
        return Standing(content=stands, token=attempt.token)

    def standing(self, window_ms: int) -> Standing:
        with self._answering() as found, found.cursor() as cursor:
            self._definition.snapshot(cursor)
            there, content = self._there(cursor, window_ms), self._content(found, window_ms)
            cursor.execute("COMMIT")
        if there is None or there.content != content:  # rows of somebody else
            return Standing(content=content)
        return Standing(content=content, token=there.token(window_ms))

    def parts(self, window_ms: int, rows: Rows) -> tuple[Part, ...]:
        here = self._grouped(as_sent(batch, self._columns) for batch in rows.batches())
        with self._answering() as found:
            there = self._grouped(self._read(found, window_ms))
        return paired(here, there)

    def _grouped(self, batches: Iterable[Any]) -> dict[PartitionValues, Content]:
        names, found = self._partitions, dict[PartitionValues, Content]()
        for batch in batches:
            for values, places in by_partition(names, batch.columns[1 : len(names) + 1], len(batch)):
                some = batch.take(places)
                added(found, values, Content(rows=len(some), checksum=self._checksum(some)))
        return found

    def sweep(self, needed: Needed) -> list[str]:
        """There are no stagings: a transaction leaves nothing behind."""
        return []

    def close(self) -> None:
        found, self._found = self._found, None
        if found is not None:
            try:
                found.close()
            except self._dialect.driver.errors:
                return

    # ------------------------------------------------------------ within the transaction

    def _compare(self, cursor: Any, attempt: Attempt) -> None:
        """Lock the window's token. Raises DeliveryAhead for a later one."""
        there = self._locked(cursor, attempt.token.unit)
        if there.pipeline and (there.pipeline, there.delivery) != (attempt.token.pipeline, self._definition.delivery):
            raise DeliveryRefused(
                f"{iso(attempt.token.unit)} of {self._definition.table} was sent by {there.pipeline}.{there.delivery}",
                advice="give each delivery a table of its own",
                retry=False,
            )
        if (there.generation, there.epoch) >= (attempt.token.generation, attempt.token.epoch):
            raise DeliveryAhead(
                f"{iso(attempt.token.unit)}: generation {there.generation}, try {there.epoch}, stands in "
                f"{self._definition.table}: this is generation {attempt.token.generation}, try {attempt.token.epoch}",
                generation=there.generation,
                epoch=there.epoch,
            )

    def _locked(self, cursor: Any, window_ms: int) -> _There:
        cursor.execute(*self._definition.lock(window_ms))
        return _There(cursor.fetchone())

    def _write(self, found: Any, rows: Rows) -> Content:
        count = total = 0
        for batch in rows.batches():
            sent = as_sent(batch, self._columns)
            self._dialect.write(found, self._definition.table, sent, self._columns)
            count, total = count + len(sent), total + self._checksum(sent)
        return Content(rows=count, checksum=total % CHECKSUM_MODULUS)

    def _content(self, found: Any, window_ms: int) -> Content:
        count = total = 0
        for batch in self._read(found, window_ms):
            count, total = count + len(batch), total + self._checksum(batch)
        return Content(rows=count, checksum=total % CHECKSUM_MODULUS)

    def _read(self, found: Any, window_ms: int) -> Iterator[Any]:
        """Batches of what stands for the window."""
        table = self._definition.table
        try:
            yield from self._dialect.read(found, table, self._columns, self._where(window_ms))
        except JobError as error:
            raise DeliveryRefused(
                f"read back from {table}: {error.failure.what}", advice=_NO_VALUE, retry=error.failure.retry
            ) from None

    def _refuse_other(self, attempt: Attempt, sent: Content, stands: Content) -> None:
        if sent.rows != attempt.rows:
            raise DeliveryRefused(f"{attempt.rows:,} rows were to be sent, the files hold {sent.rows:,}", retry=False)
        if stands != sent:
            raise DeliveryRefused(
                f"{self._definition.table} holds other rows than were sent: {stands.rows:,} of {sent.rows:,} rows, or "
                "values that it has changed",
                advice="look for triggers, defaults and column types there that change what is inserted",
                retry=False,
            )

    def _commit(self, cursor: Any, attempt: Attempt) -> None:
        """Raises DeliveryUnsure where it got no answer and the token does not say that it is done."""
        try:
            cursor.execute("COMMIT")
        except self._dialect.driver.errors as error:
            self.close()
            what = f"{iso(attempt.token.unit)}: the commit got no answer ({self._dialect.driver.said(error)})"
            try:
                done = self._committed(attempt)
            except DeliveryRefused as e:
                raise DeliveryUnsure(f"{what}, and could not be looked at: {e.args[0]}") from None
            if not done:
                raise DeliveryUnsure(f"{what}, and was not executed") from None

    def _committed(self, attempt: Attempt) -> bool:
        """Whether its token stands, looked at behind the lock, which a transaction that is still unfinished holds."""
        with self._answering() as found, found.cursor() as cursor:
            cursor.execute("BEGIN")
            there = self._locked(cursor, attempt.token.unit)
            cursor.execute("ROLLBACK")
            mine = (attempt.token.generation, attempt.token.epoch, attempt.nonce)
            return (there.generation, there.epoch, there.nonce) == mine

    def _there(self, cursor: Any, window_ms: int) -> _There | None:
        cursor.execute(*self._definition.look(window_ms))
        row = cursor.fetchone()
        return _There(row) if row is not None and _There(row).generation else None

    # ------------------------------------------------------------ connections

    def _where(self, window_ms: int) -> str:
        return f"{self._dialect.quoted(WINDOW_COLUMN[0])} = {self._dialect.instant(window_ms)}"

    @contextmanager
    def _answering(self) -> Iterator[Any]:
        """An open connection; after any error it is closed, which takes an unfinished transaction back."""
        try:
            if self._found is None:
                self._found = self._dialect.connect(self._settings, self._timeout_s)
            yield self._found
        except self._dialect.driver.errors as error:
            self.close()
            raise self._refused(error) from None
        except JobError as error:
            self.close()
            raise DeliveryRefused(error.failure.what, advice=error.failure.advice, retry=error.failure.retry) from None
        except BaseException:
            self.close()
            raise

    def _refused(self, error: Exception) -> DeliveryRefused:
        """A table that somebody has dropped is made anew by the next run."""
        driver, blame = self._dialect.driver, self._dialect.blamed(error)
        passing, silent = driver.passes(error), blame not in (Blame.LOCK, Blame.SPACE)
        what = f"{driver.title} {'did not answer' if passing and silent else 'refused'}: {driver.said(error)}"
        if not passing and blame is Blame.USER:
            return DeliveryDenied(what, advice=look_at(self._settings))
        held = _LOCKED.format(sessions=self._dialect.sessions)
        advice = {Blame.VALUE: _NO_VALUE, Blame.LOCK: held, Blame.SPACE: _FULL}.get(blame) or look_at(self._settings)
        return DeliveryRefused(what, advice=advice, retry=passing or blame in (Blame.TABLE, Blame.SPACE))


class _There:
    """A window's row of the token table. `content`: what was read back before the commit."""

    def __init__(self, row: Any) -> None:
        self.pipeline, self.delivery, self.generation, self.epoch, self.nonce, self.digest, rows, checksum = row
        self.content = Content(rows=int(rows), checksum=int(checksum or 0))

    def token(self, window_ms: int) -> Token:
        """Its try's."""
        return read_as(Token, self, unit=window_ms)


def postgresql(settings: Mapping[str, Any], table: Table, checksum: Checksum, timeout_s: float) -> Relational:
    """A table of PostgreSQL."""
    from tidegate.targets.relational.postgresql import PostgreSQL

    return Relational(PostgreSQL(), settings, table, checksum, timeout_s)


def mariadb(settings: Mapping[str, Any], table: Table, checksum: Checksum, timeout_s: float) -> Relational:
    """A table of MariaDB or MySQL."""
    from tidegate.targets.relational.mariadb import MariaDB

    return Relational(MariaDB(), settings, table, checksum, timeout_s)
