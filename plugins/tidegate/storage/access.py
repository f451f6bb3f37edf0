"""How an object store is reached: a connection of type `aws` as plain keys, which jobs get in their secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.core.base.connection import Connection, retyped
from tidegate.core.base.errors import TidegateError
from tidegate.core.spec.pipeline import Sink

KEYS = ("access_key_id", "secret_access_key", "session_token", "endpoint_url", "region", "connection")
TYPES = ("aws",)
PREFIX = "tidegate.storage."
"""Begins the keys as `spark_jobs.engine.secrets` reads them."""
OPTION = "object_store_conn_id"
"""Key of the section `sink`, and of a delivery to another cluster."""
_NOT_TAKEN = ("role_arn", "profile_name", "assume_role_method", "external_id", "config_kwargs")


def access_for(sink: Sink, connect: Callable[[str], Connection]) -> dict[str, str]:
    """How the store of a table's files is reached; empty for other storage, and where hosts have a role.

    Raises TidegateError: the connection is missing, or does not fit."""
    conn_id = dict(sink.options).get(OPTION)
    return access_of(connect(conn_id)) if conn_id and is_object(sink.location) else {}


def is_object(uri: str) -> bool:
    """Whether a URI is of an object store."""
    return uri.startswith("s3://")


def as_secrets(access: Mapping[str, str]) -> dict[str, str]:
    """As jobs and child processes get it, among their other secrets."""
    return {f"{PREFIX}{key}": value for key, value in access.items()}


def access_of(connection: Connection) -> dict[str, str]:
    """Keys of `KEYS` that the connection gives. Without a login: the environment's credentials, or the host's role.

    Raises TidegateError for another type, and for settings that Tidegate cannot follow."""
    name = f"connection {connection.conn_id}"
    if connection.conn_type not in TYPES:
        raise TidegateError(
            f"{name} is of type {connection.conn_type}: an object store needs aws",
            advice=retyped(connection.conn_id, connection.conn_type, TYPES, f"give {OPTION} a connection of type aws"),
        )
    extra = connection.extra
    unknown = [key for key in _NOT_TAKEN if extra.get(key)]
    if unknown:
        raise TidegateError(
            f"{name} has {', '.join(unknown)} in its extra, which Tidegate does not use",
            advice="give it a login and a password, or none and let hosts have the role itself",
        )
    if bool(connection.login) != bool(connection.password):
        raise TidegateError(
            f"{name} has only one of login and password",
            advice="give it both (access key id and secret access key), or neither",
        )
    services = extra.get("service_config")
    service = services.get("s3", {}) if isinstance(services, Mapping) else {}
    found = {
        "access_key_id": connection.login,
        "secret_access_key": connection.password,
        "session_token": extra.get("aws_session_token"),
        "endpoint_url": service.get("endpoint_url") or extra.get("endpoint_url"),
        "region": extra.get("region_name"),
        "connection": connection.conn_id if connection.login else None,  # whose login it is, for errors
    }
    return {key: str(value) for key, value in found.items() if value}
