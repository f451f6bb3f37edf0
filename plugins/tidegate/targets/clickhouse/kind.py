"""The kind of delivery `clickhouse`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.deliver.port import Checksum, FurtherSystem, Table
from tidegate.core.spec.pipeline import Delivery, Pipeline
from tidegate.kinds import DeliveryKind, found_at, late

_HERE = "tidegate.targets.clickhouse"
_PORT, _SECURE_PORT = 8123, 8443


def settings(connection: Connection) -> dict[str, Any]:
    """What the process that sends needs. `host`: of each shard, with commas between; `host:port` where ports differ.
    Replicas of a shard have bars between: the first one is written to."""
    secure = bool(connection.extra.get("secure"))
    port = connection.port or (_SECURE_PORT if secure else _PORT)
    hosts = [host.strip() for host in (connection.host or "").split(",") if host.strip()]
    if not hosts:
        raise DeliveryRefused(
            f"connection {connection.conn_id} has no host", advice="fix it: host is the shards'", retry=False
        )
    return {
        "shards": ["|".join(_at(server.strip(), port) for server in host.split("|")) for host in hosts],
        "user": connection.login or "default",
        "password": connection.password or "",
        "database": connection.schema or "default",
        "secure": secure,
        "verify": connection.extra.get("verify", True),
    }


def _at(server: str, port: int) -> str:
    return server if ":" in server else f"{server}:{port}"


def clients(settings: Mapping[str, Any], timeout_s: float) -> list[Any]:
    """One for each shard, in their order, with its replicas."""
    from tidegate.targets.clickhouse.client import Client

    shared = {name: settings[name] for name in ("user", "password", "database", "secure", "verify")}

    def of(address: str, replicas: tuple[Client, ...] = ()) -> Client:
        return Client(address=address, timeout_s=timeout_s, replicas=replicas, **shared)

    shards = (address.split("|") for address in settings["shards"])
    return [of(first, tuple(map(of, others))) for first, *others in shards]


def opened(settings: Mapping[str, Any], table: Table, checksum: Checksum, timeout_s: float) -> FurtherSystem:
    """The table there. The server computes hashes of its own, so `checksum` is not used."""
    from tidegate.targets.clickhouse.table import ClickHouseTable

    return ClickHouseTable(clients(settings, timeout_s), table, timeout_s)


def _problems(pipeline: Pipeline, delivery: Delivery) -> list[tuple[str, str]]:
    from tidegate.core.deliver.columns import delivered_columns

    known = dict(delivered_columns(pipeline))
    named = dict(delivery.options).get("order_by", "").split(",")
    return [("order_by", f"{name} is not a column of the pipeline") for name in named if name and name not in known]


KIND = DeliveryKind(
    name="clickhouse",
    title="ClickHouse",
    connection_types=("clickhouse", "http", "https", "generic"),
    port=_PORT,
    section=found_at(f"{_HERE}.section:ClickHouseSection"),
    settings=settings,
    opened=opened,
    examined=late(f"{_HERE}.doctor:examined"),
    problems=_problems,
)
