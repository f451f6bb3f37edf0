"""DAG runs that Tidegate creates itself: the ingest run after one with a backlog, and missing archive runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import AirflowException, DagNotFound, DagRunAlreadyExists
from airflow.models.dag import DAG, DagModel
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun, DagRunNote
from airflow.models.taskinstance import TaskInstance
from airflow.timetables.base import DataInterval
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.sqlalchemy import with_row_locks
from airflow.utils.state import DagRunState, State, TaskInstanceState
from airflow.utils.types import DagRunType
from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from tidegate.airflow.timetable import from_ms, to_ms
from tidegate.core.window.due import RunsSeen
from tidegate.core.window.states import WindowKey

MOST_AT_ONCE = 8
MOST_TOLD = 200
"""Most windows with an ended run to note by name."""
MOST_LOOKED_AT = 20_000
"""Most windows without a run to count; beyond it a catch-up tells a lower bound."""
PAGE = 2000
"""Windows in one query for runs."""
NOTE = 1000
"""Most characters of a note."""
LOCK_S, LOCK_LOOK_S = 20.0, 0.2
"""Seconds to wait for the scheduler's lock on a DAG, and between two tries."""
LOST_S, LOOK_S = 60.0, 2.0
"""Seconds to wait for a DAG that Airflow has lost (two parses by default), and between two looks."""


def trigger_after_backlog(dag_id: str, batch_id: int, scheduled: bool = False) -> str:
    """Create the ingest run that goes on after `batch_id`, once for any number of calls. Returns what it did, in words.

    A paused DAG gets none: a queued run would start by surprise when somebody unpauses it. A DAG that Airflow does not
    know, as while its file cannot be parsed or was read half written, is waited for, LOST_S at most. Then it is left to
    its schedule where it is `scheduled`. Raises AirflowException without a schedule: no other run would go on.
    """
    run_id, until = f"backlog_after_batch_{batch_id}", time.monotonic() + LOST_S
    while True:
        try:
            return f"a backlog is left; {trigger(dag_id, run_id)}"
        except DagNotFound:
            if time.monotonic() < until:
                time.sleep(LOOK_S)
            elif scheduled:
                return f"a backlog is left; Airflow doesn't know {dag_id} now: the next run by its schedule goes on"
            else:
                raise AirflowException(
                    f"a backlog is left, and Airflow doesn't know {dag_id}, so that {run_id} could not be triggered\n"
                    "  what to do: airflow dags list-import-errors; the next try triggers it"
                ) from None


def trigger_apply(dag_id: str, run_id: str) -> str:
    """Trigger a merge, once for any number of calls. Returns what it did, in words. A DAG that Airflow does not know at
    this moment is left to its schedule: a merge takes whatever has landed."""
    try:
        return f"to merge it: {trigger(dag_id, run_id)}"
    except DagNotFound:
        return f"Airflow doesn't know {dag_id} now: its next run by the schedule merges it"


def trigger(dag_id: str, run_id: str, conf: dict[str, Any] | None = None) -> str:
    """Create a manual run of this id, once. Returns what it did, in words. Raises DagNotFound."""
    model = DagModel.get_current(dag_id)
    if model is None:
        raise DagNotFound(dag_id)
    if model.is_paused:
        return f"{dag_id} is paused, so nothing was triggered"
    try:
        # whole seconds would make two triggers within one second the same logical date
        trigger_dag(dag_id, run_id=run_id, conf=conf or None, replace_microseconds=False)
    except DagRunAlreadyExists:
        return f"{run_id} exists already"
    return f"triggered {run_id}"


@dataclass(frozen=True)
class Filled:
    """Run ids: `created` ones, and those `started` that were queued. `seen`: None for a DAG that Airflow doesn't
    know."""

    created: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    seen: RunsSeen | None = None


