"""The kind of delivery `cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.storage import can_rename
from tidegate.core.deliver.port import Checksum, FurtherSystem, Table
from tidegate.core.spec.pipeline import HIVE, Delivery, Pipeline
from tidegate.core.target.paths import join, usual_workdir
from tidegate.kinds import DeliveryKind, Need, found_at, late

_HERE = "tidegate.targets.cluster"
THRIFT_PORT = 9083
ICEBERG = "iceberg"
STORE = "object_store_conn_id"
METASTORE = "metastore_conn_id"


def there(pipeline: Pipeline, name: str, options: Mapping[str, str], conn_id: str = "", side: str = "") -> Pipeline:
    """The pipeline as if the table `name` of the other cluster were its own. What tries leave of a side table (`side`)
    has a work directory of its own."""
    location = options["location"]
    sink = replace(
        pipeline.sink,
        conn_id=conn_id,
        table=name,
        location=location,
        workdir=join(usual_workdir(location), "beside", side) if side else usual_workdir(location),
        user=options.get("user", pipeline.sink.user),
        metastore_conn_id=options.get(METASTORE),
        fields=(),
    )
    return replace(pipeline, sink=sink)


def _settings(connection: Connection, *further: Connection) -> dict[str, Any]:
    known = {c.conn_id: {**vars(c), "extra": dict(c.extra)} for c in (connection, *further)}
    return {"conn_id": connection.conn_id, "connections": known}


def _needs(delivery: Delivery) -> list[Need]:
    options = dict(delivery.options)
    found = [Need(options[METASTORE], port=THRIFT_PORT)] if METASTORE in options else []
    return [*found, Need(options[STORE], ("aws",))] if STORE in options else found


def _opened(settings: Mapping[str, Any], table: Table, checksum: Checksum, timeout_s: float) -> FurtherSystem:
    """Files are compared byte by byte, so `checksum` is not used; the catalogue's client has time-outs of its own."""
    from tidegate.adapters.clock import SystemClock
    from tidegate.kinds import target_kind
    from tidegate.storage import for_uri
    from tidegate.storage.access import access_of
    from tidegate.targets.cluster.table import Options, Site

    def connect(conn_id: str) -> Connection:
        return Connection(**settings["connections"][conn_id])

    assert table.spec is not None
    options = dict(table.options)
    spec = there(table.spec, table.name, options, settings["conn_id"], table.side)
    access = access_of(connect(options[STORE])) if STORE in options else None
    storage = for_uri(spec.sink.location, spec.sink.user, access)
    site = Site(pipeline=spec, storage=storage, clock=SystemClock())
    targets, told = target_kind(spec.sink.kind).opened(spec, connect, False), Options.of(table.delivery, options)
    if spec.sink.kind == HIVE:
        from tidegate.targets.cluster import hive

        return hive.copy(site, storage, targets, told)
    from tidegate.targets.cluster import iceberg

    return iceberg.copy(site, storage, targets, told)


def _problems(pipeline: Pipeline, delivery: Delivery) -> list[tuple[str, str]]:
    options, kind, found = dict(delivery.options), pipeline.sink.kind, []
    location, own = options["location"], pipeline.sink.location
    if kind not in (HIVE, ICEBERG):
        found.append(("kind", f"files of Hive and Iceberg tables are copied, and sink.kind is {kind}"))
    if f"{location}/".startswith(f"{own}/") or f"{own}/".startswith(f"{location}/"):
        found.append(("location", f"{own} is the pipeline's own: name a directory of the other cluster"))
    if "." not in delivery.table:
        found.append(("table", f"such a table has a database: write it as database.{delivery.table}"))
    if METASTORE in options and kind != HIVE:
        found.append((METASTORE, "is for Hive tables; leave it out"))
    if STORE in options and can_rename(location):
        found.append((STORE, "is for a location in an object store (s3://...); leave it out"))
    return found


KIND = DeliveryKind(
    name="cluster",
    title="another cluster",
    connection_types=("hiveserver2", "iceberg", "postgres", "sqlite", "generic"),
    port=10000,
    section=found_at(f"{_HERE}.section:ClusterSection"),
    settings=_settings,
    opened=_opened,
    examined=late(f"{_HERE}.doctor:examined"),
    problems=_problems,
    needs=_needs,
)
