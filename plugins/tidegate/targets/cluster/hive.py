"""A Hive table of another cluster.

Partitions are pointed to a window's place as those of the pipeline's own table are (R2, R8), with intents beside the
files instead of in the ledger (`targets/cluster/tries.py`).
"""

from __future__ import annotations

from tidegate.core.base.partition_values import PartitionValues, parse_partition_path, partition_path
from tidegate.core.deliver.port import Holds
from tidegate.core.files.receipt import LATE
from tidegate.core.target.paths import join
from tidegate.core.target.port import Shown, Targets
from tidegate.core.target.tables import table_name
from tidegate.core.window.states import GenerationKind, PublishedGeneration, WindowKey
from tidegate.targets.cluster.copying import Files
from tidegate.targets.cluster.table import ClusterTable, Met, Options, Site
from tidegate.targets.cluster.tries import Record, TryFence
from tidegate.targets.hive import partitions
from tidegate.targets.hive.places import Places
from tidegate.targets.hive.ports import Catalogue, PartitionSwitch
from tidegate.targets.hive.success_marker import write_success
from tidegate.targets.hive.table import HiveTable, bring_up
from tidegate.targets.hive.tables import BATCH_PARTITION, data_table, dirty_table, late_table
from tidegate.workflow.base.places import strays


class HiveCopy(ClusterTable):
    """Implements `core.deliver.port.FurtherSystem`."""

    def __init__(self, site: Site, storage: Files, targets: Targets, options: Options) -> None:
        super().__init__(site, storage, options)
        table = targets.data(site)
        assert isinstance(table, HiveTable)
        self._table: Places = table
        self._catalogue = table.catalogue

    def _prepare(self) -> None:
        bring_up(self._catalogue, data_table(self._site.pipeline), self._site)

    def _show(self, record: Record, name: str, holds: Holds) -> None:
        token, key = record.token, self._key(record.token.unit)
        generation = PublishedGeneration(
            pipeline=token.pipeline,
            window=key,
            number=token.generation,
            kind=GenerationKind.ARCHIVE,
            batches=(),
            location=record.place,
            files=tuple(c.entry for c in record.files),
            digest=token.digest,
            published_ms=record.since_ms,
            epoch=token.epoch,
        )
        fence = TryFence(self._tries, name, generation, holds)
        with self._catalogue.keeping_sessions():
            partitions.align(self._table, fence, record.place, self._wanted(record))
        if self._options.success and not self._options.side:
            write_success(self._table, key, token.generation, record.place)

    def _met(self, window_ms: int) -> Met:
        key = self._key(window_ms)
        at = self._table.values(key)
        shown, otherwise = self._catalogue.examine(self._table.name, at)
        files, of = dict[str, str](), dict[str, PartitionValues]()
        for values, location in shown.items():
            listing = [f.path for f in self._storage.list_files(location) or []]
            for path in strays(listing, ()):
                below = values[len(at) :]
                name = join(partition_path(below), path) if below else path
                files[name], of[name] = join(location, path), below
        return Met(
            files=files,
            places=tuple(shown.values()),
            by=lambda record: not otherwise and self._wanted(record) == shown,
            values=of,
        )

    def _wanted(self, record: Record) -> Shown:
        entries = tuple(c.entry for c in record.files)
        return partitions.wanted(self._table, self._key(record.token.unit), entries, record.place)


class _SidePlaces(Places):
    """Where batches are in a side table, of rows that are late or dirty."""

    def __init__(self, side: str, site: Site, catalogue: Catalogue, switch: PartitionSwitch | None) -> None:
        super().__init__(site, catalogue, switch)
        self._side = side

    @property
    def name(self) -> str:
        """`database.table`."""
        return table_name(self.site.pipeline, self._side)

    def values(self, key: WindowKey) -> PartitionValues:
        """The partition of a batch (`core.deliver.units.key_of`)."""
        return ((BATCH_PARTITION[0], str(key.start_ms)),)


class HiveSideCopy(HiveCopy):
    """The table of late or dirty rows: a batch is a partition, or several. Batches are pointed to the directory of a
    version as hours are to that of a generation."""

    def __init__(self, site: Site, storage: Files, targets: Targets, options: Options) -> None:
        super().__init__(site, storage, targets, options)
        self._table = _SidePlaces(options.side, site, self._catalogue, self._table.switch)

    def _prepare(self) -> None:
        spec = self._site.pipeline
        bring_up(self._catalogue, late_table(spec) if self._options.side == LATE else dirty_table(spec), self._site)

    def _wanted(self, record: Record) -> Shown:
        """Where the files lie below the batch's directory: as the manifest says, never spelled again."""
        at = self._table.values(self._key(record.token.unit))
        folders = sorted({c.entry.path.rpartition("/")[0] for c in record.files})
        return {at + parse_partition_path(f): join(record.place, f) if f else record.place for f in folders}


def copy(site: Site, storage: Files, targets: Targets, options: Options) -> HiveCopy:
    """Of the pipeline's own table, or of one beside it."""
    return (HiveSideCopy if options.side else HiveCopy)(site, storage, targets, options)
