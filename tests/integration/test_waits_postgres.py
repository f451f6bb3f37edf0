"""500 windows of 50 pipelines, and consumers, wait in a triggerer on a real PostgreSQL: what a tick asks and costs."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pytest
from airflow.triggers.base import BaseTrigger
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Engine, make_url

from dev.stack.info import StackInfo
from tests.world import HOUR, T0, make_pipeline
from tidegate import wiring
from tidegate.airflow import hub as hubs
from tidegate.airflow.downstream import WindowPublishedTrigger
from tidegate.airflow.sensors import WindowReadyTrigger
from tidegate.core.base.plain import dumps
from tidegate.ledger import SqlLedger
from tidegate.ledger.migrate import migrate
from tidegate.ledger.waits import SqlWaits
from tidegate.workflow.window import waits as awaiting

PIPELINES, WINDOWS, BATCHES, PARTITIONS = 50, 10, 400, 4
POLL_S = 0.25

_BATCHES = f"""
INSERT INTO batches (pipeline, batch_id, state, epoch, nonce, revision, spec_version, rules_version, topic, topic_id,
                     clock_ms, floor, records, side_moved, side_registered, planned_ms)
SELECT 'pipe_' || p, b, 'LANDED', 1, 'n', 1, 1, 1, 't', 'i', %s, '', 1, true, true, 1
FROM generate_series(0, {PIPELINES - 1}) p, generate_series(%s::bigint, %s::bigint) b"""
_PARTITIONS = f"""
INSERT INTO batch_partitions (pipeline, batch_id, partition, planned_end, log_start, last_stable_offset,
                              high_watermark, drained, max_event_ms, advanced_ms)
SELECT b.pipeline, b.batch_id, x, 1, 1, 1, 1, false, %s, %s
FROM batches b, generate_series(0, {PARTITIONS - 1}) x WHERE b.batch_id BETWEEN %s AND %s"""

_GENERATIONS = """
INSERT INTO generations (pipeline, window_ms, number, state, epoch, nonce, kind)
SELECT pipeline, start_ms, 1, 'CURRENT', 1, '', 'archive' FROM windows"""


class Database:
    """A ledger whose server writes down every statement."""

    def __init__(self, info: StackInfo) -> None:
        server, self.name = make_url(info.ledger_url), f"ledger_{uuid.uuid4().hex[:10]}"
        self._log = Path(info.root) / "logs" / "postgres.log"
        self._admin = create_engine(server, isolation_level="AUTOCOMMIT")
        with self._admin.connect() as c:
            c.exec_driver_sql(f"CREATE DATABASE {self.name}")
        self.url = server.set(database=self.name).render_as_string(hide_password=False)
        migrate(self.url)
        self.engine = create_engine(self.url)
        with self._admin.connect() as c:
            c.exec_driver_sql(f"ALTER DATABASE {self.name} SET log_statement = 'all'")

    def land(self, first: int, last: int, event_ms: int) -> None:
        """Batches `first` to `last` of every pipeline; all their partitions have seen events up to `event_ms`."""
        with self.engine.begin() as c:
            c.exec_driver_sql(_BATCHES, (event_ms, first, last))
            c.exec_driver_sql(_PARTITIONS, (event_ms, event_ms, first, last))

    def publish(self) -> None:
        """All windows of all pipelines."""
        with self.engine.begin() as c:
            c.exec_driver_sql(
                "INSERT INTO windows (pipeline, start_ms, end_ms, state, closing_batch) "
                "SELECT 'pipe_' || p, %s + h * %s, %s + (h + 1) * %s, 'CLOSED', 1 "
                f"FROM generate_series(0, {PIPELINES - 1}) p, generate_series(0, {WINDOWS - 1}) h",
                (T0, HOUR, T0, HOUR),
            )
            c.exec_driver_sql(_GENERATIONS)

    def backend(self) -> int:
        """The server's process that answers the hub."""
        asked = (
            f"SELECT pid FROM pg_stat_activity WHERE datname = '{self.name}' AND ltrim(query, chr(10)) ^@ 'WITH asked'"
        )
        with self._admin.connect() as c:
            (row,) = c.exec_driver_sql(asked).all()
        return row.pid

    def statements(self, backend: int) -> list[str]:
        """What the server was told in this process, in order."""
        return re.findall(rf"\[{backend}\] LOG:  (?:statement|execute [^:]*): ?\s*(\S+ \S+)", self._log.read_text())

    def drop(self) -> None:
        self.engine.dispose()
        with self._admin.connect() as c:
            c.exec_driver_sql(f"DROP DATABASE {self.name} WITH (FORCE)")
        self._admin.dispose()


