"""`airflow dags backfill`, the literal command, as people expect it. It works on the DAG object, so `PipelineDag.run`
comes here before and after Airflow's own work:

- what a killed backfill left in the range is settled first: Airflow would call it a deadlock;
- runs that the scheduler is working on stay the scheduler's, and are waited for: Airflow would do nothing at all for
  the whole range, and exit with 0;
- queued runs (`--reset-dagruns`) are set aside at once: the scheduler would start them beside the backfill, and as
  long as they are queued the schedule makes no new ones;
- it takes at most `headroom.most` runs at a time, so that the schedule finds room;
- afterwards no run is left as type backfill, and the exit code is not 0 unless every run of the range succeeded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.orchestration import headroom
from tidegate.orchestration.backfill import live_backfills, sweep

if TYPE_CHECKING:
    from airflow.models.dag import DAG
    from sqlalchemy.orm import Session
    from sqlalchemy.sql import Select

POLL_S, SAY_S = 1.0, 30.0
NAMED = 5
Part = tuple[datetime, datetime]


@dataclass(frozen=True)
class Range:
    """`dates`: the logical dates that the command means; `parts`: what of it the backfill does, oldest first, from and
    to, both inclusive; `others`: runs (ids) that the scheduler has begun."""

    dates: tuple[datetime, ...]
    parts: tuple[Part, ...]
    others: tuple[str, ...]


@contextmanager
def backfilling(dag: DAG, first: datetime, last: datetime) -> Iterator[Range]:
    """The range `first` to `last` (inclusive), with everything settled before and after the caller's work on its parts.

    Raises AirflowException if a run of the range has not succeeded in the end, or a pool is missing."""
    from airflow.exceptions import AirflowException
    from airflow.utils.session import create_session

    try:
        found = begin(dag, first, last)
        yield found
        wait(dag, found)
    finally:  # after Ctrl-C too
        with create_session() as session:
            for line in sweep([dag.dag_id], session):
                dag.log.info(line)
    with create_session() as session:
        left = _left(dag.dag_id, found.dates, session)
    if left:
        named = ", ".join(f"{at:%Y-%m-%dT%H:%M} ({state})" for at, state in left[:NAMED])
        more = ", ..." if len(left) > NAMED else ""
        number = f"{len(left):,} of {len(found.dates):,} runs of {dag.dag_id} in this range"
        raise AirflowException(
            f"{number} have not succeeded: {named}{more}\n"
            "  what to do: look at the log of a failed task and mend what it says; then run the same command with "
            "--rerun-failed-tasks, or clear these runs"
        )


def begin(dag: DAG, first: datetime, last: datetime) -> Range:
    """Settle what others left in the range, set aside what is queued. Raises AirflowException for a missing pool."""
    from airflow.exceptions import AirflowException
    from airflow.utils.session import create_session

    dates = tuple(info.logical_date for info in dag.iter_dagrun_infos_between(first, last))
    with create_session() as session:
        try:
            headroom.slots_of({task.pool for task in dag.tasks}, session)
        except LookupError as e:
            raise AirflowException(
                f"{dag.dag_id}: there is no pool {e}: its tasks would wait for ever\n"
                "  what to do: tidegate doctor --fix, or in the UI under Admin, Pools"
            ) from None
    _settle_leftovers(dag, first, last)
    with create_session() as session:
        aside = _set_aside(dag.dag_id, first, last, session)
        others = dict(session.execute(_runs(dag.dag_id, first, last, "running", False)).all())
        done = sum(state == "success" for _, state in _states(dag.dag_id, dates, session))
    if aside:
        dag.log.info("%s: %s queued runs of the range are this backfill's now", dag.dag_id, f"{aside:,}")
    if done:
        text = "%s: %s of %s runs of the range have succeeded already and stay as they are; --reset-dagruns runs all"
        dag.log.info(text, dag.dag_id, f"{done:,}", f"{len(dates):,}")
    if others:
        text = "%s: the scheduler is working on %s runs of the range, which are left to it and waited for: %s"
        dag.log.info(text, dag.dag_id, len(others), ", ".join(sorted(others)[:NAMED]))
    return Range(dates, tuple(parts(dates, set(others.values()))), tuple(others))


def parts(dates: Iterable[datetime], without: set[datetime]) -> Iterator[Part]:
    """Dates that follow each other with none of `without` between them, as first and last."""
    first = last = None
    for date in dates:
        if date not in without:
            first, last = first or date, date
        elif first is not None and last is not None:
            yield first, last
            first = None
    if first is not None and last is not None:
        yield first, last


def wait(dag: DAG, found: Range) -> None:
    """Until the scheduler has ended what it had begun. At once for a paused DAG: nothing would end."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    def unfinished() -> str:
        with create_session() as session:
            states = _by_id(dag.dag_id, found.others, session)
            model = DagModel.get_dagmodel(dag.dag_id, session=session)
            if model is None or model.is_paused:
                return ""
        left = [run_id for run_id, state in states.items() if state in ("queued", "running")]
        return f"{len(left)} runs that the scheduler works on: {', '.join(sorted(left)[:NAMED])}" if left else ""

    _until_nothing(dag, unfinished)


