"""Files of windows for readers by path: the ledger says which, storage is not asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidegate.core.base.errors import LostComparison, NotReady
from tidegate.core.base.instants import iso
from tidegate.core.base.partition_values import PartitionValues, parse_partition_path, partition_path
from tidegate.core.base.wording import those
from tidegate.core.files.receipt import LATE
from tidegate.core.late.reopen import ReopenLedger
from tidegate.core.ledger import BatchLedger, WindowLedger
from tidegate.core.publish.in_force import TableFile, WindowFiles, moved_by, table_file
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import CERTIFICATE, Layout, join
from tidegate.core.window.schedule import late_folder, time_partitions
from tidegate.core.window.states import CURRENT, SWAPPING, BuiltGeneration, PublishedGeneration, WindowKey
from tidegate.workflow.base import places
from tidegate.workflow.base.context import ATTEMPTS, landed_by
from tidegate.workflow.window.waits import SpecsInForce


class FilesLedger(Protocol):
    """What readers by path ask of the ledger."""

    @property
    def specs(self) -> SpecsInForce: ...
    @property
    def windows(self) -> WindowLedger: ...
    @property
    def batches(self) -> BatchLedger: ...
    @property
    def reopenings(self) -> ReopenLedger: ...


def in_force(ledger: FilesLedger, spec: Pipeline, windows: Iterable[WindowKey]) -> list[WindowFiles]:
    """Files of each window's generation in force; see WindowFiles.why. Raises LedgerError."""
    return [_of_window(ledger.windows, spec, key) for key in windows]


def late(ledger: FilesLedger, spec: Pipeline, windows: Iterable[WindowKey]) -> list[WindowFiles]:
    """Files of each window in the late table: rows that no generation in force holds. Raises LedgerError."""
    return [_late_of(ledger, spec, key) for key in windows]


def _of_window(windows: WindowLedger, spec: Pipeline, key: WindowKey) -> WindowFiles:
    time = time_partitions(spec, key.start_ms)
    for _ in range(ATTEMPTS):
        seen = windows.get(spec.name, key)
        if seen.current is None:
            why = f"the window is not published ({seen.state})"
            return WindowFiles(window=key, partition=partition_path(time), why=why)
        # the one in force last: if it still is, nothing that was seen before has replaced it
        newest = None if seen.newest == seen.current else windows.generation(spec.name, key, seen.newest)
        current = windows.generation(spec.name, key, seen.current)
        if isinstance(current, PublishedGeneration) and current.state == CURRENT:
            return _published(current, newest if isinstance(newest, BuiltGeneration) else None, time)
    raise LostComparison(f"{spec.name} {iso(key.start_ms)}: generations keep replacing each other")


def _published(current: PublishedGeneration, newest: BuiltGeneration | None, time: PartitionValues) -> WindowFiles:
    why, swapping = "", None
    if newest is not None and newest.state == SWAPPING:
        swapping = newest.number
    if moved_by(current, newest):
        why = f"generation {swapping} is taking the directory of generation {current.number}: ask again in a moment"
    files = tuple(table_file(current.location, f.path, time, f) for f in current.files)
    return WindowFiles(
        window=current.window,
        partition=partition_path(time),
        generation=current.number,
        kind=current.kind,
        location=current.location,
        certificate=join(current.location, CERTIFICATE),
        digest=current.digest,
        published_ms=current.published_ms,
        files=files,
        swapping=swapping,
        why=why,
    )


def _late_of(ledger: FilesLedger, spec: Pipeline, key: WindowKey) -> WindowFiles:
    layout, found, why, current = Layout.of(spec), list[TableFile](), "", None
    for waiting in ledger.reopenings.candidates(spec.name, key.start_ms):
        current = waiting.current
        for batch in waiting.settled:
            landed = landed_by(ledger.batches, spec, batch.batch_id)
            for f in ledger.batches.manifest_files(spec.name, batch.batch_id, LATE):
                if f.window_ms == key.start_ms:
                    time = parse_partition_path(late_folder(f))
                    home = places.late(layout, batch.batch_id, f, landed)[0]
                    found.append(table_file(*home, (("_batch", str(batch.batch_id)), *time), f))
        left = waiting.rows - sum(b.rows for b in waiting.settled)
        if left:
            why = f"{those(left, 'late row')} not in the late table yet: the next maintenance run moves them"
    partition = partition_path(time_partitions(spec, key.start_ms))
    return WindowFiles(
        window=key,
        partition=partition,
        generation=current,
        kind=LATE,
        location=layout.side_table(LATE),
        files=tuple(found),
        why=why,
    )


def refuse_unready(name: str, found: Iterable[WindowFiles]) -> None:
    """Raises NotReady, naming the first three windows whose files are not to be read now."""
    unready = [f for f in found if f.why]
    if not unready:
        return
    named = "; ".join(f"{iso(f.window.start_ms)}: {f.why}" for f in unready[:3])
    more = f"; and {len(unready) - 3:,} more" if len(unready) > 3 else ""
    raise NotReady(f"{name} {named}{more}", advice=advice(name, unready[0]))


def advice(name: str, f: WindowFiles) -> str:
    """What to do where a window's files are not to be read now."""
    return f"tidegate explain {name} {iso(f.window.start_ms)}"
