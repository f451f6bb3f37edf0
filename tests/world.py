"""A whole Tidegate in one process: real ledger (SQLite), local storage and engine; Kafka, Hive and time faked.

Every port call that changes something can be made to fail (tests/crash); `World.context()` is a new process each time.
"""

from __future__ import annotations

import atexit
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest import mock

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.pool import QueuePool

from spark_jobs import apply, chunks, rewrite
from spark_jobs.engine.failures import JobError, last_line
from spark_jobs.engine.job import run_plan
from spark_jobs.engine.sinks import finished
from tests import engines
from tests.fakes.catalogue import FakeCatalogue
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeKafka
from tests.fakes.truth import FakeTruth
from tidegate.core.base.errors import CatalogueError, JobFailed
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.base.storage import Storage
from tidegate.core.batch.jobs import ApplyPlan, CopyPlan, JobPlan, RewritePlan, loads_plan
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import (
    ArchiveRun,
    Column,
    Delivery,
    DirtyLimits,
    EventTime,
    Format,
    IngestRun,
    Pipeline,
    Sink,
    Source,
    Windows,
)
from tidegate.core.target.port import Targets
from tidegate.core.target.tables import told_columns
from tidegate.core.window.states import WindowKey
from tidegate.ledger import SqlLedger
from tidegate.ledger.migrate import migrate
from tidegate.ledger.store import make_engine
from tidegate.spec import fingerprint
from tidegate.storage.local import LocalStorage
from tidegate.targets.hive.kind import Hive
from tidegate.workflow.base.columns import in_force
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

engines.share()
HOUR = 3_600_000
T0 = 1_357_344_000_000  # 2013-01-05T00:00:00Z
TOPIC = "readings"


def make_pipeline(location: str) -> Pipeline:
    return Pipeline(
        name="readings",
        owner="tests",
        tags=(),
        source=Source(conn_id="kafka", topic=TOPIC),
        format=Format(),
        columns=(
            Column(name="id", type="string", path="$.id", nullable=False),
            Column(name="site", type="string", path="$.site"),
            Column(name="value", type="int", path="$.value"),
        ),
        event_time=EventTime("$.at"),
        windows=Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=HOUR, idle="follow"),
        partition_by=("date", "hour", "site"),
        sink=Sink(conn_id="hive", table="lake.readings", location=location, workdir=f"{location}/_tidegate"),
        ingest=IngestRun(schedule=None, max_records=1_000_000, spark_conn_id="spark", spark_conf={}),
        archive=ArchiveRun(sla_ms=1_800_000),
        dirty=DirtyLimits(None, None),
    )


