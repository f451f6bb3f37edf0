"""Tidegate's settings: AIRFLOW__TIDEGATE__<KEY>, else [tidegate] of airflow.cfg.

Read without importing Airflow, so that `tidegate` in a terminal answers at once and DAG parsing stays cheap.
"""

from __future__ import annotations

import configparser
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LEDGER_CONN_ID = "tidegate_ledger"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`spark_driver_java_options` go to the driver's JVM as `spark.driver.extraJavaOptions`; empty for none, None for
    what suits a short life with a local master, `spark_class_archive` included (`tidegate spark prepare` makes it).

    `spark_binary` is a command or an absolute path. What executors on other machines import: `spark_worker_archive`
    (path or URI of the workers' archive that `make dist` makes) brings all of it, `spark_py_files` (the wheel) Tidegate
    alone; both are empty where everything is installed there. Warm sessions (`ingest.spark.session`) end
    after `spark_session_idle_s` without work and after so many batches; their sockets are below
    `spark_session_folder`. `poll_s`: how often a waiting window looks.
    """

    pipelines_folder: Path
    ledger_conn_id: str = LEDGER_CONN_ID
    spark_binary: str = "spark-submit"
    spark_driver_java_options: str | None = None
    spark_class_archive: Path | None = None
    spark_session_folder: Path = Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}"
    spark_session_idle_s: float = 900.0
    spark_session_batches: int = 500
    spark_py_files: str = ""
    spark_worker_archive: str = ""
    runbook_url: str = "docs/runbook.md"
    poll_s: float = 30.0


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings now in force. Raises ValueError when airflow.cfg cannot be parsed."""
    env = os.environ if environ is None else environ
    read = _Reader(env)
    return Settings(
        pipelines_folder=Path(read.get("tidegate", "pipelines_folder") or _dags_folder(read) / "pipelines").absolute(),
        ledger_conn_id=read.get("tidegate", "ledger_conn_id") or LEDGER_CONN_ID,
        spark_binary=read.get("tidegate", "spark_binary") or Settings.spark_binary,
        spark_driver_java_options=read.get("tidegate", "spark_driver_java_options"),
        spark_class_archive=Path(read.get("tidegate", "spark_class_archive") or read.home / "tidegate" / "spark.jsa"),
        spark_session_folder=Path(read.get("tidegate", "spark_session_folder") or Settings.spark_session_folder),
        spark_session_idle_s=float(read.get("tidegate", "spark_session_idle_seconds") or Settings.spark_session_idle_s),
        spark_session_batches=int(read.get("tidegate", "spark_session_batches") or Settings.spark_session_batches),
        spark_py_files=read.get("tidegate", "spark_py_files") or "",
        spark_worker_archive=read.get("tidegate", "spark_worker_archive") or "",
        runbook_url=read.get("tidegate", "runbook_url") or Settings.runbook_url,
        poll_s=float(read.get("tidegate", "poll_seconds") or Settings.poll_s),
    )


def airflow_setting(section: str, key: str, environ: Mapping[str, str] | None = None) -> str | None:
    """A setting of Airflow's own, from its environment or its file; None without one.

    Raises ValueError when airflow.cfg cannot be parsed."""
    return _Reader(os.environ if environ is None else environ).get(section, key)


def airflow_home(environ: Mapping[str, str] | None = None) -> Path:
    """AIRFLOW_HOME, `~/airflow` by default."""
    env = os.environ if environ is None else environ
    return Path(env.get("AIRFLOW_HOME") or "~/airflow").expanduser()


def airflow_kerberos() -> bool:
    """Whether Airflow's hooks use tickets: [core] security = kerberos."""
    return (airflow_setting("core", "security") or "").lower() == "kerberos"


def _dags_folder(read: _Reader) -> Path:
    named = read.get("core", "dags_folder")
    return Path(named).expanduser() if named else read.home / "dags"


class _Reader:
    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.home = airflow_home(env)
        self._file: configparser.ConfigParser | None = None

    def get(self, section: str, key: str) -> str | None:
        """The setting from the environment, then from the file, which is read on first use; None without one."""
        value = self._env.get(f"AIRFLOW__{section.upper()}__{key.upper()}")
        if value is not None:
            return value.strip()
        return self._from_file().get(section, key, fallback=None)

    def _from_file(self) -> configparser.ConfigParser:
        if self._file is None:
            # Airflow's own files hold %(...)s in log formats and keys of other people's sections twice
            parsed = configparser.ConfigParser(interpolation=None, strict=False)
            path = Path(self._env.get("AIRFLOW_CONFIG") or self.home / "airflow.cfg")
            try:
                parsed.read(path)
            except configparser.Error as e:
                raise ValueError(f"{path}: {e}") from e
            self._file = parsed
        return self._file
