"""Lanes whose table is a mirror: `<lane>.apply` merges what has landed, over a line to its catalogue in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from pyiceberg.table import StaticTable
from sqlalchemy import create_engine

from dev.stack.topics import create_topic
from tests.audit.audits import in_process
from tests.mirror.audits import Here
from tests.mirror.worlds import event
from tests.operators import digest
from tests.operators.harness import Lane, Rig
from tests.operators.lane import InProcess
from tests.operators.lines import Line
from tidegate.core.base.connection import Connection
from tidegate.core.mirror.balance import imbalance
from tidegate.core.target.prefix import Prefix
from tidegate.spec.loader import load_file
from tidegate.storage.local import LocalStorage
from tidegate.wiring import context_for
from tidegate.workflow.apply.apply import Applied, apply
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.base.context import Context

CATALOGUE = "mirrors"
"""A database of its own."""
COMMIT = b"UPDATE iceberg_tables"
"""What a merge sends last: held there, it is made, and not committed."""


def template(lane: MirrorLane, location: str) -> str:
    """The YAML of a lane."""
    return f"""
version: 1
name: {lane.name}
owner: operators
source: {{conn_id: kafka_{lane.name}, topic: {lane.topic}}}
format: {{type: debezium}}
columns:
  - {{name: id, type: bigint, nullable: false}}
  - {{name: word, type: string}}
sink:
  {{kind: mirror, catalog_conn_id: iceberg_{lane.name}, table: lake.{lane.name}, location: "file://{location}",
    key: [id], buckets: {lane.buckets}, tombstones: {lane.tombstones}}}
ingest: {{retries: {lane.retries}, spark: {{session: {lane.session}}}}}
{lane.more}
"""


@dataclass
class MirrorLane(Lane):
    """A mirror. `catalogue`: its line to the catalogue."""

    buckets: int = 2
    tombstones: str = "keep"
    catalogue: Line = field(init=False, repr=False)

    kinds = ("ingest", "apply", "maintain")

    @property
    def apply(self) -> str:
        """DAG id."""
        return f"{self.name}.apply"

    def yaml(self) -> str:
        return template(self, str(self.rig.lake / self.name))

    def connect(self) -> None:
        info = self.rig.info
        self.catalogue = Line(info.postgres_host, info.postgres_port)
        self.rig._connection(
            f"iceberg_{self.name}", conn_type="postgres", host="127.0.0.1", port=self.catalogue.port, schema=CATALOGUE,
            login=info.postgres_user, password=info.postgres_password,
        )  # fmt: skip

    def disconnect(self) -> None:
        self.catalogue.close()

    @contextmanager
    def context(self) -> Iterator[Context]:
        ctx = context_for(self.spec, lambda line: None, InProcess(LocalStorage()), actor="tests", lookup=self._lookup)
        try:
            yield ctx
        finally:
            ctx.ledger.close()

    def _lookup(self, conn_id: str) -> Connection:
        if not conn_id.startswith("iceberg_"):
            return self.rig.lookup(conn_id)
        info = self.rig.info
        return Connection(
            conn_id=conn_id, conn_type="postgres", host=info.postgres_host, port=info.postgres_port, schema=CATALOGUE,
            login=info.postgres_user, password=info.postgres_password,
        )  # fmt: skip

    # ------------------------------------------------------------ what happens

    def batch(self, *events: tuple[bytes, bytes]) -> None:
        """These events land, without Airflow."""
        send(self, *events)
        self.land(1)

    def merge(self, conflicts: str = "") -> Applied:
        """`tidegate apply`, in this process; `conflicts`: why they are taken."""
        with self.context() as ctx:
            return apply(ctx, conflicts=conflicts)

    def run_id(self) -> str:
        """The first run that the schedule has made since the DAG was unpaused; waits for it."""
        runs = "SELECT min(run_id) FROM dag_run WHERE dag_id = :d AND run_type = 'scheduled'"
        self.rig.eventually(f"{self.apply} has a run", lambda: self.rig.airflow(runs, d=self.apply)[0][0])
        return str(self.rig.airflow(runs, d=self.apply)[0][0])

    def cut(self, buckets: int) -> None:
        """Its YAML says another number from now on."""
        self.buckets = buckets
        path = self.rig.dags / "pipelines" / f"{self.name}.yaml"
        path.write_text(self.yaml())
        self.spec = load_file(path, self.rig.info.env)

    def age(self, upto: int, hours: int) -> None:
        """Batches 1 to `upto` have landed so much earlier, as time would make it."""
        digest.change(
            self.rig.info.ledger_url,
            "UPDATE batches SET landed_ms = landed_ms - :by WHERE pipeline = :p AND batch_id <= :upto",
            by=hours * 3_600_000, p=self.name, upto=upto,
        )  # fmt: skip

    def held(self, run_id: str | None = None) -> str:
        """A run that stands before its commit; its id. It is the first one that the schedule makes, or `run_id`, which
        is triggered, unless the schedule has come before it."""
        self.catalogue.hold(COMMIT)
        self.rig.api.pause(self.apply, False)
        story = self.run_id() if run_id is None else self.rig.trigger(self.apply, run_id)
        self.rig.eventually(
            f"{self.apply} stands before its commit", lambda: self.catalogue.waiting > 0,
            lambda: self.rig.story(self.apply, story),
        )  # fmt: skip
        working = "SELECT run_id FROM task_instance WHERE dag_id = :d AND task_id = 'apply' AND state = 'running'"
        return story if run_id is None else str(self.rig.airflow(working, d=self.apply)[0][0])

    def killed(self, run_id: str) -> None:
        """Its task, which stands before its commit, is killed; the commit is made all the same, and the next try ends
        well."""
        attempt = self.rig.task(self.apply, run_id, "apply")[1]
        self.process(run_id).kill()
        self.rig.eventually(
            "the try is over",
            lambda: self.rig.task(self.apply, run_id, "apply")[0] != "running" or self.catalogue.waiting > 1,
        )
        self.catalogue.release()
        self.rig.wait_task(self.apply, run_id, "apply", "success", after=attempt)

    def process(self, run_id: str) -> psutil.Process:
        """The task's own, which runs the operator."""
        return process(self.rig, self.apply, run_id, "apply")

    # ------------------------------------------------------------ what one sees

    def rows(self) -> dict[int, str]:
        """As readers see them."""
        with self.context() as ctx:
            table: Any = ctx.keyed
            loaded = table.catalogue.load(table.name)
            if loaded is None:
                return {}
            found = StaticTable.from_metadata(loaded.metadata_location)
        rows = found.scan(row_filter="_op != 'd'").to_arrow().select(["id", "word"]).to_pylist()
        assert len({r["id"] for r in rows}) == len(rows), "a key has two rows"
        return {r["id"]: r["word"] for r in rows}

    def standing(self) -> Prefix:
        """What the table says of itself; rows, tombstones and purged ones are those that were inserted."""
        with self.context() as ctx:
            assert ctx.keyed is not None
            found = ctx.keyed.standing()
        assert imbalance(found) is None
        return found

    def recomputed(self) -> list[str]:
        """What `tidegate audit --deep` finds in the table, made anew from its batches."""
        with self.context() as ctx:
            report = audit(ctx, ctx.ledger.reads, in_process, Depth(), tables=Here())
        assert report.recomputed is not None
        return [str(problem) for problem in report.problems]

    def tries(self) -> list[tuple[Any, ...]]:
        """(first batch, last batch, state) by epoch."""
        return self.rig.ledger(
            "SELECT first_batch, last_batch, state FROM applies WHERE pipeline = :p ORDER BY epoch", p=self.name
        )


