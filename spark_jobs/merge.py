"""`merge.py <URI of the plan>`: small files of a window become larger ones; beside the control plane, or under Spark.

A plan of mode `merge` names the files and their manifests' entries. What is written is counted again from the rows:
their number, their Kafka coordinates, and the checksum over their content. Exit code 0: `_receipt.json` is in the work
directory; otherwise 1, `failure.json` is there and the last line on standard error says the same. Plans of mode
`reopen` (see `spark_jobs.reopen`) are carried out from here too.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spark_jobs import lean

if __name__ == "__main__":
    lean.pyarrow_without_numpy()


from spark_jobs.engine.failures import from_exception, last_line, reported
from spark_jobs.engine.merge import merge_files
from tidegate.core.base.plain import dumps, loads
from tidegate.core.base.storage import Storage
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import JobPlan
from tidegate.core.files.merge import Merge, Merged, MergeReceipt
from tidegate.core.target.paths import RECEIPT, join

RunMerges = Callable[[Callable[[Merge, int], Merged], Sequence[Merge]], Iterable[Merged]]
"""`run(fn, merges)`: call `fn(merge, attempt)` for each, anywhere; `attempt` makes file names unique."""


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: merge.py <URI of the plan> [user of HDFS]", file=sys.stderr)
        return 2
    lean.without_pandas()
    from tidegate.storage import for_uri

    try:
        storage = for_uri(*arguments)
        plan = loads(JobPlan, storage.read(arguments[0]))
        print(carry_out(plan, storage))
    except Exception as e:
        print(f"tidegate: {last_line(from_exception(e))}", file=sys.stderr, flush=True)
        return 1
    return 0


def carry_out(
    plan: JobPlan,
    storage: Storage,
    run: Callable[..., Iterable[Any]] | None = None,
    open_storage: Callable[[str], Any] | None = None,
) -> str:
    """A plan of mode merge or reopen; what to say of it."""
    if plan.mode == "reopen":
        from spark_jobs import reopen

        return reopen.summary(plan, reopen.run_reopening(plan, storage, run, open_storage))
    return summary(plan, run_merges(plan, storage, run, open_storage))


def run_merges(
    plan: JobPlan,
    storage: Storage,
    run: RunMerges | None = None,
    open_storage: Callable[[str], Any] | None = None,
) -> MergeReceipt:
    """Carry out a plan and write its receipt; on any failure write `failure.json` and raise JobError.

    Without `run` everything happens in this process, on `storage`, which then needs `open_new`."""
    started = time.monotonic()
    try:
        one = functools.partial(merge_files, plan, open_storage or (lambda uri: storage))
        files = tuple((run or _here)(one, plan.merges))
        receipt = MergeReceipt(plan.attempt, files, round(time.monotonic() - started, 3))
        storage.write_new(join(plan.attempt_dir, RECEIPT), dumps(receipt).encode())
    except Exception as e:
        raise reported(storage, plan.attempt_dir, e) from e
    return receipt


def summary(plan: JobPlan, receipt: MergeReceipt) -> str:
    """For the log."""
    rows = sum(f.rows for f in receipt.files)
    sources = sum(len(m.sources) for m in plan.merges)
    words = f"merged {many(rows, 'row')} of {many(sources, 'file')} into {len(receipt.files):,}"
    return f"tidegate: {plan.attempt}: {words}"


def _here(one: Callable[[Merge, int], Merged], merges: Sequence[Merge]) -> list[Merged]:
    return [one(merge, 0) for merge in merges]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
