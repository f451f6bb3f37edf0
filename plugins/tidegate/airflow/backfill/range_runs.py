"""The runs of one DAG for `tidegate backfill`, on Airflow's own database.

They are scheduled runs, and the scheduler does the work: a command that dies leaves no run behind without a worker.
They begin as running, not as queued: runs that wait for windows to come may hold every slot of max_active_runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun, DagRunNote
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidegate.airflow import pools, runs
from tidegate.airflow.backfill import headroom
from tidegate.airflow.backfill.stranded_runs import sweep
from tidegate.airflow.runs import create_run, locked, write_note
from tidegate.airflow.timetable import from_ms, to_ms
from tidegate.core.base.errors import AskedWrong
from tidegate.core.base.offsets import Interval
from tidegate.core.publish import catchup
from tidegate.core.publish.backfill import Run
from tidegate.core.window.states import WindowKey

SCHEDULER_LIMIT = timedelta(minutes=1)
"""A scheduler without a heartbeat for this long runs nothing."""
OURS = "tidegate backfill"
"""Beginning of the note that a backfill writes to its runs."""
ACTIVE = ("queued", "running")


@dataclass(frozen=True)
class Ground:
    """Conditions of a backfill: `unknown`, Airflow has no such DAG (any more); `paused`; missing pools, without which
    tasks would wait forever; whether a scheduler is alive; who holds a pool that is `full`, in words."""

    unknown: bool = False
    paused: bool = False
    missing_pools: tuple[str, ...] = ()
    scheduler: bool = True
    full: str = ""


class RangeRuns:
    """Implements `workflow.publish.backfill.Runs`; `pool_names` are those of the DAG's tasks. `settles`: a look also
    settles what killed backfills left."""

    def __init__(self, dag_id: str, pool_names: Sequence[str], settles: bool = True) -> None:
        self.dag_id, self._pools, self.settles = dag_id, tuple(pool_names), settles
        self._asked_for: int | None = None

    def ground(self) -> Ground:
        """Conditions under which runs would go on now."""
        with create_session() as session:
            model = self._model(session)
            if model is None or not model.is_active:
                return Ground(unknown=True)
            held = next(filter(None, (pools.full(pool, session) for pool in self._pools)), "")
            return Ground(False, bool(model.is_paused), self._missing(session), scheduler_alive(session), held)

    def unpause(self) -> None:
        """Unpause the DAG, as `airflow dags unpause` does."""
        with create_session() as session:
            model = self._model(session)
            if model is not None:
                model.set_is_paused(is_paused=False, session=session)

    def look(self, keys: Sequence[WindowKey]) -> dict[int, Run]:
        """Runs by start of their window; of several the active one, or that of the schedule. Runs that are of type
        backfill after killed backfills were settled are at work, or a live backfill holds them."""
        if not keys:
            return {}
        with create_session() as session:
            if self.settles:
                sweep([self.dag_id], session)
            rows = self._rows(keys, session)
        found: dict[int, tuple[tuple[bool, bool], Run]] = {}
        for row in rows:
            own, active = to_ms(row.execution_date), _active(row)
            run = Run(row.run_id, active, row.state == "success", _mark(row.content))
            for start in {own, to_ms(row.data_interval_start or row.execution_date)}:
                rank = (active, own == start)
                if start not in found or rank > found[start][0]:
                    found[start] = rank, run
        return {start: run for start, (_, run) in found.items()}

    def room(self, own: int, most: int | None) -> int:
        """Runs that may begin now, see `headroom`; 0 for a missing DAG or pool, which `ground` reports."""
        with create_session() as session:
            model = self._model(session)
            if model is None or self._missing(session):
                return 0
            max_active_runs = model.max_active_runs or 1
            limit = most or headroom.most(max_active_runs, headroom.slots_of(self._pools, session))
            active = DagRun.active_runs_of_dags([self.dag_id], session=session).get(self.dag_id, 0)
        return headroom.room(limit, max_active_runs, active - own) - own

    def begin(self, keys: Sequence[WindowKey], runs: Mapping[int, Run], note: str) -> list[WindowKey]:
        """Begin runs for these windows, under the scheduler's own lock; none where another process holds it."""
        with create_session() as session:
            if locked(self.dag_id, session) is None:
                return []
            bag = DagBag(read_dags_from_db=True)
            dag = bag.get_dag(self.dag_id, session=session)
            if dag is None:
                return []
            now = self._between(keys, session)
            begun = []
            for key in keys:
                mine = [run for run in now if _of(run, key)]
                if any(_active(run) for run in mine):
                    continue
                # a run by hand has a date of its own: the window gets one of the schedule's beside it
                run = next((run for run in mine if to_ms(run.execution_date) == key.start_ms), None)
                if run is None:
                    run_id = create_run(dag, key, bag.dags_hash.get(self.dag_id), session)
                    run = self._between([key], session, run_id)[0]
                else:
                    _clear(run, dag, session)
                write_note(run.id, note, session, OURS)
                begun.append(key)
            return begun

    def catch_up(self, keys: Sequence[WindowKey], start: bool) -> bool:
        """Whether a run of `<pipeline>.maintain` whose conf names the range is at work, or could be started
        (`airflow.catchup`). After one that published none of them no other is started."""
        part = Interval(min(key.start_ms for key in keys), max(key.end_ms for key in keys))
        dag_id = f"{self.dag_id.rpartition('.')[0]}.maintain"
        with create_session() as session:
            if _paused(dag_id, session):
                return False
            if _catching_up(dag_id, part, session):
                return True
        if not start or (self._asked_for is not None and len(keys) >= self._asked_for):
            return False
        self._asked_for = len(keys)
        runs.trigger(dag_id, f"catch_up_asked__{timezone.utcnow().isoformat()}", catchup.conf_of(part))
        return True

    def failed_tasks(self, run_id: str) -> list[str]:
        """Names of a run's failed tasks, sorted."""
        mine = (TaskInstance.dag_id == self.dag_id, TaskInstance.run_id == run_id)
        with create_session() as session:
            found = session.scalars(select(TaskInstance.task_id).where(*mine, TaskInstance.state == "failed"))
            return sorted(found)

    def _model(self, session: Session) -> DagModel | None:
        return session.query(DagModel).filter_by(dag_id=self.dag_id).one_or_none()

    def _missing(self, session: Session) -> tuple[str, ...]:
        try:
            headroom.slots_of(self._pools, session)
        except LookupError as e:
            return (str(e.args[0]),)
        return ()

    def _rows(self, keys: Sequence[WindowKey], session: Session) -> Sequence[Any]:
        columns = (
            DagRun.run_id, DagRun.execution_date, DagRun.data_interval_start, DagRun.state, DagRun.run_type,
            DagRunNote.content,
        )  # fmt: skip
        first, end = min(key.start_ms for key in keys), max(key.end_ms for key in keys)
        within = (DagRun.execution_date >= from_ms(first), DagRun.execution_date < from_ms(end))
        asked = select(*columns).outerjoin(DagRunNote, DagRunNote.dag_run_id == DagRun.id)
        return session.execute(asked.where(DagRun.dag_id == self.dag_id, *within)).all()

    def _between(self, keys: Sequence[WindowKey], session: Session, run_id: str | None = None) -> list[DagRun]:
        first, end = min(key.start_ms for key in keys), max(key.end_ms for key in keys)
        found = session.query(DagRun).filter(
            DagRun.dag_id == self.dag_id, DagRun.execution_date >= from_ms(first), DagRun.execution_date < from_ms(end)
        )
        return list(found if run_id is None else found.filter(DagRun.run_id == run_id))


