"""Landed batches of change events are merged into the files of a keyed table, under Spark or beside the control plane.

Two steps of tasks: landed files are read and handed over by bucket, then neighbouring buckets are merged (M2). A bucket
that no event changes gets no file. `_receipt.json` is written last; on a failure `failure.json` is there instead. What
is committed, and on which snapshot (M1, M3), is for the control plane to decide.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from spark_jobs.engine.failures import refuse, reported
from spark_jobs.engine.mirror.bucket import Group, GroupDone, cut, merge_group, recut_group
from spark_jobs.engine.mirror.events import Handed, hand_over, only
from spark_jobs.engine.mirror.purge import limited, markers
from spark_jobs.engine.mirror.shape import Shape
from tidegate.core.base.errors import StorageError
from tidegate.core.base.plain import dumps
from tidegate.core.base.storage import Storage
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.mirror import recut
from tidegate.core.mirror.counts import add_up
from tidegate.core.mirror.jobs import ApplyReceipt, EventFile, ServerLog
from tidegate.core.mirror.servers import further
from tidegate.core.target.paths import HANDED, RECEIPT, join

TASK_EVENTS, FEWEST_EVENTS = 500_000, 50_000
"""Events for one task of the first step where nobody knows how many can run at once, and those worth a task."""
TASK_BYTES, FEWEST_BYTES = 64 * 1024 * 1024, 8 * 1024 * 1024
"""The same of the second step: bytes of files, as they are compressed, and of events on their way."""
SAMPLES = 20
RunTasks = Callable[..., Iterable[Any]]
"""`run_tasks(fn, works)`: call `fn(work, attempt)` for each, anywhere; `attempt` makes file names unique."""


def carry_out(
    plan: ApplyPlan,
    storage: Storage,
    run_tasks: RunTasks | None = None,
    open_storage: Callable[[str], Any] | None = None,
    tasks: int | None = 1,
) -> str:
    """Carry out a plan and write its receipt; what to say of it. On any failure write `failure.json`, raise JobError.

    Without `run_tasks` everything happens in this process, on `storage`, which then needs `open_new` and
    `open_existing`. `tasks`: how many can run at once; None where nobody knows."""
    started = time.monotonic()
    run_tasks = run_tasks or (lambda run, works: [run(work, 0) for work in works])
    try:
        receipt = _run(plan, storage, run_tasks, open_storage or (lambda uri: storage), tasks, started)
        storage.write_new(join(plan.attempt_dir, RECEIPT), dumps(receipt).encode())
    except Exception as e:
        raise reported(storage, plan.attempt_dir, e) from e
    return f"tidegate: {plan.attempt}: {_summary(receipt, plan)}"


def _run(
    plan: ApplyPlan,
    storage: Storage,
    run_tasks: RunTasks,
    open_storage: Callable[[str], Any],
    tasks: int | None,
    started: float,
) -> ApplyReceipt:
    Shape(plan).stored  # noqa: B018  refuses here, and not in each task
    plan = limited(plan, open_storage)
    works = list(enumerate(_by_rows([f for f in plan.events if f.rows], tasks)))
    handed: list[Handed] = list(run_tasks(functools.partial(_read, plan, open_storage), works)) if works else []
    groups = list(_groups(plan, handed, tasks))
    task = recut_group if plan.cut_before else merge_group
    done: list[GroupDone] = list(run_tasks(functools.partial(task, plan, open_storage), groups))
    receipt = _receipt(plan, handed, done, started)
    errors = recut.errors(plan, receipt)
    if errors:
        raise refuse(f"the merge of {plan.attempt} does not add up: {'; '.join(errors[:3])}", retry=True)
    with contextlib.suppress(StorageError):  # what stays goes with the attempt
        storage.delete(join(plan.attempt_dir, HANDED))
    return receipt


def _read(
    plan: ApplyPlan, open_storage: Callable[[str], Any], work: tuple[int, list[EventFile]], attempt: int
) -> Handed:
    number, files = work
    return hand_over(plan, open_storage, files, f"{number:04d}-{attempt}")


def _by_rows(files: Sequence[EventFile], tasks: int | None) -> list[list[EventFile]]:
    """Files for each task of the first step: neighbours, of about as many events."""
    rows = sum(f.rows for f in files)
    stretches = cut([(i, f.rows) for i, f in enumerate(files)], _wanted(rows, TASK_EVENTS, FEWEST_EVENTS, tasks))
    return [list(files[first : last + 1]) for first, last in stretches]


def _groups(plan: ApplyPlan, handed: Sequence[Handed], tasks: int | None) -> Iterable[Group]:
    """Neighbouring buckets that have events, for each task of the second step."""
    weights: dict[int, int] = {}
    for stretch in (s for h in handed for run in h.runs for s in run):
        weights[stretch.bucket] = weights.get(stretch.bucket, 0) + stretch.end - stretch.start
    for bucket in plan.base:
        number = bucket.number % recut.lumps(plan) if plan.cut_before else bucket.number
        if plan.visits_all or number in weights:
            weights[number] = weights.get(number, 0) + sum(f.bytes for f in bucket.files)
    wanted = _wanted(sum(weights.values()), TASK_BYTES, FEWEST_BYTES, tasks)
    for low, high in cut(sorted(weights.items()), wanted):
        yield Group(low, high, tuple(only(handed, low, high)))


def _wanted(amount: int, usual: int, fewest: int, tasks: int | None) -> int:
    """How many tasks: none larger than usual, and one for each core unless that makes them too small."""
    return max(1, -(-amount // usual), min(tasks or 1, amount // fewest))


def _receipt(plan: ApplyPlan, handed: Sequence[Handed], done: Sequence[GroupDone], started: float) -> ApplyReceipt:
    events = dict.fromkeys((f.batch_id for f in plan.events), 0)
    for batch_id, rows in (item for h in handed for item in h.rows.items()):
        events[batch_id] = events.get(batch_id, 0) + rows
    return ApplyReceipt(
        plan.attempt,
        tuple(sorted(events.items())),
        tuple(sorted((b for d in done for b in d.buckets), key=lambda b: b.number)),
        min((h.first for h in handed if h.first is not None), default=None),
        max((h.last for h in handed if h.last is not None), default=None),
        tuple(s for d in done for s in d.below_purge)[:SAMPLES],
        round(time.monotonic() - started, 3),
        max((h.newest_ms for h in handed), default=0),
        plan.purged_below if plan.settled else None,
        markers(plan) or _servers(handed, done),
    )


def _servers(handed: Sequence[Handed], done: Sequence[GroupDone]) -> tuple[ServerLog, ...]:
    """What all events have said of each server, by name, and how many of them a purge has kept out."""
    found: dict[str, ServerLog] = {}
    kept_out: Counter[str] = Counter()
    for name, count in (one for group in done for one in group.kept_out):
        kept_out[name] += count
    for log in (log for one in handed for log in one.servers.values()):
        found[log.name] = further(found.get(log.name, log), log)
    return tuple(replace(found[name], begins=None, below_purge=kept_out[name]) for name in sorted(found))


def _summary(receipt: ApplyReceipt, plan: ApplyPlan) -> str:
    counts = add_up(b.counts for b in receipt.buckets)
    if plan.sweep:
        gone = sum(b.swept for b in receipt.buckets)
        return f"swept {many(gone, 'row')} below {plan.swept_below}"
    if receipt.purged_below is not None:
        gone = sum(b.purged for b in receipt.buckets)
        return f"purged {many(gone, 'tombstone')} below {receipt.servers or receipt.purged_below}"
    if plan.cut_before:
        rows = many(sum(b.rows_before for b in receipt.buckets), "row")
        return f"merged {rows} of {plan.cut_before:,} buckets into {plan.buckets:,}"
    changed = sum(b.changed for b in receipt.buckets)
    rows = sum(f.rows for b in receipt.buckets for f in b.files)
    return (
        f"merged {many(counts.events, 'event')}: {counts.inserted:,} inserted, {counts.changed:,} changed; wrote "
        f"{many(rows, 'row')} of {many(changed, 'bucket')}"
    )
