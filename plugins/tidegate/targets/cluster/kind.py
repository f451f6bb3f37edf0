"""The kind of delivery `cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.storage import can_rename
from tidegate.core.deliver.port import Checksum, FurtherSystem, Table
from tidegate.core.spec.pipeline import HIVE, Delivery, Pipeline
from tidegate.kinds import DeliveryKind, Need, late

_HERE = "tidegate.targets.cluster"
THRIFT_PORT = 9083


def there(pipeline: Pipeline, name: str, options: Mapping[str, str], conn_id: str = "") -> Pipeline:
    """The pipeline as if the table `name` of the other cluster were its own."""
    location = options["location"]
    sink = replace(
        pipeline.sink,
        conn_id=conn_id,
        table=name,
        location=location,
        workdir=f"{location}/_tidegate",
        user=options.get("user", pipeline.sink.user),
        metastore_conn_id=options.get("metastore_conn_id"),
    )
    return replace(pipeline, sink=sink)


def _settings(connection: Connection, *further: Connection) -> dict[str, Any]:
    known = {c.conn_id: {**vars(c), "extra": dict(c.extra)} for c in (connection, *further)}
    return {"conn_id": connection.conn_id, "connections": known}


def _needs(delivery: Delivery) -> list[Need]:
    conn_id = dict(delivery.options).get("metastore_conn_id")
    return [] if conn_id is None else [Need(conn_id, port=THRIFT_PORT)]


def _opened(settings: Mapping[str, Any], table: Table, checksum: Checksum, timeout_s: float) -> FurtherSystem:
    """Files are compared byte by byte, so `checksum` is not used; the catalogue's client has time-outs of its own."""
    from tidegate.adapters.clock import SystemClock
    from tidegate.storage import for_uri
    from tidegate.targets.cluster.table import ClusterTable, Options, Site
    from tidegate.targets.hive.kind import KIND

    assert table.spec is not None
    options = dict(table.options)
    spec = there(table.spec, table.name, options, settings["conn_id"])
    storage = for_uri(spec.sink.location, spec.sink.user)
    site = Site(pipeline=spec, storage=storage, clock=SystemClock())
    targets = KIND.opened(spec, lambda conn_id: Connection(**settings["connections"][conn_id]), False)
    return ClusterTable(site, storage, targets, Options.of(table.delivery, options))


def _problems(pipeline: Pipeline, delivery: Delivery) -> list[tuple[str, str]]:
    location, found = dict(delivery.options)["location"], []
    if pipeline.sink.kind != HIVE:
        found.append(("kind", f"files of Hive tables are copied, and sink.kind is {pipeline.sink.kind}"))
    if not can_rename(location):
        found.append(("location", "a window is renamed into place, which an object store cannot do: HDFS, or a disk"))
    own = pipeline.sink.location
    if f"{location}/".startswith(f"{own}/") or f"{own}/".startswith(f"{location}/"):
        found.append(("location", f"{own} is the pipeline's own: name a directory of the other cluster"))
    if "." not in delivery.table:
        found.append(("table", f"Hive's tables have a database: write it as database.{delivery.table}"))
    return found


KIND = DeliveryKind(
    name="cluster",
    title="another cluster",
    connection_types=("hiveserver2",),
    port=10000,
    section=late(f"{_HERE}.section:section"),
    settings=_settings,
    opened=_opened,
    examined=late(f"{_HERE}.doctor:examined"),
    problems=_problems,
    needs=_needs,
)
