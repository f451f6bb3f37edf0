"""Counts of windows from a service: one GET for each question, a JSON answer."""

from __future__ import annotations

import http.client
import re
import time
import urllib.error
import urllib.request
from urllib.parse import quote

from tidegate.adapters.http_connection import headers, opener
from tidegate.completeness.counts_json import count_in, parsed, shortened
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError, TruthUnknown
from tidegate.core.completeness.rules import parameters
from tidegate.core.window.states import WindowKey

TIMEOUT_S = 30.0
"""Seconds for a whole answer, and for each wait."""
MOST_BYTES = 1024 * 1024
_CHUNK = 65_536


class HttpTruth:
    """Counts by HTTP. `path` follows the connection's address and holds a window's bounds in braces. `count_path` is in
    the answer.

    Only 200 brings a count. A service that does not know a window yet answers null, or 204. A redirect is not followed:
    it would take the login along."""

    def __init__(
        self, base_url: str, connection: Connection, path: str, count_path: str, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._url, self._path, self._count_path = base_url.rstrip("/"), path, count_path
        self._who = re.sub(r"//[^/@]*@", "//", self._url)
        self._headers, self._timeout_s = headers(connection), timeout_s
        try:
            self._opener = opener(connection)
        except TidegateError as e:
            raise TruthUnknown(str(e)) from None

    def expected(self, window: WindowKey) -> int | None:
        """The window's count. Raises TruthUnknown."""
        values = {name: quote(str(value), safe="") for name, value in parameters(window).items()}
        url = f"{self._url}/{self._path.lstrip('/').format(**values)}"
        body = self._get(url)
        return None if body is None else count_in(parsed(body, self._who), self._count_path, self._who)

    def _get(self, url: str) -> bytes | None:
        end = time.monotonic() + self._timeout_s
        try:
            request = urllib.request.Request(url, headers=self._headers)
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                if answer.status == http.client.NO_CONTENT:
                    return None
                if answer.status != http.client.OK:
                    raise TruthUnknown(f"{self._who} answers HTTP {answer.status}")
                return self._read(answer, end)
        except urllib.error.HTTPError as e:
            with e:
                raise TruthUnknown(self._refused(e)) from None
        except TimeoutError:
            raise self._slow() from None
        except (ValueError, http.client.InvalidURL):  # without its words, which may quote a login
            raise TruthUnknown(f"{self._who} cannot be asked: check the connection's host and headers") from None
        except (OSError, http.client.HTTPException) as e:
            reason = getattr(e, "reason", None) or e
            if isinstance(reason, TimeoutError):
                raise self._slow() from None
            why = shortened(str(reason) or type(reason).__name__)
            raise TruthUnknown(f"{self._who} has no answer: {why}") from None

    def _read(self, answer: http.client.HTTPResponse, end: float) -> bytes:
        found = bytearray()
        while part := answer.read1(_CHUNK):
            found += part
            if len(found) > MOST_BYTES:
                raise TruthUnknown(f"{self._who} answers with more than {MOST_BYTES:,} bytes")
            if time.monotonic() > end:
                raise self._slow()
        if answer.length:  # less has come than its header says
            raise TruthUnknown(f"{self._who} breaks off its answer")
        return bytes(found)

    def _slow(self) -> TruthUnknown:
        return TruthUnknown(f"{self._who} has no whole answer within {self._timeout_s:g} s")

    def _refused(self, error: urllib.error.HTTPError) -> str:
        if error.code in (401, 403):
            return f"{self._who} refuses us: HTTP {error.code}; check the connection's login"
        if 300 <= error.code < 400:
            return f"{self._who} redirects (HTTP {error.code}): give the connection the address that it leads to"
        return f"{self._who} answers HTTP {error.code}"