@pytest.fixture
def database(postgres: StackInfo, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    made = Database(postgres)
    monkeypatch.setattr(hubs, "ledger_url", lambda: made.url)
    yield made
    made.drop()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """CPU seconds of each look that has ended, in the hub's thread."""
    taken: list[float] = []
    look = hubs.Hub._look

    def counted(self: Any, *arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return look(self, *arguments)
        finally:
            taken.append(time.thread_time() - began)

    monkeypatch.setattr(hubs.Hub, "_look", counted)
    return taken


def consumers() -> list[WindowPublishedTrigger]:
    """Another DAG for each pipeline waits until all its windows are published."""
    windows, deadline = dumps(make_pipeline("file:///lake/t").windows), int((time.time() + 600) * 1000)
    span = T0, T0 + WINDOWS * HOUR
    return [WindowPublishedTrigger(f"pipe_{p}", windows, *span, 1, deadline, POLL_S) for p in range(PIPELINES)]


def triggers(deadline_s: float) -> list[WindowReadyTrigger]:
    deadline = int((time.time() + deadline_s) * 1000)
    spec = make_pipeline("file:///lake/t")
    texts = [dumps(replace(spec, name=f"pipe_{p}")) for p in range(PIPELINES)]
    made = [
        WindowReadyTrigger(text, T0 + h * HOUR, T0 + (h + 1) * HOUR, deadline, POLL_S)
        for text in texts
        for h in range(WINDOWS)
    ]
    # as a triggerer has them: out of Airflow's database
    return [WindowReadyTrigger(**one.serialize()[1]) for one in made]


async def one_event(trigger: BaseTrigger) -> dict[str, str]:
    async for found in trigger.run():
        return found.payload
    raise AssertionError("no event")


async def until(condition: Any) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)


def test_500_windows_of_50_pipelines_cost_two_statements_a_tick(database: Database, looks: list[float]) -> None:
    database.land(1, BATCHES, T0)
    executed: list[str] = []

    def count(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if connection.engine.url.database == database.name and connection.engine is not database.engine:
            executed.append(statement)

    event.listen(Engine, "before_cursor_execute", count)

    async def main() -> list[dict[str, str]]:
        tasks = [asyncio.ensure_future(one_event(one)) for one in triggers(600)]
        others = [asyncio.ensure_future(one_event(one)) for one in consumers()]
        await until(lambda: len(looks) >= 3)  # the first ones open the connection
        backend = database.backend()
        before = len(looks), len(executed), len(database.statements(backend))
        await until(lambda: len(looks) >= before[0] + 8)
        # the ticks last: one that ends while the server's log is read counts as well
        theirs = len(database.statements(backend)) - before[2]
        ours = len(executed) - before[1]
        ticks = len(looks) - before[0]
        assert not any(task.done() for task in tasks)
        assert ours <= 2 * (ticks + 1)  # one tick may be under way
        assert theirs <= 2 * (ticks + 1), database.statements(backend)[before[2] :]
        assert set(database.statements(backend)[before[2] :]) == {"WITH asked(pipeline,"}
        quiet = sorted(looks[before[0] :])[ticks // 2]
        # every watermark passes 04:00: the first four windows of each pipeline are ready
        database.land(BATCHES + 1, BATCHES + 1, T0 + 5 * HOUR)
        await until(lambda: sum(task.done() for task in tasks) == 4 * PIPELINES)
        database.land(BATCHES + 2, BATCHES + 2, T0 + 100 * HOUR)
        results = await asyncio.wait_for(asyncio.gather(*tasks), 120)
        assert not any(other.done() for other in others)
        database.publish()
        results += await asyncio.wait_for(asyncio.gather(*others), 120)
        print(f"CPU of a tick: {quiet * 1000:.1f} ms when nothing has landed, {max(looks) * 1000:.1f} ms at most")
        return results

    try:
        results = asyncio.run(main())
    finally:
        event.remove(Engine, "before_cursor_execute", count)
    assert Counter(result["outcome"] for result in results) == {"ready": PIPELINES * WINDOWS, "published": PIPELINES}
    assert "watermark" in results[0]["text"]


def test_a_time_out_says_who_blocked(database: Database) -> None:
    database.land(1, 2, T0)
    spec = dumps(replace(make_pipeline("file:///lake/t"), name="pipe_7"))
    trigger = WindowReadyTrigger(spec, T0, T0 + HOUR, int((time.time() + 0.3) * 1000), POLL_S)
    found = asyncio.run(asyncio.wait_for(one_event(trigger), 60))
    assert found["outcome"] == "late"
    assert "partition 0: last event 2013-01-05T00:00Z" in found["text"]


def test_a_ledger_that_restarts_is_waited_for(database: Database, looks: list[float]) -> None:
    """Its connections are cut, as by a restart of the server; the next look makes a new one."""
    database.land(1, 2, T0)

    async def main() -> dict[str, str]:
        task = asyncio.ensure_future(one_event(triggers(600)[0]))
        await until(lambda: len(looks) >= 2)
        with database.engine.begin() as c:
            c.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        database.land(3, 3, T0 + 100 * HOUR)
        return await asyncio.wait_for(task, 60)

    assert asyncio.run(main())["outcome"] == "ready"


def test_the_planner_goes_by_the_keys(database: Database) -> None:
    """However long a pipeline's history is: a look reads no table from end to end."""
    database.land(1, BATCHES, T0)
    with database.engine.begin() as c:
        c.exec_driver_sql(
            "INSERT INTO windows (pipeline, start_ms, end_ms, state, closing_batch) "
            "SELECT 'pipe_' || p, h, h + 1, 'CLOSED', 1 FROM generate_series(0, 49) p, generate_series(1, 1200) h"
        )
        c.exec_driver_sql(_GENERATIONS)
        c.exec_driver_sql(
            "INSERT INTO copies (pipeline, round, table_name, key, state, ended, why, begun_ms) "
            "SELECT 'pipe_' || p, r, 'shop.t', '[]', 'WHOLE', true, '', 0 "
            "FROM generate_series(0, 49) p, generate_series(1, 200) r"
        )
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        c.exec_driver_sql("ANALYZE")
    plans: list[str] = []

    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        cursor.execute(f"EXPLAIN {statement}", parameters)
        plans.append("\n".join(row[0] for row in cursor.fetchall()))

    waits = SqlWaits(database.url)
    event.listen(waits._engine, "before_cursor_execute", explain)
    refs = [(f"pipe_{p}", h) for p in range(50) for h in (1200, 1201)]
    look = waits.look([f"pipe_{p}" for p in range(50)], refs)
    waits.close()
    assert (len(look.facts), len(look.standings)) == (50, 50)
    for plan in plans:
        assert "Seq Scan" not in plan, plan


def test_a_consumer_needs_to_read_a_few_tables_and_no_more(database: Database) -> None:
    """Those that the page names; its own role, which can write nothing."""
    page = (Path(__file__).parents[2] / "docs/event-time.md").read_text()
    (tables,) = re.findall(r"GRANT SELECT ON ([\w, ]+) TO", page)
    ledger = SqlLedger(database.url)
    ledger.pipelines.register(make_pipeline("file:///lake/t"), "f")
    ledger.close()
    with database.engine.begin() as c:
        c.exec_driver_sql(f"CREATE ROLE {database.name} LOGIN PASSWORD 'consumer'")
        c.exec_driver_sql(f"GRANT SELECT ON {tables} TO {database.name}")
    url = make_url(database.url).set(username=database.name, password="consumer")
    try:
        with wiring.open_specs(url.render_as_string(hide_password=False)) as specs:
            spec = awaiting.find(specs, "lake.readings")
            assert awaiting.find(specs, "readings") == spec
        waits = SqlWaits(url.render_as_string(hide_password=False))
        wait = awaiting.published_wait(spec.name, spec.windows, T0, T0 + HOUR, 1)
        assert not awaiting.ask(waits, wait, 0)[0].done
        waits.close()
    finally:
        with database.engine.begin() as c:
            c.exec_driver_sql(f"DROP OWNED BY {database.name}; DROP ROLE {database.name}")
