"""Messages to people: a POST of JSON to a web address, or a call of the user's Python function.

An address may be a secret (incoming webhooks' are), so errors name its host only.
"""

from __future__ import annotations

import http.client
import importlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tidegate.adapters.connections import http_url
from tidegate.adapters.http_connection import headers, opener
from tidegate.adapters.watchdog import Watchdog
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError
from tidegate.core.tell.notices import NotTold

TIMEOUT_S = 10.0
"""Seconds for connecting, for each wait, and for the whole answer; twice as long for all of it together."""


class Webhook:
    """`extra` of the connection: `path` follows its address (encrypted there, unlike the host), `verify` is false or a
    file with authorities, whatever else is text becomes a header. A redirect is not followed: it would take the login
    along. Any answer 2xx means that the message was taken."""

    def __init__(self, connection: Connection, timeout_s: float = TIMEOUT_S) -> None:
        """Raises TidegateError for a connection that has no address."""
        path = connection.extra.get("path") or ""
        self._url = http_url(connection) + (f"/{str(path).lstrip('/')}" if path else "")
        try:
            parts = urlsplit(self._url)
            self.who = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        except ValueError:
            raise TidegateError(f"connection {connection.conn_id} has no proper address") from None
        self._headers = headers(connection) | {"Content-Type": "application/json"}
        self._opener, self._timeout_s = opener(connection), timeout_s

    def send(self, payload: dict[str, Any]) -> None:
        """Send it. Raises NotTold."""
        body = json.dumps(payload).encode()  # ASCII: what is odd is escaped

        def late(_words: str) -> NotTold:  # each wait was short: an answer that comes byte by byte, a slow resolver
            return NotTold(f"{self.who} has not answered: no answer in time", advice="the message is sent again")

        Watchdog(2 * self._timeout_s, late).call(f"notify {self.who}", lambda: self._post(body))

    def _post(self, body: bytes) -> None:
        end = time.monotonic() + self._timeout_s
        try:
            request = urllib.request.Request(self._url, body, self._headers, method="POST")
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                while answer.read1(4096):
                    if time.monotonic() > end:
                        break  # it has said 2xx: what else it says is of no matter
        except urllib.error.HTTPError as e:
            with e:
                refused = e.code in (400, 413, 422)
                raise NotTold(f"{self.who} answers HTTP {e.code}", advice=_advice(e.code), this_one=refused) from None
        except (ValueError, http.client.InvalidURL):  # without its words, which may quote the address
            raise NotTold(f"{self.who}: check the connection's host, path and headers") from None
        except (OSError, http.client.HTTPException) as e:
            reason = getattr(e, "reason", None) or e
            why = "no answer in time" if isinstance(reason, TimeoutError) else type(reason).__name__
            raise NotTold(f"{self.who} has not answered: {why}", advice="the message is sent again") from None


class Function:
    """`package.module:function`, called with the message as a dict. What it raises, or a call that takes too long, is
    NotTold; a call that hangs is left behind in a thread that does not keep its process alive."""

    def __init__(self, name: str, timeout_s: float = TIMEOUT_S) -> None:
        self.who, self._timeout_s = name, timeout_s

    def send(self, payload: dict[str, Any]) -> None:
        """Send it. Raises NotTold."""

        def call() -> None:
            try:
                self._found()(json.loads(json.dumps(payload)))
            except BaseException as e:
                raise NotTold(f"{self.who} raises {type(e).__name__}: {e}") from None

        late = f"{self.who} has not come back within {self._timeout_s:g} s"
        Watchdog(self._timeout_s, lambda _words: NotTold(late)).call(f"notify {self.who}", call)

    def _found(self) -> Callable[[dict[str, Any]], object]:
        module, _, function = self.who.partition(":")
        found: Callable[[dict[str, Any]], object] = getattr(importlib.import_module(module), function)
        return found


def _advice(code: int) -> str:
    if code in (401, 403):
        return "check the connection's login, headers and path"
    if code in (404, 410):
        return "check the connection's host and path: the receiver does not know this address"
    if 300 <= code < 400:
        return "it redirects, which is not followed: give the connection the address that it leads to"
    return "the message is sent again"
