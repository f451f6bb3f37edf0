"""The tables of late and dirty rows in Hive (`core.target.port.SideTarget`): a batch is a partition, or several."""

from __future__ import annotations

from tidegate.core.base.partition_values import PartitionValues, parse_partition_path
from tidegate.core.files.receipt import LATE
from tidegate.core.target.paths import Layout, join
from tidegate.core.target.port import Batches, Holds, Shown, Site, Unit
from tidegate.targets.hive.partitions import shown
from tidegate.targets.hive.places import Plain
from tidegate.targets.hive.ports import Catalogue, TableDef
from tidegate.targets.hive.table import bring_up
from tidegate.targets.hive.tables import BATCH_PARTITION, dirty_table, late_table


class HiveSide(Plain):
    """Implements `core.target.port.SideTarget`. No change needs an intent: a batch's directory never changes its place,
    and what shows it no more is never followed by an ADD but one that was on its way, which shows an empty directory.
    """

    unit = Unit.BATCH
    remedy = (
        "drop the partition if it is there (files stay), and add it again: ALTER TABLE ... ADD PARTITION ... LOCATION"
    )

    def __init__(self, site: Site, catalogue: Catalogue, kind: str) -> None:
        self.site, self.catalogue, self.kind = site, catalogue, kind

    @property
    def definition(self) -> TableDef:
        return (late_table if self.kind == LATE else dirty_table)(self.site.pipeline)

    @property
    def name(self) -> str:
        return self.definition.name

    def prepare(self) -> None:
        """Create the table, or give it the pipeline's columns. Raises CatalogueError."""
        bring_up(self.catalogue, self.definition, self.site)

    def publish(self, batches: Batches, holds: Holds) -> None:
        """Add the batches' partitions; those that are there stay. Raises CatalogueError."""
        self.catalogue.add_partitions(self.name, self.expected(batches))

    def retire(self, batches: Batches, holds: Holds) -> None:
        """Drop the partitions of these files; done if they are absent. Raises CatalogueError."""
        self.catalogue.drop_partitions(self.name, list(self.expected(batches)))

    def expected(self, batches: Batches) -> Shown:
        """Where the files lie below their batch's directory: as the manifest says, never spelled again."""
        found: Shown = {}
        for batch_id, files in batches.items():
            directory = Layout.of(self.site.pipeline).side(batch_id, self.kind)
            batch: PartitionValues = ((BATCH_PARTITION[0], str(batch_id)),)
            for folder in sorted({f.path.removeprefix(f"{self.kind}/").rpartition("/")[0] for f in files}):
                found[batch + parse_partition_path(folder)] = join(directory, folder) if folder else directory
        return found

    def shown(self) -> Shown:
        """Every partition of the table. Raises CatalogueMismatch for a table that `prepare` would refuse."""
        return shown(self.catalogue, self.definition)
