"""`spark-submit land.py <URI of the plan> [user of HDFS]`: read offset ranges, write their files, leave a receipt.

Exit code 0: `_receipt.json` is in the attempt's directory. Otherwise 1: `failure.json` is there, and the last line on
standard error says the same. The job never talks to the ledger.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from spark_jobs.engine.failures import JobError, from_exception, last_line

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tidegate.core.batch import JobPlan
    from tidegate.core.ports import Storage

T = TypeVar("T")
R = TypeVar("R")


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: land.py <URI of the plan> [user of HDFS]", file=sys.stderr)
        return 2
    try:
        return _land(*arguments)
    except Exception as e:
        failure = e.failure if isinstance(e, JobError) else from_exception(e)
        print(f"tidegate: {last_line(failure)}", file=sys.stderr, flush=True)
        return 1


def _land(plan_uri: str, user: str | None = None) -> int:
    from spark_jobs.engine.job import run_plan
    from tidegate.adapters.storage import for_uri
    from tidegate.core.batch import JobPlan
    from tidegate.core.plain import loads

    open_storage = functools.partial(for_uri, user=user)
    storage = open_storage(plan_uri)
    plan = loads(JobPlan, storage.read(plan_uri))
    context = _context(plan.attempt)
    if plan.mode == "merge":
        return _merge(plan, storage, context, open_storage)
    try:
        tasks = max(1, context.defaultParallelism)
        receipt = run_plan(plan, storage, _on(context), open_storage=open_storage, tasks=tasks)
    finally:
        context.stop()
    print(
        f"tidegate: {plan.attempt}: read {receipt.read_rows}, wrote {receipt.rows} rows in {len(receipt.files)} files"
    )
    return 0


def _merge(plan: JobPlan, storage: Storage, context: SparkContext, open_storage: Callable[[str], Storage]) -> int:
    """What `merge.py` does in one process, spread over the executors."""
    from spark_jobs.merge import run_merges, summary

    try:
        receipt = run_merges(plan, storage, _on(context), open_storage)
    finally:
        context.stop()
    print(summary(plan, receipt))
    return 0


def _context(name: str) -> SparkContext:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers are the first python3 on PATH
    from pyspark import SparkConf, SparkContext

    return SparkContext(conf=SparkConf().setAppName(f"tidegate {name}"))


def _on(context: SparkContext) -> Callable[[Callable[[T, int], R], Sequence[T]], list[R]]:
    def run_tasks(run: Callable[[T, int], R], tasks: Sequence[T]) -> list[R]:
        def attempt(task: T) -> R:
            from pyspark import TaskContext

            return run(task, TaskContext.get().taskAttemptId())

        return context.parallelize(tasks, len(tasks)).map(attempt).collect() if tasks else []

    return run_tasks


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
