"""Which snapshot a keyed table goes back to, and the commit that makes it the current one."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, SetSnapshotRefUpdate, TableRequirement, TableUpdate

from tidegate.core.base.errors import CatalogueMismatch
from tidegate.targets.iceberg.live import first_copy
from tidegate.targets.iceberg.tags import FIRST_COPY

_TOLD = 10


def meant(name: str, metadata: TableMetadata, to: str) -> int:
    """The snapshot that the tag `to` names, or whose id it is. Raises CatalogueMismatch."""
    tags = sorted(tag for tag in metadata.refs if tag not in (MAIN_BRANCH, FIRST_COPY))
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
    """The table as it would be if that were its newest snapshot."""
    refs = {name: ref for name, ref in metadata.refs.items() if name != FIRST_COPY}
    return metadata.model_copy(update={"current_snapshot_id": snapshot, "refs": refs})


def back_to(metadata: TableMetadata, snapshot: int) -> tuple[TableUpdate, ...]:
    """What makes it the newest one; readers see no more than before."""
    branch = MAIN_BRANCH if first_copy(metadata) is None else FIRST_COPY
    said = {"ref-name": branch, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot}
    return (SetSnapshotRefUpdate.model_validate(said),)


def refuse_shown_beside(name: str, metadata: TableMetadata) -> None:
    """Of readers' rows and a branch by the name of the first copy's, one is somebody else's. Raises
    CatalogueMismatch."""
    beside = metadata.refs.get(FIRST_COPY)
    if beside is None or metadata.current_snapshot_id is None:
        return
    kind = beside.snapshot_ref_type.value
    raise CatalogueMismatch(
        f"{name} shows rows, and has a {kind} {FIRST_COPY}: somebody has written to it while its first copy is not "
        f"whole, or has made that {kind}",
        advice=f"find out who. If the first copy was whole before: in Spark ALTER TABLE {name} DROP {kind.upper()} "
        f"`{FIRST_COPY}`. Otherwise drop the table: the next merge makes it anew",
    )


def on_branch(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """What holds as long as nobody has moved the branch of the first copy, or begun it (C1)."""
    ref = metadata.refs.get(FIRST_COPY)
    said = {"ref": FIRST_COPY, "snapshot-id": None if ref is None else ref.snapshot_id}
    return (_Branch.model_validate({"type": "assert-ref-snapshot-id", **said}),)


class _Branch(AssertRefSnapshotId):
    """The library's own check lets a table's first snapshot be on `main` only."""

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Raises CommitFailedException."""
        if base_metadata is None or base_metadata.snapshots:
            super().validate(base_metadata)