def send(lane: Lane, *events: tuple[bytes, bytes]) -> None:
    """Put these events into its topic's one partition."""
    producer = Producer({"bootstrap.servers": lane.rig.info.kafka_bootstrap})
    for key, value in events:
        producer.produce(lane.topic, partition=0, key=key, value=value)
    assert producer.flush(30) == 0


def topic(rig: Rig, name: str) -> str:
    """A new one with one partition; its name."""
    wanted = NewTopic(name, 1, 1, config={"retention.ms": "-1"})
    create_topic({"bootstrap.servers": rig.info.kafka_bootstrap}, wanted)
    return name


def process(rig: Rig, dag_id: str, run_id: str, task_id: str) -> psutil.Process:
    """The task's own, which runs the operator."""
    asked = "SELECT pid FROM task_instance WHERE dag_id = :d AND run_id = :r AND task_id = :t"
    return psutil.Process(rig.airflow(asked, d=dag_id, r=run_id, t=task_id)[0][0])


def lanes(rig: Rig, *names: str, **settings: Any) -> list[MirrorLane]:
    """Mirrors of a topic each, whose DAGs are paused. The catalogue's database is made by the first."""
    info = rig.info
    url = (
        f"postgresql://{info.postgres_user}:{info.postgres_password}@{info.postgres_host}:{info.postgres_port}/postgres"
    )
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        if not c.exec_driver_sql("SELECT 1 FROM pg_database WHERE datname = %s", (CATALOGUE,)).first():
            c.exec_driver_sql(f"CREATE DATABASE {CATALOGUE}")
    engine.dispose()
    made = [MirrorLane(name, topic(rig, name), **settings) for name in names]
    rig.add(*made)
    return made


__all__ = ["COMMIT", "MirrorLane", "event", "lanes"]
