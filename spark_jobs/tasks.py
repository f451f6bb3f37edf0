"""The tasks of a job on Spark: which failures Spark tries again, and which end the job at once.

An attempt that fails in a way that may pass raises `Again`: Spark runs the task once more, `spark.task.maxFailures`
times in all, just as it does for a worker or an executor that died. A failure that no try heals, and the failure of a
task's last try, is a value: an accumulator brings it to the driver, which cancels the other tasks and raises it.

Nothing that an attempt wrote counts unless its own result is the one that the action returned: its files have names of
its own (Spark's task attempt id is in them), and receipts name the files of results.
"""

from __future__ import annotations

import functools
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_jobs import lean
from spark_jobs.engine.failures import JobError, died, from_exception
from spark_jobs.engine.secrets import use
from tidegate.core.files.receipt import Failure
from tidegate.spark.conf import tries

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")

PAUSE_S = 2.0
"""Before a task's second try, twice as long before its third: what is down for a moment should not cost all tries."""
LOOK_S = 0.25
_MOST_WORDS = 400


class Again(Exception):
    """Raised by a task attempt for a failure that may pass; Spark runs the task again."""


@dataclass(frozen=True)
class Ended(Generic[R]):
    """End of a task's last attempt."""

    result: R | None = None
    failure: Failure | None = None


def run_on(
    context: SparkContext, secrets: dict[str, str] | None
) -> Callable[[Callable[[T, int], R], Sequence[T]], list[R]]:
    """`run_tasks(run, tasks)`: call `run(task, attempt)` for each on the executors; the results in order.

    Raises JobError as soon as a task has failed for good."""
    most = tries(context.master, context.getConf().get("spark.task.maxFailures"))

    def run_tasks(run: Callable[[T, int], R], tasks: Sequence[T]) -> list[R]:
        if not tasks:
            return []
        from pyspark.accumulators import AddingAccumulatorParam

        told: Any = context.accumulator((), AddingAccumulatorParam(()))  # type: ignore[type-var]
        here = functools.partial(_on_executor, run, secrets, most, told)
        ended: list[Ended[R]] = []
        try:
            with _watched(context, most, lambda: told.value):
                ended = context.parallelize(tasks, len(tasks)).map(here).collect()
        except Exception:
            if not told.value:
                raise  # Spark's own: say, of a task whose workers died each time
        failed = told.value or [one.failure for one in ended if one.failure]
        if failed:
            # what a human must look at comes before what another try may heal
            raise JobError(min(failed, key=lambda failure: failure.retry))
        return [one.result for one in ended]  # type: ignore[misc]

    return run_tasks


def _on_executor(run: Callable[[T, int], R], secrets: dict[str, str] | None, most: int, told: Any, task: T) -> Ended[R]:
    from pyspark import TaskContext

    lean.without_pandas()  # workers of a cluster were not forked by our daemon
    lean.archives_as_they_are()
    use(secrets)  # by value: a path is the driver's, and the worker may have served another plan
    context = TaskContext.get()
    assert context is not None
    unique, number = context.taskAttemptId(), context.attemptNumber()
    return attempt(functools.partial(run, task, unique), number, most, lambda failure: told.add((failure,)))


def attempt(run: Callable[[], R], number: int, most: int, tell: Callable[[Failure], None]) -> Ended[R]:
    """Return what `run` returns, or its failure for good after `tell(failure)`. `number`: of the tries before this one.

    Raises Again for a failure that may pass, while there are tries left."""
    if number:
        time.sleep(PAUSE_S * number)
    try:
        return Ended(run())
    except Exception as e:
        failure = from_exception(e)
        if failure.retry and number + 1 < most:
            raise Again(" ".join(failure.what.split())) from e
        tell(failure)
        return Ended(failure=failure)


@contextmanager
def _watched(context: SparkContext, most: int, ended: Callable[[], object]) -> Iterator[None]:
    """Jobs that this thread starts meanwhile are cancelled once `ended()`, and tries that follow a failure are told."""
    from pyspark import InheritableThread

    group, over = f"tidegate-{uuid.uuid4().hex}", Event()
    attempts = FailedAttempts(context, group, most)

    def watch() -> None:
        while not over.wait(LOOK_S):
            if ended():
                context.cancelJobGroup(group)
                return
            attempts.tell()

    context.setJobGroup(group, "Tidegate")
    thread = InheritableThread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if not ended():
            attempts.tell()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


class FailedAttempts:
    """Says of each task attempt that failed why, and that Spark runs the task again.

    Spark's own store of what its jobs do is asked: no public interface of PySpark tells why a task failed. A Spark
    whose store is another costs nothing but these words: its own warning (`Lost task ...`) stands in the log."""

    def __init__(self, context: SparkContext, group: str, most: int) -> None:
        self._context, self._group, self._most = context, group, most
        self._told: set[int] = set()
        self._failed: dict[int, int] = {}

    def tell(self) -> None:
        try:
            for stage, stage_attempt in self._stages_with_new_failures():
                for task in self._failed_tasks(stage, stage_attempt):
                    self._tell(task)
        except Exception as e:
            if self._most:
                print(f"tidegate: Spark does not say why tasks fail ({type(e).__name__})", file=sys.stderr, flush=True)
            self._most = 0

    def _stages_with_new_failures(self) -> Iterator[tuple[int, int]]:
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._group) if self._most else ():
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                found = tracker.getStageInfo(stage)
                if found and found.numFailedTasks != self._failed.get(stage, 0):
                    self._failed[stage] = found.numFailedTasks
                    yield stage, found.currentAttemptId

    def _failed_tasks(self, stage: int, stage_attempt: int) -> Iterator[Any]:
        spark = self._context._jvm.org.apache.spark.status.api.v1  # type: ignore[union-attr]
        store = self._context._jsc.sc().statusStore()  # type: ignore[union-attr]
        statuses = self._context._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        statuses.add(spark.TaskStatus.FAILED)
        found = store.taskList(stage, stage_attempt, 0, 1_000, spark.TaskSorting.ID, statuses)
        for i in range(found.size()):
            yield found.apply(i)

    def _tell(self, task: Any) -> None:
        number = task.attempt() + 1
        if task.taskId() in self._told:
            return
        self._told.add(task.taskId())
        if number < self._most:
            error = task.errorMessage()
            why = reason(error.get()) if error.isDefined() else "no reason given"
            line = f"task {task.index()} failed on {task.host()}: {why}; Spark runs it again, try {number + 1} of "
            print(f"tidegate: {line}{self._most}", file=sys.stderr, flush=True)


def reason(error: str) -> str:
    """Reason of a failed task attempt, in a line, from what Spark tells of it."""
    mark = f"{Again.__module__}.{Again.__qualname__}: "
    if mark in error:
        text = error.rpartition(mark)[2].splitlines()[0]
    else:
        text = died(error) or error.splitlines()[0]
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]} ..."