def without_run(dag_id: str, due: Iterable[WindowKey], looked_ms: int, session: Session) -> list[WindowKey]:
    """Those of these windows that have no run at all, also ahead of the schedule; none while the DAG is paused, which
    means that nothing is to be published."""
    model = session.query(DagModel).filter_by(dag_id=dag_id).one_or_none()
    if model is None or not model.is_active or model.is_paused:
        return []
    return _look(dag_id, due, looked_ms, session, most=MOST_LOOKED_AT).missing


def create_missing_runs(
    dag_id: str, due: Iterable[WindowKey], looked_ms: int, session: Session, create: bool = True, held: bool = False
) -> Filled:
    """Create scheduled runs for due windows (oldest first, as the ledger said after `looked_ms`, UTC ms) that the
    schedule has gone past, few at a time.

    A window with a run of any state gets no other: what has failed is for people to look at and clear. None is made
    while the DAG is paused, and none from the schedule's front on: it comes there by itself. They run at once, and so
    do queued ones (somebody has cleared them), whatever max_active_runs says: runs that wait for their windows may fill
    it for hours, and these are ready. So never more than MOST_AT_ONCE of them are on their way; the schedule makes no
    new runs meanwhile. Without `create` only queued ones are started: a catch-up publishes the others. Nothing is
    created or started while the scheduler has the lock (`held`).
    """
    model = session.query(DagModel).filter_by(dag_id=dag_id).one_or_none()
    if model is None or not model.is_active:
        return Filled()
    front = _front(model, session)
    found = _look(dag_id, (key for key in due if front is None or key.start_ms <= front), looked_ms, session)
    seen = RunsSeen(model.is_paused, tuple(found.ended[:MOST_TOLD]))
    if model.is_paused or held:  # what is seen needs no lock, and status must not say what was true ten minutes ago
        return Filled(seen=seen)
    started = _start(dag_id, found.queued[: max(0, MOST_AT_ONCE - found.busy)], session)
    if not create:
        return Filled((), started, seen)
    bag = DagBag(read_dags_from_db=True)
    missing = [key for key in found.missing if front is None or key.start_ms < front]
    missing = missing[: max(0, MOST_AT_ONCE - found.busy - len(started))]
    dag = bag.get_dag(dag_id, session=session) if missing else None
    created = [create_run(dag, key, bag.dags_hash.get(dag_id), session) for key in missing] if dag else []
    return Filled(tuple(created), started, seen)


def locked(dag_id: str, session: Session) -> DagModel | None:
    """The DAG's row, locked as the scheduler locks it to make runs; None, without waiting, where another holds it."""
    mine = select(DagModel).where(DagModel.dag_id == dag_id)
    return session.scalar(with_row_locks(mine, session, of=DagModel, skip_locked=True))


@contextmanager
def unless_held(dag_id: str) -> Iterator[tuple[Session, bool]]:
    """A session that has waited for the lock of `locked`, and whether another has held that for LOCK_S."""
    until = time.monotonic() + LOCK_S
    while True:
        with create_session() as session:
            held = locked(dag_id, session) is None and session.get(DagModel, dag_id) is not None
            if not held or time.monotonic() >= until:
                yield session, held
                return
        time.sleep(LOCK_LOOK_S)


def _front(model: DagModel, session: Session) -> int | None:
    """Position of the schedule (UTC ms): its next run, or its latest where that is further, as after a backfill."""
    automated = DagRun.run_type.in_((DagRunType.SCHEDULED, DagRunType.BACKFILL_JOB))
    latest = session.scalar(select(func.max(DagRun.execution_date)).where(DagRun.dag_id == model.dag_id, automated))
    return max((to_ms(at) for at in (model.next_dagrun, latest) if at is not None), default=None)


@dataclass
class _Found:
    """Due windows: without a run (as many as asked for), those (starts) whose runs have all ended, queued runs, and
    how many have a run at work; one that waits in the triggerer, as for another system's count, is not."""

    missing: list[WindowKey] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    queued: list[str] = field(default_factory=list)
    busy: int = 0


