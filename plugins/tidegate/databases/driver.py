"""What drivers of Python's have in common, whichever database is behind: what their errors become, and a session of the
control plane's."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.copy.port import Bound, KeyRange, LogPosition, SourceTable, Value
from tidegate.core.files.failure import refuse
from tidegate.databases import sql
from tidegate.databases.forms import SummedTable


class Unusable(Exception):
    """The server cannot be copied from, or does not exist; `advice` says what would help."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.what, self.advice = what, advice


@dataclass(frozen=True)
class Driver:
    """`title`: of the database; `errors`: what the driver raises; `passes`: whether another try may succeed without a
    human; `said`: the server's words in one line."""

    title: str
    errors: tuple[type[Exception], ...]
    passes: Callable[[Any], bool]
    said: Callable[[Any], str]

    @contextmanager
    def answering(self, settings: Mapping[str, str] | None = None) -> Iterator[None]:
        """What goes wrong becomes a job's last words."""
        try:
            yield
        except self.errors as error:
            passing = self.passes(error)
            raise refuse(
                f"{self.title} {'did not answer' if passing else 'refused'}: {self.said(error)}",
                advice=sql.look_at(settings),
                retry=passing,
            ) from None
        except Unusable as error:
            raise refuse(error.what, advice=error.advice) from None


class LoggedDatabase(ABC):
    """Implements of `core.copy.port.Database` what databases with a log share. One session: opened at a question, tried
    before it is used again after a while, given up after an error."""

    driver: ClassVar[Driver]
    listing: ClassVar[str]
    """The statement for (schema, name) of all tables."""
    clock: ClassVar[str]
    summed: ClassVar[type[SummedTable]]

    def __init__(self, settings: Mapping[str, str], timeout_s: float, logged: bool = True) -> None:
        self._settings, self._timeout_s, self._logged = settings, timeout_s, logged
        self._session: Any = None
        self._used = 0.0

    def tables(self) -> Sequence[str]:
        with self._asking() as cursor:
            cursor.execute(self.listing)
            return [f"{schema}.{name}" for schema, name in cursor.fetchall()]

    def bounds(self, table: SourceTable, after: Bound | None, rows: int, most: int) -> Sequence[Bound]:
        found: list[Bound] = []
        with self._asking() as cursor:
            while len(found) < most:
                keys = KeyRange(lower=found[-1] if found else after)
                where, given = sql.within(keys, partial(self._comparison, table))
                cursor.execute(f"{self._keys(table, where)} LIMIT 1 OFFSET %s", [*given, rows - 1])
                row = cursor.fetchone()
                if row is None:
                    break
                found.append(tuple(int(value) if isinstance(value, bool) else value for value in row))
        return found

    def checksums(
        self, table: SourceTable, columns: Sequence[tuple[str, str]], base64: bool, rate: int | None = None
    ) -> SummedTable:
        return self.summed(self._asking, table, columns, base64, rate)

    def now_ms(self) -> int:
        with self._asking() as cursor:
            cursor.execute(self.clock)
            return int(cursor.fetchone()[0])

    def close(self) -> None:
        found, self._session = self._session, None
        if found is not None:
            with suppress(*self.driver.errors):  # it may have ended
                found.close()

    @abstractmethod
    def _comparison(self, table: SourceTable, bound: Sequence[Value], operator: str) -> tuple[str, list[Any]]: ...

    @abstractmethod
    def _keys(self, table: SourceTable, where: str) -> str:
        """The statement for keys in their order, which a bound is taken from."""

    @abstractmethod
    def _connect(self) -> Any: ...

    @abstractmethod
    def _begin(self, cursor: Any) -> None:
        """A new session's settings: it reads only, and no answer takes longer than the timeout. Raises Unusable."""

    @abstractmethod
    def _ping(self, session: Any) -> None:
        """Raises the driver's errors where it is gone."""

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """A cursor; what goes wrong becomes an error of sources."""
        try:
            with self._connected().cursor() as cursor:
                yield cursor
            self._used = time.monotonic()
        except self.driver.errors as error:
            self.close()
            said, at = self.driver.said(error), f"{self._settings['host']}:{self._settings['port']}"
            who = f"{self.driver.title} at {at}"
            if self.driver.passes(error):
                raise SourceUnavailable(f"{who} did not answer: {said}", advice=sql.NO_ANSWER) from None
            raise refused(f"{who} refused: {said}", sql.look_at(self._settings)) from None
        except Unusable as error:
            self.close()
            raise refused(error.what, error.advice) from None

    def _connected(self) -> Any:
        if self._session is not None and time.monotonic() - self._used >= sql.IDLE_S:
            try:
                self._ping(self._session)
            except self.driver.errors:
                self.close()
        if self._session is None:
            self._session = self._connect()
            with self._session.cursor() as cursor:
                self._begin(cursor)
        return self._session


class LoggedRows(ABC):
    """Implements of `core.copy.port.Rows` the places in the log. `known`: up to where events have landed; `anew`: after
    what a server's log is another one."""

    anew: ClassVar[str]

    def __init__(self, low: LogPosition, known: LogPosition | None) -> None:
        self.low, self._known = low, known
        self._high: LogPosition | None = None

    def _end(self, high: LogPosition) -> None:
        if self._known is not None and high < (self._known[0], 0):
            raise refuse(
                f"events have landed up to {self._known[0]}, and the server's log ends at {high[0]}: it is another log",
                advice=f"let copy.conn_id name the server that the connector reads; after {self.anew} copy anew",
            )
        self._high = high

    @property
    def high(self) -> LogPosition:
        assert self._high is not None, "the rows have not ended"
        return self._high


def refused(what: str, advice: str = "correct the connection or the table") -> SourceError:
    return SourceError(what, advice=advice, retry=False)
