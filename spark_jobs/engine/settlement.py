"""The end of a replay of several windows: to each its receipt, or why it is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.engine.failures import refuse
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import dumps
from tidegate.core.base.storage import Storage
from tidegate.core.batch.jobs import ReplayPlan, Target
from tidegate.core.files.merge import add_up
from tidegate.core.files.receipt import (
    BatchRows,
    FileEntry,
    RangeResult,
    Receipt,
    ReplayReceipt,
    arithmetic_errors,
)
from tidegate.core.target.paths import FAILURE, RECEIPT, join

if TYPE_CHECKING:
    from spark_jobs.engine.task import TaskResult


def settle(plan: ReplayPlan, storage: Storage, whole: Receipt, results: Iterable[TaskResult]) -> None:
    """Each window's receipt, or why it is refused, into its own directory. Raises JobError for counts that do not add
    up: no receipt is written then."""
    results = list(results)
    planned = [(number, r) for number, part in enumerate(plan.parts) for r in part.ranges]
    chosen, written = _shares(planned, results)
    refused = {window: failure for result in results for window, failure in result.refused}
    copied: dict[int, list[BatchRows]] = defaultdict(list)
    for result in results:
        for window, one in result.copied:
            copied[window].append(one)
    files: dict[int | None, list[FileEntry]] = defaultdict(list)
    for f in whole.files:
        files[f.window_ms].append(f)
    done: list[tuple[Target, ReplayReceipt]] = []
    for target in plan.targets:
        if target.window_ms in refused:
            continue
        key = target.window_ms
        mine = [i for i, (part, _) in enumerate(planned) if part in target.parts or chosen.get((i, key))]
        ranges = tuple(_of_window(whole.ranges[i], chosen.get((i, key), 0), written.get((i, key), 0)) for i in mine)
        receipt = replace(
            whole,
            attempt=target.attempt,
            nonce=target.nonce,
            epoch=target.epoch,
            ranges=ranges,
            files=tuple(files[key]),
            overflow=tuple(o for o in whole.overflow if o.window_ms == key),
            slow=(),  # those of all windows, which the job's log tells
            slow_seconds=0.0,
        )
        batches = tuple(plan.parts[planned[i][0]].batch_id for i in mine)
        found = ReplayReceipt(receipt, batches, add_up(copied[key]), sum(r.read for r in whole.ranges))
        verify(storage, target.attempt_dir, receipt, [r.range for r in ranges], target.attempt, found.copied)
        done.append((target, found))
    for target in plan.targets:
        if target.window_ms in refused:
            storage.write_new(join(target.attempt_dir, FAILURE), dumps(refused[target.window_ms]).encode())
    for target, found in done:
        storage.write_new(join(target.attempt_dir, RECEIPT), dumps(found).encode())


Counts = dict[tuple[int, int], int]
"""By index of the planned range and window."""


def _shares(planned: Sequence[tuple[int, OffsetRange]], results: list[TaskResult]) -> tuple[Counts, Counts]:
    homes: dict[tuple[int, int], list[tuple[OffsetRange, int]]] = defaultdict(list)
    for i, (part, r) in enumerate(planned):
        homes[part, r.partition].append((r, i))
    chosen: Counts = defaultdict(int)
    written: Counts = defaultdict(int)
    for result in results:
        for number, window, rows, kept in result.shares:
            piece = result.task.pieces[number]
            home = _around(homes[piece.part, piece.range.partition], piece.range)
            chosen[home, window] += rows
            written[home, window] += kept
    return chosen, written


def _around(planned: list[tuple[OffsetRange, int]], piece: OffsetRange) -> int:
    return next(i for r, i in planned if r.start <= piece.start and piece.end <= r.end)


def _of_window(whole: RangeResult, chosen: int, written: int) -> RangeResult:
    """`written` is counted where rows are written, the rest where the window's rows are chosen."""
    return replace(whole, data=written, dropped=whole.read - chosen, rerouted=0)


def verify(
    storage: Storage,
    directory: str,
    receipt: Receipt,
    planned: Sequence[OffsetRange],
    whose: str,
    copied: Sequence[BatchRows] = (),
) -> None:
    """The files are there with their lengths, and the counts add up: else there is no receipt. Raises JobError."""
    listed = {f.path: f.bytes for f in storage.list_files(directory) or []}
    for file in receipt.files:
        if listed.get(file.path) != file.bytes:
            found = "is not there" if file.path not in listed else f"has {listed[file.path]} bytes"
            raise refuse(f"{file.path}: {file.bytes} bytes written, but it {found}", retry=True)
    errors = arithmetic_errors(receipt, planned, "allow", copied)
    if errors:
        raise refuse(f"the counts of {whose} do not add up: {'; '.join(errors[:5])}", retry=True)
