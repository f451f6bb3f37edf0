"""The last line of a failed task: what, where, and what to run; for our errors and for those of libraries."""

from __future__ import annotations

import errno
import logging
from types import SimpleNamespace
from typing import Any

import airflow_home
import pendulum
import pytest
from airflow.exceptions import AirflowException, AirflowFailException, AirflowTaskTerminated, TaskDeferralError
from airflow.models.dag import DAG
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.types import DagRunType
from confluent_kafka import KafkaError, KafkaException
from pyhive.exc import OperationalError as HiveError
from sqlalchemy.exc import OperationalError
from thrift.transport.TTransport import TTransportException

from tests.world import make_pipeline
from tidegate.adapters.connections import ConnectionMissing
from tidegate.airflow import last_line, operators, task
from tidegate.core.base import errors
from tidegate.spark.launcher import job_ended, job_failed

PIPELINE = make_pipeline("file:///lake/readings")
FOUR = pendulum.datetime(2013, 1, 5, 4)
WINDOW = "2013-01-05T04:00Z"
CLEAR = "airflow tasks clear readings.archive -t '^publish$' -s 2013-01-05T04:00:00Z -e 2013-01-05T04:00:00Z --yes"
DOCTOR, EXPLAIN = "tidegate doctor readings", f"tidegate explain readings {WINDOW}"


def translated(error: Exception) -> Exception:
    """As Airflow gets it."""
    try:
        with task.in_airflow_terms():
            raise error
    except Exception as e:
        return e


def line(error: Any, state: str = "failed", about: str = f"window {WINDOW}") -> str:
    ti = SimpleNamespace(
        dag_id="readings.archive", task_id="publish", state=state, try_number=2, max_tries=6,
        next_retry_datetime=lambda: pendulum.datetime(2013, 1, 5, 6, 7, 8),
    )  # fmt: skip
    said = {"ti": ti, "dag_run": SimpleNamespace(execution_date=FOUR)}
    return last_line.failed(said, about, translated(error) if isinstance(error, Exception) else error)  # type: ignore[arg-type]


def every_error() -> list[type[errors.TidegateError]]:
    found, left = [], [errors.TidegateError]
    while left:
        kind = left.pop()
        found.append(kind)
        left += kind.__subclasses__()
    return sorted({k for k in found if k.__module__.startswith("tidegate.core.base.errors")}, key=lambda k: k.__name__)


def make(kind: type[errors.TidegateError]) -> errors.TidegateError:
    return kind("something happened\n  to file:///lake/x")


def advice_of(kind: type[errors.TidegateError]) -> str:
    return kind.advice.removesuffix("; the next try goes on by itself").replace("<pipeline>", "readings")


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_of_ours_ends_in_one_line_with_a_place_and_a_command(kind: type[errors.TidegateError]) -> None:
    said = line(make(kind))
    assert "\n" not in said
    assert said.startswith(f"readings.archive publish, window {WINDOW} failed: something happened to file:///lake/x; ")
    assert said.endswith(CLEAR)
    assert said.count("run: tidegate ") == 1 or "`tidegate " in said, "a look before the clear"
    if kind.advice:
        assert f"what to do: {advice_of(kind)}; run: " in said


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_a_try_that_is_followed_by_another_says_when(kind: type[errors.TidegateError]) -> None:
    said = line(make(kind), "up_for_retry")
    assert "; try 2 of 7; the next one begins by itself at about 06:07:08Z; if it goes on failing" in said
    assert "tidegate" in said.rpartition("failing")[2] or advice_of(kind) in said
    assert "airflow tasks clear" not in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            errors.SourceUnavailable("Kafka at k:9092 gives no answer within 10 s"),
            ("Kafka at k:9092 gives no answer", f"run: {DOCTOR}"),
        ),
        (
            job_failed("the Spark job failed", ["INFO start", "java.lang.OutOfMemoryError: Java heap space", "at x.y"]),
            ("the Spark job failed: java.lang.OutOfMemoryError: Java heap space", f"run: {DOCTOR}"),
        ),
        (
            job_ended(-9, []),
            ("the Spark driver was killed by signal 9 (SIGKILL); what to do: unless somebody killed it",),
        ),
        (
            job_ended(137, ["26/11/22 02:24:31 WARN NativeCodeLoader: Unable to load"]),
            ("the Spark driver was killed by signal 9 (SIGKILL); what to do:", f"run: {DOCTOR}"),
        ),
        (job_ended(2, ["odd"]), ("spark-submit ended with exit code 2: odd",)),
        (
            errors.BatchRefused("attempt 3.2-ab: 7 of 9 records are dirty (partition 1, offset 42, field fare)"),
            ("(partition 1, offset 42, field fare)", "raise the threshold", "run: tidegate status readings"),
        ),
        (errors.Alarm("landed/7 differs"), ("landed/7 differs", "run: tidegate repair readings")),
        (
            ConnectionMissing("Airflow has no connection 'hive'", advice="add it under Admin > Connections"),
            ("no connection 'hive'", "what to do: add it under Admin > Connections", f"run: {DOCTOR}"),
        ),
        (
            errors.SpecError("not a size", where="readings.yaml:3", field="windows.size"),
            ("readings.yaml:3: windows.size: not a size", "run: tidegate spec validate"),
        ),
        (errors.NotReady("partition 3 is 2 h short"), ("partition 3 is 2 h short", f"run: {EXPLAIN}")),
        # what passes the adapters
        (
            OperationalError("SELECT 1", {}, Exception('connection to server at "db" refused\nIs it running?')),
            ('a database: connection to server at "db" refused', "`airflow db check`", f"run: {DOCTOR}"),
        ),
        (
            KafkaException(KafkaError(KafkaError._TRANSPORT, "broker transport failure")),
            ("Kafka: KafkaError{", f"`{DOCTOR}` asks the brokers"),
        ),
        (HiveError("no such table"), ("Hive: no such table", f"`{DOCTOR}` asks Hive")),
        (TTransportException(message="TSocket read 0 bytes"), ("Hive: TSocket read 0 bytes",)),
        (
            OSError(errno.ENOSPC, "No space left on device", "/lake/x"),
            ("No space left on device: '/lake/x'", "what to do: free space there (/lake/x)"),
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/lake"), ("give Airflow's user the right to it (/lake)",)),
        (OSError("odd"), ("OSError: odd", f"run: {DOCTOR}")),
        (MemoryError(), ("this process had no memory left", "lower ingest.max_records")),
        (KeyError("colour"), ("KeyError: 'colour'", "this is a defect: report it with the traceback above")),
        (
            AirflowTaskTerminated("Task received SIGTERM signal"),
            ("failed: ended from outside: marked or cleared by somebody, or its worker is being stopped", EXPLAIN),
        ),
        (TaskDeferralError("Trigger timeout"), ("triggerer ended: Trigger timeout", "triggerer alive?")),
        (AirflowException("still not ready: 2 h short"), ("still not ready: 2 h short", f"run: {EXPLAIN}")),
        ("Task failed due to SystemExit(3)", ("SystemExit(3)", f"run: {EXPLAIN}")),
        (None, ("no reason was given",)),
    ],
)  # fmt: skip
def test_lines_as_a_person_reads_them(error: Any, words: tuple[str, ...]) -> None:
    said = line(error)
    for word in words:
        assert word in said, said
    assert said.endswith(CLEAR)
    assert "\n" not in said


