"""A running stack with many tiny pipelines ("lanes"); how a case is written:

    def test_something(rig: Rig) -> None:            # the fixture is in conftest.py, one for the folder
        topic = rig.topic("x", batches=3)            # records for three batches of PER_BATCH, one hour each
        [lane] = rig.add(Lane("x_clear", topic))     # writes its YAML, waits until Airflow has its DAGs
        lane.land(2)                                 # two batches, in this process, without Airflow's tasks
        lane.hive.hold(b"ADD")                       # its line to Hive hangs (`cut()`: is down); also lane.kafka
        rig.api.pause(lane.archive, False)
        rig.wait_task(lane.archive, lane.scheduled(0), "publish", "running")
        rig.clear(CLI, TASK, lane.archive, lane.scheduled(0), "publish")
        lane.hive.release()
        rig.wait_run(lane.archive, lane.scheduled(0), "success")
        assert rig.content(lane) == rig.content(twin)    # twin: a lane of the same topic that nobody touched
        rig.check_settled(lane)                      # deep audit balanced, nothing running, no backfill run

Batch n (from 1) holds the records of hour n - 1 and brings the watermark past the end of hour n - 2: after `land(2)`
the window of hour 0 is ready. Hours count from `START`. Lanes share Hive, the broker and Airflow; each has its own
lines to Kafka and Hive, its own tables and, if `retries` says nothing else, fails for good at the first error.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from dev.stack.places import Places
from dev.stack.stack import Stack
from dev.stack.topics import create_topic
from tests.e2e.airflow_api import AirflowApi, eventually
from tests.operators import digest, ways
from tests.operators.lane import HOUR, PER_BATCH, START, Lane
from tests.operators.lines import Line
from tidegate.adapters.footers import FooterProcess
from tidegate.core.base.connection import Connection
from tidegate.ledger import SqlLedger
from tidegate.spec.loader import load_file
from tidegate.workflow.audit import audit

LONG_S = 600.0
"""On a busy machine; a quiet one takes a tenth."""
_ROOM = 32
"""Tasks at once: most of them wait for something, so there may be more than cores."""
SETTINGS = {
    "AIRFLOW__TIDEGATE__POLL_SECONDS": "1",
    "AIRFLOW__CORE__PARALLELISM": str(_ROOM),
    "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": str(_ROOM),
    # A folder of hundreds of DAGs: parsed when its file is touched, and seldom otherwise.
    "AIRFLOW__SCHEDULER__MIN_FILE_PROCESS_INTERVAL": "300",
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
    "AIRFLOW__CORE__DAG_FILE_PROCESSOR_TIMEOUT": "360",
    # Where a parse is slow, Airflow takes all that it has found for gone, until the next one.
    "AIRFLOW__SCHEDULER__STALE_DAG_THRESHOLD": "360",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__CORE__KILLED_TASK_CLEANUP_TIME": "20",
    # How soon a new scheduler sees that an old one and its tasks are dead; by default after five minutes.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "45",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__SCHEDULER_ZOMBIE_TASK_THRESHOLD": "60",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",  # whatever this process has
}


class Rig:
    """The stack and its lanes."""

    def __init__(
        self, root: Path, folder: Path, env: dict[str, str] | None = None, ports: dict[str, int] | None = None
    ) -> None:
        places = Places.of_checkout()
        self.dags, self.lake = folder / "dags", folder / "lake"
        (self.dags / "pipelines").mkdir(parents=True)
        self.lake.mkdir()
        shutil.copy(places.dags / "tidegate_pipelines.py", self.dags)
        own = {"TIDEGATE_LAKE": str(self.lake), "PYTHONPATH": f"{places.plugins}:{places.checkout}"}
        env = SETTINGS | own | (env or {})
        say = lambda line: print(f"[stack] {line}")  # noqa: E731
        self.stack = Stack(root, dags_folder=self.dags, env=env, ports=ports, progress=say)
        self.lanes: dict[str, Lane] = {}
        self._parsed = 0.0

    def up(self) -> Rig:
        """Start it."""
        self.info = self.stack.up()
        self.api = AirflowApi(self.info)
        self.browser = ways.Browser(self.api)
        for pool in ("tidegate_ingest", "tidegate_archive"):
            self.api.call("PATCH", f"/pools/{pool}", {"name": pool, "slots": _ROOM, "include_deferred": False})
        return self

    def down(self) -> None:
        """End it, with its warm sessions."""
        for lane in self.lanes.values():
            lane.kafka.close(), lane.hive.close(), lane.disconnect()
        self.stack.down()

    # ------------------------------------------------------------ what there is

    def topic(self, name: str, batches: int, first: int = 0) -> str:
        """A topic of one partition with the records of so many batches: one hour of event time each, from `first`."""
        wanted = NewTopic(name, 1, 1, config={"retention.ms": "-1"})
        create_topic({"bootstrap.servers": self.info.kafka_bootstrap}, wanted)
        self.produce(name, *range(first, first + batches))
        return name

    def produce(self, topic: str, *hours: int) -> None:
        """The records of a batch for each of these hours; the last one lies past the watermark delay."""
        producer = Producer({"bootstrap.servers": self.info.kafka_bootstrap})
        for hour in hours:
            for i in range(PER_BATCH):
                at = START + hour * HOUR + timedelta(minutes=5 * i + 2)
                value = {"id": f"{hour}-{i}", "site": "ab"[i % 2], "at": int(at.timestamp() * 1000)}
                producer.produce(topic, partition=0, value=json.dumps(value))
        assert producer.flush(30) == 0

    def add(self, *lanes: Lane) -> tuple[Lane, ...]:
        """Their connections, lines and YAMLs; returns when Airflow has all their DAGs, which are paused."""
        broker = "127.0.0.1", int(self.info.kafka_bootstrap.rpartition(":")[2])
        for lane in lanes:
            lane.rig, lane.kafka, lane.hive = self, Line(*broker), Line(self.info.hive_host, self.info.hive_port)
            extra = {"bootstrap.servers": f"127.0.0.1:{lane.kafka.port}"}
            self._connection(f"kafka_{lane.name}", conn_type="kafka", extra=json.dumps(extra))
            self._connection(
                f"hive_{lane.name}", conn_type="hiveserver2", host="127.0.0.1", port=lane.hive.port, login="tidegate",
                schema="default", extra=json.dumps({"auth_mechanism": "NONE"}),
            )  # fmt: skip
            lane.connect()
            path = self.dags / "pipelines" / f"{lane.name}.yaml"
            path.write_text(lane.yaml())
            lane.spec = load_file(path, self.info.env)
            self.lanes[lane.name] = lane
        wanted = {f"{lane.name}.{kind}" for lane in lanes for kind in lane.kinds}
        eventually("Airflow has the DAGs", lambda: wanted <= self.dag_ids() or self.parse(), LONG_S)
        return lanes

    def remove(self, *names: str) -> None:
        """Take these lanes' DAGs away from Airflow; what they wrote stays. Their lines are closed."""
        for name in names:
            if name in self.lanes:
                lane = self.lanes.pop(name)
                (self.dags / "pipelines" / f"{name}.yaml").unlink()
                lane.kafka.close(), lane.hive.close(), lane.disconnect()
                for kind in lane.kinds:
                    self.api.pause(f"{name}.{kind}", True)

    def parse(self) -> None:
        """Have the folder parsed now, and again in a while: a parse that is under way may have missed what is new."""
        if time.monotonic() > self._parsed + 15:
            (self.dags / "tidegate_pipelines.py").touch()
            self._parsed = time.monotonic()

    def dag_ids(self) -> set[str]:
        """Of Airflow's database."""
        return {dag_id for (dag_id,) in self.airflow("SELECT dag_id FROM dag WHERE is_active")}

    def lookup(self, conn_id: str) -> Connection:
        """Connections of this process: the servers themselves."""
        if conn_id.startswith("kafka_"):
            return Connection(
                conn_id=conn_id, conn_type="kafka", extra={"bootstrap.servers": self.info.kafka_bootstrap}
            )
        if conn_id.startswith("hive_"):
            extra = {"auth_mechanism": "NONE"}
            return Connection(
                conn_id=conn_id,
                conn_type="hiveserver2",
                host=self.info.hive_host,
                port=self.info.hive_port,
                login="tidegate",
                extra=extra,
            )
        host, port = self.info.postgres_host, self.info.postgres_port
        user, password = self.info.postgres_user, self.info.postgres_password
        return Connection(
            conn_id=conn_id,
            conn_type="postgres",
            host=host,
            port=port,
            login=user,
            password=password,
            schema=self.info.ledger_url.rpartition("/")[2],
        )

    def _connection(self, conn_id: str, **fields: Any) -> None:
        self.api.call("POST", "/connections", {"connection_id": conn_id, **fields})

    # ------------------------------------------------------------ what operators do

    def clear(self, way: str, scope: str, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear by `ways.WAYS`, as much as `ways.SCOPES` says."""
        ways.clear(self.browser, way, scope, dag_id, run_id, task_id)

    def trigger(self, dag_id: str, run_id: str, logical_date: datetime | None = None) -> str:
        """A run by hand; its id."""
        body = {"dag_run_id": run_id} | ({"logical_date": logical_date.isoformat()} if logical_date else {})
        return self.api.call("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"]

    def backfill(self, dag_id: str, first: datetime, last: datetime, *words: str) -> str:
        """`airflow dags backfill`; its output. Fails with it if the exit code isn't 0."""
        return self.api.command(
            "dags", "backfill", dag_id, "-s", first.isoformat(), "-e", last.isoformat(), *words, timeout_s=LONG_S * 2
        )

    # ------------------------------------------------------------ what one sees

    def airflow(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """A query of Airflow's database."""
        return digest.rows(self.info.airflow_db_url, statement, **values)

    def change(self, statement: str, **values: Any) -> None:
        """A change of Airflow's database, as time would make it."""
        digest.change(self.info.airflow_db_url, statement, **values)

    def ledger(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """A query of the ledger."""
        return digest.rows(self.info.ledger_url, statement, **values)

    def task(self, dag_id: str, run_id: str, task_id: str) -> tuple[str | None, int]:
        """State and number of its try; ("absent", 0) when there is no such run."""
        found = self.airflow(
            "SELECT state, try_number FROM task_instance WHERE dag_id = :d AND run_id = :r AND task_id = :t",
            d=dag_id, r=run_id, t=task_id,
        )  # fmt: skip
        return found[0] if found else ("absent", 0)  # type: ignore[return-value]

    def run(self, dag_id: str, run_id: str) -> str:
        """Its state; "absent"."""
        found = self.airflow("SELECT state FROM dag_run WHERE dag_id = :d AND run_id = :r", d=dag_id, r=run_id)
        return found[0][0] if found else "absent"

    def wait_task(self, dag_id: str, run_id: str, task_id: str, *states: str | None, after: int = 0) -> None:
        """Until the task is in one of these states, in a try later than `after`. Fails at once when it has succeeded
        and that is none of them."""
        what = f"{dag_id} {run_id} {task_id} is {states}"

        def look() -> bool:
            state, attempt = self.task(dag_id, run_id, task_id)
            assert state != "success" or attempt <= after or state in states, f"{what}: it has succeeded"
            return state in states and attempt > after

        self.eventually(what, look, lambda: self.story(dag_id, run_id))

    def wait_run(self, dag_id: str, run_id: str, *states: str) -> None:
        """Until the run is in one of these states. Fails at once when it has failed and that is none of them."""
        what = f"{dag_id} {run_id} is {states}"

        def look() -> bool:
            state = self.run(dag_id, run_id)
            assert state != "failed" or state in states, f"{what}: it has failed"
            return state in states

        self.eventually(what, look, lambda: self.story(dag_id, run_id))

    def eventually(self, what: str, look: Callable[[], Any], story: Callable[[], str] = str) -> None:
        """Poll until `look` is true. Fails after LONG_S with what `story` says."""
        try:
            eventually(what, look, LONG_S)
        except AssertionError as e:
            e.add_note(story())
            raise

    def story(self, dag_id: str, run_id: str) -> str:
        """For a failure: the run, its tasks and the ends of their last logs."""
        of_run = {"d": dag_id, "r": run_id}
        runs = self.airflow("SELECT state, run_type FROM dag_run WHERE dag_id = :d AND run_id = :r", **of_run)
        lines = [f"run: {runs}"]
        for task_id, state, attempt in self.airflow(
            "SELECT task_id, state, try_number FROM task_instance WHERE dag_id = :d AND run_id = :r", **of_run
        ):
            lines.append(f"--- {task_id}: {state}, try {attempt}")
            try:
                lines += self.api.log(dag_id, run_id, task_id, attempt).splitlines()[-25:]
            except OSError as e:
                lines.append(f"no log: {e}")
        return "\n".join(lines)

    def digest(self, lane: Lane) -> str:
        """Of its ledger; see `digest`."""
        return digest.digest(self.info.ledger_url, lane.name)

    def content(self, lane: Lane) -> dict[str, list[tuple[Any, ...]]]:
        """What the digest is of, for comparisons that say what differs."""
        return digest.content(self.info.ledger_url, lane.name)

    def audit(self, lane: Lane) -> audit.Report:
        """`tidegate audit --deep`, in this process."""
        ledger = SqlLedger(self.info.ledger_url, "tests")
        try:
            with lane.context() as ctx:
                reader = FooterProcess()
                return audit.audit(ctx, ledger.reads, reader, audit.Depth(coordinates=True))
        finally:
            ledger.close()

    def check_settled(self, lane: Lane) -> None:
        """The deep audit balances; no task and no run of the lane is left running, none is of type backfill.

        Runs that wait for windows to come may be there: their `ready` is deferred, or about to be."""
        report = self.audit(lane)
        assert report.balanced, [f"{p.subject}: {p.what}" for p in report.problems]
        self.eventually(f"nothing of {lane.name} runs", lambda: not self._running(lane))
        backfills = "SELECT dag_id, run_id FROM dag_run WHERE dag_id LIKE :d AND run_type = 'backfill'"
        assert self.airflow(backfills, d=f"{lane.name}.%") == []

    def _running(self, lane: Lane) -> list[Any]:
        return self.airflow(
            "SELECT dag_id, run_id, task_id, state FROM task_instance WHERE dag_id LIKE :d"
            " AND state IN ('running', 'restarting', 'queued', 'up_for_retry')",
            d=f"{lane.name}.%",
        )
