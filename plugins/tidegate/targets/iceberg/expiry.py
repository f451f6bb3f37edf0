"""What of a table's past is let go: tags that the ledger has answered, and snapshots beyond the newest.

Only metadata changes: no file is deleted here, so that a reader, and a commit that is still on its way, finds what it
names.
"""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.table.update import RemoveSnapshotRefUpdate, RemoveSnapshotsUpdate, TableUpdate

from tidegate.core.base.wording import many
from tidegate.core.target.port import Settled
from tidegate.targets.iceberg.catalogue import Catalogue, Loaded
from tidegate.targets.iceberg.complete import days_let_go
from tidegate.targets.iceberg.live import newest, telling_of_changes
from tidegate.targets.iceberg.properties import number
from tidegate.targets.iceberg.tags import publication_of

KEEP = "history.expire.min-snapshots-to-keep"
KEPT = 200
"""Snapshots of `main` that stay, unless the table's property says otherwise: time travel, and the look for a token."""


def sweep(
    catalogue: Catalogue, name: str, settled: Settled, needed: Callable[[TableMetadata], int] = lambda metadata: 1
) -> list[str]:
    """One commit, if there is anything to let go of; what was done, in words. `needed`: how many snapshots stay at
    least, from the current one back. Raises CatalogueError."""
    loaded = catalogue.load(name)
    updates = () if loaded is None else _let_go(loaded, settled, needed(loaded.metadata))
    if loaded is None or not updates:
        return []
    before, after = loaded.metadata, catalogue.commit(loaded, (), updates).metadata
    tags, snapshots = len(before.refs) - len(after.refs), len(before.snapshots) - len(after.snapshots)
    return [f"{name}: {many(tags, 'tag')} and {many(snapshots, 'snapshot')} let go"]


def _let_go(loaded: Loaded, settled: Settled, needed: int) -> tuple[TableUpdate, ...]:
    """`settled`: those of these publications that the ledger has as done (C5); `needed`: snapshots that stay at least,
    from the current one back. Nothing if there is nothing to do. Raises CatalogueError, StorageError."""
    metadata = loaded.metadata
    tags = {name: found for name in metadata.refs if (found := publication_of(name)) is not None}
    done = settled(set(tags.values())) if tags else set()
    dropped = [name for name, publication in tags.items() if publication in done] + days_let_go(metadata)
    named = {ref.snapshot_id for name, ref in metadata.refs.items() if name not in dropped and name != MAIN_BRANCH}
    line = [s.snapshot_id for s in ancestors_of(newest(metadata), metadata)]
    kept = named | set(line[: max(1, needed, number(metadata, KEEP, KEPT))])
    gone = {s.snapshot_id for s in metadata.snapshots} - kept
    gone -= telling_of_changes(metadata, loaded.io, gone)
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in dropped]
    if gone:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(gone)}))
    return tuple(updates)
