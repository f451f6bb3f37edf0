"""What stands in one snapshot of a table: the live files of a unit, by partition, and the tokens of its publications.

C3: what stands for a window is read from the snapshot, never from paths that the ledger remembers: a compaction renames
files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.types import PrimitiveType

from tidegate.core.base.errors import CatalogueError
from tidegate.core.mirror.jobs import BUCKET
from tidegate.core.target.port import BATCH, Token
from tidegate.targets.iceberg.columns import WINDOW
from tidegate.targets.iceberg.tags import FIRST_COPY, publication_of

Units = Collection[int]
"""What units are in their partition: a window's start in us, a batch, a bucket."""


Part = tuple[Any, ...]
"""Values of the columns that a table is partitioned by, the unit first."""
_DELETED_PATH = 2147483546
"""Field of position delete files: of which file a row is deleted."""


@dataclass(frozen=True)
class Found:
    """`manifest` has live files of a unit: `entries` are all of its live ones, `files` those of the unit."""

    manifest: ManifestFile
    entries: list[ManifestEntry]
    files: list[DataFile]

    @property
    def of_unit(self) -> list[ManifestEntry]:
        """The entries of `files`."""
        wanted = {id(f) for f in self.files}
        return [e for e in self.entries if id(e.data_file) in wanted]


@dataclass(frozen=True)
class Look:
    """One snapshot: all its manifests, those with data files of the units, those with others' delete files, and the
    parts in which somebody else has changed rows, with who did (C9)."""

    manifests: list[ManifestFile]
    found: list[Found]
    deletes: list[Found]
    altered: Mapping[Part, str]

    @property
    def files(self) -> list[DataFile]:
        return [file for one in self.found for file in one.files]

    @property
    def delete_files(self) -> list[DataFile]:
        return [file for one in self.deletes for file in one.files]

    def note(self, file: DataFile) -> str:
        """In words, who has changed the rows of the file's part; mostly nothing."""
        who = self.altered.get(part_in(file))
        return "" if who is None else f", changed by {who}"

    def only(self, meant: Callable[[DataFile], bool]) -> Look:
        """The same, of these files alone."""

        def kept(found: list[Found]) -> list[Found]:
            fewer = [Found(one.manifest, one.entries, [f for f in one.files if meant(f)]) for one in found]
            return [one for one in fewer if one.files]

        return Look(self.manifests, kept(self.found), kept(self.deletes), self.altered)


def look(metadata: TableMetadata, io: FileIO, units: Units | None) -> Look:
    """What stands for these units (None: all) in the newest snapshot.

    Raises CatalogueError for a table that somebody has partitioned otherwise (C9)."""
    snapshot = newest(metadata)
    manifests = [] if snapshot is None else snapshot.manifests(io)
    found: list[Found] = []
    deletes: list[Found] = []
    there = set()
    for manifest in manifests:
        at = _unit_position(metadata, manifest.partition_spec_id)
        if units is not None and not _may_hold(metadata, manifest, at, units):
            continue
        entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
        files = [e.data_file for e in entries if units is None or e.data_file.partition[at] in units]
        if files:
            (deletes if manifest.content == ManifestContent.DELETES else found).append(Found(manifest, entries, files))
            there |= {f.partition[at] for f in files}
    return Look(manifests, found, deletes, _with_deleted_rows(found, deletes) | _altered(metadata, io, there))


def part_in(file: DataFile) -> Part:
    """The partition that a file of the table is in."""
    return tuple(file.partition[at] for at in range(len(file.partition)))


def unit_of(metadata: TableMetadata, file: DataFile) -> Any:
    """The unit that a file belongs to."""
    return file.partition[_unit_position(metadata, file.spec_id)]


def _unit_position(metadata: TableMetadata, spec_id: int) -> int:
    for at, field in enumerate(metadata.specs()[spec_id].fields):
        if field.name in (WINDOW, BATCH, BUCKET) and str(field.transform) == "identity":
            return at
    raise CatalogueError(
        f"{metadata.location}: partition spec {spec_id} does not separate windows by {WINDOW}",
        advice="somebody has changed how the table is partitioned: replace the spec by the one that Tidegate created, "
        f"and rewrite the files of spec {spec_id} (CALL system.rewrite_data_files), then clear the task",
    )


def first_unit(metadata: TableMetadata, manifest: ManifestFile) -> int:
    """The first unit that the manifest has files of, by its summary; 0 if that does not say it."""
    span = _span(metadata, manifest, _unit_position(metadata, manifest.partition_spec_id))
    return span[0] if span else 0


