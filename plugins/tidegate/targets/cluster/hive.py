"""A Hive table of another cluster.

Partitions are pointed to a window's place as those of the pipeline's own table are (R2, R8), with intents beside the
files instead of in the ledger (`targets/cluster/tries.py`).
"""

from __future__ import annotations

from tidegate.core.base.partition_values import PartitionValues, partition_path
from tidegate.core.deliver.port import Holds
from tidegate.core.target.paths import join
from tidegate.core.target.port import Shown, Targets
from tidegate.core.window.states import GenerationKind, PublishedGeneration
from tidegate.targets.cluster.copying import Files
from tidegate.targets.cluster.table import ClusterTable, Met, Options, Site
from tidegate.targets.cluster.tries import Record, TryFence
from tidegate.targets.hive import partitions
from tidegate.targets.hive.success_marker import write_success
from tidegate.targets.hive.table import HiveTable
from tidegate.workflow.base.places import strays


class HiveCopy(ClusterTable):
    """Implements `core.deliver.port.FurtherSystem`."""

    def __init__(self, site: Site, storage: Files, targets: Targets, options: Options) -> None:
        super().__init__(site, storage, options)
        table = targets.data(site)
        assert isinstance(table, HiveTable)
        self._table = table

    def _prepare(self) -> None:
        self._table.prepare()

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
        with self._table.session():
            partitions.align(self._table, TryFence(self._tries, name, generation, holds), record.place)
        if self._options.success:
            write_success(self._table, key, token.generation, record.place)

    def _met(self, window_ms: int) -> Met:
        key = self._key(window_ms)
        at = self._table.values(key)
        shown = self._table.catalogue.partitions(self._table.name, at)
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
            by=lambda record: self._wanted(record) == shown,
            values=of,
        )

    def _wanted(self, record: Record) -> Shown:
        entries = tuple(c.entry for c in record.files)
        return partitions.wanted(self._table, self._key(record.token.unit), entries, record.place)
