"""DAG runs that Tidegate creates itself: the ingest run after one with a backlog, and archive runs nobody created."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from tidegate.core.due import RunsSeen
from tidegate.core.window import WindowKey

if TYPE_CHECKING:
    from airflow.models.dag import DAG, DagModel
    from sqlalchemy.orm import Session

MOST_AT_ONCE = 8
MOST_TOLD = 200
"""Windows whose run has ended that are noted by name."""
PAGE = 2000
"""Windows whose runs are asked for at once."""
_ENDED, _ON_ITS_WAY = "ended", "on its way"


def trigger_after_backlog(dag_id: str, batch_id: int) -> str:
    """Create the ingest run that goes on after `batch_id`, once however often it is asked for. What was done, in words.

    A paused DAG gets none: a queued run would start by surprise when somebody unpauses it.
    """
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.exceptions import DagRunAlreadyExists
    from airflow.models.dag import DagModel

    model = DagModel.get_current(dag_id)
    if model is None or model.is_paused:
        return f"a backlog is left; {dag_id} is paused, so nothing was triggered"
    run_id = f"backlog_after_batch_{batch_id}"
    try:
        # whole seconds would make two triggers within one second the same logical date
        trigger_dag(dag_id, run_id=run_id, replace_microseconds=False)
    except DagRunAlreadyExists:
        return f"a backlog is left; {run_id} exists already"
    return f"a backlog is left; triggered {run_id}"


@dataclass(frozen=True)
class Filled:
    """`created`: run ids. `seen`: None where nobody could look, as while the scheduler works on this DAG."""

    created: tuple[str, ...] = ()
    seen: RunsSeen | None = None


def create_missing_runs(dag_id: str, due: Iterable[WindowKey], looked_ms: int, session: Session) -> Filled:
    """Scheduled runs for windows that are due (oldest first, as the ledger said after `looked_ms`, UTC ms) and that the
    schedule has gone past, few at a time.

    A window with a run of any state gets no other: what has failed is for people to look at and clear. None is made
    while the DAG is paused, and none from the schedule's front on: it comes there by itself. They run at once, whatever
    max_active_runs says: runs that wait for their windows may fill it for hours, and these are ready. So never more
    than MOST_AT_ONCE of them are on their way; the schedule makes no new runs meanwhile.
    """
    from airflow.models.dagbag import DagBag

    model = _locked(dag_id, session)
    if model is None or not model.is_active:
        return Filled()
    front = _front(model, session)
    behind = (key for key in due if front is None or key.start_ms < front)
    missing, ended, busy = _without_runs(dag_id, behind, looked_ms, session)
    seen = RunsSeen(model.is_paused, tuple(ended[:MOST_TOLD]))
    bag = DagBag(read_dags_from_db=True)
    dag = None if model.is_paused or not missing else bag.get_dag(dag_id, session=session)
    if dag is None:
        return Filled((), seen)
    room = max(0, MOST_AT_ONCE - busy)
    return Filled(tuple(_create(dag, key, bag.dags_hash.get(dag_id), session) for key in missing[:room]), seen)


def _locked(dag_id: str, session: Session) -> DagModel | None:
    """The scheduler makes runs under this lock: two would make one run twice. A frozen one holds it, so no waiting."""
    from airflow.models.dag import DagModel
    from airflow.utils.sqlalchemy import with_row_locks
    from sqlalchemy import select

    mine = select(DagModel).where(DagModel.dag_id == dag_id)
    return session.scalar(with_row_locks(mine, session, of=DagModel, skip_locked=True))


def _front(model: DagModel, session: Session) -> int | None:
    """Where the schedule is (UTC ms): its next run, or its latest where that is further, as after a backfill ahead."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.types import DagRunType
    from sqlalchemy import func, select

    from tidegate.orchestration.timetable import to_ms

    automated = DagRun.run_type.in_((DagRunType.SCHEDULED, DagRunType.BACKFILL_JOB))
    latest = session.scalar(select(func.max(DagRun.execution_date)).where(DagRun.dag_id == model.dag_id, automated))
    return max((to_ms(at) for at in (model.next_dagrun, latest) if at is not None), default=None)


def _without_runs(
    dag_id: str, due: Iterable[WindowKey], looked_ms: int, session: Session
) -> tuple[list[WindowKey], list[int], int]:
    """The first windows that have no run (MOST_AT_ONCE at most), the starts of those whose runs have all ended, and how
    many others have runs.
    """
    missing: list[WindowKey] = []
    ended: list[int] = []
    busy = 0
    windows = iter(due)
    while page := list(islice(windows, PAGE)):
        states = _states(dag_id, page, looked_ms, session)
        over = [key.start_ms for key in page if states.get(key.start_ms) == {_ENDED}]
        without = [key for key in page if key.start_ms not in states]
        busy += len(page) - len(over) - len(without)
        ended += over
        missing += without[: MOST_AT_ONCE - len(missing)]
    return missing, ended, busy


def _states(dag_id: str, page: Sequence[WindowKey], looked_ms: int, session: Session) -> dict[int, set[str]]:
    """By window what its runs are: ended before the ledger was looked at, or not."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import State
    from sqlalchemy import select

    from tidegate.orchestration.timetable import from_ms, to_ms

    first, end = from_ms(page[0].start_ms), from_ms(page[-1].end_ms)
    found = select(DagRun.execution_date, DagRun.data_interval_start, DagRun.state, DagRun.end_date).where(
        DagRun.dag_id == dag_id, DagRun.execution_date >= first, DagRun.execution_date < end
    )
    states: dict[int, set[str]] = {}
    for at, begin, state, ended in session.execute(found):
        over = state in State.finished_dr_states and (ended is None or to_ms(ended) < looked_ms)
        for start in {to_ms(at), to_ms(begin or at)}:  # a run by hand has a date of its own within the window
            states.setdefault(start, set()).add(_ENDED if over else _ON_ITS_WAY)
    return states


def _create(dag: DAG, key: WindowKey, dag_hash: str | None, session: Session) -> str:
    from airflow.timetables.base import DataInterval
    from airflow.utils import timezone
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType

    from tidegate.orchestration.timetable import from_ms

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
