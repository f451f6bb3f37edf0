"""A keyed table in Iceberg (`core.target.port.PrefixTarget`): a merge of landed batches is one commit on the snapshot
that the merge has read (M1), which also says up to which batch the table is (M3)."""

from __future__ import annotations

from collections import defaultdict

from pyiceberg.manifest import DataFile

from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure, LostComparison
from tidegate.core.base.wording import many
from tidegate.core.mirror.balance import after, imbalance
from tidegate.core.mirror.jobs import BaseFile, Bucket, TableColumn
from tidegate.core.mirror.prefix import follows
from tidegate.core.target.paths import join
from tidegate.core.target.port import Holds, Merged, Prefix, Settled, Site, Unit
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.catalogue import Catalogue, Conflict, Loaded
from tidegate.targets.iceberg.expiry import sweep
from tidegate.targets.iceberg.files import data_file
from tidegate.targets.iceberg.leftovers import leftovers
from tidegate.targets.iceberg.live import Look, look, unit_of
from tidegate.targets.mirror.definition import MirrorDefinition
from tidegate.targets.mirror.prefix import has, prefix_of, still, summary_of, telling
from tidegate.workflow.base import bounds
from tidegate.workflow.base.context import ATTEMPTS

_TAKE_BACK = (
    "find out who changed it, and take the table back to the snapshot before that (in Spark: CALL "
    "<catalog>.system.rollback_to_snapshot(...)): the next merge takes up every batch from there on"
)


class MirrorTable:
    """Implements `core.target.port.PrefixTarget` on a catalogue."""

    unit = Unit.PREFIX

    def __init__(self, site: Site, catalogue: Catalogue) -> None:
        self.site, self.catalogue = site, catalogue

    @property
    def definition(self) -> MirrorDefinition:
        """By the spec as it is now."""
        return MirrorDefinition(self.site.pipeline)

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return self.definition.name

    # ------------------------------------------------------------ the table

    def prepare(self) -> None:
        """Create the table, or give it the pipeline's columns; looks first. Raises CatalogueError."""
        self.definition.bring_up(self.catalogue, self.site.say)

    def columns(self) -> tuple[TableColumn, ...]:
        """The table's columns, in order."""
        return self.definition.told

    def fields(self) -> tuple[tuple[str, int], ...]:
        """(path, id) of its fields. Raises CatalogueError."""
        return tuple((path, number) for _, path, number in self.definition.fields(self._load()))

    # ------------------------------------------------------------ what readers see

    def standing(self) -> Prefix:
        """What the current snapshot says of itself (M4). Raises CatalogueError."""
        return self._prefix(self._load())

    def base(self) -> tuple[Prefix, tuple[Bucket, ...]]:
        """One snapshot: what it says of itself, and the files of each bucket. Others may have compacted them (C9).

        Raises CatalogueError for a table whose rows others have changed, by rows and by commits."""
        loaded = self._load()
        prefix, seen = self._prefix(loaded), look(loaded.metadata, loaded.io, None)
        self._refuse_changed(prefix, seen)
        files: dict[int, list[BaseFile]] = defaultdict(list)
        for f in seen.files:
            files[unit_of(loaded.metadata, f)].append(BaseFile(f.file_path, f.record_count, f.file_size_in_bytes))
        return prefix, tuple(Bucket(number, tuple(sorted(files[number], key=_uri))) for number in sorted(files))

    def apply(self, before: Prefix, merged: Merged, holds: Holds) -> Prefix:
        """Commit the merge on the snapshot that it has read. Done if it stands already, whatever came after it.

        Each round loads, looks for the attempt, asks the ledger, and commits on what it loaded (C1); a refusal and an
        answer that was lost alike begin at the load (C2). Raises LostComparison, CatalogueError, CatalogueUnsure."""
        trouble: CatalogueError | None = None
        for _ in range(ATTEMPTS):
            loaded = self._load()
            now = self._prefix(loaded)
            if has(loaded.metadata, merged.attempt):
                return now
            if not still(now, before) or not follows(now.upto, merged.first, merged.last):
                raise LostComparison(f"{self.name} is no longer what the merge {merged.attempt} has read: merge anew")
            if not holds():
                raise LostComparison(f"{self.name}: the merge {merged.attempt} is no longer wanted")
            try:
                return self._prefix(self._commit(loaded, before, merged))
            except (Conflict, CatalogueUnsure) as e:
                trouble = e
                self.site.say(f"{self.name}: {str(e).splitlines()[0]}; looking again")
        assert trouble is not None
        raise trouble

    def _commit(self, loaded: Loaded, before: Prefix, merged: Merged) -> Loaded:
        changed = {b.number for b in merged.receipt.buckets if b.changed}
        known = bounds.read(self.site.storage, merged.directory)
        added: list[DataFile] = []
        for bucket in merged.receipt.buckets:
            for f in bucket.files:
                uri, part = join(merged.directory, f.path), (bucket.number,)
                added.append(data_file(loaded.metadata, uri, part, (f.rows, f.bytes), known.get(f.path)))
        seen = look(loaded.metadata, loaded.io, changed)
        sums = after(before, merged.receipt)
        said = summary_of(self.site.pipeline.name, merged, sums, before.purged_below)
        return self.catalogue.commit(loaded, (), snapshot.replaced(loaded.metadata, loaded.io, seen, added, said, None))

    def _refuse_changed(self, prefix: Prefix, seen: Look) -> None:
        """Raises CatalogueError."""
        rows = sum(f.record_count for f in seen.files)
        wrong = imbalance(prefix)
        if seen.altered:
            (bucket,), who = next(iter(sorted(seen.altered.items())))
            wrong = f"rows of bucket {bucket} were changed by {who}"
        elif rows != prefix.rows + prefix.tombstones:
            said = f"{many(prefix.rows, 'row')} and {many(prefix.tombstones, 'tombstone')}"
            wrong = f"its files hold {many(rows, 'row')}, its newest merge says {said}"
        if wrong is not None:
            raise CatalogueError(f"{self.name}: {wrong}", advice=_TAKE_BACK)

    def _prefix(self, loaded: Loaded) -> Prefix:
        try:
            return prefix_of(loaded.metadata)
        except (KeyError, ValueError) as e:
            what = f"{self.name} does not tell up to which batch it is: {e}"
            raise CatalogueMismatch(what, advice=_TAKE_BACK) from e

    def _load(self) -> Loaded:
        loaded = self.catalogue.load(self.name)
        if loaded is None:
            raise CatalogueError(f"{self.name} does not exist", advice="the next merge creates it")
        self.definition.refuse_other(loaded)
        return loaded

    # ------------------------------------------------------------ upkeep

    def sweep(self, settled: Settled) -> list[str]:
        """Let go of snapshots beyond the newest, never of one between the current one and the newest merge: without
        them nothing tells up to which batch the table is (M4). Raises CatalogueError."""
        return sweep(self.catalogue, self.name, settled, telling)

    def leftovers(self, now_ms: int) -> list[str]:
        """Metadata, lists and manifests that nothing needs any more (C10). Raises CatalogueError, StorageError."""
        return leftovers(self.catalogue, self.name, self.definition.location, self.site.storage, now_ms)


def _uri(file: BaseFile) -> str:
    return file.uri
