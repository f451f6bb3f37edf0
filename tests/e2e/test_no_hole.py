"""No window is left out and none has two runs, whatever happens to the schedule: on a real scheduler.

One small pipeline, hours of today. Batches are landed by the test itself, so that it decides how far the watermark is;
Airflow's scheduler, triggerer and tasks do all the rest. One scheduler for all scenarios, one after the other.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from airflow_api import AirflowApi, eventually
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from dev.stack.places import Places
from dev.stack.stack import Stack
from tests.fakes.catalogue import FakeCatalogue
from tests.fakes.kafka import FakeKafka
from tests.world import InProcessLauncher
from tidegate.adapters.clock import SystemClock
from tidegate.core.spec.pipeline import Pipeline
from tidegate.ledger import SqlLedger
from tidegate.ledger.migrate import migrate
from tidegate.spec import fingerprint
from tidegate.spec.loader import load_file
from tidegate.storage.local import LocalStorage
from tidegate.targets.hive.kind import Hive
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest

pytestmark = pytest.mark.skipif(os.environ.get("TIDEGATE_OPERATORS") != "all", reason="make test-operators")
ARCHIVE, MAINTAIN = "ticks.archive", "ticks.maintain"
HOUR = timedelta(hours=1)
LONG_S = 600.0
"""On a busy machine; a quiet one takes a tenth."""
TWO = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 40 * HOUR
"""The first window; it is called 02:00 below."""
SPEC = f"""
version: 1
name: ticks
owner: tests
source: {{conn_id: kafka_default, topic: ticks}}
format: {{type: json}}
columns:
  - {{name: id, type: string}}
  - {{name: site, type: string}}
