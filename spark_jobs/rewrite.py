"""`rewrite.py <URI of the plan>`: finished files become other files, beside the control plane or under Spark.

A plan of mode `merge` names files and their manifests' entries: small ones become larger ones, or each is copied. One
of mode `reopen` copies the files of the generation in force, and adds late rows by their partition values. `apply` has
plans of that mode. Nothing is read from Kafka. What is written is counted again from the rows: their number, their
Kafka coordinates, and the checksum over their content. Exit code 0: `_receipt.json` is in the work directory; otherwise
1, `failure.json` is there and the last line on standard error says the same.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs import lean

if __name__ == "__main__":
    lean.pyarrow_without_numpy()


from spark_jobs.engine.failures import from_exception, last_line, refuse, reported
from spark_jobs.engine.rewrite.join import by_columns, join_files
from tidegate.core.base.plain import dumps
from tidegate.core.base.storage import Storage
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import ApplyPlan, JobPlan, MergePlan, ReopenPlan, RewritePlan, loads_plan
from tidegate.core.files.merge import Merge, Merged, MergeReceipt, add_up, sum_of
from tidegate.core.files.overflow import Overflow
from tidegate.core.files.receipt import BatchRows, FileEntry
from tidegate.core.late.reopen import ReopenReceipt
from tidegate.core.target.paths import BOUNDS, RECEIPT, join
from tidegate.core.target.stored import Bounds

_REPLAY = "rebuild the window from Kafka first (its replay DAG), then reopen it"


@dataclass(frozen=True)
class Work:
    """One task: a merge, or (`late`) all late files."""

    merges: tuple[Merge, ...]
    late: bool = False


@dataclass(frozen=True)
class Done:
    """Result of a task: `merged`, or entries of a reopened generation with its rows by batch and Kafka partition."""

    merged: tuple[Merged, ...] = ()
    copied: tuple[FileEntry, ...] = ()
    added: tuple[FileEntry, ...] = ()
    batches: tuple[BatchRows, ...] = ()
    overflow: tuple[Overflow, ...] = ()
    bounds: tuple[tuple[str, Bounds], ...] = ()


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: rewrite.py <URI of the plan> [user of HDFS]", file=sys.stderr)
        return 2
    lean.without_pandas()
    from spark_jobs.storage import open_storage

    try:
        storage = open_storage(*arguments)
        plan = loads_plan(storage.read(arguments[0]))
        print(_carry_out_here(plan, storage, arguments[0]))
    except Exception as e:
        print(f"tidegate: {last_line(from_exception(e))}", file=sys.stderr, flush=True)
        return 1
    return 0


def _carry_out_here(plan: JobPlan, storage: Storage, uri: str) -> str:
    if isinstance(plan, ApplyPlan):
        from spark_jobs import apply  # not in a process that merges a window's files

        return apply.carry_out(plan, storage)
    if not isinstance(plan, RewritePlan):
        raise refuse(f"{uri} is a plan of mode {plan.mode}: land.py carries it out, under Spark")
    return carry_out(plan, storage)


def carry_out(
    plan: RewritePlan,
    storage: Storage,
    run: Callable[..., Iterable[Done]] | None = None,
    open_storage: Callable[[str], Any] | None = None,
) -> str:
    """Carry out a plan and write its receipt; what to say of it. On any failure write `failure.json`, raise JobError.

    `run(fn, works)` calls `fn(work, attempt)` for each, anywhere; `attempt` makes file names unique. Without it
    everything happens in this process, on `storage`, which then needs `open_new`."""
    started = time.monotonic()
    try:
        one = functools.partial(rewrite, plan, open_storage or (lambda uri: storage))
        works = [Work((merge,)) for merge in plan.merges] + ([Work(plan.late, late=True)] if plan.late else [])
        done = list(run(one, works)) if run is not None else [one(work, 0) for work in works]
        receipt = _receipt(plan, done, round(time.monotonic() - started, 3))
        bounds = {path: found for d in done for path, found in d.bounds}
        if bounds:
            storage.write_new(join(plan.attempt_dir, BOUNDS, "rewritten.json"), dumps(bounds).encode())
        storage.write_new(join(plan.attempt_dir, RECEIPT), dumps(receipt).encode())
    except Exception as e:
        raise reported(storage, plan.attempt_dir, e) from e
    return f"tidegate: {plan.attempt}: {_summary(plan, receipt)}"


def _receipt(plan: RewritePlan, done: Sequence[Done], seconds: float) -> MergeReceipt | ReopenReceipt:
    if isinstance(plan, MergePlan):
        return MergeReceipt(plan.attempt, tuple(m for d in done for m in d.merged), seconds)
    return ReopenReceipt(
        plan.attempt,
        tuple(f for d in done for f in d.copied),
        tuple(f for d in done for f in d.added),
        add_up(b for d in done for b in d.batches),
        tuple(o for d in done for o in d.overflow),  # one task has all late rows
        seconds,
    )


def _summary(plan: RewritePlan, receipt: MergeReceipt | ReopenReceipt) -> str:
    if isinstance(receipt, MergeReceipt):
        rows, sources = sum(f.rows for f in receipt.files), sum(len(m.sources) for m in plan.merges)
        return f"merged {many(rows, 'row')} of {many(sources, 'file')} into {len(receipt.files):,}"
    added, copied = (sum(f.rows for f in files) for files in (receipt.added, receipt.copied))
    return f"copied {many(copied, 'row')}, added {many(added, 'late row')}, in {many(len(receipt.files), 'file')}"


def rewrite(plan: RewritePlan, open_storage: Callable[[str], Any], work: Work, attempt: int) -> Done:
    if work.late:
        assert isinstance(plan, ReopenPlan)
        from spark_jobs.engine.places import combined
        from spark_jobs.engine.rewrite.move import Splitter  # not in a process that has no late rows

        added, batches, overflow = Splitter(plan, open_storage, attempt).run(work.merges)
        return Done(added=tuple(added), batches=batches, overflow=combined(list(overflow)))
    (merge,) = work.merges
    if isinstance(plan, MergePlan):
        made, _, bounds = join_files(plan, open_storage, merge, attempt)
        return Done(merged=(made,), bounds=_told(made.path, bounds))
    found = [_copied(plan, open_storage, one, attempt) for one in by_columns(merge, open_storage)]
    return Done(
        copied=tuple(due for due, _, _ in found),
        batches=add_up(b for _, batches, _ in found for b in batches),
        bounds=tuple(one for due, _, bounds in found for one in _told(due.path, bounds)),
    )


def _told(path: str, bounds: Bounds | None) -> tuple[tuple[str, Bounds], ...]:
    return () if bounds is None else ((path, bounds),)


def _copied(
    plan: RewritePlan, open_storage: Callable[[str], Any], merge: Merge, attempt: int
) -> tuple[FileEntry, list[BatchRows], Bounds | None]:
    """Files of the generation in force as one of the next, which its entry says to have the same rows."""
    made, batches, bounds = join_files(plan, open_storage, merge, attempt)
    due = sum_of(merge.sources, made.path, made.bytes)
    if (made.rows, made.checksum, made.partitions) != (due.rows, due.checksum, due.partitions):
        raise refuse(
            f"{merge.sources[0].uris[0]}: {made.rows} rows read, and their checksum or coordinates are not the "
            f"manifest's ({due.rows} rows)",
            advice=_REPLAY,
        )
    if not batches:
        raise refuse("files of the generation in force have no Kafka columns: their rows cannot be proved")
    return due, batches, bounds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
