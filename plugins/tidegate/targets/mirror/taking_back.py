"""Which snapshot a keyed table goes back to, and the commit that makes it the current one."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate, TableUpdate

from tidegate.core.base.errors import CatalogueMismatch

_TOLD = 10


def meant(name: str, metadata: TableMetadata, to: str) -> int:
    """The snapshot that the tag `to` names, or whose id it is. Raises CatalogueMismatch."""
    tags = sorted(tag for tag in metadata.refs if tag != MAIN_BRANCH)
    if to in tags:
        return metadata.refs[to].snapshot_id
    if to in {str(s.snapshot_id) for s in metadata.snapshots}:
        return int(to)
    told = ", ".join(tags[:_TOLD]) + (", ..." if len(tags) > _TOLD else "")
    raise CatalogueMismatch(
        f"{name} has no tag and keeps no snapshot {to!r}",
        advice=f"{f'its tags are {told}' if tags else 'it has no tags'}; in Spark: SELECT snapshot_id, committed_at, "
        f"summary['tidegate.upto'] FROM <catalog>.{name}.snapshots",
    )


def as_of(metadata: TableMetadata, snapshot: int) -> TableMetadata:
    """The table as it would be if that were its current snapshot."""
    return metadata.model_copy(update={"current_snapshot_id": snapshot})


def back_to(snapshot: int) -> tuple[TableUpdate, ...]:
    """What makes it the current one."""
    said = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot}
    return (SetSnapshotRefUpdate.model_validate(said),)
