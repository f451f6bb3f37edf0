"""Airflow connections without Airflow: `AIRFLOW_CONN_<ID>`, parsed as Airflow 2.11 does.

Commands answer at once because nothing of Airflow is imported. Airflow's own processes pass a `lookup` that also knows
the connections of its database and its secrets backends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import TidegateError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_LIBPQ = frozenset(
    ("sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "options", "target_session_attrs")
)


class ConnectionMissing(TidegateError):
    """A connection is missing or invalid. The message never holds its value, which may be a secret."""


Lookup = Callable[[str], Connection]
"""Raises ConnectionMissing."""


def resolve(conn_id: str, lookup: Lookup | None = None) -> Connection:
    """Find a connection by `lookup`, or in the environment without one. Raises ConnectionMissing."""
    if lookup is not None:
        return lookup(conn_id)
    name = f"AIRFLOW_CONN_{conn_id.upper()}"
    value = os.environ.get(name, "").strip()
    if not value:
        advice = f"set {name} (a URI or JSON, as `airflow connections get {conn_id} -o yaml` shows it)"
        raise ConnectionMissing(f"connection {conn_id} is not in this environment", advice=advice)
    try:
        return _from_json(conn_id, value) if value.startswith("{") else _from_uri(conn_id, value)
    except (ValueError, TypeError, AttributeError):
        # without the cause: its message may quote the password
        advice = "Airflow's documentation on managing connections shows both forms"
        raise ConnectionMissing(f"{name} is neither a connection's URI nor its JSON", advice=advice) from None


def _from_json(conn_id: str, text: str) -> Connection:
    fields = json.loads(text)
    known = ("host", "login", "password", "schema")
    port = fields.get("port")
    return Connection(
        conn_id=conn_id,
        conn_type=_type(fields.get("conn_type")),
        port=int(port) if port else None,
        extra=_extra(fields.get("extra")),
        **{name: fields.get(name) or None for name in known},
    )


def _from_uri(conn_id: str, uri: str) -> Connection:
    """Parse `type://login:password@host:port/schema?extra`; the host may carry a protocol (`type://https://host`)."""
    scheme, found, rest = uri.partition("://")
    protocol, inner, after = rest.partition("://")
    if any(c in protocol for c in "/?"):  # a `://` in the path or in the extra
        inner = ""
    if not found or (inner and ("@" in protocol or ":" in protocol)):
        raise ValueError("not a connection's URI")
    parts = urlsplit("//" + (after if inner else rest))
    host = _host(parts.netloc, parts.hostname)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Connection(
        conn_id=conn_id,
        conn_type=_type(scheme.lower()),
        host=f"{protocol}://{host}" if host and inner else host or None,
        port=parts.port,
        login=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        schema=unquote(parts.path[1:]) or None,
        extra=_extra(query.get("__extra__", query)),
    )


def _host(netloc: str, hostname: str | None) -> str:
    """The host in lower case, but for a path, such as a Unix socket's directory."""
    host = unquote(hostname or "")
    return unquote(netloc.rpartition("@")[2].partition(":")[0]) if "/" in host else host


def _type(conn_type: str | None) -> str | None:
    if conn_type == "postgresql":
        return "postgres"
    return conn_type.replace("-", "_") if conn_type else None


def _extra(extra: Any) -> dict[str, Any]:
    if isinstance(extra, str) and extra:
        extra = json.loads(extra)
    return dict(extra or {})


def http_url(connection: Connection) -> str:
    """The address of an HTTP connection as Airflow reads it: the protocol is in the host or in `schema`.

    Without a slash at its end. Raises TidegateError for one without a host."""
    if not connection.host:
        raise TidegateError(
            f"connection {connection.conn_id} has no host",
            advice="give it an address, such as https://service.example:8081",
        )
    protocol = connection.schema if connection.schema in ("http", "https") else "http"
    url = connection.host if "://" in connection.host else f"{protocol}://{connection.host}"
    return f"{url.rstrip('/')}:{connection.port}" if connection.port else url.rstrip("/")


def database_url(connection: Connection) -> URL:
    """SQLAlchemy's address of a connection of type postgres; it holds the password."""
    from sqlalchemy.engine import URL

    return URL.create(
        "postgresql+psycopg2",
        username=connection.login,
        password=connection.password,
        host=connection.host,
        port=connection.port,
        database=connection.schema,
        query={key: str(value) for key, value in connection.extra.items() if key in _LIBPQ},
    )