def test_a_long_message_leaves_room_for_the_command() -> None:
    said = line(errors.JobFailed("x" * 5000))
    assert len(said) < 1500
    assert said.endswith(CLEAR)


def test_clearing_an_early_task_clears_what_comes_after_it() -> None:
    ti = SimpleNamespace(dag_id="readings.ingest", task_id="write")
    at = pendulum.datetime(2013, 1, 5, 4, 0, 7, 123)
    said = last_line.clear({"ti": ti, "dag_run": SimpleNamespace(execution_date=at)})  # type: ignore[arg-type]
    assert said == (
        "airflow tasks clear readings.ingest -t '^write$' --downstream -s 2013-01-05T04:00:07.000123Z "
        "-e 2013-01-05T04:00:07.000123Z --yes"
    )


def test_a_callback_of_the_users_stays_and_ours_is_the_last() -> None:
    task = operators.WriteOperator(task_id="write", dag=None, pipeline=PIPELINE, on_failure_callback=print)
    last_line.arm(task)
    last_line.arm(task)
    assert task.on_failure_callback == [print, last_line.what_to_do]
    assert task.on_retry_callback == [last_line.what_to_do]


class Failing(operators.PublishOperator):
    """Its work meets a broker that is away."""

    def perform(self, context: Any) -> None:
        with task.in_airflow_terms():
            error = errors.SourceUnavailable("Kafka at k:9092 gives no answer")
            error.retry = context["ti"].try_number < 2
            raise error


def test_airflow_logs_the_line_after_all_that_it_shows(caplog: pytest.LogCaptureFixture) -> None:
    """By Airflow's own course of a task: what comes after it is in a group that the UI folds."""
    airflow_home.make_database()
    here: list[bool] = []
    with DAG("readings.archive", schedule=None, start_date=FOUR, default_args={"retries": 1}) as dag:
        Failing(task_id="publish", pipeline=PIPELINE, on_failure_callback=lambda c: here.append(c["task"].begun_here))
    with create_session() as session:
        dag.sync_to_db(session=session)
        run = dag.create_dagrun(
            run_type=DagRunType.MANUAL, execution_date=FOUR, data_interval=(FOUR, FOUR.add(hours=1)),
            state="running", session=session, run_id="last_line",
        )  # fmt: skip
        (ti,) = run.get_task_instances(session=session)
        ti.task = dag.get_task("publish")
        try:
            first, second = course(ti, caplog), course(ti, caplog)
        finally:
            session.delete(run)
            session.commit()
    for shown, kind in ((first, "UP_FOR_RETRY"), (second, "FAILED")):
        assert any(kind in text for text in shown[:-1]), "the line stands below Airflow's own"
        assert shown[-1].startswith(
            f"readings.archive publish, window {WINDOW} failed: Kafka at k:9092 gives no answer"
        )
    assert "; try 1 of 2; the next one begins by itself at about " in first[-1]
    assert second[-1].endswith(CLEAR)
    assert here == [True], "what tells people at once knows that it is not the DAG processor that calls it"


def course(ti: TaskInstance, caplog: pytest.LogCaptureFixture) -> list[str]:
    """One try; what the UI shows unfolded."""
    caplog.clear()
    ti.state, ti.try_number = "running", (ti.try_number or 0) + 1
    ti.max_tries = 1
    kind = AirflowException if ti.try_number < 2 else AirflowFailException
    loggers = [logging.getLogger(name) for name in ("airflow.task", "airflow.models.taskinstance")]
    for logger in loggers:  # Airflow's migrations take pytest's handler from the root
        logger.addHandler(caplog.handler)
        caplog.set_level(logging.INFO, logger=logger.name)
    try:
        with create_session() as session:
            session.merge(ti)
            session.commit()
            with pytest.raises(kind):
                ti._run_raw_task()
    finally:
        for logger in loggers:
            logger.removeHandler(caplog.handler)
    shown: list[str] = []
    for record in caplog.records:
        if record.getMessage().startswith("::group::Post task execution logs"):
            return shown
        shown.append(record.getMessage())
    raise AssertionError(f"Airflow ends no try so any more: {shown}")
