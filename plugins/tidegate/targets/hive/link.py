"""One connection to a Hive endpoint: opened for a use, bounded in time, honest about what it knows.

A statement ends in one of three ways: rows, a `CatalogueError` (the server said no), or `AnswerLost` (it was sent, and
nobody can say whether it has been, or will still be, executed).
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhive import hive
from TCLIService.ttypes import TStatusCode
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportBase, TTransportException

from tidegate.core.base.errors import CatalogueError
from tidegate.targets.hive.sql import refused

NO_SASL, KERBEROS = "NOSASL", "KERBEROS"
AUTH_MODES = ("NONE", NO_SASL, "LDAP", "CUSTOM", KERBEROS)
_CLOSING_S = 3.0
_SHOWN = 200

# What a server says when it lost *its* answer, mostly the metastore's: the change may still happen. Too wide a net only
# makes a caller look again; too narrow a one lets a late change surprise it.
SERVER_UNSURE = re.compile(
    r"TTransportException|java\.net\.|SocketTimeout|EOFException|Interrupted|timed? ?-?out|cancell?ed|broken pipe"
    r"|connection (reset|refused|closed)|OutOfMemoryError|shut(ting)? ?down",
    re.IGNORECASE,
)
_PREFIX = re.compile(
    r"^(Error (running query|while compiling statement|while processing statement): |FAILED: |\[\w+\] (?=[\w.]+:\s)"
    r"|[\w.$]+(Exception|Error):\s+)+"
)

# thrift logs what it raises; without a handler of its own that would reach a terminal beside our error
logging.getLogger("thrift").addHandler(logging.NullHandler())
# and PyHive logs every statement at INFO, a page of it for a window of many partitions
logging.getLogger("pyhive").setLevel(logging.WARNING)


class AnswerLost(Exception):
    """`timed_out`: the server is silent, rather than gone."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where HiveServer2 (or Spark's Thrift server) listens and who we are there; `auth` is one of AUTH_MODES.

    `connect_timeout_s` bounds the TCP connection, `request_timeout_s` the wait for any single answer.
    """

    host: str
    port: int = 10000
    username: str = "airflow"
    password: str | None = field(default=None, repr=False)
    auth: str = "NONE"
    kerberos_service_name: str = "hive"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 240.0

    def __post_init__(self) -> None:
        if self.auth not in AUTH_MODES:
            raise refused(f"Hive authentication {self.auth!r} is unknown; there are {', '.join(AUTH_MODES)}")

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @contextlib.contextmanager
    def link(self, database: str = "default", settings: Mapping[str, str] | None = None) -> Iterator[Link]:
        """A session, closed at the end. Raises CatalogueError, definite: nothing has been sent yet."""
        socket = _Socket(self)
        connection = self._open(socket, database, dict(settings or {}))
        link = Link(self, connection)
        try:
            yield link
        finally:
            if not link.broken:
                socket.setTimeout(_CLOSING_S * 1000)
                with contextlib.suppress(Exception):
                    connection.close()
            socket.close()

    def _open(self, socket: TSocket, database: str, settings: dict[str, str]) -> hive.Connection:
        try:
            return hive.Connection(
                thrift_transport=self._transport(socket),
                username=self.username,
                database=database,
                # as JDBC sends them; Spark drops a bare name
                configuration={f"set:hiveconf:{name}": value for name, value in settings.items()},
            )
        except hive.Error as error:
            raise CatalogueError(f"Hive at {self.address} opens no session: {server_words(error)}") from error
        except ImportError as error:
            missing = f"Hive authentication {self.auth} needs a Python package that is not installed: {error}"
            raise refused(missing, "install `kerberos` where the scheduler and the workers run") from error
        except Exception as error:
            reason = getattr(error, "inner", None) or error
            raise CatalogueError(
                f"Hive at {self.address} cannot be reached: {_short(str(reason))}",
                advice="check the hiveserver2 connection (host, port, auth_mechanism) and that the server runs",
            ) from error

    def _transport(self, socket: TSocket) -> TTransportBase:
        if self.auth == NO_SASL:
            return TBufferedTransport(socket)
        import thrift_sasl

        mechanism = "GSSAPI" if self.auth == KERBEROS else "PLAIN"

        def client() -> object:
            return hive.get_installed_sasl(
                host=self.host,
                sasl_auth=mechanism,
                service=self.kerberos_service_name,
                username=self.username,
                password=self.password or "x",  # NONE ignores it, but it must not be empty
            )

        return thrift_sasl.TSaslClientTransport(client, mechanism, socket)


class Link:
    """An open session; `broken` when not even a farewell should be sent over it."""

    def __init__(self, endpoint: Endpoint, connection: hive.Connection) -> None:
        self._endpoint, self._connection, self.broken = endpoint, connection, False
        self._cursors: list[hive.Cursor] = []

    def change(self, statement: str) -> None:
        """Execute; what it answers is not read. Raises CatalogueError, AnswerLost."""
        self._execute(statement)

    def query(self, statement: str, at_most: int | None = None) -> list[tuple[Any, ...]]:
        """Execute and read every row, or the first ones; [] for a statement without a result.

        Raises CatalogueError, AnswerLost."""
        cursor = self._execute(statement)
        with self._judged(statement):
            try:
                rows: list[tuple[Any, ...]] = cursor.fetchall() if at_most is None else cursor.fetchmany(at_most)
                return rows
            except (hive.ProgrammingError, TypeError):
                # No result set; Spark claims to have one after DDL and then describes it with None.
                return []

    def done(self) -> None:
        """Let the server forget the statements so far, as a session that stays open needs. Raises whatever it meets."""
        while self._cursors:
            self._cursors.pop().close()

    def _execute(self, statement: str) -> hive.Cursor:
        cursor = self._connection.cursor()
        self._cursors.append(cursor)
        with self._judged(statement):
            cursor.execute(statement)
        return cursor

    @contextlib.contextmanager
    def _judged(self, statement: str) -> Iterator[None]:
        try:
            yield
        except hive.OperationalError as error:
            said = f"Hive at {self._endpoint.address}: {server_words(error)} (statement: {_short(statement)})"
            if is_definite(error):
                raise CatalogueError(said) from error
            raise AnswerLost(said) from error
        except Exception as error:
            self.broken = True
            timed_out = isinstance(error, TTransportException) and error.type == TTransportException.TIMED_OUT
            what = f"no answer within {self._endpoint.request_timeout_s:g} s" if timed_out else "the connection broke"
            raise AnswerLost(
                f"Hive at {self._endpoint.address}: {what} (statement: {_short(statement)})", timed_out=timed_out
            ) from error


class _Socket(TSocket):  # type: ignore[misc]
    """A TCP connection with one time-out for connecting and another for each answer."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint.host, endpoint.port, socket_keepalive=True)
        self._endpoint = endpoint

    def open(self) -> None:
        self.setTimeout(self._endpoint.connect_timeout_s * 1000)
        super().open()
        self.setTimeout(self._endpoint.request_timeout_s * 1000)


def is_definite(error: hive.Error) -> bool:
    """Whether the server itself has decided, rather than lost the answer of somebody behind it."""
    status = _status(error)
    if status is None or status.statusCode not in (TStatusCode.ERROR_STATUS, TStatusCode.INVALID_HANDLE_STATUS):
        return False
    # Lines with a star are the exceptions of the chain, all others frames of their stacks.
    causes = (line for line in status.infoMessages or () if line.startswith("*"))
    return not any(SERVER_UNSURE.search(text) for text in (status.errorMessage or "", *causes))


def server_words(error: hive.Error) -> str:
    """The first line of what the server says, without the names of Java's classes before it."""
    status = _status(error)
    text = ((status.errorMessage or "") if status is not None else str(error)).strip()
    words = _PREFIX.sub("", text) or text or "no reason given"
    return _short(words.splitlines()[0], 2 * _SHOWN)


def _status(error: hive.Error) -> Any:
    return getattr(error.args[0], "status", None) if error.args else None


def _short(text: str, limit: int = _SHOWN) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
