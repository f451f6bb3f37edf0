"""Spark jobs by Airflow's own Spark connection and hook."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from tidegate.adapters.spark import (
    LAST_WORDS,
    absolute_binary,
    application_arguments,
    end_processes,
    job_failed,
    land_application,
    local_environment,
    processes_of,
    secrets_file,
)
from tidegate.adapters.spark_conf import driver_conf, is_local
from tidegate.core.pipeline import Pipeline
from tidegate.orchestration.connections import airflow_connection
from tidegate.settings import Settings, load
from tidegate.wiring import spark_master


class AirflowSparkLauncher:
    """Implements `core.ports.Launcher` by the apache-spark provider's hook; the log goes to the task's log.

    On other machines executors import Tidegate from `spark_py_files` (the wheel), or have it installed; with a local
    master they are this machine's own.
    """

    def __init__(
        self, pipeline: Pipeline, secrets: Callable[[], Mapping[str, str]], settings: Settings | None = None
    ) -> None:
        """`secrets` gives Kafka's when a job starts: they travel in a private file, never in arguments or logs."""
        self._pipeline, self._secrets, self._settings = pipeline, secrets, settings or load()
        self._hook: _Hook | None = None
        self._plan_path = ""

    def run(self, plan_path: str) -> None:
        """Raises JobFailed (retry), and ConnectionMissing: the hook would quietly take YARN instead."""
        ingest = self._pipeline.ingest
        connection = airflow_connection(ingest.spark_conn_id)
        settings, master = self._settings, spark_master(connection)
        self._plan_path = plan_path
        with secrets_file(self._secrets()) as files:
            self._hook = hook = _Hook(
                conn_id=ingest.spark_conn_id,
                conf=driver_conf(
                    ingest.spark_conf, settings.spark_driver_java_options, master, settings.spark_class_archive
                ),
                name=f"tidegate {self._pipeline.name}",
                application_args=application_arguments(plan_path, self._pipeline.sink.user),
                spark_binary=absolute_binary(self._settings.spark_binary),
                files=files,
                py_files=self._settings.spark_py_files or None,
                env_vars=local_environment() if is_local(master) else None,  # elsewhere these would become arguments
            )
            try:
                hook.submit(str(land_application()))
            except AirflowException as e:
                raise job_failed("the Spark job failed", hook.last or [str(e)]) from e
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


class _Hook(SparkSubmitHook):
    """Remembers the job's last words: the hook's own error says no more than `Error code is: 1`."""

    def __init__(self, **hook_args: Any) -> None:
        super().__init__(**hook_args)
        self.last: deque[str] = deque(maxlen=LAST_WORDS)

    def _process_spark_submit_log(self, itr: Iterator[str]) -> None:
        super()._process_spark_submit_log(self._remembered(itr))

    def _remembered(self, itr: Iterator[str]) -> Iterator[str]:
        for line in itr:
            if line.strip():
                self.last.append(line.rstrip())
            yield line
