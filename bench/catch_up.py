"""What it costs to publish many old windows: by a run of its own for each, and by the catch-up of the maintenance DAG.

    .venv/bin/python -m bench.catch_up [--windows 1450] [--before-s 180] [--out FILE]

A whole stack (Kafka, PostgreSQL, Spark's Thrift server, Airflow with its LocalExecutor), one pipeline of hours with 100
records each. First the schedule publishes windows for some minutes, each by two tasks. Then the newest window is
backfilled, so that the schedule has gone past the others, and the catch-up publishes these. Wall and CPU seconds are of
Airflow, PostgreSQL and the Thrift server with all that they start; the time to start the stack and to ingest is left
out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from sqlalchemy import create_engine, text

from bench.parts import TreeCpu, make_topic
from dev.stack.info import StackInfo
from dev.stack.places import Places
from dev.stack.stack import Stack

NAME, START, RECORDS = "hours", datetime(2013, 1, 1, tzinfo=UTC), 100
YAML = """version: 1
name: hours
owner: bench
source: {conn_id: kafka_default, topic: TOPIC, start: earliest}
format: {type: json}
columns:
  - {name: id, type: bigint, from: $.id, nullable: false}
  - {name: at, type: timestamp, from: $.at, nullable: false}
event_time: {from: $.at, format: iso8601}
windows: {size: 1h, timezone: UTC, start: "2013-01-01T00:00:00Z", watermark_delay: 10m, idle: follow}
partition_by: [date, hour]
sink: {conn_id: hiveserver2_default, table: bench.hours, location: "file://${TIDEGATE_LAKE}/bench/hours"}
ingest: {schedule: null, max_records: 1000000}
archive: {sla: 1h}
"""


def events(windows: int) -> Iterator[bytes]:
    """RECORDS of each hour, and enough later ones that all of the hours are ready."""
    for number in range((windows + 3) * RECORDS):
        at = START + timedelta(hours=number / RECORDS)
        yield json.dumps({"id": number, "at": at.isoformat()}).encode()


class Bench:
    """One stack. `airflow` runs a command of Airflow's."""

    def __init__(self, stack: Stack, info: StackInfo, windows: int) -> None:
        self._stack, self._info, self.windows = stack, info, windows
        self._ledger = create_engine(info.ledger_url)

    def airflow(self, *words: str) -> None:
        command = [sys.executable, "-m", "airflow", *words]
        subprocess.run(command, env=self._info.env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def asked(self, statement: str) -> int:
        with self._ledger.connect() as c:
            return int(c.scalar(text(statement)) or 0)

    def published(self) -> int:
        return self.asked("select count(*) from generations where state = 'CURRENT'")

    def ingest(self) -> None:
        until(lambda: known(self, f"{NAME}.ingest"), 180, "the DAGs are parsed")
        self.airflow("dags", "unpause", "-y", f"{NAME}.ingest")
        self.airflow("dags", "trigger", f"{NAME}.ingest")
        until(lambda: self.asked("select count(*) from batches where state = 'LANDED'") >= 1, 500, "the batch landed")

    def measured(self, wanted: int, limit_s: float) -> dict[str, float]:
        """Until so many windows are published, or the time is up."""
        keepers = [pid for part in self._stack.status().parts if part.name != "kafka" for pid in part.pids]
        pids = [*keepers, *(p.pid for pid in keepers for p in psutil.Process(pid).children(recursive=True))]
        before, began = self.published(), time.monotonic()
        with TreeCpu(*pids, every_s=0.5) as used:
            while self.published() < wanted and time.monotonic() - began < limit_s:
                time.sleep(2)
        done = self.published() - before
        each = max(1, done)
        return {
            "windows": done, "wall_s": round(used.wall_s, 1), "cpu_s": round(used.cpu_s, 1),
            "wall_s_each": round(used.wall_s / each, 3), "cpu_s_each": round(used.cpu_s / each, 3),
            "windows_per_minute": round(done / used.wall_s * 60, 1),
            "minutes_for_all": round(used.wall_s / each * self.windows / 60, 1),
            "cpu_minutes_for_all": round(used.cpu_s / each * self.windows / 60, 1),
        }  # fmt: skip

    def by_runs(self, seconds: float) -> dict[str, float]:
        """The schedule, from the first window on; its first run is waited for."""
        self.airflow("dags", "unpause", f"{NAME}.archive")
        until(lambda: self.published() >= 1, 180, "the first window is published")
        found = self.measured(self.windows, seconds)
        self.airflow("dags", "pause", f"{NAME}.archive")
        return found

    def by_catch_up(self, limit_s: float) -> dict[str, float]:
        last = (START + timedelta(hours=self.windows - 1)).isoformat()
        self.airflow("dags", "backfill", f"{NAME}.archive", "-s", last, "-e", last)
        self.airflow("dags", "unpause", f"{NAME}.archive")
        self.airflow("dags", "unpause", f"{NAME}.maintain")
        return self.measured(self.windows, limit_s)


def known(bench: Bench, dag_id: str) -> bool:
    command = [sys.executable, "-m", "airflow", "dags", "details", dag_id]
    return subprocess.run(command, env=bench._info.env, capture_output=True, check=False).returncode == 0


def until(there: object, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not there():  # type: ignore[operator]
        if time.monotonic() > end:
            raise SystemExit(f"not within {seconds:.0f} s: {what}")
        time.sleep(1)
    print(f"[bench] {what}", flush=True)


def main() -> None:
    """Prints what each way has cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=1450)
    parser.add_argument("--before-s", type=float, default=180, help="how long windows are published by their own runs")
    parser.add_argument("--limit-s", type=float, default=1200, help="how long the catch-up may take")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    places, work = Places.of_checkout(), Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    dags = work / "dags"
    (dags / "pipelines").mkdir(parents=True)
    shutil.copy(places.dags / "tidegate_pipelines.py", dags)
    env = {
        "TIDEGATE_LAKE": str(work / "lake"), "AIRFLOW__TIDEGATE__POLL_SECONDS": "5",
        "PYTHONPATH": f"{places.plugins}:{places.checkout}",
    }  # fmt: skip
    stack = Stack(work / "stack", dags_folder=dags, env=env, progress=lambda line: print(f"[stack] {line}", flush=True))
    try:
        info = stack.up()
        migrate = "import os; from tidegate.ledger.migrate import migrate; migrate(os.environ['LEDGER'])"
        subprocess.run([sys.executable, "-c", migrate], env={**info.env, "LEDGER": info.ledger_url}, check=True)
        topic = make_topic(info.kafka_bootstrap, events(options.windows), 2)
        (dags / "pipelines/hours.yaml").write_text(YAML.replace("TOPIC", topic))
        bench = Bench(stack, info, options.windows)
        bench.ingest()
        found = {"by runs of their own": bench.by_runs(options.before_s)} if options.before_s else {}
        found["by the catch-up"] = bench.by_catch_up(options.limit_s)
    finally:
        if os.environ.get("TIDEGATE_BENCH_KEEP"):
            shutil.copytree(work / "stack/airflow/logs", os.environ["TIDEGATE_BENCH_KEEP"], dirs_exist_ok=True)
        stack.down()
        shutil.rmtree(work, ignore_errors=True)
    print(json.dumps(found, indent=2))
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
