"""Keyed tables as a kind of target: the newest row of each key, in Iceberg."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.connection import Connection
from tidegate.core.doctor.findings import Finding
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import PrefixTarget, SideTarget, Site, Targets, Unit
from tidegate.kinds import Connect, TargetKind, found_at
from tidegate.targets.iceberg.kind import KIND as ICEBERG
from tidegate.targets.iceberg.kind import Iceberg
from tidegate.targets.mirror.rules import problems
from tidegate.targets.mirror.side import NoSide


@dataclass(frozen=True)
class Mirror:
    """Implements `core.target.port.Targets`."""

    iceberg: Iceberg

    def data(self, site: Site) -> PrefixTarget:
        """The pipeline's keyed table."""
        from tidegate.targets.iceberg.library import needed

        with needed():
            from tidegate.targets.mirror.table import MirrorTable
        return MirrorTable(site, self.iceberg.catalogue(site.storage))

    def side(self, site: Site, kind: str) -> SideTarget:
        """`kind`: late | dirty. There are no such tables."""
        return NoSide(site, kind)


def _opened(pipeline: Pipeline, connect: Connect, looking: bool) -> Targets:
    return Mirror(Iceberg(pipeline, connect))


def _examined(pipeline: Pipeline, connection: Connection, seconds: float) -> list[Finding]:
    from tidegate.targets.iceberg.doctor import examined
    from tidegate.targets.iceberg.library import needed

    with needed():
        from tidegate.targets.mirror.definition import MirrorDefinition
    return examined(pipeline, connection, seconds, MirrorDefinition(pipeline))


KIND = TargetKind(
    name="mirror",
    title="mirror",
    needs=ICEBERG.needs,
    section=found_at("tidegate.targets.mirror.section:MirrorSection"),
    opened=_opened,
    examined=_examined,
    each_table=True,
    dags=("ingest", "apply", "maintain"),
    unit=Unit.PREFIX,
    promotes=True,
    fixed=("store", "key"),
    problems=problems,
)
