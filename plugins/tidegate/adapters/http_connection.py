"""Airflow's connections of type http: headers of requests, and trust in certificates."""

from __future__ import annotations

import base64
import ssl
import urllib.request
from email.message import Message
from typing import IO, Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError

_SETTINGS = frozenset((
    "allow_redirects", "cert", "check_response", "headers", "max_redirects", "path", "proxies", "proxy", "srv_lookup",
    "stream", "timeout", "trust_env", "verify", "verify_ssl",
))  # fmt: skip
"""Keys of such a connection's extra beside headers."""


def headers(connection: Connection) -> dict[str, str]:
    """Headers from texts in `extra`, `extra.headers`, and the login: Basic with a user, Bearer without."""
    given = connection.extra.get("headers")
    own = {**(given if isinstance(given, dict) else {}), **connection.extra}
    found = {name: value for name, value in own.items() if name not in _SETTINGS and isinstance(value, str)}
    if connection.login:
        token = base64.b64encode(f"{connection.login}:{connection.password or ''}".encode()).decode()
        found.setdefault("Authorization", f"Basic {token}")
    elif connection.password:
        found.setdefault("Authorization", f"Bearer {connection.password}")
    return {"Accept": "application/json", **found}


def opener(connection: Connection) -> urllib.request.OpenerDirector:
    """An opener that follows no redirect, which would take the login along. Raises TidegateError for bad
    authorities."""
    return urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=_tls(connection)))


def _tls(connection: Connection) -> ssl.SSLContext:
    """The TLS context for `verify`, as Airflow reads it: false, or a file with authorities."""
    verify = connection.extra.get("verify", connection.extra.get("verify_ssl", True))
    try:
        context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
    except OSError as e:
        raise TidegateError(f"connection {connection.conn_id}: verify: {verify}: {e.strerror or e}") from None
    if verify is False:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Any:
        return None
