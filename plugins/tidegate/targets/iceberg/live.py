"""What stands in one snapshot of a table: the live files of a unit, by partition, and the tokens of its publications.

C3: what stands for a window is read from the snapshot, never from paths that the ledger remembers: a compaction renames
files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import PrimitiveType

from tidegate.core.base.errors import CatalogueError
from tidegate.core.target.port import BATCH, Token
from tidegate.targets.iceberg.columns import WINDOW

Units = Collection[int]
"""What units are in their partition: a window's start in us, a batch."""


@dataclass(frozen=True)
class Found:
    """`manifest` has live files of a unit: `entries` are all of its live ones, `files` those of the unit."""

    manifest: ManifestFile
    entries: list[ManifestEntry]
    files: list[DataFile]


@dataclass(frozen=True)
class Look:
    """One snapshot: all its manifests, those with files of the units, and whether rows of these were deleted by
    somebody's delete files."""

    manifests: list[ManifestFile]
    found: list[Found]
    rows_deleted: bool

    @property
    def files(self) -> list[DataFile]:
        return [file for one in self.found for file in one.files]

    def only(self, meant: Callable[[DataFile], bool]) -> Look:
        """The same, of these files alone."""
        kept = [Found(one.manifest, one.entries, [f for f in one.files if meant(f)]) for one in self.found]
        return Look(self.manifests, [one for one in kept if one.files], self.rows_deleted)


def look(metadata: TableMetadata, io: FileIO, units: Units | None) -> Look:
    """What stands for these units (None: all) in the current snapshot.

    Raises CatalogueError for a table that somebody has partitioned otherwise (C9)."""
    snapshot = metadata.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(io)
    found, rows_deleted = [], False
    for manifest in manifests:
        at = _unit_position(metadata, manifest.partition_spec_id)
        if units is not None and not _may_hold(metadata, manifest, at, units):
            continue
        entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
        files = [e.data_file for e in entries if units is None or e.data_file.partition[at] in units]
        if not files:
            continue
        if manifest.content == ManifestContent.DELETES:
            rows_deleted = True
        else:
            found.append(Found(manifest, entries, files))
    return Look(manifests, found, rows_deleted)


def unit_of(metadata: TableMetadata, file: DataFile) -> Any:
    """The unit that a file belongs to."""
    return file.partition[_unit_position(metadata, file.spec_id)]


def _unit_position(metadata: TableMetadata, spec_id: int) -> int:
    for at, field in enumerate(metadata.specs()[spec_id].fields):
        if field.name in (WINDOW, BATCH) and str(field.transform) == "identity":
            return at
    raise CatalogueError(
        f"{metadata.location}: partition spec {spec_id} does not separate windows by {WINDOW}",
        advice="somebody has changed how the table is partitioned: replace the spec by the one that Tidegate created, "
        f"and rewrite the files of spec {spec_id} (CALL system.rewrite_data_files), then clear the task",
    )


def _may_hold(metadata: TableMetadata, manifest: ManifestFile, at: int, units: Units) -> bool:
    """Whether the manifest's summary leaves room for one of the units: most windows are in one manifest alone."""
    if not manifest.partitions:
        return True
    summary = manifest.partitions[at]
    if summary.lower_bound is None or summary.upper_bound is None:
        return False
    source = metadata.specs()[manifest.partition_spec_id].fields[at].source_id
    kind = metadata.schema().find_type(source)
    assert isinstance(kind, PrimitiveType)
    low, high = (from_bytes(kind, bound) for bound in (summary.lower_bound, summary.upper_bound))
    assert isinstance(low, int)
    assert isinstance(high, int)
    return any(low <= unit <= high for unit in units)


# ---------------------------------------------------------------- tokens

PREFIX = "tidegate."


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


def token_in(snapshot: Snapshot) -> Token | None:
    """Return the token of the publication that made it; None where somebody else did."""
    said = {} if snapshot.summary is None else snapshot.summary.additional_properties
    try:
        return Token(
            pipeline=said[f"{PREFIX}pipeline"],
            unit=int(said[f"{PREFIX}unit"]),
            generation=int(said[f"{PREFIX}generation"]),
            epoch=int(said[f"{PREFIX}epoch"]),
            digest=said[f"{PREFIX}digest"],
        )
    except (KeyError, ValueError):
        return None


def newest_token(metadata: TableMetadata, unit: int) -> Token | None:
    """C4: of the unit's newest publication that the current snapshot descends from, or that a tag keeps (C5)."""
    for snapshot in _history(metadata):
        token = token_in(snapshot)
        if token is not None and token.unit == unit:
            return token
    return None


def places_of(metadata: TableMetadata) -> dict[int, str]:
    """Last segments of the locations of the units' newest publications, as far back as snapshots go."""
    found: dict[int, str] = {}
    for snapshot in _history(metadata):
        token = token_in(snapshot)
        if token is not None and snapshot.summary is not None:
            found.setdefault(token.unit, (snapshot.summary[f"{PREFIX}location"] or "").rsplit("/", 1)[-1])
    return found


def _history(metadata: TableMetadata) -> Iterator[Snapshot]:
    """The current snapshot and those that it was made from, newest first; where one was expired, those that tags
    keep of what was before it."""
    by_id = {s.snapshot_id: s for s in metadata.snapshots}
    at, seen = metadata.current_snapshot(), set[int]()
    oldest = -1
    while at is not None:
        seen.add(at.snapshot_id)
        oldest = at.sequence_number or 0
        yield at
        at = None if at.parent_snapshot_id is None else by_id.get(at.parent_snapshot_id)
    tagged = [by_id[ref.snapshot_id] for name, ref in metadata.refs.items() if name.startswith(TAG)]
    before = {s.snapshot_id: s for s in tagged if s.snapshot_id not in seen and (s.sequence_number or 0) < oldest}
    yield from sorted(before.values(), key=lambda s: -(s.sequence_number or 0))


TAG = "tidegate-"


def tag_of(token: Token) -> str:
    """C5: keeps the snapshot of a publication from expiry until the ledger has it as CURRENT."""
    return f"{TAG}{token.unit}.{token.generation}.{token.epoch}"
