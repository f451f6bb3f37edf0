"""Spark jobs by Airflow's own Spark connection and hook."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from tidegate.adapters.spark import (
    LAST_WORDS,
    absolute_binary,
    application_arguments,
    end_processes,
    ended_with,
    job_failed,
    land_application,
    local_environment,
    processes_of,
    secrets_file,
)
from tidegate.adapters.spark_conf import driver_conf, with_worker_archive
from tidegate.core.pipeline import Pipeline
from tidegate.orchestration.connections import airflow_connection
from tidegate.settings import Settings, load
from tidegate.wiring import spark_master, warm_launcher

if TYPE_CHECKING:
    from tidegate.adapters.warm_session import WarmLauncher


class AirflowSparkLauncher:
    """Implements `core.ports.Launcher` by the apache-spark provider's hook; the log goes to the task's log.

    On other machines executors import what they need from `spark_worker_archive`, or have it installed; with a local
    master they are this machine's own.
    """

    def __init__(
        self, pipeline: Pipeline, secrets: Callable[[], Mapping[str, str]], settings: Settings | None = None
    ) -> None:
        """`secrets` gives Kafka's when a job starts: they travel in a private file, never in arguments or logs."""
        self._pipeline, self._secrets, self._settings = pipeline, secrets, settings or load()
        self._job: _OwnJob | WarmLauncher | None = None

    def run(self, plan_path: str) -> None:
        """Raises JobFailed (retry), and ConnectionMissing: the hook would quietly take YARN instead."""
        connection = airflow_connection(self._pipeline.ingest.spark_conn_id)
        own = _OwnJob(self._pipeline, self._secrets, self._settings, spark_master(connection))
        self._job = own
        if self._pipeline.ingest.spark_session == "warm":
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
        self, pipeline: Pipeline, secrets: Callable[[], Mapping[str, str]], settings: Settings, master: str
    ) -> None:
        self._pipeline, self._secrets, self._settings, self._master = pipeline, secrets, settings, master
        self._hook: _Hook | None = None
        self._plan_path = ""

    def run(self, plan_path: str) -> None:
        """Raises JobFailed (retry)."""
        self._plan_path = plan_path
        with secrets_file(self._secrets()) as files:
            arguments = application_arguments(plan_path, self._pipeline.sink.user)
            self._hook = hook = self.hook(self._pipeline.name, arguments, files)
            try:
                hook.submit(str(land_application()))
            except AirflowException as e:
                raise job_failed(_ended(str(e)), hook.last or [str(e)]) from e
            except OSError as e:
                raise job_failed("spark-submit could not be started", [str(e)]) from e
            finally:
                self._hook = None

    def kill(self) -> None:
        """End the job: the hook ends the JVM (or the cluster's application), and its Python driver lives on."""
        processes = processes_of(self._plan_path)
        if self._hook is not None:
            self._hook.on_kill()
        end_processes(processes)

    def hook(self, name: str, arguments: Sequence[str] = (), files: str | None = None) -> _Hook:
        """Raises JobFailed when there is no spark-submit."""
        ingest, settings = self._pipeline.ingest, self._settings
        options, archive = settings.spark_driver_java_options, settings.spark_class_archive
        conf = driver_conf(ingest.spark_conf, options, self._master, archive)
        return _Hook(
            conn_id=ingest.spark_conn_id,
            conf=with_worker_archive(conf, settings.spark_worker_archive, self._master),
            name=f"tidegate {name}",
            application_args=list(arguments),
            spark_binary=absolute_binary(settings.spark_binary),
            files=files,
            py_files=settings.spark_py_files or None,
            env_vars=self.environment(),
        )

    def environment(self) -> dict[str, str] | None:
        """For spark-submit on this machine; elsewhere it would become arguments."""
        return local_environment() if self._master.startswith("local") else None


def _ended(said: str) -> str:
    """The hook's error without its command line, which is long: only the exit code is news."""
    found = re.search(r"Error code is: (-?\d+)", said)
    return ended_with(int(found[1])) if found else "the Spark job failed"


class _Hook(SparkSubmitHook):
    """Remembers the job's last words: the hook's own error says no more than `Error code is: 1`."""

    def __init__(self, **hook_args: Any) -> None:
        super().__init__(**hook_args)
        self.last: deque[str] = deque(maxlen=LAST_WORDS)

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
