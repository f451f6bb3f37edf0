"""Which of a table's own files nothing needs any more: metadata, lists and manifests of commits that were refused, or
whose snapshots were let go (C10)."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from tidegate.core.base.storage import Storage
from tidegate.core.target.paths import join
from tidegate.targets.iceberg import names
from tidegate.targets.iceberg.catalogue import Catalogue, Loaded
from tidegate.targets.iceberg.live import newest
from tidegate.targets.iceberg.names import Kind
from tidegate.targets.iceberg.rules import Needed, may_go

SWITCH = "tidegate.clean-metadata"
"""A property of the table: `false` keeps all."""
WORTH = 500
"""Which manifests are needed is asked of the lists of all snapshots once so many are not in the current one: every list
has to be read for it."""


def leftovers(catalogue: Catalogue, name: str, location: str, storage: Storage, now_ms: int) -> list[str]:
    """Paths of files that may go. Deletes nothing. Raises CatalogueError, StorageError."""
    folder = f"{location.rstrip('/')}/metadata"
    there = storage.list_names(folder) or []
    loaded = catalogue.load(name)
    if loaded is None or loaded.metadata.properties.get(SWITCH, "").lower() == "false":
        return []
    table = loaded.metadata.table_uuid
    ours = {n: made for n in there if (made := names.made(n, table)) is not None}
    current = newest(loaded.metadata)
    first = _needed(loaded, _manifests(loaded, [] if current is None else [current]))
    found = [n for n in ours if may_go(n, ours[n], first, now_ms)]
    if sum(ours[n].kind is Kind.MANIFEST for n in found) > WORTH:
        needed = _needed(loaded, _manifests(loaded, loaded.metadata.snapshots))
        found = [n for n in found if may_go(n, ours[n], needed, now_ms)]
    else:
        found = [n for n in found if ours[n].kind is not Kind.MANIFEST]
    return [join(folder, n) for n in found]


def _manifests(loaded: Loaded, snapshots: Iterable[Snapshot]) -> set[str]:
    return {m.manifest_path for s in snapshots for m in s.manifests(loaded.io)}


def _needed(loaded: Loaded, manifests: Iterable[str]) -> Needed:
    metadata = loaded.metadata
    line = list(ancestors_of(newest(metadata), metadata))
    log = metadata.metadata_log
    named = {loaded.metadata_location, *_logged(metadata), *_lists(metadata), *manifests}
    return Needed(
        named={path.rpartition("/")[2] for path in named},
        version=names.version_of(loaded.metadata_location),
        logged_ms=log[0].timestamp_ms if log else None,
        sequence=line[-1].sequence_number if line else None,
        since_ms=line[-1].timestamp_ms if line else None,
    )


def _logged(metadata: TableMetadata) -> set[str]:
    return {entry.metadata_file for entry in metadata.metadata_log}


def _lists(metadata: TableMetadata) -> set[str]:
    return {snapshot.manifest_list for snapshot in metadata.snapshots}
