"""Which kind of database an Airflow connection means, and its two sides. Drivers are imported when one is opened."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from tidegate.core.base.connection import Connection, retyped
from tidegate.core.base.errors import SourceError
from tidegate.core.copy.port import ChunkReader, Database

if TYPE_CHECKING:
    from tidegate.databases.types import Bytes

MARIADB, POSTGRESQL, JDBC = "mariadb", "postgresql", "jdbc"
CONNECTION_TYPES = {
    "mysql": MARIADB, "mariadb": MARIADB, "postgres": POSTGRESQL, "postgresql": POSTGRESQL, "jdbc": JDBC,
}  # fmt: skip
"""Types of Airflow connections -> kinds of databases."""
_PORTS = {MARIADB: 3306, POSTGRESQL: 5432}
SECRETS = ("password", "url")
"""Of what `for_workers` makes: a URL of JDBC may have a password among its parameters."""
_LIBPQ = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "target_session_attrs", "gssencmode")
_TLS = ("ca", "cert", "key")
_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
"""`ssl_mode` of MySQL's clients, and of Airflow's connections."""


def kind_of(connection: Connection) -> str:
    """Raises SourceError for a connection of another type."""
    kind = CONNECTION_TYPES.get(connection.conn_type or "")
    if kind is None:
        raise SourceError(
            f"connection {connection.conn_id} is of type {connection.conn_type}: no database that can be copied",
            advice=retyped(
                connection.conn_id,
                connection.conn_type,
                CONNECTION_TYPES,
                f"name one of type {', '.join(CONNECTION_TYPES)}",
            ),
            retry=False,
        )
    return kind


def for_workers(connection: Connection) -> dict[str, str]:
    """What a worker needs to open it. It holds the password: it travels in a private file, never in a plan.

    Files that it names (certificates) have to be on the workers too. Raises SourceError."""
    kind = kind_of(connection)
    if not connection.host:
        raise SourceError(f"connection {connection.conn_id} has no host", advice="give it one", retry=False)
    if kind == JDBC:
        return _jdbc(connection)
    settings = {"kind": kind, "connection": connection.conn_id}
    settings |= {"host": connection.host, "port": str(connection.port or _PORTS[kind])}
    settings |= {"user": connection.login or "", "password": connection.password or ""}
    settings["database"] = connection.schema or ""
    return settings | (_libpq(connection.extra) if kind == POSTGRESQL else _tls(connection))


def opened(connection: Connection, timeout_s: float, logged: bool = True) -> Database:
    """The control plane's side; it connects at the first question. `logged`: the changes of its tables are in its log,
    which a copy beside them needs. Raises SourceError."""
    settings = for_workers(connection)
    made: Database = _module(settings, "control").opened(settings, timeout_s, logged)
    return made


def reader(settings: Mapping[str, str], binary: Bytes = "bytes") -> ChunkReader:
    """The worker's side, of what `for_workers` has made. `binary`: what a `binary` column holds: the bytes, as events
    in Avro have them, or the text of their Base64, as events in JSON do."""
    made: ChunkReader = _module(settings, "worker").opened(settings, binary)
    return made


def _module(settings: Mapping[str, str], side: str):  # type: ignore[no-untyped-def]
    return import_module(f"tidegate.databases.{settings['kind']}.{side}")


def _jdbc(connection: Connection) -> dict[str, str]:
    """As Airflow's own connections of this type: the host is a URL."""
    from tidegate.databases.jdbc.session import address

    found = {name: str(connection.extra.get(name) or "") for name in ("driver_path", "driver_class")}
    found |= {"kind": JDBC, "connection": connection.conn_id, "url": connection.host or "", "address": ""}
    found |= {"user": connection.login or "", "password": connection.password or ""}
    return found | {"address": address(found)}


def told(settings: Mapping[str, str]) -> str:
    """The server, for people."""
    kind = settings["kind"]
    at = settings["address"] if kind == JDBC else f"{settings['host']}:{settings['port']}/{settings['database']}"
    return f"{kind} {at}"


def _libpq(extra: Mapping[str, object]) -> dict[str, str]:
    return {name: str(extra[name]) for name in _LIBPQ if extra.get(name)}


def _tls(connection: Connection) -> dict[str, str]:
    """Of Airflow's MySQL connections: `ssl` is an object, or its JSON. Who names authorities (`ca`) wants the server's
    certificate checked by them, as MySQL's clients do. Raises SourceError."""
    files, mode = connection.extra.get("ssl") or {}, str(connection.extra.get("ssl_mode") or "").upper()
    if isinstance(files, str):
        import json

        try:
            files = json.loads(files)
        except ValueError:
            files = None
    if not isinstance(files, Mapping) or (mode and mode not in _MODES):
        raise SourceError(
            f"connection {connection.conn_id}: ssl or ssl_mode is invalid",
            advice=f"ssl: an object with {', '.join(_TLS)}; ssl_mode: one of {', '.join(_MODES)}",
            retry=False,
        )
    found = {f"ssl_{name}": str(files[name]) for name in _TLS if files.get(name)}
    usual = "VERIFY_CA" if "ssl_ca" in found else "REQUIRED" if found else "PREFERRED"
    return found | {"ssl_mode": mode or usual}
