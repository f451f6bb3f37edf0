"""Hive as a kind of target: the tables of a pipeline, on one catalogue."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.target.port import SideTarget, Site, Target
from tidegate.targets.hive.ports import Catalogue, PartitionSwitch
from tidegate.targets.hive.sides import HiveSide
from tidegate.targets.hive.table import HiveTable


@dataclass
class Hive:
    """Implements `core.target.port.Targets`. `switch` is there if the spec names a connection to the metastore."""

    catalogue: Catalogue
    switch: PartitionSwitch | None = None

    def data(self, site: Site) -> Target:
        """The pipeline's own table."""
        return HiveTable(site, self.catalogue, self.switch)

    def side(self, site: Site, kind: str) -> SideTarget:
        """`kind`: late | dirty."""
        return HiveSide(site, self.catalogue, kind)
