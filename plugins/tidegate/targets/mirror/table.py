"""A keyed table in Iceberg (`core.target.port.PrefixTarget`): a merge of landed batches is one commit on the snapshot
that the merge has read (M1), which also says up to which batch the table is (M3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from pyiceberg.manifest import DataFile

from tidegate.core.base.errors import CatalogueMismatch, LostComparison
from tidegate.core.base.wording import many
from tidegate.core.mirror.balance import after, imbalance
from tidegate.core.mirror.copied import stays_hidden
from tidegate.core.mirror.jobs import BaseFile, Bucket, TableColumn
from tidegate.core.mirror.next_merge import follows
from tidegate.core.target.paths import join
from tidegate.core.target.port import Holds, Settled, Unit
from tidegate.core.target.prefix import Merged, Prefix
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.catalogue import Conflict, Loaded
from tidegate.targets.iceberg.expiry import sweep
from tidegate.targets.iceberg.files import data_file
from tidegate.targets.iceberg.in_catalogue import InCatalogue
from tidegate.targets.iceberg.live import Look, look, newest, unit_of
from tidegate.targets.mirror.definition import MirrorDefinition
from tidegate.targets.mirror.prefix import has, prefix_of, still, summary_of, telling
from tidegate.targets.mirror.rules import buckets_of, key_of, tombstones_of
from tidegate.targets.mirror.taking_back import as_of, back_to, meant, on_branch, refuse_shown_beside
from tidegate.workflow.base import bounds

_TAKE_BACK = (
    "find out who changed it, and take the table back to a snapshot before that (tidegate apply <pipeline> --back-to "
    "<tag or snapshot> --why ...), which merges every batch from there on again"
)


class MirrorTable(InCatalogue):
    """Implements `core.target.port.PrefixTarget` on a catalogue."""

    unit = Unit.PREFIX
    created_by = "the next merge"

    @property
    def definition(self) -> MirrorDefinition:
        return MirrorDefinition(self.site.pipeline)

    @property
    def key(self) -> tuple[str, ...]:
        """Logical columns that name a row, in the order of their hash."""
        return key_of(self.site.pipeline)

    @property
    def buckets(self) -> int:
        """Number of parts that the table is to be cut into by the hash."""
        return buckets_of(self.site.pipeline)

    @property
    def tombstones_ms(self) -> int | None:
        """How long tombstones stay; None: for ever."""
        return tombstones_of(self.site.pipeline)

    # ------------------------------------------------------------ the table

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

        Raises CatalogueMismatch for a table whose rows others have changed, by rows and by commits; CatalogueError."""
        loaded = self._load()
        prefix, seen = self._prefix(loaded), look(loaded.metadata, loaded.io, None)
        self._refuse_changed(prefix, seen)
        return prefix, _buckets(loaded, seen)

    def held(self) -> tuple[Prefix, tuple[Bucket, ...]]:
        """The same of a table whose rows others may have changed; their delete files are not followed.

        Raises CatalogueMismatch for a table that does not tell up to which batch it is; CatalogueError."""
        loaded = self._load()
        return self._prefix(loaded), _buckets(loaded, look(loaded.metadata, loaded.io, None))

    def apply(self, before: Prefix, merged: Merged, holds: Holds) -> Prefix:
        """Commit the merge on the snapshot that it has read. Done if it stands already, whatever came after it. Raises
        LostComparison, CatalogueError, CatalogueUnsure."""

        def once() -> Prefix:
            loaded = self._load()
            now = self._prefix(loaded)
            if has(loaded.metadata, merged.attempt):
                return now
            if not still(now, before) or not follows(now.upto, merged.first, merged.last):
                raise LostComparison(f"{self.name} is no longer what the merge {merged.attempt} has read: merge anew")
            if not holds():
                raise LostComparison(f"{self.name}: the merge {merged.attempt} is no longer wanted")
            return self._prefix(self._commit(loaded, before, merged))

        return self._in_rounds(once)

    def at(self, to: str) -> Prefix:
        """What the snapshot of the tag `to`, or of that id, says of itself.

        Raises CatalogueMismatch for a snapshot that is missing, or whose sums, rows by its manifests or files are
        wrong; CatalogueError, StorageError."""
        return self._whole(self._load(), to)

    def take_back(self, to: str, allow: Callable[[Prefix], object]) -> Prefix:
        """Make it the current one (C1), unless `allow` raises. Done if it is. Also raises LostComparison where the
        table has moved on meanwhile, CatalogueUnsure."""
        loaded = self._load()
        prefix = self._whole(loaded, to)
        allow(prefix)
        current = newest(loaded.metadata)
        if current is None or prefix.snapshot != str(current.snapshot_id):
            try:
                updates = back_to(loaded.metadata, meant(self.name, loaded.metadata, to))
                self.catalogue.commit(loaded, on_branch(loaded.metadata), updates)
            except Conflict as e:
                raise LostComparison(f"{self.name} has moved on meanwhile: nothing was taken back") from e
        return prefix

    def _whole(self, loaded: Loaded, to: str) -> Prefix:
        then = replace(loaded, metadata=as_of(loaded.metadata, meant(self.name, loaded.metadata, to)))
        prefix, seen = self._prefix(then), look(then.metadata, then.io, None)
        self._refuse_changed(prefix, seen)
        lost = [f.file_path for f in seen.files if not self.site.storage.exists(f.file_path)]
        if lost:
            what = f"{self.name}: {many(len(lost), 'file')} of snapshot {prefix.snapshot} lost: {lost[0]}"
            raise CatalogueMismatch(what, advice="take it back to another one, or drop the table: it is made anew")
        return prefix

    def _commit(self, loaded: Loaded, before: Prefix, merged: Merged) -> Loaded:
        changed = {b.number for b in merged.receipt.buckets if b.changed}
        known = bounds.read(self.site.storage, merged.directory)
        added: list[DataFile] = []
        for bucket in merged.receipt.buckets:
            for f in bucket.files:
                uri, part = join(merged.directory, f.path), (bucket.number,)
                added.append(data_file(loaded.metadata, uri, part, (f.rows, f.bytes), known.get(f.path)))
        seen = look(loaded.metadata, loaded.io, None if merged.anew else changed)
        sums = after(before, merged.receipt)
        copied = merged.copied(before.copied)
        shown = loaded.metadata.current_snapshot_id is not None
        hidden = stays_hidden(shown, self.site.pipeline.copy is not None, copied)
        said = summary_of(self.site.pipeline.name, merged, sums, before, replace(copied, hidden=hidden))
        updates = snapshot.replaced(loaded.metadata, loaded.io, seen, added, said, None, hidden)
        return self.catalogue.commit(loaded, on_branch(loaded.metadata), updates)

    def _refuse_changed(self, prefix: Prefix, seen: Look) -> None:
        """Raises CatalogueMismatch."""
        rows = sum(f.record_count for f in seen.files)
        wrong = imbalance(prefix)
        if seen.altered:
            (bucket,), who = next(iter(sorted(seen.altered.items())))
            wrong = f"rows of bucket {bucket} were changed by {who}"
        elif rows != prefix.rows + prefix.tombstones:
            said = f"{many(prefix.rows, 'row')} and {many(prefix.tombstones, 'tombstone')}"
            wrong = f"its files hold {many(rows, 'row')}, its newest merge says {said}"
        if wrong is not None:
            raise CatalogueMismatch(f"{self.name}: {wrong}", advice=_TAKE_BACK)

    def _prefix(self, loaded: Loaded) -> Prefix:
        try:
            return prefix_of(loaded.metadata)
        except (KeyError, ValueError) as e:
            what = f"{self.name} does not tell up to which batch it is: {e}"
            raise CatalogueMismatch(what, advice=_TAKE_BACK) from e

    def _load(self) -> Loaded:
        loaded = super()._load()
        self.definition.refuse_other(loaded)
        refuse_shown_beside(self.name, loaded.metadata)
        return loaded

    # ------------------------------------------------------------ upkeep

    suffix = ".parquet"

    def named(self) -> frozenset[str]:
        """URIs of all files that any snapshot which it keeps names: each manifest is read once. Raises
        CatalogueError."""
        loaded = self.catalogue.load(self.name)
        if loaded is None:
            return frozenset()
        manifests = {m.manifest_path: m for s in loaded.metadata.snapshots for m in s.manifests(loaded.io)}
        return frozenset(
            entry.data_file.file_path
            for manifest in manifests.values()
            for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=True)
        )

    def sweep(self, settled: Settled) -> list[str]:
        """Let go of snapshots beyond the newest, never of one between the current one and the newest merge: without
        them nothing tells up to which batch the table is (M4). Raises CatalogueError."""
        return sweep(self.catalogue, self.name, settled, telling)


def _uri(file: BaseFile) -> str:
    return file.uri


def _buckets(loaded: Loaded, seen: Look) -> tuple[Bucket, ...]:
    files: dict[int, list[BaseFile]] = defaultdict(list)
    for f in seen.files:
        files[unit_of(loaded.metadata, f)].append(BaseFile(f.file_path, f.record_count, f.file_size_in_bytes))
    return tuple(Bucket(number, tuple(sorted(files[number], key=_uri))) for number in sorted(files))
