"""Spark jobs by Airflow's own Spark connection and hook."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from tidegate.adapters.airflow_connections import airflow_connection
from tidegate.adapters.worker_code import land_application
from tidegate.core.base.errors import JobFailed
from tidegate.core.spec.pipeline import Pipeline
from tidegate.settings import Settings, load
from tidegate.spark.conf import is_local
from tidegate.spark.connection import SparkConnection, refused
from tidegate.spark.launcher import (
    LAST_WORDS,
    absolute_binary,
    application_arguments,
    end_processes,
    job_ended,
    job_failed,
    let_end,
    local_environment,
    new_tag,
    processes_of,
    secrets_file,
)
from tidegate.spark.yarn import end_applications, tagged
from tidegate.wiring import spark_conf, warm_launcher

if TYPE_CHECKING:
    from tidegate.spark.warm_session import WarmLauncher


CLIENT_LEAVES_S = 5.0


class AirflowSparkLauncher:
    """Starts jobs by the apache-spark provider's hook (`core.batch.launcher.Launcher`); the log goes to the task's log.

    On other machines executors import what they need from `spark_worker_archive`, or have it installed; with a local
    master they are this machine's own.
    """

    def __init__(
        self, pipeline: Pipeline, secrets: Callable[[], Mapping[str, str]], settings: Settings | None = None
    ) -> None:
        """`secrets` returns Kafka's when a job starts: they travel in a private file, never in arguments or logs."""
        self._pipeline, self._secrets, self._settings = pipeline, secrets, settings or load()
        self._job: _OwnJob | WarmLauncher | None = None

    def run(self, plan_path: str) -> None:
        """Raises JobFailed (retry), and ConnectionMissing: the hook would quietly take YARN instead."""
        ingest = self._pipeline.ingest
        connection = SparkConnection.of(airflow_connection(ingest.spark_conn_id), ingest.spark_conf)
        if connection.kubernetes and not hasattr(spark_submit, "kube_client"):
            raise refused(
                f"{connection.conn_id}: {connection.master} needs the provider cncf-kubernetes, which is not here",
                "pip install apache-airflow-providers-cncf-kubernetes on the Airflow workers",
            )
        own = _OwnJob(self._pipeline, self._secrets, self._settings, connection)
        self._job = own
        if ingest.spark_session == "warm":
            hook = own.hook("session")
            submit, user = hook.submit_command(), self._pipeline.sink.user
            env = own.environment() or {}
            self._job = warm_launcher(hook.log.info, submit, own, connection, env, self._secrets(), user)
        self._job.run(plan_path)

    def kill(self) -> None:
        """End the job, or the warm session that works on it."""
        if self._job is not None:
            self._job.kill()


class _OwnJob:
    """A spark-submit for one plan."""

    def __init__(
        self,
        pipeline: Pipeline,
        secrets: Callable[[], Mapping[str, str]],
        settings: Settings,
        connection: SparkConnection,
    ) -> None:
        self._pipeline, self._secrets, self._settings, self._connection = pipeline, secrets, settings, connection
        self._hook: _Hook | None = None
        self._plan_path = ""

    def run(self, plan_path: str) -> None:
        """Raises JobFailed (retry), or JobFailed (no retry) for a connection with which no job can succeed."""
        self._plan_path = plan_path
        secrets = self._secrets()
        self._connection.check(self._pipeline.ingest.spark_conf, bool(secrets))
        with secrets_file(secrets if self._connection.carries_files() else {}) as files:
            arguments = application_arguments(plan_path, self._pipeline.sink.user)
            tag = new_tag() if self._connection.yarn else ""
            self._hook = hook = self.hook(self._pipeline.name, arguments, files, tag)
            try:
                hook.submit(str(land_application()))
            except AirflowException as e:
                raise _ended(str(e), hook.last) from e
            except OSError as e:
                raise job_failed("spark-submit could not be started", [str(e)]) from e
            finally:
                self._hook = None

    def kill(self) -> None:
        """End the job: the hook ends the JVM (or the cluster's application), and its Python driver lives on."""
        processes, hook = processes_of(self._plan_path), self._hook
        if hook is not None and hook.tag:
            # first: spark-submit, which sees it end, removes its folder on HDFS, secrets included
            end_applications(hook.tag, hook.log.info)
            let_end(processes, CLIENT_LEAVES_S)
        if hook is not None:
            hook.on_kill()
        end_processes(processes)

    def hook(self, name: str, arguments: Sequence[str] = (), files: str | None = None, tag: str = "") -> _Hook:
        """`tag` is for the application on YARN. Raises JobFailed when there is no spark-submit."""
        settings, connection = self._settings, self._connection
        conf = spark_conf(self._pipeline, connection, settings)
        return _Hook(
            tag,
            conn_id=connection.conn_id,
            conf=tagged(conf, tag) if tag else conf,
            name=f"tidegate {name}",
            application_args=list(arguments),
            spark_binary=absolute_binary(settings.spark_binary),
            files=files,
            py_files=settings.spark_py_files or None,
            principal=connection.principal,
            keytab=connection.keytab_file(settings.spark_session_folder),
            env_vars=self.environment(),
        )

    def environment(self) -> dict[str, str] | None:
        """Environment of spark-submit on this machine; elsewhere it would become arguments."""
        return local_environment() if is_local(self._connection.master) else None


def _ended(said: str, last: Sequence[str]) -> JobFailed:
    """The error with the exit code alone: the hook's error `said` repeats our whole command line before it."""
    found = re.search(r"Error code is: (-?\d+)", said)
    return job_ended(int(found[1]), last) if found else job_failed("the Spark job failed", last or [said])


class _Hook(SparkSubmitHook):
    """Remembers the job's last lines: the hook's own error says no more than `Error code is: 1`."""

    def __init__(self, tag: str, **hook_args: Any) -> None:
        super().__init__(**hook_args)
        self.tag = tag
        self.last: deque[str] = deque(maxlen=LAST_WORDS)

    def on_kill(self) -> None:
        """Ends spark-submit. The application on YARN is not left to a command `yarn`, which few workers have."""
        self._yarn_application_id = None
        super().on_kill()

    def submit_command(self) -> list[str]:
        """The whole command but the application."""
        return self._build_spark_submit_command("application")[:-1]

    def _process_spark_submit_log(self, itr: Iterator[str]) -> None:
        super()._process_spark_submit_log(self._remembered(itr))

    def _remembered(self, itr: Iterator[str]) -> Iterator[str]:
        for line in itr:
            if line.strip():
                self.last.append(line.rstrip())
            yield line
