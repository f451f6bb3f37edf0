"""Iceberg as a kind of target: the tables of a pipeline, in one catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.core.base.connection import Connection
from tidegate.core.base.storage import Storage
from tidegate.core.doctor.findings import Finding
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import SideTarget, Site, Target, Targets
from tidegate.core.target.stored import StoredForm
from tidegate.kinds import Connect, Need, TargetKind

if TYPE_CHECKING:
    from tidegate.targets.iceberg.catalogue import Catalogue

ANSWERS_S = 60.0


@dataclass
class Iceberg:
    """Implements `core.target.port.Targets`; its catalogue is opened by the first question."""

    pipeline: Pipeline
    connect: Connect
    _catalogue: Catalogue | None = None

    def data(self, site: Site) -> Target:
        """The pipeline's own table."""
        from tidegate.targets.iceberg.library import needed

        with needed():
            from tidegate.targets.iceberg.table import IcebergTable
        return IcebergTable(site, self.catalogue(site.storage))

    def side(self, site: Site, kind: str) -> SideTarget:
        """`kind`: late | dirty."""
        from tidegate.targets.iceberg.library import needed

        with needed():
            from tidegate.targets.iceberg.sides import IcebergSide
        return IcebergSide(site, self.catalogue(site.storage), kind)

    def catalogue(self, storage: Storage) -> Catalogue:
        """The pipeline's catalogue, whose metadata and manifests are files of this storage."""
        from tidegate.adapters.later import Later
        from tidegate.targets.iceberg.opening import opened

        if self._catalogue is None:
            conn_id = self.pipeline.sink.conn_id
            later: Any = Later(lambda: opened(self.connect(conn_id), storage, ANSWERS_S))
            self._catalogue = later
        assert self._catalogue is not None
        return self._catalogue


def _section() -> type[Any]:
    from tidegate.targets.iceberg.section import IcebergSection

    return IcebergSection


def _stored() -> StoredForm:
    from tidegate.targets.iceberg.columns import FORM

    return FORM


def _problems(pipeline: Pipeline) -> list[tuple[tuple[str | int, ...], str]]:
    from tidegate.targets.iceberg.columns import problems

    return problems(pipeline)


def _needs(pipeline: Pipeline) -> list[Need]:
    from tidegate.targets.iceberg.opening import TYPES

    found = [Need(pipeline.sink.conn_id, TYPES)]
    store = dict(pipeline.sink.options).get("object_store_conn_id")
    return found if store is None else [*found, Need(store, ("aws",))]


def _opened(pipeline: Pipeline, connect: Connect, looking: bool) -> Targets:
    return Iceberg(pipeline, connect)


def _examined(pipeline: Pipeline, connection: Connection, seconds: float) -> list[Finding]:
    from tidegate.targets.iceberg.doctor import examined

    return examined(pipeline, connection, seconds)


KIND = TargetKind(
    name="iceberg",
    title="Iceberg",
    needs=_needs,
    section=_section,
    opened=_opened,
    examined=_examined,
    each_table=True,
    names_files=True,
    stored=_stored,
    problems=_problems,
)
