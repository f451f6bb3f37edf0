"""Iceberg as a kind of target: the tables of a pipeline, in one catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.core.base.storage import Storage
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import SideTarget, Site, Target, Targets
from tidegate.kinds import Connect, Need, TargetKind, found_at, late

if TYPE_CHECKING:
    from tidegate.targets.iceberg.catalogue import Catalogue

_HERE = "tidegate.targets.iceberg"
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


def _needs(pipeline: Pipeline) -> list[Need]:
    from tidegate.targets.iceberg.opening import TYPES

    found = [Need(pipeline.sink.conn_id, TYPES)]
    store = dict(pipeline.sink.options).get("object_store_conn_id")
    return found if store is None else [*found, Need(store, ("aws",))]


def _opened(pipeline: Pipeline, connect: Connect, looking: bool) -> Targets:
    return Iceberg(pipeline, connect)


KIND = TargetKind(
    name="iceberg",
    title="Iceberg",
    needs=_needs,
    section=found_at(f"{_HERE}.section:IcebergSection"),
    opened=_opened,
    examined=late(f"{_HERE}.doctor:examined"),
    each_table=True,
    names_files=True,
    stored=found_at(f"{_HERE}.columns:FORM"),
    problems=late(f"{_HERE}.columns:problems"),
)