def _may_hold(metadata: TableMetadata, manifest: ManifestFile, at: int, units: Units) -> bool:
    """Whether the manifest's summary leaves room for one of the units: most windows are in one manifest alone."""
    span = _span(metadata, manifest, at)
    return span is None or any(unit in span for unit in units)


def _span(metadata: TableMetadata, manifest: ManifestFile, at: int) -> range | None:
    """From the first to the last unit of the manifest, by its summary; None if it has no summary."""
    if not manifest.partitions:
        return None
    summary = manifest.partitions[at]
    if summary.lower_bound is None or summary.upper_bound is None:
        return range(0)
    source = metadata.specs()[manifest.partition_spec_id].fields[at].source_id
    kind = metadata.schema().find_type(source)
    assert isinstance(kind, PrimitiveType)
    low, high = (from_bytes(kind, bound) for bound in (summary.lower_bound, summary.upper_bound))
    assert isinstance(low, int)
    assert isinstance(high, int)
    return range(low, high + 1)


# ---------------------------------------------------------------- what others have changed (C9)


def _with_deleted_rows(found: list[Found], deletes: list[Found]) -> dict[Part, str]:
    """Parts with a file of which rows are deleted, or may be. After a compaction delete files may stay that mean files
    which are gone."""
    by_part: dict[Part, list[ManifestEntry]] = defaultdict(list)
    for one in deletes:
        for e in one.of_unit:
            by_part[part_in(e.data_file)].append(e)
    if not by_part:
        return {}
    entries = ((part_in(e.data_file), e) for one in found for e in one.of_unit)
    return {part: "delete files" for part, e in entries if any(_applies(d, e) for d in by_part.get(part, ()))}


def _applies(delete: ManifestEntry, entry: ManifestEntry) -> bool:
    """Whether a delete file may mean rows of a data file of its partition."""
    deleted, written = delete.sequence_number or 0, entry.sequence_number or 0
    if delete.data_file.content == DataFileContent.EQUALITY_DELETES:
        return deleted > written
    first = (delete.data_file.lower_bounds or {}).get(_DELETED_PATH)
    last = (delete.data_file.upper_bounds or {}).get(_DELETED_PATH)
    path = entry.data_file.file_path.encode()
    return deleted >= written and (first is None or first <= path) and (last is None or path <= last)


def _altered(metadata: TableMetadata, io: FileIO, units: Collection[Any]) -> dict[Part, str]:
    """Parts of these units that somebody else has changed since we last did, and who."""
    return {part: _who(snapshot) for part, snapshot in _strange(metadata, io, units).items()}


def telling_of_changes(metadata: TableMetadata, io: FileIO, among: Collection[int]) -> set[int]:
    """Which of these snapshots alone tell that somebody else has changed rows which stand: with them that is gone."""
    if not any(s.snapshot_id in among and _is_strangers(s) for s in history(metadata)):
        return set()
    units = {unit_of(metadata, file) for file in look(metadata, io, None).files}
    return {s.snapshot_id for s in _strange(metadata, io, units).values()} & set(among)


def _strange(metadata: TableMetadata, io: FileIO, units: Collection[Any]) -> dict[Part, Snapshot]:
    """Parts of these units, and by which snapshot somebody else has changed them since we last did; a commit that says
    that it replaces files by others of the same rows (a compaction) changes nothing. Counts alone do not tell an
    UPDATE."""
    known = list(history(metadata))
    while known and not _is_strangers(known[-1]):
        known.pop()
    found: dict[Part, Snapshot] = {}
    ours, left = set[Part](), set(units)
    for snapshot in known:  # newest first
        if not left:
            break
        if (token := token_in(snapshot)) is not None:
            left.discard(token.unit * 1000)
            continue
        strange = _is_strangers(snapshot)
        if not strange and not _is_ours(snapshot):
            continue
        parts = {part for unit, part in _touched(metadata, io, snapshot) if unit in left and part not in ours}
        if not strange:
            ours |= parts
        else:
            found |= {part: snapshot for part in parts if part not in found}
    return found


def _is_ours(snapshot: Snapshot) -> bool:
    return f"{PREFIX}pipeline" in said_by(snapshot)


def _is_strangers(snapshot: Snapshot) -> bool:
    operation = None if snapshot.summary is None else snapshot.summary.operation
    return operation != Operation.REPLACE and not _is_ours(snapshot)