@cache
def _empty_ledger() -> Path:
    folder = Path(mkdtemp(prefix="tidegate-ledger-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    migrate(f"sqlite:///{folder}/ledger.db")
    return folder / "ledger.db"


@lru_cache(maxsize=4)
def _engine(database: str) -> Engine:
    """One for a file: a connection is kept until its ledger is closed."""
    with mock.patch("tidegate.ledger.store.create_engine", partial(engines.alike, poolclass=QueuePool)):
        engine = make_engine(f"sqlite:///{database}")
    event.listen(engine, "connect", lambda c, _: c.execute("PRAGMA synchronous=OFF"))
    return engine


def _here(run: Callable[[Any, int], Any], works: Sequence[Any]) -> list[Any]:
    return [run(work, 0) for work in works]


class InProcessLauncher:
    """The engine, called here instead of by spark-submit."""

    def __init__(self, world: World, storage: Any) -> None:
        self._world, self.storage = world, storage
        self.kafka: FakeKafka | None = None  # that of the context, where there are several
        self.runs: list[JobPlan] = []

    def run(self, plan_path: str) -> None:
        plan = loads_plan(self.storage.read(plan_path))
        self.runs.append(plan)
        try:
            if isinstance(plan, ApplyPlan):
                apply.carry_out(plan, self.storage)
            elif isinstance(plan, RewritePlan):
                rewrite.carry_out(plan, self.storage)
            elif isinstance(plan, CopyPlan):
                chunks.carry_out(
                    plan, self.storage, _here, lambda uri: self.storage, lambda: self._world.copied_from(plan.server)
                )
            else:
                run_plan(plan, self.storage, open_reader=(self.kafka or self._world.kafka).reader)
        except JobError as e:
            raise JobFailed(last_line(e.failure)) from e  # as spark-submit's end is quoted


class World:
    """`wrap(port name, port)` may put something between the workflow and a port."""

    def __init__(
        self, folder: Path, pipeline: Pipeline | None = None, wrap: Callable[[str, Any], Any] | None = None
    ) -> None:
        self.folder = folder
        self.location = f"file://{folder}/lake/readings"
        self.pipeline = pipeline or make_pipeline(self.location)
        self.wrap = wrap or (lambda name, port: port)
        self.kafka, self.clock, self.catalogue = FakeKafka(), FakeClock(T0 + 100 * HOUR), FakeCatalogue()
        self.database_clock: FakeClock | None = None  # where the ledger's is another than `clock`, this host's
        self.truth = FakeTruth()
        self.store: Storage = LocalStorage()
        self.tables: Callable[[World], Targets] = _hive
        self.kafka.create(TOPIC, 2)
        self.database = folder / "ledger.db"
        shutil.copy(_empty_ledger(), self.database)
        self.said: list[str] = []
        self.events: list[tuple[int, int]] = []  # (window, generation) that other DAGs were told of
        self.launcher: InProcessLauncher | None = None
        self.source_table: Any = None  # the database that a mirror is copied from
        self.connector: Any = None  # who says how far its events are delivered
        self.connectors: dict[str, Any] = {}  # the same of several servers
        self.sender: Callable[[Delivery], Any] = lambda delivery: None  # opens a further system
        self.registered: set[str] = set()  # fingerprints
        self._ledgers: list[SqlLedger] = []

    def context(self) -> Context:
        ledger = SqlLedger(_engine(str(self.database)), "test", (self.database_clock or self.clock).now_ms)
        self._ledgers.append(ledger)
        wrapped = _WrappedLedger(ledger, self.wrap)
        pipeline = in_force(self.pipeline, wrapped)  # type: ignore[arg-type]
        version = self._register(wrapped, pipeline)
        storage = self.wrap("storage", self.store)
        self.launcher = InProcessLauncher(self, storage)
        return Context(
            pipeline=pipeline,
            spec_version=version,
            ledger=wrapped,  # type: ignore[arg-type]
            source=self.wrap("source", self.kafka),
            storage=storage,
            tables=self.tables(self),
            launcher=self.wrap("launcher", self.launcher),
            clock=self.clock,
            say=self.said.append,
            truth=self.truth,
            connectors=self.connectors or ({} if self.connector is None else {"": self.connector}),
            register=lambda found: self._register(wrapped, found),
            sender=lambda delivery: self.wrap("sender", self.sender(delivery)),
        )

    def copied_from(self, server: str) -> Any:
        """The database of that server; its name is empty where there is but one."""
        return self.source_table

    def _register(self, ledger: _WrappedLedger, pipeline: Pipeline) -> int:
        """A spec that is known already is looked up, which changes nothing."""
        mark = fingerprint(pipeline)
        pipelines = ledger.unwrapped.pipelines if mark in self.registered else ledger.pipelines
        version = pipelines.register(pipeline, mark)
        self.registered.add(mark)
        return version

    def close(self) -> None:
        for ledger in self._ledgers:
            ledger.close()
        self._ledgers.clear()
        _engine(str(self.database)).dispose()  # a zombie's connection too

    # ------------------------------------------------------------ what happens

    def produce(self, *records: dict[str, Any] | bytes, partition: int = 0) -> None:
        for r in records:
            self.kafka.append(TOPIC, partition, r if isinstance(r, bytes) else json.dumps(r).encode())

    def change_spec(self, **changes: Any) -> None:
        self.pipeline = replace(self.pipeline, **changes)

    def ingest(self, run: str) -> int | None:
        """The three tasks of an ingest run, each in a process of its own."""
        batch_id = ingest.plan(self.context(), run)
        ingest.write(self.context(), run)
        ingest.land(self.context(), run)
        self.close()
        return batch_id

    def archive(self, hour: int) -> archive.Published:
        ctx = self.context()
        published = archive.publish(ctx, window(hour))
        archive.announced(ctx, published)
        self.close()
        return published

    def replay(self, hour: int) -> archive.Published:
        ctx = self.context()
        published = replay.replay(ctx, window(hour))
        archive.announced(ctx, published)
        self.close()
        return published

    # ------------------------------------------------------------ what readers see

    def table(self, kind: str = "") -> list[tuple[int, int]]:
        """Kafka coordinates of every row that a query of the data, `__late` or `__dirty` table returns, sorted.

        Whatever file lies in a partition's directory counts, as it does for Hive."""
        rows: list[tuple[int, int]] = []
        for location in self.partitions(f"lake.readings{kind}").values():
            rows += self.rows_at(location, kind.strip("_") or DATA)
        return sorted(rows)

    def partitions(self, table: str) -> dict[PartitionValues, str]:
        """None of them while nobody has created the table."""
        try:
            return self.catalogue.partitions(table)
        except CatalogueError:
            return {}

    def by_window(self) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {}
        for values, location in self.partitions("lake.readings").items():
            hour = dict(values)["hour"]
            found.setdefault(str(hour), []).extend(self.rows_at(location))
        return {k: sorted(v) for k, v in sorted(found.items())}

    def rows_at(self, location: str, kind: str = DATA) -> list[tuple[int, int]]:
        rows: list[tuple[int, int]] = []
        for path in _visible_files(Path(location.removeprefix("file://"))):
            with path.open("rb") as file:
                for batch in finished(path.name, file, told_columns(self.pipeline, kind)).batches(
                    100_000, ["_partition", "_offset"]
                ):
                    rows += zip(*batch.to_pydict().values(), strict=True)
        return rows

    def files(self) -> dict[str, int]:
        """Every file of the table's directory with its modification time (ns)."""
        root = self.folder / "lake"
        return {str(p.relative_to(root)): p.stat().st_mtime_ns for p in sorted(root.rglob("*")) if p.is_file()}


def _hive(world: World) -> Targets:
    switch = world.wrap("switch", world.catalogue) if world.pipeline.sink.metastore_conn_id else None
    return Hive(world.wrap("catalogue", world.catalogue), switch)


class _WrappedLedger:
    """The ledger's ports, each wrapped; what is not a port passes through."""

    def __init__(self, ledger: SqlLedger, wrap: Callable[[str, Any], Any]) -> None:
        self.unwrapped = ledger
        self.pipelines = wrap("pipelines", ledger.pipelines)
        self.batches = wrap("batches", ledger.batches)
        self.windows = wrap("windows", ledger.windows)
        self.cleaning = wrap("cleaning", ledger.cleaning)
        self.recovery = wrap("recovery", ledger.recovery)
        self.repairs = wrap("repairs", ledger.repairs)
        self.redrives = wrap("redrives", ledger.redrives)
        self.due = wrap("due", ledger.due)
        self.totals = wrap("totals", ledger.totals)
        self.notices = wrap("notices", ledger.notices)
        self.truths = wrap("truths", ledger.truths)
        self.reopenings = wrap("reopenings", ledger.reopenings)
        self.rollbacks = wrap("rollbacks", ledger.rollbacks)
        self.replays = wrap("replays", ledger.replays)
        self.applies = wrap("applies", ledger.applies)
        self.copies = wrap("copies", ledger.copies)
        self.deliveries = wrap("deliveries", ledger.deliveries)
        self.failovers = wrap("failovers", ledger.failovers)
        self.schema_changes = wrap("schema_changes", ledger.schema_changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unwrapped, name)


def _visible_files(folder: Path) -> Iterable[Path]:
    """As Hive and Spark list a partition: neither `_x` nor `.x`."""
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.startswith(("_", "."))]


def window(hour: int) -> WindowKey:
    return WindowKey(T0 + hour * HOUR, T0 + (hour + 1) * HOUR)


def record(name: str, hour: float, site: str = "a", value: int = 1) -> dict[str, Any]:
    return {"id": name, "site": site, "at": T0 + int(hour * HOUR), "value": value}


__all__ = ["HOUR", "T0", "TOPIC", "World", "make_pipeline", "record", "window"]
