"""A job whose process a signal has ended: the error says so, not its command line, and what becomes of the batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest

from spark_jobs.engine.failures import from_exception
from tests.spark.test_spark_launcher import LAUNCHERS, PLAN, airflow_launcher, spark
from tests.world import World, record
from tidegate.airflow import last_line
from tidegate.airflow.task import in_airflow_terms
from tidegate.core.base.errors import JobFailed, JobKilled
from tidegate.spark.launcher import job_ended
from tidegate.spark.local_job import LocalLauncher
from tidegate.workflow.batch import ingest

__all__ = ["spark"]
DIES = "import signal; os.kill(os.getpid(), signal.SIGKILL)"
PYTHON_DIES = (
    "print('26/11/22 02:24:31 WARN NativeCodeLoader: Unable to load', flush=True)\n"
    "print('Exception in thread \"main\" org.apache.spark.SparkUserAppException: User application exited with 137')\n"
    "print('\\tat org.apache.spark.deploy.PythonRunner$.main(PythonRunner.scala:103)')\n"
    "sys.exit(137)"
)


def line(error: Exception, about: str = "batch 7", task: str = "write") -> str:
    """The last line of the task's log, by Airflow's own course of an exception."""
    at = pendulum.datetime(2013, 1, 5, 4)
    ti = SimpleNamespace(
        dag_id="readings.ingest", task_id=task, state="up_for_retry", try_number=2, max_tries=3,
        next_retry_datetime=lambda: at,
    )  # fmt: skip
    try:
        with in_airflow_terms():
            raise error
    except Exception as e:
        said: Any = {"ti": ti, "dag_run": SimpleNamespace(execution_date=at)}
        return last_line.failed(said, about, e)


@LAUNCHERS
@pytest.mark.parametrize("body", [DIES, PYTHON_DIES], ids=["jvm", "python"])
def test_a_driver_that_is_killed_is_told_in_words(spark: Callable[[str], Path], launcher: Callable, body: str) -> None:
    with pytest.raises(JobKilled) as caught:
        launcher(spark(body)).run(PLAN)
    assert caught.value.retry
    said = line(caught.value)
    assert "failed: the Spark driver was killed by signal 9 (SIGKILL); try 2 of 4" in said
    assert "if it goes on failing: unless somebody killed it, memory ran out" in said
    assert "--master" not in str(caught.value)
    assert "Cannot execute" not in str(caught.value)
    assert ("NativeCodeLoader" in str(caught.value)) == (body == PYTHON_DIES), "its own words stand above"


@pytest.mark.parametrize(
    ("code", "words", "what"),
    [
        (-15, [], "the Spark driver was ended by signal 15 (SIGTERM)"),
        (143, [], "the Spark driver was ended by signal 15 (SIGTERM)"),
        (134, ["java.lang.OutOfMemoryError: Java heap space"],
         "the Spark driver was ended by signal 6 (SIGABRT): java.lang.OutOfMemoryError: Java heap space"),
        # YARN in cluster mode: spark-submit watches, and ends with 1
        (1, ["Diagnostics: AM Container for appattempt_1_000001 exited with  exitCode: 137", "INFO x"],
         "the Spark driver was killed by signal 9 (SIGKILL)"),
        (1, ["Container killed on request. Exit code is 137"], "the Spark driver was killed by signal 9 (SIGKILL)"),
    ],
)  # fmt: skip
def test_each_end_by_a_signal(code: int, words: list[str], what: str) -> None:
    error = job_ended(code, words)
    assert isinstance(error, JobKilled)
    assert f"failed: {what}; try" in line(error)


def test_an_exit_code_of_its_own_is_none_of_a_signal() -> None:
    for code, words in ((1, []), (2, ["137 files"]), (130, []), (255, ["exit code 1"])):
        assert not isinstance(job_ended(code, words), JobKilled)


def test_a_failure_to_start_is_not_called_a_command_line(spark: Callable[[str], Path]) -> None:
    with pytest.raises(JobFailed) as caught:
        airflow_launcher(spark("sys.exit(1)")).run(PLAN)
    assert not isinstance(caught.value, JobKilled)
    assert line(caught.value).startswith(
        "readings.ingest write, batch 7 failed: spark-submit ended with exit code 1 without a word; try 2 of 4"
    )


def test_the_batch_and_its_next_epoch_are_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.produce(record("a", 0.1))
    ingest.plan(world.context(), "r1")

    class Dies:
        def run(self, plan_path: str) -> None:
            raise job_ended(-9, ["noise"])

    for epoch in (1, 2):
        ctx = world.context()
        ctx.launcher = Dies()
        with pytest.raises(JobKilled) as caught:
            ingest.write(ctx, "r1")
        said = line(caught.value, "batch 1")
        assert (
            "batch 1 failed: the Spark driver was killed by signal 9 (SIGKILL): nothing is lost, the next try writes "
            f"batch 1 anew as epoch {epoch + 1}; try 2 of 4; the next one begins by itself" in said
        )
        assert "noise" in str(caught.value)
    world.close()


def test_windows_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.produce(record("a", 0.1), record("b", 1.5))
    world.produce(record("c", 2.0), partition=1)
    world.ingest("r1")
    world.archive(0)

    class Dies:
        def run(self, plan_path: str) -> None:
            raise job_ended(-9, [])

    world.wrap = lambda name, port: Dies() if name == "launcher" else port
    with pytest.raises(JobKilled, match="signal 9 .SIGKILL.: nothing is lost, what readers see stays, the next try "):
        world.replay(0)
    world.wrap = None
    world.close()


def test_a_merge_beside_too(tmp_path: Path) -> None:
    dies = tmp_path / "python"
    dies.write_text("#!/bin/sh\nkill -9 $$\n")
    dies.chmod(0o755)
    with pytest.raises(JobKilled, match=r"^the merge was killed by signal 9 \(SIGKILL\)"):
        LocalLauncher(lambda said: None, str(dies)).run(PLAN)


def test_a_worker_that_is_killed_is_no_java_stack() -> None:
    java = (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most "
        "recent failure: Lost task 0.0 in stage 0.0 (TID 0) (host executor driver): "
    )
    died = from_exception(
        RuntimeError(java + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")
    )
    lost = "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: exited with code 137"
    for failure, what in (
        (died, "a Python worker of the job died: Python worker exited unexpectedly (crashed)"),
        (from_exception(RuntimeError(java + lost)), f"the job lost an executor: {lost}"),
    ):
        assert failure.what == what
        assert failure.retry
        assert failure.advice.startswith("unless somebody killed it, memory ran out")


@pytest.mark.parametrize(
    "words",
    [
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: java.nio.file."
        "FileSystemException: /tmp/a -> /scratch/spark-1/a: No space left on device\n\tat java.base/sun.nio.fs\n\tat x",
        "[Errno 28] No space left on device: '/scratch/spark-1/a'",
    ],
)
def test_a_full_disk_of_the_job_is_told_with_its_path(words: str) -> None:
    failure = from_exception(RuntimeError(words))
    assert failure.what.startswith("a disk is full: ")
    assert "/scratch/spark-1/a" in failure.what
    assert "spark.local.dir" in failure.advice
    assert failure.retry
