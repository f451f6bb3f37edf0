"""Hive as a kind of target: the tables of a pipeline, on one catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import CatalogueError, CatalogueUnsure
from tidegate.core.base.storage import can_rename
from tidegate.core.spec.pipeline import HIVE, Pipeline
from tidegate.core.target.port import SideTarget, Site, Target, Targets
from tidegate.kinds import Connect, Need, TargetKind, found_at, late
from tidegate.targets.hive.ports import Catalogue, PartitionSwitch

THRIFT_PORT = 9083
LOOKING = ("partitions", "examine", "check_table")
"""Methods of the catalogue that change nothing."""


@dataclass
class Hive:
    """Implements `core.target.port.Targets`. `switch` is there if the spec names a connection to the metastore."""

    catalogue: Catalogue
    switch: PartitionSwitch | None = None

    def data(self, site: Site) -> Target:
        """The pipeline's own table."""
        from tidegate.targets.hive.table import HiveTable

        return HiveTable(site, self.catalogue, self.switch)

    def side(self, site: Site, kind: str) -> SideTarget:
        """`kind`: late | dirty."""
        from tidegate.targets.hive.sides import HiveSide

        return HiveSide(site, self.catalogue, kind)


def _needs(pipeline: Pipeline) -> list[Need]:
    sink = pipeline.sink
    found = [Need(sink.conn_id, ("hiveserver2",))]
    return found if sink.metastore_conn_id is None else [*found, Need(sink.metastore_conn_id, port=THRIFT_PORT)]


def _opened(pipeline: Pipeline, connect: Connect, looking: bool) -> Targets:
    from tidegate.adapters.later import Later
    from tidegate.adapters.watchdog import HANGS_S, Watched

    if looking:
        later: Any = Later(lambda: _catalogue(connect(pipeline.sink.conn_id)))
        return Hive(later)
    catalogue: Any = Watched(
        _catalogue(connect(pipeline.sink.conn_id)), HANGS_S, CatalogueUnsure, CatalogueError, looking=LOOKING
    )
    if pipeline.sink.metastore_conn_id is None:
        return Hive(catalogue)
    switch: Any = Watched(
        _metastore(connect(pipeline.sink.metastore_conn_id)), HANGS_S, CatalogueUnsure, CatalogueError
    )
    return Hive(catalogue, switch)


def _catalogue(c: Connection) -> Catalogue:
    from tidegate.targets.hive.catalogue import PyHiveCatalogue

    return PyHiveCatalogue.from_connection_fields(c.host, c.port, c.login, c.password, c.schema, c.extra)


def _metastore(c: Connection) -> PartitionSwitch:
    from tidegate.settings import airflow_kerberos
    from tidegate.targets.hive.metastore import HiveMetastore

    return HiveMetastore.from_connection_fields(c.host, c.port, c.extra, kerberos=airflow_kerberos())


def problems(pipeline: Pipeline, instead: str = "set sink.kind: iceberg") -> list[tuple[tuple[str | int, ...], str]]:
    """(path in the YAML, what is wrong) of a pipeline that no such table can take. `instead`: which one can."""
    if can_rename(pipeline.sink.location):
        return []
    what = "a Hive table's windows are renamed into place, which an object store cannot do"
    return [(("sink", "location"), f"{what}: {instead}, or a location on HDFS or a local disk")]


KIND = TargetKind(
    name=HIVE,
    title="Hive",
    needs=_needs,
    section=found_at("tidegate.targets.hive.section:HiveSection"),
    opened=_opened,
    examined=late("tidegate.targets.hive.doctor:examined"),
    problems=problems,
)