event_time: {{from: $.at, format: epoch_ms}}
windows: {{size: 1h, timezone: UTC, start: "{TWO.isoformat()}", watermark_delay: 1m, idle: follow}}
partition_by: [date, hour, site]
sink: {{conn_id: hiveserver2_default, table: lake.ticks, location: "file://${{TIDEGATE_LAKE}}/ticks"}}
ingest: {{schedule: null, max_records: 1000}}
archive: {{sla: 30m, max_active_runs: 2}}
"""


@dataclass
class Tide:
    """The pipeline with its Airflow; `watermark` is what has been passed so far."""

    air: AirflowApi
    pipeline: Pipeline
    kafka: FakeKafka = field(default_factory=FakeKafka)
    watermark: datetime = TWO
    schedulers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def pass_window(self, hour: datetime) -> None:
        """Land a batch whose only record is so late that `hour` and all before it are over."""
        self.watermark = hour + HOUR
        at_ms = int((self.watermark + timedelta(minutes=1)).timestamp() * 1000)
        self.kafka.append("ticks", 0, json.dumps({"id": "x", "site": "a", "at": at_ms}).encode())
        ledger = SqlLedger(self.air.info.ledger_url, "test")
        storage, run = LocalStorage(), f"by the test, to {hour.isoformat()}"
        ctx = Context(
            pipeline=self.pipeline,
            spec_version=ledger.pipelines.register(self.pipeline, fingerprint(self.pipeline)),
            ledger=ledger,
            source=self.kafka,
            storage=storage,
            tables=Hive(FakeCatalogue()),
            launcher=InProcessLauncher(SimpleNamespace(kafka=self.kafka), storage),  # type: ignore[arg-type]
            clock=SystemClock(),
            say=print,
        )
        try:
            for step in (ingest.plan, ingest.write, ingest.land):
                step(ctx, run)
        finally:
            ledger.close()

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Of the ledger."""
        engine = create_engine(self.air.info.ledger_url)
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(text(statement))]
        finally:
            engine.dispose()

    def published(self) -> set[datetime]:
        rows = self.query("SELECT window_ms FROM generations WHERE pipeline = 'ticks' AND state = 'CURRENT'")
        return {datetime.fromtimestamp(ms / 1000, UTC) for (ms,) in rows}

    def due(self) -> set[datetime]:
        count = (self.watermark - TWO) // HOUR
        return {TWO + n * HOUR for n in range(count)}

    def runs(self) -> dict[datetime, dict[str, Any]]:
        """By window. Fails when a window has two."""
        found = list(self.air.runs(ARCHIVE).values())
        twice = [w for w, n in Counter(run["data_interval_start"] for run in found).items() if n > 1]
        assert twice == []
        return {datetime.fromisoformat(run["data_interval_start"]): run for run in found}

    def next_run(self) -> datetime | None:
        """The window of which the scheduler makes its next archive run."""
        at = self.air.call("GET", f"/dags/{ARCHIVE}")["next_dagrun"]
        return at and datetime.fromisoformat(at)

    def hold_maintenance(self) -> None:
        """Until the DAG is unpaused: its schedule comes every ten minutes, also between two lines of a test."""

        def idle() -> bool:
            self.air.pause(MAINTAIN, True)
            over = all(run["state"] in ("success", "failed") for run in self.air.runs(MAINTAIN).values())
            if not over:
                self.air.pause(MAINTAIN, False)  # a run of a paused DAG would never end
            return over

        eventually("no maintenance is under way", idle, LONG_S)

    def maintain(self) -> None:
        """One run of the maintenance DAG, by the scheduler."""
        run = self.air.call("POST", f"/dags/{MAINTAIN}/dagRuns", {})["dag_run_id"]
        eventually("maintenance is over", lambda: self.air.runs(MAINTAIN)[run]["state"] in ("success", "failed"))
        assert self.air.runs(MAINTAIN)[run]["state"] == "success"

    def backfill(self, hour: datetime) -> subprocess.Popen[str]:
        """`airflow dags backfill` of one window, begun."""
        at = hour.isoformat()
        return subprocess.Popen(
            ["airflow", "dags", "backfill", ARCHIVE, "-s", at, "-e", at],
            env=self.air.info.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def status(self) -> dict[str, Any]:
        """`tidegate status --json`, which does not ask Airflow."""
        words = ["tidegate", "status", "ticks", "--json", "--no-kafka"]
        done = subprocess.run(words, env=self.air.info.env, capture_output=True, text=True)
        return json.loads(done.stdout)["pipelines"][0]

    def settled(self) -> None:
        """Every due window is published, once; no run is left over, none is missing."""
        eventually("all that is due is published", lambda: self.published() >= self.due(), LONG_S)
        eventually("their runs are over", lambda: not self.due() & self.active(), LONG_S)
        assert self.published() == self.due()
        rows = self.query("SELECT window_ms, count(*) FROM generations WHERE pipeline = 'ticks' GROUP BY 1")
        assert {count for _, count in rows} == {1}
        told = self.query(
            "SELECT subject, count(*) FROM events WHERE pipeline = 'ticks' AND what = 'published' GROUP BY 1"
        )
        assert {count for _, count in told} == {1}
        assert {run["run_type"] for run in self.runs().values()} <= {"scheduled"}
        assert self.status()["due_count"] == 0

    def active(self) -> set[datetime]:
        return {w for w, run in self.runs().items() if run["state"] in ("queued", "running")}


@pytest.fixture(scope="module")
def tide(stack_roots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tide]:
    """A stack without Kafka whose only pipeline is SPEC; everything is paused but maintenance."""
    places, dags = Places.of_checkout(), tmp_path_factory.mktemp("dags")
    (dags / "pipelines").mkdir()
    shutil.copy(places.dags / "tidegate_pipelines.py", dags)
    (dags / "pipelines/ticks.yaml").write_text(SPEC)
    env = {
        "TIDEGATE_LAKE": str(tmp_path_factory.mktemp("lake")),
        "AIRFLOW__TIDEGATE__POLL_SECONDS": "1",
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}}),
        "PYTHONPATH": f"{places.plugins}:{places.checkout}",
    }
    stack = Stack(
        stack_roots / "completeness", ("postgres", "hive", "airflow"), dags_folder=dags, env=env,
        progress=lambda line: print(f"[stack] {line}"),
    )  # fmt: skip
    tide = None
    try:
        info = stack.up()
        migrate(info.ledger_url)
        tide = Tide(AirflowApi(info), load_file(dags / "pipelines/ticks.yaml", env))
        tide.kafka.create("ticks", 1)
        tide.pass_window(TWO)
        wanted = {ARCHIVE, MAINTAIN}
        eventually("parsed", lambda: wanted <= {d["dag_id"] for d in tide.air.call("GET", "/dags")["dags"]})
        tide.air.pause(MAINTAIN, False)
        yield tide
    finally:
        for one in tide.schedulers if tide else ():
            end(one.pid, signal.SIGTERM)
            one.wait(240)
        stack.down()


def family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def end(pid: int, how: signal.Signals) -> None:
    """To a scheduler with its executor and parser: each of them, by its id."""
    for process in family(pid) if psutil.pid_exists(pid) else ():
        try:
            os.kill(process.pid, how)
        except ProcessLookupError:
            continue


def freeze(tide: Tide, scheduler: int, run_id: str) -> None:
    """It stands still, and not while it has locked the run, as it has for a part of each of its rounds: whoever deletes
    the run would wait for it."""
    asked = "SELECT 1 FROM dag_run JOIN task_instance USING (dag_id, run_id) WHERE dag_id = :d AND run_id = :r"
    engine = create_engine(tide.air.info.airflow_db_url)

    def frozen() -> bool:
        end(scheduler, signal.SIGSTOP)
        try:
            with engine.begin() as connection:
                connection.execute(text(f"{asked} FOR UPDATE NOWAIT"), {"d": ARCHIVE, "r": run_id})
        except OperationalError:
            end(scheduler, signal.SIGCONT)
            return False
        return True

    try:
        eventually("it stands still and has not locked the run", frozen)
    finally:
        engine.dispose()


