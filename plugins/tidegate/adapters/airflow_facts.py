"""Facts from Airflow's own database by plain SQL: heartbeats of its services, pools, DAGs, import errors, its clock.

It does not import Airflow, which takes seconds and creates a home where one is missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, create_engine, text
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from tidegate.core.dirty.redrive import IngestFacts
from tidegate.core.doctor.rules import DagFacts
from tidegate.settings import airflow_setting

SILENT_S = 120.0
"""Seconds without a heartbeat after which a scheduler starts no queued task."""
_JOBS = {"SchedulerJob": "scheduler", "TriggererJob": "triggerer"}


@dataclass(frozen=True)
class AirflowFacts:
    """`beats`: seconds since 1970 of each service's last heartbeat. `ahead_s`: the database's clock."""

    beats: dict[str, float | None]
    pools: dict[str, int]
    dags: dict[str, DagFacts]
    import_errors: tuple[tuple[str, str], ...]
    now_s: float
    ahead_s: float | None


def database_address() -> str | None:
    """Address of Airflow's database by its own settings, where they name it."""
    return airflow_setting("database", "sql_alchemy_conn") or airflow_setting("core", "sql_alchemy_conn")


def airflow_facts(url: str, timeout_s: float) -> AirflowFacts:
    """The facts. Raises sqlalchemy.exc.SQLAlchemyError where the database gives no answer, or is not Airflow's."""
    with _connected(url, timeout_s) as connection:
        ahead = clock_ahead(connection) if connection.dialect.name != "sqlite" else None
        return AirflowFacts(
            beats=_beats(connection),
            pools={pool: int(slots) for pool, slots in _rows(connection, "SELECT pool, slots FROM slot_pool")},
            dags=_dags(connection),
            import_errors=_import_errors(connection),
            now_s=time.time() + (ahead or 0.0),
            ahead_s=ahead,
        )


def ingest_facts(url: str, dag_id: str, runs: Sequence[str], timeout_s: float) -> IngestFacts | None:
    """Facts of a pipeline's ingest DAG and these of its runs (`<dag id>/<run id>`); None for one that Airflow does
    not know. Raises sqlalchemy.exc.SQLAlchemyError."""
    facts = airflow_facts(url, timeout_s)
    dag = facts.dags.get(dag_id)
    if dag is None:
        return None
    beat = facts.beats["scheduler"]
    ids = [run.removeprefix(f"{dag_id}/") for run in runs if run.startswith(f"{dag_id}/")]
    states = text("SELECT run_id, state FROM dag_run WHERE dag_id = :dag AND run_id IN :ids").bindparams(
        bindparam("ids", ids, expanding=True), dag=dag_id
    )
    with _connected(url, timeout_s) as connection:
        found = dict(map(tuple, connection.execute(states))) if ids else {}
    return IngestFacts(dag.paused, found, beat is not None and facts.now_s - beat < SILENT_S)


@contextmanager
def _connected(url: str, timeout_s: float) -> Iterator[Connection]:
    """A transaction on Airflow's database. `timeout_s`: for the server's answer."""
    address = _address(url)
    limits = {"connect_timeout": max(1, int(timeout_s))} if address.get_backend_name() != "sqlite" else {}
    with create_engine(address, connect_args=limits, poolclass=NullPool).begin() as connection:
        yield connection


def _address(url: str) -> URL:
    """The parsed address; SQLAlchemy's own error would quote it, with its password."""
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise ArgumentError("sql_alchemy_conn is not an address like postgresql+psycopg2://user:...@host/db") from None


def clock_ahead(connection: Connection) -> float:
    """Seconds by which the database's clock is ahead of this machine's, less half of the round trip."""
    asked = time.time()
    found = connection.execute(text("SELECT CURRENT_TIMESTAMP")).scalar()
    answered = time.time()
    return _seconds(found) - (asked + answered) / 2


def _beats(connection: Connection) -> dict[str, float | None]:
    found: dict[str, float | None] = dict.fromkeys(_JOBS.values())
    statement = "SELECT job_type, max(latest_heartbeat) FROM job WHERE state = 'running' GROUP BY job_type"
    for kind, at in _rows(connection, statement):
        if kind in _JOBS and at is not None:
            found[_JOBS[kind]] = _seconds(at)
    return found


def _dags(connection: Connection) -> dict[str, DagFacts]:
    rows = _rows(connection, "SELECT dag_id, is_paused, is_active, fileloc FROM dag")
    return {dag_id: DagFacts(bool(paused), bool(active), file or "") for dag_id, paused, active, file in rows}


def _import_errors(connection: Connection) -> tuple[tuple[str, str], ...]:
    rows = _rows(connection, "SELECT filename, stacktrace FROM import_error ORDER BY filename")
    return tuple((file, last_line(trace or "")) for file, trace in rows)


def last_line(trace: str) -> str:
    """Last line of a trace that is not advice: the error itself."""
    lines = [line.strip() for line in trace.splitlines() if line.strip() and not line.strip().startswith("what to do")]
    return lines[-1] if lines else "no reason was kept"


def _rows(connection: Connection, statement: str) -> Sequence[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(text(statement))]


def _seconds(at: datetime | str) -> float:
    """Seconds since 1970; SQLite keeps texts without a zone, in UTC."""
    found = datetime.fromisoformat(at) if isinstance(at, str) else at
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def add_pool(url: str, name: str, slots: int, description: str, timeout_s: float) -> bool:
    """Make a missing pool. Returns whether it did. Raises sqlalchemy.exc.SQLAlchemyError."""
    made = text(
        "INSERT INTO slot_pool (pool, slots, description, include_deferred) SELECT :name, :slots, :said, :no"
        " WHERE NOT EXISTS (SELECT 1 FROM slot_pool WHERE pool = :name)"
    )
    with _connected(url, timeout_s) as connection:
        done = connection.execute(made, {"name": name, "slots": slots, "said": description, "no": False})
        return bool(done.rowcount)
