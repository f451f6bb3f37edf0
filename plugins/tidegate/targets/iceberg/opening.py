"""An Airflow connection becomes an Iceberg catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tidegate.adapters.watchdog import Watched
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import CatalogueError, CatalogueUnsure
from tidegate.core.base.storage import Storage
from tidegate.targets.iceberg.library import needed

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from tidegate.targets.iceberg.catalogue import Catalogue

TYPES = ("iceberg", "postgres", "sqlite", "generic")
"""Types of Airflow connections that fit."""
CATALOG = "iceberg"
"""The catalogue's name in SQL, unless extra says `catalog_name`: as Spark's `spark.sql.catalog.iceberg`."""
LOOKING = ("load", "answers")
_OWN = "host is the URI of a REST catalogue (type iceberg), or a database (types postgres and sqlite)"
_TOKENS = {"scope": "catalog", "audience": None, "resource": None}
"""Further fields of a request for a token, by extra's keys, with their defaults."""
_SIGNED = ("rest.sigv4-enabled", "auth")


def opened(connection: Connection, storage: Storage, seconds: float) -> Catalogue:
    """The catalogue of a connection of type `iceberg` (REST), `postgres` or `sqlite` (SQL), or `generic`, whose extra
    says `rest` or `sql` by `type`. It connects at the first question; no request waits longer than `seconds`, and no
    call, storage included, longer than some times that. Raises CatalogueError."""
    make = _rest if _is_rest(connection) else _sql
    with needed():
        catalogue = make(connection, storage, seconds)
    limit = 60 + 4 * seconds
    return cast("Catalogue", Watched(catalogue, limit, CatalogueUnsure, CatalogueError, looking=LOOKING))


def _is_rest(c: Connection) -> bool:
    kind, said = getattr(c, "conn_type", None) or "generic", c.extra.get("type")
    if kind not in TYPES:
        raise _wrong(
            f"is of type {kind}, which no Iceberg catalogue has", f"give it one of the types {', '.join(TYPES)}"
        )
    if said not in (None, "rest", "sql") or (said is None and kind == "generic"):
        raise _wrong(f"has the extra type {said!r}", 'set `type` in its extra to "rest" or to "sql"')
    return said == "rest" if said is not None else kind == "iceberg"


def _rest(c: Connection, storage: Storage, seconds: float) -> Catalogue:
    from tidegate.targets.iceberg.rest_catalogue import Access, RestCatalogue

    for key in _SIGNED:
        if str(c.extra.get(key) or "").lower() not in ("", "false"):
            raise _wrong(
                f"has {key} in its extra",
                "leave it out: Tidegate knows OAuth2 only (login and password, or a `token` in extra)",
            )
    if c.login and not c.password:
        raise _wrong("has a login (the client's id) without a password (its secret)", "give it both, or neither")
    asked = {key: str(c.extra.get(key) or usual) for key, usual in _TOKENS.items() if c.extra.get(key) or usual}
    access = Access(
        client=c.login,
        secret=c.password,
        token=_text(c.extra, "token"),
        token_uri=_text(c.extra, "oauth2-server-uri") or "",
        more=asked,
    )
    headers = {key.removeprefix("header."): str(value) for key, value in c.extra.items() if key.startswith("header.")}
    return RestCatalogue(
        _uri(c), storage, seconds, access=access, warehouse=_text(c.extra, "warehouse"), headers=headers
    )


def _uri(c: Connection) -> str:
    """The host may be a whole URI, as Airflow's provider wants it."""
    if not c.host:
        raise _wrong("has no host", "set it to the URI of the REST catalogue, such as https://catalogue.example/api")
    uri = c.host if "://" in c.host else f"https://{c.host}"
    if not uri.startswith(("http://", "https://")):
        raise _wrong(f"has the host {c.host}", "set it to the URI of the REST catalogue, by http or https")
    scheme, _, rest = uri.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place}{f':{c.port}' if c.port and ':' not in place else ''}{slash}{path}"


def _sql(c: Connection, storage: Storage, seconds: float) -> Catalogue:
    from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

    url = _url(c).render_as_string(hide_password=False)
    return SqlCatalogue(
        url, _text(c.extra, "catalog_name") or CATALOG, storage, seconds, schema=_text(c.extra, "schema")
    )


def _url(c: Connection) -> URL:
    """PostgreSQL by its fields, SQLite by its host, a path; or all in extra's `uri`."""
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError

    from tidegate.adapters.connections import database_url

    if getattr(c, "conn_type", None) == "sqlite":
        path = c.host or f"/{c.schema or ''}"
        if not path.startswith("/") or path == "/":
            raise _wrong("has no file", "set its host to the absolute path of the SQLite file")
        return URL.create("sqlite", database=path)
    if not c.extra.get("uri"):
        if not c.host or not c.schema:
            raise _wrong("has no host or no schema", "set both: the database's host, and its name")
        return database_url(cast(Any, c))
    try:
        found = make_url(str(c.extra["uri"]))
    except ArgumentError:  # without the cause: its message quotes the password
        raise _wrong("has an invalid uri in its extra", "write postgresql://user:password@host/database") from None
    if found.get_backend_name() not in ("postgresql", "sqlite"):
        raise _wrong(
            f"names a database of type {found.get_backend_name()}", "put the catalogue into PostgreSQL (or SQLite)"
        )
    return found if "+" in found.drivername else found.set(drivername=_DRIVERS[found.get_backend_name()])


_DRIVERS = {"postgresql": "postgresql+psycopg2", "sqlite": "sqlite"}


def _text(extra: Mapping[str, Any], key: str) -> str | None:
    found = extra.get(key)
    return str(found) if found not in (None, "") else None


def _wrong(what: str, advice: str) -> CatalogueError:
    what = f"the connection that sink.catalog_conn_id names {what}"
    return CatalogueError(what, advice=f"{advice}; {_OWN}", retry=False)
