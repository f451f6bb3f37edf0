"""One ClickHouse server by its HTTP interface. Each statement is sent once, on a connection of its own.

A pooled connection that the server has closed meanwhile looks like a lost answer, so none is pooled.
"""

from __future__ import annotations

import functools
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import requests

UNKNOWN_TABLE, TABLE_EXISTS, ILLEGAL_COLUMN, DUPLICATE_COLUMN = 60, 57, 44, 15
UNFINISHED = 341
"""An ALTER is done here, and other replicas are to follow."""
IN_A_KEY = frozenset({44, 524})
"""A column of the table's order is to be changed."""
NOT_EXECUTED = frozenset({36, 47, 60, 62, 115, 122, 164, 192, 193, 194, 291, 452, 497, 516})
"""Codes of errors that come before a statement changes anything: of names, syntax, settings, structure and rights."""
_CODE = re.compile(r"Code: (\d+)")
_CONNECT_S = 10.0
_WISHES = {
    "async_insert": "0",  # an answer means that the rows are there
    "insert_deduplicate": "0",  # equal blocks are equal rows, not repeats: the staging is counted
    "database_atomic_wait_for_drop_and_detach_synchronously": "1",  # a drop waits for those that use the table (D4)
}


NONE: Mapping[str, str] = MappingProxyType({})


class Failed(Exception):
    """The server said no. `code` is ClickHouse's, 0 without one. The statement may have been executed in part, unless
    `code` is in NOT_EXECUTED."""

    def __init__(self, words: str, code: int = 0) -> None:
        super().__init__(words)
        self.code = code


class Unanswered(Exception):
    """Nobody knows whether it was executed, or still will be."""


class Unsent(Failed):
    """There was no connection: nothing was sent."""


@dataclass
class Client:
    """`address`: host:port, of the server of a shard that is written to. `replicas`: the others that have its table.
    `verify`: the certificate of a secure one, by the authorities that `requests` knows, or by those in a file."""

    address: str
    user: str
    password: str = field(repr=False)
    database: str
    secure: bool = False
    verify: bool | str = True
    timeout_s: float = 600.0
    replicas: tuple[Client, ...] = ()

    def ask(self, sql: str) -> list[list[Any]]:
        """The rows of a query. Raises Failed, Unanswered."""
        answer = self._sent(f"{sql} FORMAT JSONCompact".encode(), {})
        try:
            return list(json.loads(answer)["data"])
        except (ValueError, KeyError, TypeError) as error:
            raise Failed(f"{self.address} is not a ClickHouse: its answer is not JSON") from error

    def do(self, sql: str, body: bytes = b"", settings: Mapping[str, str] = NONE) -> None:
        """Execute a statement with the data of an INSERT, once. Raises Failed, Unanswered."""
        wishes = {name: value for name, value in _WISHES.items() if self.knows(name)}
        self._sent(sql.encode() + (b"\n" + body if body else b""), {**wishes, **settings})

    def knows(self, name: str) -> bool:
        """Whether this version has a setting or a type of this name."""
        return name in self._known

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        names = "SELECT name FROM system.settings UNION ALL SELECT name FROM system.merge_tree_settings"
        return frozenset(row[0] for row in self.ask(f"{names} UNION ALL SELECT name FROM system.data_type_families"))

    def _sent(self, body: bytes, settings: dict[str, str]) -> bytes:
        url = f"{'https' if self.secure else 'http'}://{self.address}/"
        params = {"database": self.database, "wait_end_of_query": "1", **settings}
        headers = {"X-ClickHouse-User": self.user, "X-ClickHouse-Key": self.password, "Connection": "close"}
        try:
            answer = requests.post(
                url, params=params, data=body, headers=headers, timeout=(_CONNECT_S, self.timeout_s),
                allow_redirects=False, auth=lambda request: request, verify=self.verify,
            )  # fmt: skip
        except requests.exceptions.RequestException as error:
            if _distrusted(error):
                raise Unsent(f"the certificate of {self.address} is not trusted ({_reason(error)})") from error
            if _never_sent(error):
                raise Unsent(f"no connection to {self.address}") from error
            kind = "no answer in time" if isinstance(error, requests.Timeout) else "the connection broke"
            raise Unanswered(f"{self.address}: {kind}") from error
        except OSError as error:  # of requests itself, about `verify`
            raise Unsent(f"no connection to {self.address}: {error}") from error
        if answer.status_code == requests.codes.ok and "X-ClickHouse-Exception-Code" not in answer.headers:
            return answer.content
        words = answer.content[:2000].decode(errors="replace").strip()
        code = answer.headers.get("X-ClickHouse-Exception-Code") or (m[1] if (m := _CODE.search(words)) else "")
        if not code:  # something between us and the server
            raise Unanswered(f"{self.address}: HTTP {answer.status_code} without a word of ClickHouse's")
        raise Failed(f"{self.address}: {words[:600]}", int(code))


def _never_sent(error: requests.exceptions.RequestException) -> bool:
    if isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.ProxyError):
        return True
    return type(_reason(error)).__name__ in ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError")


def _distrusted(error: requests.exceptions.RequestException) -> bool:
    reason = _reason(error)
    return bool(getattr(reason, "args", ())) and isinstance(reason.args[0], ssl.SSLCertVerificationError)


def _reason(error: requests.exceptions.RequestException) -> Any:
    return getattr(error.args[0], "reason", None) if error.args else None


def quoted(name: str) -> str:
    """A name in a statement; `db.table` is two."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def text(value: str) -> str:
    """A text in a statement."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