def _look(dag_id: str, due: Iterable[WindowKey], looked_ms: int, session: Session, most: int = MOST_AT_ONCE) -> _Found:
    found, windows, deferred = _Found(), iter(due), _deferred(dag_id, session)
    while page := list(islice(windows, PAGE)):
        runs = runs_of(dag_id, page, session)
        for key in page:
            mine = runs.get(key.start_ms, [])
            if not mine:
                found.missing += [key] if len(found.missing) < most else []
            elif all(_over(run, looked_ms) for run in mine):
                found.ended.append(key.start_ms)
            elif all(_over(run, looked_ms) or run.state == "queued" for run in mine):
                found.queued += [run.run_id for run in mine if run.state == "queued"]
            else:
                found.busy += any(not _over(run, looked_ms) and run.run_id not in deferred for run in mine)
    return found


def _deferred(dag_id: str, session: Session) -> set[str]:
    waiting = (TaskInstance.dag_id == dag_id, TaskInstance.state == TaskInstanceState.DEFERRED)
    return set(session.scalars(select(TaskInstance.run_id).where(*waiting)))


def _over(run: Any, looked_ms: int) -> bool:
    """Whether the run had ended before the look at the ledger: one that ends now may have published since."""
    return run.state in State.finished_dr_states and (run.end_date is None or to_ms(run.end_date) < looked_ms)


def runs_of(dag_id: str, page: Sequence[WindowKey], session: Session) -> dict[int, list[Any]]:
    """Runs by start of their window; a manual run has a date of its own within it."""
    first, end = from_ms(page[0].start_ms), from_ms(page[-1].end_ms)
    columns = (DagRun.run_id, DagRun.execution_date, DagRun.data_interval_start, DagRun.state, DagRun.end_date)
    found = select(*columns).where(DagRun.dag_id == dag_id, DagRun.execution_date >= first, DagRun.execution_date < end)
    runs: dict[int, list[Any]] = {}
    for run in session.execute(found):
        for start in {to_ms(run.execution_date), to_ms(run.data_interval_start or run.execution_date)}:
            runs.setdefault(start, []).append(run)
    return runs


def _start(dag_id: str, run_ids: Sequence[str], session: Session) -> tuple[str, ...]:
    """Start those that are still queued. Returns their ids; the scheduler may have started others."""
    started = []
    for run_id in run_ids:
        mine = (DagRun.dag_id == dag_id, DagRun.run_id == run_id, DagRun.state == DagRunState.QUEUED)
        change = update(DagRun).where(*mine).values(state=DagRunState.RUNNING, start_date=timezone.utcnow())
        if session.execute(change.execution_options(synchronize_session=False)).rowcount:
            started.append(run_id)
    return tuple(started)


def create_run(dag: DAG, key: WindowKey, dag_hash: str | None, session: Session) -> str:
    interval = DataInterval(from_ms(key.start_ms), from_ms(key.end_ms))
    run = dag.create_dagrun(
        run_type=DagRunType.SCHEDULED,
        execution_date=interval.start,
        data_interval=interval,
        state=DagRunState.RUNNING,
        start_date=timezone.utcnow(),
        external_trigger=False,
        dag_hash=dag_hash,
        session=session,
    )
    return run.run_id


def write_note(run_id: int, text: str, session: Session, instead_of: str) -> None:
    """Write a line to the run's note, in place of lines that begin with `instead_of`. By the table: the model's foreign
    key leads to users, whom only the webserver's library knows."""
    table = DagRunNote.__table__
    mine, now = table.c.dag_run_id == run_id, timezone.utcnow()
    old = session.execute(select(table.c.content).where(mine)).one_or_none()
    if old is None:
        values = {"dag_run_id": run_id, "content": text[:NOTE], "created_at": now, "updated_at": now}
        session.execute(insert(table).values(values))
        return
    kept = [line for line in (old.content or "").splitlines() if not line.startswith(instead_of)]
    noted = "\n".join([*kept, text])[-NOTE:]
    session.execute(update(table).where(mine).values(content=noted, updated_at=now))