def active_runs(dag: DAG, max_active_runs: int, session: Session) -> int:
    """What Airflow's backfill compares with max_active_runs before it begins another run: as many as its own runs, and
    what `headroom.room` denies it."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType
    from sqlalchemy import func, select

    active = (DagRun.dag_id == dag.dag_id, DagRun.state.in_((DagRunState.RUNNING, DagRunState.QUEUED)))
    kinds = dict(session.execute(select(DagRun.run_type, func.count()).where(*active).group_by(DagRun.run_type)).all())
    own = kinds.pop(DagRunType.BACKFILL_JOB, 0)
    limit = headroom.most(max_active_runs, headroom.slots_of({task.pool for task in dag.tasks}, session))
    return own + max_active_runs - headroom.room(limit, max_active_runs, sum(kinds.values()))


def _settle_leftovers(dag: DAG, first: datetime, last: datetime) -> None:
    """Until no unfinished backfill run is in the range, or a backfill lives: its heart is seen to beat."""
    from airflow.utils.session import create_session

    known: dict[int, datetime] = {}

    def left() -> str:
        with create_session() as session:
            for line in sweep([dag.dag_id], session):
                dag.log.info(line)
            runs = session.execute(_runs(dag.dag_id, first, last, "running", True)).all()
            beats = live_backfills(session)
        if not runs:
            return ""
        for job_id, beat in beats.items():
            if known.setdefault(job_id, beat) != beat:
                dag.log.warning("%s: another backfill is at work; %s runs may be its", dag.dag_id, len(runs))
                return ""
        return (
            f"{len(runs)} runs of a backfill that was killed: its tasks end first, or two minutes pass without a beat"
        )

    _until_nothing(dag, left)


def _until_nothing(dag: DAG, look: Callable[[], str]) -> None:
    said = -SAY_S
    while text := look():
        if time.monotonic() - said >= SAY_S:
            dag.log.info("%s: waiting for %s", dag.dag_id, text)
            said = time.monotonic()
        time.sleep(POLL_S)


def _set_aside(dag_id: str, first: datetime, last: datetime, session: Session) -> int:
    """Queued runs of the schedule become failed ones of type backfill without an end, which neither the scheduler nor
    max_active_runs looks at; the backfill begins each when it comes to it, and `sweep` queues the rest again."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType
    from sqlalchemy import update

    mine = (DagRun.dag_id == dag_id, DagRun.execution_date >= first, DagRun.execution_date <= last)
    change = (
        update(DagRun)
        .where(*mine, DagRun.state == DagRunState.QUEUED, DagRun.run_type == DagRunType.SCHEDULED)
        .values(state=DagRunState.FAILED, run_type=DagRunType.BACKFILL_JOB, end_date=None)
    )
    return session.execute(change.execution_options(synchronize_session=False)).rowcount


def _runs(dag_id: str, first: datetime, last: datetime, state: str, of_backfills: bool) -> Select[Any]:
    """Run ids and logical dates."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.types import DagRunType
    from sqlalchemy import select

    backfill = DagRun.run_type == DagRunType.BACKFILL_JOB
    return select(DagRun.run_id, DagRun.execution_date).where(
        DagRun.dag_id == dag_id,
        DagRun.execution_date >= first,
        DagRun.execution_date <= last,
        DagRun.state == state,
        backfill if of_backfills else ~backfill,
    )


def _states(dag_id: str, dates: tuple[datetime, ...], session: Session) -> list[tuple[datetime, str]]:
    """Of each date; `no run` where there is none."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    if not dates:
        return []
    mine = (DagRun.dag_id == dag_id, DagRun.execution_date >= dates[0], DagRun.execution_date <= dates[-1])
    found = dict(session.execute(select(DagRun.execution_date, DagRun.state).where(*mine)).all())
    return [(date, str(found.get(date, "no run"))) for date in dates]


def _left(dag_id: str, dates: tuple[datetime, ...], session: Session) -> list[tuple[datetime, str]]:
    return [(date, state) for date, state in _states(dag_id, dates, session) if state != "success"]


def _by_id(dag_id: str, run_ids: tuple[str, ...], session: Session) -> dict[str, str]:
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    mine = select(DagRun.run_id, DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id.in_(run_ids))
    return dict(session.execute(mine).all())