def scheduler_of(tide: Tide) -> int:
    """The oldest process that is a scheduler with this stack's home."""
    home, found = tide.air.info.env["AIRFLOW_HOME"], []
    for process in psutil.process_iter(["cmdline", "create_time"]):
        words = " ".join(process.info["cmdline"] or [])
        if "airflow scheduler" in words or words.endswith("scheduler --skip-serve-logs"):
            try:
                if process.environ().get("AIRFLOW_HOME") == home:
                    found.append((process.info["create_time"], process.pid))
            except psutil.Error:
                continue
    return min(found)[1]


def test_hours_between_the_schedule_and_a_backfill_ahead_of_it_come(tide: Tide) -> None:
    """The schedule stands at 02:00, a backfill makes 10:00, so the scheduler goes on at 11:00: 03 to 09 must come.

    By then runs that wait for later hours hold every slot of max_active_runs."""
    ten = TWO + 8 * HOUR
    first = tide.backfill(TWO)
    output, _ = first.communicate(timeout=LONG_S)
    assert first.returncode == 0, output[-3000:]
    tide.pass_window(ten)
    ahead = tide.backfill(ten)
    output, _ = ahead.communicate(timeout=LONG_S)
    assert ahead.returncode == 0, output[-3000:]
    assert tide.published() == {TWO, ten}
    # By then the DAG file has been read again: until that, the scheduler would go on at 03:00.
    eventually("the schedule goes on at 11:00", lambda: tide.next_run() == ten + HOUR)
    tide.hold_maintenance()
    tide.air.pause(ARCHIVE, False)
    eventually("two later hours hold the slots", lambda: {ten + HOUR, ten + 2 * HOUR} <= tide.active())
    status = tide.status()
    assert status["due_count"] == 7
    tide.air.pause(MAINTAIN, False)
    tide.maintain()
    tide.settled()


def test_a_pause_leaves_no_hole(tide: Tide) -> None:
    """Hours pass while the DAG is paused; the maintenance DAG makes no runs against that, later the schedule does."""
    tide.air.pause(ARCHIVE, True)
    try:
        before = set(tide.runs())
        tide.pass_window(tide.watermark + 3 * HOUR)
        tide.maintain()
        assert set(tide.runs()) == before
        assert tide.status()["archive_paused"] is True
    finally:
        tide.air.pause(ARCHIVE, False)
    tide.settled()


def test_runs_that_were_deleted_come_again_if_their_windows_need_them(tide: Tide) -> None:
    """In the UI, of a published hour and of the older of two that wait: only the second is made again, once due."""
    waiting = sorted(eventually("two hours wait", lambda: w if len(w := tide.active()) == 2 else set()))
    gone = sorted(tide.published())[-2]
    for window in (gone, waiting[0]):
        tide.air.delete_run(ARCHIVE, tide.runs()[window]["dag_run_id"])
    tide.pass_window(waiting[1])
    tide.maintain()
    tide.settled()
    assert gone not in tide.runs()


def test_a_run_that_failed_is_named_and_made_again_by_nobody_but_a_person(tide: Tide) -> None:
    """Maintenance makes no second run; status says which window it is, and its command lets it try again."""
    failed = min(eventually("two hours wait", lambda: w if len(w := tide.active()) == 2 else set()))
    tide.air.fail_run(ARCHIVE, tide.runs()[failed]["dag_run_id"])
    tide.pass_window(failed)
    tide.maintain()
    status = tide.status()
    assert status["due_ended"] == [failed.strftime("%Y-%m-%dT%H:%MZ")]
    assert tide.runs()[failed]["state"] == "failed"
    advice = next(c["advice"] for c in status["concerns"] if "ended without a publication" in c["what"])
    tide.air.command(*advice.partition(": airflow ")[2].split())
    tide.maintain()  # the other run waits, a third has come, and they hold both slots: maintenance starts it
    tide.settled()


def test_a_scheduler_that_is_stuck_and_killed_leaves_no_hole(tide: Tide) -> None:
    """While it is frozen hours pass, a run is deleted, and maintenance makes it anew; another scheduler goes on."""
    waiting = sorted(eventually("two hours wait", lambda: w if len(w := tide.active()) == 2 else set()))
    tide.hold_maintenance()
    old = scheduler_of(tide)
    freeze(tide, old, tide.runs()[waiting[0]]["dag_run_id"])
    try:
        tide.air.delete_run(ARCHIVE, tide.runs()[waiting[0]]["dag_run_id"])
        tide.pass_window(waiting[1] + HOUR)
        words = ("tasks", "test", MAINTAIN, "maintain", datetime.now(UTC).isoformat())
        tide.air.command(*words)
        made = waiting[0] in tide.runs()
    finally:
        end(old, signal.SIGKILL)
    command = ["airflow", "scheduler", "--skip-serve-logs"]
    log = (Path(tide.air.info.root) / "second-scheduler.log").open("wb")
    tide.schedulers.append(
        subprocess.Popen(command, env=tide.air.info.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    )
    tide.air.pause(MAINTAIN, False)
    if not made:  # the frozen scheduler had the DAG's row
        tide.maintain()
    tide.settled()
