"""An Iceberg table of another cluster: a window's files, named where they lie there, are one commit (C1).

Its metadata is made there: no path is rewritten. A commit is made on the snapshot that was looked at, so one that
comes late is refused, or is what the table was before; there are no intents. An empty window is a commit, too (D6).
"""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata

from tidegate.core.base.errors import DeliveryAhead, LostComparison
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.base.wording import many
from tidegate.core.deliver.port import Holds
from tidegate.core.target.paths import join
from tidegate.core.target.port import Targets, Token
from tidegate.targets.cluster import fields
from tidegate.targets.cluster.copying import Files
from tidegate.targets.cluster.table import ClusterTable, Met, Options, Site
from tidegate.targets.cluster.tries import Record
from tidegate.targets.iceberg import live, snapshot
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.columns import WINDOW
from tidegate.targets.iceberg.definition import Definition
from tidegate.targets.iceberg.expiry import sweep
from tidegate.targets.iceberg.files import below, data_files, held
from tidegate.targets.iceberg.in_catalogue import in_rounds
from tidegate.targets.iceberg.leftovers import leftovers
from tidegate.targets.iceberg.numbering import Ids
from tidegate.targets.iceberg.rules import Held
from tidegate.targets.iceberg.table import IcebergTable


class IcebergCopy(ClusterTable):
    """Implements `core.deliver.port.FurtherSystem`."""

    def __init__(self, site: Site, storage: Files, targets: Targets, options: Options) -> None:
        super().__init__(site, storage, options)
        table = targets.data(site)
        assert isinstance(table, IcebergTable)
        self._catalogue, self._definition = table.catalogue, table.definition

    def _prepare(self) -> None:
        """The table comes with the first window, whose files say how its columns are numbered."""
        loaded = self._catalogue.load(self._definition.name)
        if loaded is not None:
            self._definition.refuse_other(loaded)
            sweep(self._catalogue, self._definition.name, lambda publications: publications)

    def _is_missing(self) -> bool:
        return self._catalogue.load(self._definition.name) is None

    def _clean_up(self) -> list[str]:
        """Metadata and manifests that nothing needs any more (C10)."""
        definition, now_ms = self._definition, self._site.clock.now_ms()
        gone = leftovers(self._catalogue, definition.name, definition.location, self._storage, now_ms)
        for path in gone:
            self._storage.delete(path)
        return [f"removed {many(len(gone), 'file')} of metadata that nothing needs"] if gone else []

    def _show(self, record: Record, name: str, holds: Holds) -> None:
        """Commit until readers meet it."""
        ids = self._ids(record)
        in_rounds(lambda: self._commit(self._fitted(ids), record, holds), lambda words: None)

    def _commit(self, loaded: Loaded, record: Record, holds: Holds) -> None:
        """Raises DeliveryAhead, LostComparison, CatalogueError."""
        token, metadata, unit = record.token, loaded.metadata, self._tries.words(record.token.unit)
        entries = [copied.entry for copied in record.files]
        seen = live.look(metadata, loaded.io, {self._in_table(token.unit)})
        newest = self._newest(metadata, token.unit)
        if newest is not None and (newest.generation, newest.epoch) > record.order:
            raise DeliveryAhead(
                f"{unit}: generation {newest.generation}, try {newest.epoch}, stands in {loaded.name}",
                generation=newest.generation,
                epoch=newest.epoch,
            )
        batch = token.unit if self._options.side else 0
        stands = held(self._definition, seen, below(record.place, entries), batch)
        if stands is Held.AS_WRITTEN or (stands is Held.EMPTY and newest == token):
            return
        if not holds():
            raise LostComparison(f"{unit}: a later try or generation has taken over")
        added = data_files(self._definition, metadata, below(record.place, entries), {}, batch)
        said = self._said(token, sum(entry.rows for entry in entries), record.place)
        self._catalogue.commit(loaded, (), snapshot.replaced(metadata, loaded.io, seen, added, said, None))

    def _fitted(self, ids: Ids) -> Loaded:
        """The table, with all columns of files that have these ids."""
        definition = self._definition
        loaded = self._catalogue.load(definition.name)
        if loaded is None:
            schema = fields.first_schema(definition, ids)
            loaded = self._catalogue.create(
                definition.name, schema, definition.spec(schema), definition.location, definition.properties()
            )
        definition.refuse_other(loaded)
        updates = fields.changes(definition, loaded, ids)
        return self._catalogue.commit(loaded, (), updates) if updates else loaded

    def _ids(self, record: Record) -> Ids:
        found: dict[str, int] = {}
        for copied in record.files:
            with self._storage.open_existing(join(record.place, copied.entry.path)) as file:
                found |= fields.ids_in(file)
        return found

    def _met(self, window_ms: int) -> Met:
        loaded = self._catalogue.load(self._definition.name)
        if loaded is None:
            return Met(files={}, places=(), by=lambda record: False)
        seen = live.look(loaded.metadata, loaded.io, {self._in_table(window_ms)})
        uris = tuple(file.file_path for file in seen.files)
        home = f"{self._home(window_ms)}/"
        names = [uri.removeprefix(home).partition("/")[2] if uri.startswith(home) else uri for uri in uris]
        parts = {name: self._values(live.part_in(file)) for name, file in zip(names, seen.files, strict=True)}
        newest = self._newest(loaded.metadata, window_ms)

        def by(record: Record) -> bool:
            wanted = {join(record.place, copied.entry.path) for copied in record.files}
            return wanted == {*uris} and (bool(wanted) or newest is None or newest == record.token)

        altered = {self._values(part): who for part, who in seen.altered.items()}
        return Met(files=dict(zip(names, uris, strict=True)), places=uris, by=by, values=parts, altered=altered)

    def _values(self, part: live.Part) -> PartitionValues:
        """Without the window's."""
        found = zip(self._definition.parts, part, strict=False)
        return tuple((c.name, None if value is None else str(value)) for c, value in found if c.name != WINDOW)

    # ------------------------------------------------------------ how the table names a unit

    def _in_table(self, unit: int) -> int:
        """A window's start in the column that the table is partitioned by."""
        return unit * 1000

    def _newest(self, metadata: TableMetadata, unit: int) -> Token | None:
        return live.newest_token(metadata, unit)

    def _said(self, token: Token, rows: int, place: str) -> dict[str, str]:
        return live.summary_of(token, rows, place)


_BATCH = f"{live.PREFIX}batch"


class IcebergSideCopy(IcebergCopy):
    """The table of late or dirty rows: a batch is in a part of the table, or in several.

    Its snapshots name a batch, never a unit: those would be taken for windows."""

    def __init__(self, site: Site, storage: Files, targets: Targets, options: Options) -> None:
        super().__init__(site, storage, targets, options)
        self._definition = Definition(site.pipeline, options.side)

    def _in_table(self, unit: int) -> int:
        return unit

    def _newest(self, metadata: TableMetadata, unit: int) -> Token | None:
        return live.newest_token(metadata, unit, _BATCH)

    def _said(self, token: Token, rows: int, place: str) -> dict[str, str]:
        said = live.summary_of(token, rows, place)
        del said[live.UNIT]
        return said | {_BATCH: str(token.unit)}


def copy(site: Site, storage: Files, targets: Targets, options: Options) -> IcebergCopy:
    """Of the pipeline's own table, or of one beside it."""
    return (IcebergSideCopy if options.side else IcebergCopy)(site, storage, targets, options)
