"""Ledgers of both databases as fixtures, and the batches and generations that their tests begin with."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.pool import NullPool

from tests.world import _empty_ledger, make_pipeline
from tidegate.core.base.offsets import Interval
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.batch.states import LandedBatch, PartitionPlan, Plan, PlannedBatch, WritingBatch
from tidegate.core.files.receipt import FileEntry, PartitionRows, RangeResult, Receipt
from tidegate.core.window.lateness import Floor
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import BuiltGeneration, WindowKey
from tidegate.core.window.watermark import TopicFacts
from tidegate.ledger import SqlLedger
from tidegate.ledger.migrate import migrate
from tidegate.ledger.schema import metadata

HOUR = 3_600_000
NAME = "readings"
WINDOW = WindowKey(0, HOUR)
DIRTY = Refusal(kind=RefusalKind.DIRTY_LIMIT, said="too dirty", advice="look", partition=1, offset=7)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A ledger that is migrated."""
    with database(request, tmp_path) as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def bare_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without a schema."""
    with database(request, tmp_path, migrated=False) as found:
        yield found


@contextmanager
def database(request: pytest.FixtureRequest, folder: Path, migrated: bool = True) -> Iterator[str]:
    """Of the kind that the fixture's parameter names: a ledger that an earlier test may have had, without a row, or a
    new database."""
    if request.param == "sqlite":
        if migrated:
            shutil.copy(_empty_ledger(), folder / "ledger.db")
        yield f"sqlite:///{folder}/ledger.db"
        return
    server = request.getfixturevalue("postgres").ledger_url
    free = _ready.setdefault(server, [])
    name = free.pop() if migrated and free else _new(server, migrated)
    engine = create_engine(make_url(server).set(database=name), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    yield engine.url.render_as_string(hide_password=False)
    if migrated:
        _empty(engine)
        free.append(name)
    else:
        with create_engine(server, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as c:
            c.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


_ready: dict[str, list[str]] = {}
"""By server: its databases that hold an empty ledger. To make one and to drop it costs more than most tests do."""


def _new(server: str, migrated: bool) -> str:
    name = f"ledger_{uuid.uuid4().hex[:10]}"
    with create_engine(server, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    if migrated:
        migrate(create_engine(make_url(server).set(database=name), poolclass=NullPool))
    return name


def _empty(engine: Engine) -> None:
    """Whoever the test has left connected is sent away."""
    gone = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database()"
    with engine.connect() as c:
        c.exec_driver_sql(f"{gone} AND pid <> pg_backend_pid()")
        c.exec_driver_sql("; ".join(f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables)))
        c.exec_driver_sql("SELECT setval(pg_get_serial_sequence('events', 'id'), 1, false)")


@pytest.fixture
def now() -> list[int]:
    """The clock of rows and deadlines; tests move it."""
    return [1_000_000]


@pytest.fixture
def open_ledger(url: str, now: list[int]) -> Iterator[Callable[[], SqlLedger]]:
    made: list[SqlLedger] = []

    def make() -> SqlLedger:
        made.append(SqlLedger(url, "test", lambda: now[0]))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def ledger(open_ledger: Callable[[], SqlLedger]) -> SqlLedger:
    made = open_ledger()
    made.pipelines.register(make_pipeline("file:///lake/t"), "fingerprint")
    return made


def plan(batch_id: int = 1, start: int = 0, end: int = 5) -> Plan:
    parts = (
        PartitionPlan(partition=0, start=start, end=end, log_start=0, last_stable_offset=end, high_watermark=end),
        PartitionPlan(partition=1, start=0, end=0, log_start=0, last_stable_offset=0, high_watermark=3),
    )
    return Plan(
        pipeline=NAME,
        batch_id=batch_id,
        revision=1,
        spec_version=1,
        rules_version=1,
        topic="t",
        topic_id="id-1",
        clock_ms=77,
        floor=Floor(0, (Interval(5, 9),)),
        partitions=parts,
    )


def manifest(batch: WritingBatch, rows: int = 4) -> Receipt:
    result = RangeResult(
        range=batch.plan.ranges[0],
        read=rows,
        data=rows,
        late=0,
        dirty=0,
        filtered=0,
        dropped=0,
        gaps=(Interval(4, 5),),
        min_event_ms=10,
        max_event_ms=HOUR - 1,
    )
    parts = (PartitionRows(0, rows, 0, 3),)
    file = FileEntry(
        path="data/x/part-0",
        kind="data",
        window_ms=0,
        values=(("site", None),),
        rows=rows,
        bytes=9,
        min_event_ms=10,
        max_event_ms=HOUR - 1,
        checksum=2**64 - 1,
        partitions=parts,
    )
    p = batch.plan
    return Receipt(
        attempt="a",
        batch_id=p.batch_id,
        epoch=batch.epoch,
        nonce=batch.nonce,
        topic="t",
        topic_id="id-1",
        spec_version=1,
        rules_version=1,
        ranges=(result,),
        files=(file,),
    )


def planned(ledger: SqlLedger, batch_id: int = 1, start: int = 0, end: int = 5) -> PlannedBatch:
    view = ledger.batches.planning_view(NAME)
    ledger.batches.insert_plan(plan(batch_id, start, end), view.version, f"run-{batch_id}")
    return PlannedBatch(plan(batch_id, start, end))


def landed(ledger: SqlLedger, batch_id: int = 1, start: int = 0, end: int = 5) -> LandedBatch:
    writing = ledger.batches.take(planned(ledger, batch_id, start, end), "n1")
    return ledger.batches.land(ledger.batches.seal(writing, manifest(writing)))


def closed(ledger: SqlLedger) -> None:
    landed(ledger)
    ledger.windows.begin_close(NAME, WINDOW, ready)
    assert ledger.windows.finish_close(NAME, WINDOW) == []


def ready(facts: TopicFacts) -> Certificate:
    return Certificate(
        pipeline=NAME,
        window=WINDOW,
        ready=True,
        reason="because",
        decided_ms=5,
        batch_id=facts.batch_id,
        watermark_ms=9,
        partitions=(),
        blockers=(),
    )


def built(ledger: SqlLedger) -> BuiltGeneration:
    closed(ledger)
    taken = ledger.windows.take(NAME, WINDOW, 1, "n")
    files = ledger.batches.manifest_files(NAME, 1)
    return ledger.windows.built(taken, "file:///assembled/1", files)