def _touched(metadata: TableMetadata, io: FileIO, snapshot: Snapshot) -> Iterator[tuple[Any, Part]]:
    """(unit, part) of files that came or went by this commit."""
    for manifest in snapshot.manifests(io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        at = _unit_position(metadata, manifest.partition_spec_id)
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
            if entry.snapshot_id == snapshot.snapshot_id:
                yield entry.data_file.partition[at], part_in(entry.data_file)


def _who(snapshot: Snapshot) -> str:
    said = said_by(snapshot)
    operation = "" if snapshot.summary is None else f" ({snapshot.summary.operation.value})"
    return f"{said.get('engine-name', 'another writer')} in snapshot {snapshot.snapshot_id}{operation}"


# ---------------------------------------------------------------- tokens

PREFIX = "tidegate."


def said_by(snapshot: Snapshot) -> dict[str, str]:
    """What its summary says beside its operation; empty without one."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def summary_of(token: Token, rows: int, location: str) -> dict[str, str]:
    """Return what a snapshot says of the publication that made it."""
    return {
        f"{PREFIX}pipeline": token.pipeline,
        f"{PREFIX}unit": str(token.unit),
        f"{PREFIX}generation": str(token.generation),
        f"{PREFIX}epoch": str(token.epoch),
        f"{PREFIX}digest": token.digest,
        f"{PREFIX}rows": str(rows),
        f"{PREFIX}location": location,
    }


UNIT = f"{PREFIX}unit"


def token_in(snapshot: Snapshot, unit: str = UNIT) -> Token | None:
    """Return the token of the publication that made it; None where somebody else did. `unit`: under which name the
    summary says its unit."""
    said = said_by(snapshot)
    try:
        return Token(
            pipeline=said[f"{PREFIX}pipeline"],
            unit=int(said[unit]),
            generation=int(said[f"{PREFIX}generation"]),
            epoch=int(said[f"{PREFIX}epoch"]),
            digest=said[f"{PREFIX}digest"],
        )
    except (KeyError, ValueError):
        return None


def newest_token(metadata: TableMetadata, unit: int, name: str = UNIT) -> Token | None:
    """C4: of the unit's newest publication that the current snapshot descends from, or that a tag keeps (C5). `name`:
    as in `token_in`."""
    for snapshot in history(metadata):
        token = token_in(snapshot, name)
        if token is not None and token.unit == unit:
            return token
    return None


def places_of(metadata: TableMetadata) -> dict[int, str]:
    """Last segments of the locations of the units' newest publications, as far back as snapshots go."""
    found: dict[int, str] = {}
    for snapshot in history(metadata):
        token = token_in(snapshot)
        if token is not None and snapshot.summary is not None:
            found.setdefault(token.unit, (snapshot.summary[f"{PREFIX}location"] or "").rsplit("/", 1)[-1])
    return found


def first_copy(metadata: TableMetadata) -> SnapshotRef | None:
    """The branch of a keyed table's first copy, as long as readers see nothing. A branch or tag of that name in any
    other table is somebody else's, and means nothing."""
    keyed = any(field.name == BUCKET for field in metadata.spec().fields)
    return metadata.refs.get(FIRST_COPY) if keyed and metadata.current_snapshot_id is None else None


def newest(metadata: TableMetadata) -> Snapshot | None:
    """The snapshot that the next commit is made on: the one that readers see, or that of the first copy's branch."""
    ref = first_copy(metadata)
    return metadata.current_snapshot() if ref is None else metadata.snapshot_by_id(ref.snapshot_id)


def line(metadata: TableMetadata) -> Iterator[Snapshot]:
    """The newest snapshot and those that it was certainly made from, newest first, as far back as none is missing."""
    by_id = {s.snapshot_id: s for s in metadata.snapshots}
    at = newest(metadata)
    while at is not None:
        yield at
        at = None if at.parent_snapshot_id is None else by_id.get(at.parent_snapshot_id)


def history(metadata: TableMetadata) -> Iterator[Snapshot]:
    """The current snapshot and those that it was made from, newest first; where one was expired, what was kept of
    those before it: by a tag, or because somebody else has changed rows by it."""
    seen, oldest = set[int](), -1
    for at in line(metadata):
        seen.add(at.snapshot_id)
        oldest = at.sequence_number or 0
        yield at
    by_id = {s.snapshot_id: s for s in metadata.snapshots}
    kept = [by_id[ref.snapshot_id] for name, ref in metadata.refs.items() if publication_of(name) is not None]
    kept += filter(_is_strangers, metadata.snapshots)
    before = {s.snapshot_id: s for s in kept if s.snapshot_id not in seen and (s.sequence_number or 0) < oldest}
    yield from sorted(before.values(), key=lambda s: -(s.sequence_number or 0))
