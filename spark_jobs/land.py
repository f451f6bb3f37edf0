"""`spark-submit land.py <URI of the plan> [user of HDFS]`: read offset ranges or files, write files, leave a receipt.

Exit code 0: `_receipt.json` is in the attempt's directory. Otherwise 1: `failure.json` is there, and the last line on
standard error says the same. The job never talks to the ledger.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spark_jobs import lean, tasks
from spark_jobs.engine import secrets as engine_secrets
from spark_jobs.engine.failures import from_exception, last_line

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tidegate.core.base.storage import Storage
    from tidegate.core.batch.jobs import JobPlan


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: land.py <URI of the plan> [user of HDFS]", file=sys.stderr)
        return 2
    lean.without_pandas()
    lean.pyspark_from_its_folder()
    try:
        return _land(*arguments)
    except Exception as e:
        print(f"tidegate: {last_line(from_exception(e))}", file=sys.stderr, flush=True)
        return 1


def _land(plan_uri: str, user: str | None = None) -> int:
    from spark_jobs.storage import open_storage
    from tidegate.core.batch.jobs import loads_plan

    # before the plan is read: the file of secrets that Spark has carried along may be needed for it
    context = new_context(plan_uri.rpartition("/")[2].removesuffix(".json"))
    try:
        opened = functools.partial(open_storage, user=user)
        storage = opened(plan_uri)
        plan = loads_plan(storage.read(plan_uri))
        print(carry_out(plan, storage, context, opened))
    finally:
        context.stop()
    return 0


def carry_out(
    plan: JobPlan,
    storage: Storage,
    context: SparkContext,
    open_storage: Callable[[str], Storage],
    secrets: str | None = None,
) -> str:
    """Run a plan on a context, which may serve others before and after; what to say of it. Raises JobError.

    `secrets` is the plan's own file, empty for none; None: whatever this job was started with."""
    given = None if secrets is None else engine_secrets.read(secrets) if secrets else {}
    engine_secrets.use(given)
    run_tasks = tasks.run_on(context, given)
    from tidegate.core.batch.jobs import ApplyPlan, CopyPlan, ReadPlan, RewritePlan
    from tidegate.spark.conf import is_local

    if isinstance(plan, RewritePlan):
        from spark_jobs import rewrite

        return rewrite.carry_out(plan, storage, run_tasks, open_storage)
    # only a local master's cores are known: a cluster's executors may not be there yet
    cores = context.defaultParallelism if is_local(context.master) else None
    if isinstance(plan, ApplyPlan):
        from spark_jobs import apply

        return apply.carry_out(plan, storage, run_tasks, open_storage, cores)
    if isinstance(plan, CopyPlan):
        from spark_jobs import chunks

        return chunks.carry_out(plan, storage, run_tasks, open_storage)
    assert isinstance(plan, ReadPlan)
    from spark_jobs.engine.job import run_plan
    from tidegate.core.base.wording import many

    done = run_plan(plan, storage, run_tasks, open_storage=open_storage, tasks=cores)
    written = f"wrote {many(done.rows, 'row')} in {many(len(done.files), 'file')}"
    return f"tidegate: {plan.attempt}: read {many(done.read_rows, 'record')}, {written}"


def new_context(name: str) -> SparkContext:
    """The application's context; while its JVM makes it, the engine is imported. spark-submit has said the rest."""
    # spark-submit has put there what `spark.pyspark.python` says; else workers would be the first python3 on PATH
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext

    from tidegate.spark.conf import MAX_FAILURES, with_tries

    lean.import_ahead()
    SparkContext._ensure_initialized()  # so that the settings are those that spark-submit was given
    conf = SparkConf().setAppName(f"tidegate {name}")
    return SparkContext(conf=conf.setMaster(with_tries(conf.get("spark.master", ""), conf.get(MAX_FAILURES))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
