"""Which failures of a task Spark tries again, which end the job at once, and what is said of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from spark_jobs import tasks
from spark_jobs.engine import secrets as engine_secrets
from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.tasks import Again, Ended, FailedAttempts, attempt, reason, run_on
from tidegate.core.base.errors import PathExists, SpecError, StorageError
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.files.receipt import Failure
from tidegate.core.source import unreadable
from tidegate.sources.kafka.unreadable import wrong_settings
from tidegate.spark.conf import tries, with_tries

RANGE = OffsetRange("readings", 3, 0, 10)
STALLED = unreadable.stalled(RANGE, 4, 60, "broker transport failure")
FOR_GOOD = [
    unreadable.gone(RANGE, 4, "the log holds [5, 10)"),
    unreadable.recreated("readings", "one", "two"),
    wrong_settings("no such setting"),
    refuse("unknown field 'odd'"),
    SpecError("no such zone"),
]
MAY_PASS = [STALLED, StorageError("no DataNode answers"), PathExists("part-1"), MemoryError(), OSError(28, "No space")]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PAUSE_S", 0.0)


def failing(error: Exception) -> Callable[[], Any]:
    def run() -> Any:
        raise error

    return run


@pytest.mark.parametrize("error", MAY_PASS, ids=lambda e: type(e).__name__)
def test_what_may_pass_is_sparks_to_try_again_but_for_the_last_time(error: Exception) -> None:
    told: list[Failure] = []
    for number in range(3):
        with pytest.raises(Again):
            attempt(failing(error), number, 4, told.append)
    assert told == []
    ended = attempt(failing(error), 3, 4, told.append)
    assert [ended.failure] == told
    assert told[0].retry, "the job's own next try may succeed"


@pytest.mark.parametrize("error", FOR_GOOD, ids=lambda e: str(e)[:20])
def test_what_no_try_heals_ends_at_the_first(error: Exception) -> None:
    told: list[Failure] = []
    ended = attempt(failing(error), 0, 4, told.append)
    assert [ended.failure] == told
    assert not told[0].retry


def test_a_later_try_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(tasks, "PAUSE_S", 2.0)
    monkeypatch.setattr(tasks.time, "sleep", waited.append)
    for number in range(3):
        assert attempt(lambda: "rows", number, 4, print) == Ended("rows")
    assert waited == [2.0, 4.0]


@pytest.mark.parametrize(
    ("master", "most", "url", "times"),
    [
        ("local", None, "local[1,4]", 4),
        ("local[2]", None, "local[2,4]", 4),
        ("local[*]", "2", "local[*,2]", 2),
        ("local[2]", "1", "local[2,1]", 1),
        ("local[2, 3]", "7", "local[2, 3]", 3),
        ("local-cluster[2,1,512]", None, "local-cluster[2,1,512]", 4),
        ("yarn", None, "yarn", 4),
        ("spark://host:7077", "9", "spark://host:7077", 9),
        ("", None, "", 4),
    ],
)
def test_a_local_master_tries_as_often_as_any_other(master: str, most: str | None, url: str, times: int) -> None:
    assert with_tries(master, most) == url
    assert tries(url, most) == times


def test_what_spark_tells_of_a_failure_becomes_a_line() -> None:
    trace = "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File x\n    raise\n"
    again = f"{trace}spark_jobs.tasks.Again: {STALLED}\n\n\tat org.apache.spark.api.python.BasePythonRunner"
    assert reason(again) == str(STALLED)
    died = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.apache.spark"
    assert reason(died).startswith("a Python worker of the job died: Python worker exited unexpectedly (crashed)")
    lost = "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Container killed"
    assert reason(lost) == f"the job lost an executor: {lost}"
    assert reason("java.io.IOException: odd\n\tat x") == "java.io.IOException: odd"
    assert len(reason("x" * 5_000)) < 500


# ---------------------------------------------------------------- the driver


class Executors:
    """A context whose tasks run one after another, each as often as Spark would try it."""

    def __init__(self, master: str = "yarn") -> None:
        self.master, self.cancelled, self.groups = master, threading.Event(), []  # type: ignore[var-annotated]
        self.told = SimpleNamespace(value=())

    def getConf(self) -> dict:
        return {}

    def accumulator(self, zero: tuple, param: object) -> Any:
        def add(more: tuple) -> None:
            self.told.value += more

        self.told = SimpleNamespace(value=zero, add=add)
        return self.told

    def setJobGroup(self, group: str, description: str) -> None:
        self.groups.append(group)

    def setLocalProperty(self, key: str, value: None) -> None:
        assert key == "spark.jobGroup.id"
        self.groups.append(value)

    def cancelJobGroup(self, group: str) -> None:
        assert group == self.groups[-1]
        self.cancelled.set()

    def parallelize(self, given: list, slices: int) -> Executors:
        assert slices == len(given)
        self.given = given
        return self

    def map(self, function: Callable) -> Executors:
        self.function = function
        return self

    def collect(self) -> list:
        return [self.tried(index, task) for index, task in enumerate(self.given)]

    def tried(self, index: int, task: Any) -> Any:
        last: Exception | None = None
        for number in range(tries(self.master, None)):
            self.at = (index * 10 + number, number)
            try:
                return self.function(task)
            except Exception as e:
                last = e
        raise RuntimeError(f"Job aborted due to stage failure: {last}")


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Executors]:
    made = Executors()

    def get() -> SimpleNamespace:
        unique, number = made.at
        return SimpleNamespace(taskAttemptId=lambda: unique, attemptNumber=lambda: number)

    monkeypatch.setattr(pyspark, "TaskContext", SimpleNamespace(get=get))
    monkeypatch.setattr(FailedAttempts, "tell", lambda self: None)
    monkeypatch.setattr(tasks, "LOOK_S", 0.01)
    monkeypatch.setattr(engine_secrets, "_given", None)  # as it was before, once the attempts here have set it
    yield made
    assert [made.groups[0], made.groups[-1]] != [None, made.groups[0]]
    assert made.groups[-1] is None, "no later job is of this group"


def test_each_task_has_one_result_that_of_the_attempt_that_succeeded(executors: Executors) -> None:
    tried: list[tuple[str, int]] = []

    def run(task: str, unique: int) -> tuple[str, int]:
        tried.append((task, unique))
        if task == "b" and unique < 12:
            raise STALLED
        return task, unique

    assert run_on(executors, {})(run, ["a", "b", "c"]) == [("a", 0), ("b", 12), ("c", 20)]
    assert tried == [("a", 0), ("b", 10), ("b", 11), ("b", 12), ("c", 20)]


def test_a_failure_for_good_cancels_the_others_and_is_what_is_said(executors: Executors) -> None:
    def run(task: str, unique: int) -> str:
        if task == "bad":
            raise FOR_GOOD[0]
        executors.cancelled.wait(20)
        raise SystemExit("Job 0 cancelled part of cancelled job group")  # as Spark ends them

    def collect() -> list:
        try:
            return Executors.collect(executors)
        except SystemExit as e:
            raise RuntimeError(str(e)) from None

    executors.collect = collect  # type: ignore[method-assign]
    with pytest.raises(JobError) as caught:
        run_on(executors, {})(run, ["bad", "long"])
    assert caught.value.failure == FOR_GOOD[0].failure  # type: ignore[attr-defined]
    assert executors.cancelled.is_set()


def test_a_tasks_last_try_ends_the_job_with_its_own_words(executors: Executors) -> None:
    with pytest.raises(JobError) as caught:
        run_on(executors, {})(lambda task, unique: failing(STALLED)(), ["a"])
    assert caught.value.failure == STALLED.failure
    assert executors.at == (3, 3)


def test_what_a_human_must_look_at_comes_before_what_may_pass(executors: Executors) -> None:
    executors.master = "local[1]"
    errors = {"a": STALLED, "b": FOR_GOOD[3]}
    with pytest.raises(JobError, match="unknown field"):
        run_on(executors, {})(lambda task, unique: failing(errors[task])(), ["a", "b"])


def test_without_the_accumulator_a_failure_is_still_no_result(executors: Executors) -> None:
    executors.accumulator = lambda zero, param: SimpleNamespace(value=(), add=lambda more: None)  # type: ignore[method-assign]
    with pytest.raises(JobError, match="unknown field"):
        run_on(executors, {})(lambda task, unique: failing(FOR_GOOD[3])(), ["a"])


def test_workers_that_die_each_time_are_sparks_own_failure(executors: Executors) -> None:
    executors.function = None  # type: ignore[assignment]
    executors.collect = failing(RuntimeError("Python worker exited unexpectedly (crashed)"))  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        run_on(executors, {})(lambda task, unique: 1, ["a"])


# ---------------------------------------------------------------- what is said


def attempts(context: Any, most: int = 4) -> FailedAttempts:
    return FailedAttempts(context, "tidegate-1", most)


class Store:
    """What Spark's store says of a stage's failed task attempts: (task, number of the attempt, error)."""

    def __init__(self, *failed: tuple[int, int, str]) -> None:
        self.failed, self.asked = list(failed), 0

    def context(self) -> Any:
        tracker = SimpleNamespace(
            getJobIdsForGroup=lambda group: [0],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[0]),
            getStageInfo=lambda stage: SimpleNamespace(numFailedTasks=len(self.failed), currentAttemptId=0),
        )
        names = SimpleNamespace(FAILED="FAILED", ID="ID")
        v1 = SimpleNamespace(TaskStatus=names, TaskSorting=names)
        apache = SimpleNamespace(spark=SimpleNamespace(status=SimpleNamespace(api=SimpleNamespace(v1=v1))))
        lists = SimpleNamespace(util=SimpleNamespace(ArrayList=lambda: SimpleNamespace(add=lambda one: None)))
        return SimpleNamespace(
            statusTracker=lambda: tracker,
            _jvm=SimpleNamespace(org=SimpleNamespace(apache=apache), java=lists),
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: self)),
        )

    def taskList(self, *words: object) -> Any:
        self.asked += 1
        found = [self.task(*one) for one in self.failed]
        return SimpleNamespace(size=lambda: len(found), apply=found.__getitem__)

    @staticmethod
    def task(index: int, number: int, error: str) -> Any:
        return SimpleNamespace(
            taskId=lambda: index * 10 + number, index=lambda: index, attempt=lambda: number, host=lambda: "node-2",
            errorMessage=lambda: SimpleNamespace(isDefined=lambda: bool(error), get=lambda: error),
        )  # fmt: skip


def test_each_try_that_follows_a_failure_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    store = Store((7, 0, "x\nspark_jobs.tasks.Again: no progress in 60 s\n\tat"))
    attempts_of = attempts(store.context())
    attempts_of.tell()
    attempts_of.tell()
    assert store.asked == 1
    line = "tidegate: task 7 failed on node-2: no progress in 60 s; Spark runs it again, try 2 of 4"
    assert capsys.readouterr().err.splitlines() == [line]
    store.failed += [(7, 1, ""), (8, 3, "Python worker exited unexpectedly (crashed)")]
    attempts_of.tell()
    assert capsys.readouterr().err.splitlines() == [
        "tidegate: task 7 failed on node-2: no reason given; Spark runs it again, try 3 of 4"
    ], "the last of task 8 is the job's end, which is told of elsewhere"


def test_a_spark_that_keeps_no_such_store_costs_the_words_only(capsys: pytest.CaptureFixture[str]) -> None:
    silent = attempts(SimpleNamespace())
    silent.tell()
    silent.tell()
    assert capsys.readouterr().err.count("does not say why tasks fail") == 1