def _paused(dag_id: str, session: Session) -> bool:
    model = session.query(DagModel).filter_by(dag_id=dag_id).one_or_none()
    return model is None or not model.is_active or bool(model.is_paused)


def _catching_up(dag_id: str, part: Interval, session: Session) -> bool:
    """Whether a run for windows of this part is queued or at work."""
    asked = select(DagRun.conf).where(DagRun.dag_id == dag_id, DagRun.state.in_(ACTIVE))
    return any(_overlaps(conf, part) for conf in session.scalars(asked))


def _overlaps(conf: Any, part: Interval) -> bool:
    try:
        other = catchup.asked_part(conf)
    except AskedWrong:
        return False
    return other is not None and other.start < part.end and part.start < other.end


def _active(run: Any) -> bool:
    return run.state in ACTIVE or run.run_type == "backfill"


def _of(run: DagRun, key: WindowKey) -> bool:
    return key.start_ms in (to_ms(run.execution_date), to_ms(run.data_interval_start or run.execution_date))


def _clear(run: DagRun, dag: Any, session: Session) -> None:
    """Clear all tasks of the run, and start it at once."""
    run.dag = dag
    run.verify_integrity(session=session)  # a task that is new since gets its row
    clear_task_instances(run.get_task_instances(session=session), session, dag=dag, dag_run_state=DagRunState.RUNNING)
    run.state = DagRunState.RUNNING
    run.last_scheduling_decision = None
    run.clear_number += 1
    session.flush()


def scheduler_alive(session: Session) -> bool:
    alive = (Job.job_type == "SchedulerJob", Job.state == "running", Job.end_date.is_(None))
    recent = Job.latest_heartbeat > timezone.utcnow() - SCHEDULER_LIMIT
    return bool(session.scalar(select(func.count()).select_from(Job).where(*alive, recent)))


def _mark(note: str | None) -> str | None:
    """The note's mark, `tidegate backfill ..., begun ...`, without its author."""
    for line in (note or "").splitlines():
        if line.startswith(OURS):
            return line.rpartition(" by ")[0]
    return None
