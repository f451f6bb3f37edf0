"""Tidegate, hours from topic to an Iceberg table: HOURS batches of BATCH records, then each hour is published.

As `tidegate_hour`, with Iceberg's real tables in a catalogue on SQLite. WORKER says what carries plans out: a job of
spark-submit for each (`submit`), or a warm session (`warm`), kept in this process's tree so that its CPU time counts.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.contenders.tidegate_hour import Hour, Steps
from bench.lake import CATALOG, TABLE, spec
from dev.stack.places import Places
from dev.stack.spark import recommended_conf
from tidegate.core.spec.pipeline import Pipeline
from tidegate.spark.launcher import SubprocessLauncher, local_environment, submit_command
from tidegate.spark.warm_session import WarmLauncher, end_sessions
from tidegate.targets.iceberg.kind import Iceberg

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Lake:
    """The catalogue's Airflow connection."""

    host: str
    conn_type: str = "sqlite"
    port: int | None = None
    login: str | None = None
    password: str | None = None
    schema: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: {"catalog_name": CATALOG})


def pipeline() -> Pipeline:
    location = f"file://{os.environ['OUT_DIR']}/events"
    return spec(os.environ["TOPIC"], location)


def main() -> None:
    made, sessions = pipeline(), Path(tempfile.mkdtemp(prefix="tidegate-bench-"))  # sockets have short paths only
    steps = Steps()
    lake: Any = Lake(os.environ["CATALOGUE"])
    tables = Iceberg(made, lambda conn_id: lake)
    hours = Hour(steps, made, tables, worker(sessions))
    try:
        told: dict[str, Any] = {"commits": hours.batches()}
        for number in range(int(os.environ["HOURS"])):
            hours.publish(number)
    finally:
        end_sessions(sessions)
        shutil.rmtree(sessions, ignore_errors=True)
    Path(os.environ["WORK_DIR"], "told.json").write_text(json.dumps(told | {"steps": steps.spent, "table": TABLE}))


def worker(sessions: Path) -> Callable[[str], Any]:
    """What carries a plan out."""
    conf, master = recommended_conf(Places.of_checkout()), f"local[{os.environ['CORES']}]"
    cold = SubprocessLauncher(print, os.environ["SPARK_SUBMIT"], master, conf)
    if os.environ["WORKER"] == "submit":
        return cold.run
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("the session would leave this process's tree")
    submit = submit_command(os.environ["SPARK_SUBMIT"], master, conf)
    return WarmLauncher(print, submit, cold, sessions, local_environment()).run


if __name__ == "__main__":
    main()
