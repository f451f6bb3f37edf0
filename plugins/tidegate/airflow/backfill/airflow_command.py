"""`airflow dags backfill` as people expect it. The command works on the DAG object, so `PipelineDag.run` comes here
before and after Airflow's own work:

- what a killed backfill left in the range is settled first: Airflow would call it a deadlock;
- runs that the scheduler is working on stay the scheduler's, and are waited for: Airflow would do nothing at all for
  the whole range, and exit with 0;
- queued runs (`--reset-dagruns`) are set aside at once: the scheduler would start them beside the backfill, and as
  long as they are queued the schedule makes no new ones; a part's missing runs are made before it begins (`aside`);
- it takes at most `headroom.most` runs at a time, so that the schedule finds room: Airflow's own work is asked for part
  by part;
- its tasks do not schedule what follows them, as they do beside a scheduler: they and the backfill, which does so
  itself, would meet in the database, in the order in which PostgreSQL has to end one of both;
- afterwards no run is left as type backfill, and the exit code is not 0 unless every run of the range succeeded.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import FrameType
from typing import Any

from airflow.exceptions import AirflowException
from airflow.jobs.backfill_job_runner import BackfillJobRunner
from airflow.jobs.job import Job
from airflow.models.dag import DAG, DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.types import DagRunType
from sqlalchemy import and_, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from sqlalchemy.sql import Select

from tidegate.airflow.backfill import headroom, held_runs
from tidegate.airflow.backfill.stranded_runs import live_backfills, sweep
from tidegate.core.base.wording import first_line, many

POLL_S, SAY_S = 1.0, 30.0
NAMED = 5
SCHEDULER_GONE = timedelta(minutes=5)
"""A scheduler without a heartbeat for so long does not come back by itself."""
Part = tuple[datetime, datetime]
_FOLLOW_ON = "AIRFLOW__SCHEDULER__SCHEDULE_AFTER_TASK_EXECUTION"


class Range:
    """The windows of the command. `others`: ids of its runs that the scheduler has begun; `made`: ids of runs made
    for it ahead of its work."""

    def __init__(self, dag: DAG, dates: Sequence[datetime]) -> None:
        """`dates`: logical dates, oldest first."""
        self.dag, self.dates = dag, tuple(dates)
        self.others: set[str] = set()
        self.made: set[str] = set()
        self.interrupted = False

    def parts(self, backwards: bool = False) -> Iterator[Part]:
        """The next parts to work on, from and to (both included), until all is done or Ctrl-C came. A part leaves
        room for the schedule, and has no run that has succeeded or that the scheduler works on."""
        with create_session() as session:
            done = _whole(self.dag, self.dates, session)
        todo = [date for date in self.dates if date not in done]
        if done:
            text = (
                "%s: %s of %s runs of the range have succeeded already and stay as they are; --reset-dagruns runs all"
            )
            self.dag.log.info(text, self.dag.dag_id, f"{len(done):,}", f"{len(self.dates):,}")
        while todo and not self.interrupted:
            with create_session() as session:
                busy = self._leave_to_the_scheduler(session)
                todo = [date for date in todo if date not in busy]
                part = next_part(todo, busy, self._room(session), backwards)
                if part:
                    self.made |= held_runs.make_missing(self.dag, part, session)
                    held_runs.take(self.dag.dag_id, part[0], part[-1], session)
                    if self._leave_to_the_scheduler(session) & set(part):  # begun since the last look
                        part = []
            if part:
                yield part[0], part[-1]
                todo = [date for date in todo if date not in part]

    def _leave_to_the_scheduler(self, session: Session) -> set[datetime]:
        found = session.execute(_runs(self.dag.dag_id, self.dates[0], self.dates[-1], "running", False)).all()
        fresh = sorted({run_id for run_id, _ in found} - self.others)
        if fresh:
            text = "%s: the scheduler is working on %s runs of the range, which are left to it and waited for: %s"
            self.dag.log.info(text, self.dag.dag_id, len(fresh), ", ".join(fresh[:NAMED]))
        self.others |= set(fresh)
        return {date for _, date in found}

    def _room(self, session: Session) -> int:
        most = self.dag.max_active_runs
        limit = headroom.most(most, _slots(self.dag, session))
        active = DagRun.active_runs_of_dags([self.dag.dag_id], session=session).get(self.dag.dag_id, 0)
        return headroom.room(limit, most, active)


@contextmanager
def backfilling(dag: DAG, first: datetime, last: datetime) -> Iterator[Range]:
    """The range `first` to `last` (inclusive), with everything settled before and after the caller's work on its parts.

    Raises AirflowException if a run of the range has not succeeded in the end, or a pool is missing."""
    found = Range(dag, [info.logical_date for info in dag.iter_dagrun_infos_between(first, last)])
    try:
        with _signals(found), _alone_in_its_runs():
            begin(found)
            yield found
            wait(found)
    finally:  # after Ctrl-C too
        with create_session() as session:
            held_runs.give_back(dag.dag_id, found.dates, found.made, session)
            for line in sweep([dag.dag_id], session):
                dag.log.info(line)
    with create_session() as session:
        left = [(at, state) for at, state in _states(dag.dag_id, found.dates, session) if state != "success"]
    if left:
        named = ", ".join(f"{at:%Y-%m-%dT%H:%M} ({state})" for at, state in left[:NAMED])
        more = ", ..." if len(left) > NAMED else ""
        number = f"{len(left):,} of {len(found.dates):,} runs of {dag.dag_id} in this range"
        raise AirflowException(
            f"{number} have not succeeded: {named}{more}\n"
            "  what to do: look at the log of a failed task and fix its cause; then run the same command with "
            "--rerun-failed-tasks, or clear these runs"
        )


def begin(found: Range) -> None:
    """Settle what others left in the range, set aside what is queued. Raises AirflowException for a missing pool."""
    dag, dates = found.dag, found.dates
    with create_session() as session:
        _slots(dag, session)
    if not dates:
        raise AirflowException(
            f"{dag.dag_id}: no window begins in this range (both ends are included)\n"
            "  what to do: name the starts of windows, none of them before windows.start"
        )
    _settle_leftovers(dag, dates[0], dates[-1])
    with create_session() as session:
        taken = held_runs.take(dag.dag_id, dates[0], dates[-1], session)
    if taken:
        dag.log.info("%s: %s queued runs of the range are this backfill's now", dag.dag_id, f"{taken:,}")


def _slots(dag: DAG, session: Session) -> int:
    try:
        return headroom.slots_of({task.pool for task in dag.tasks}, session)
    except LookupError as e:
        raise AirflowException(
            f"{dag.dag_id}: there is no pool {e.args[0]}: its tasks would wait forever\n"
            "  what to do: tidegate doctor --fix, or in the UI under Admin, Pools"
        ) from None


def next_part(todo: Sequence[datetime], busy: Container[datetime], room: int, backwards: bool) -> list[datetime]:
    """The first `room` dates of `todo` (the last ones, backwards) with none of `busy` between them, in order."""
    if not todo:
        return []
    taken = list(todo[-room:] if backwards else todo[:room])
    for n in range(1, len(taken)):
        cut = -n if backwards else n
        before, after = taken[cut - 1], taken[cut]
        if any(before < date < after for date in busy):
            return taken[cut:] if backwards else taken[:cut]
    return taken


@contextmanager
def _signals(found: Range) -> Iterator[None]:
    """Note Ctrl-C and SIGTERM, which Airflow's backfill answers by ending as if all were well.

    A terminal sends Ctrl-C to the executor's workers too, which are forks of this process: the first one is not for
    them. They would die of it, and Airflow's backfill would wait for them forever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # a command in the background of a shell ignores Ctrl-C, and goes on doing so
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    old = {number: handler for number, handler in handlers.items() if callable(handler)}

    owner = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        first, found.interrupted = not found.interrupted, True
        if number == signal.SIGTERM or os.getpid() == owner or not first:
            old[signal.Signals(number)](number, frame)

    for number in old:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextmanager
def _alone_in_its_runs() -> Iterator[None]:
    """Keep task processes from scheduling what follows them: they lock the run, then a task; Airflow's backfill locks a
    task, then the run. Where they still meet, as with tasks on other hosts, Airflow makes its change again: a line in
    the log, and no stack trace."""
    before, log = os.environ.get(_FOLLOW_ON), BackfillJobRunner.logger()
    os.environ[_FOLLOW_ON] = "False"  # the executor's processes are ours, and have our environment
    log.addFilter(_in_a_line)
    try:
        yield
    finally:
        log.removeFilter(_in_a_line)
        os.environ.pop(_FOLLOW_ON)
        if before is not None:
            os.environ[_FOLLOW_ON] = before


def _in_a_line(record: logging.LogRecord) -> bool:
    """Filter of a logger: one line instead of a stack trace for a lost lock."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, OperationalError) and str(record.msg).startswith("Failed to commit task state"):
        record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
        why = first_line(error) or "no reason given"
        record.msg, record.args = "the database did not take a change of a task's state, it is made again: %s", (why,)
    return True


def wait(found: Range) -> None:
    """Wait until the scheduler has ended the runs that it had begun. Returns at once for a paused DAG, without a
    scheduler, and after Ctrl-C."""
    dag_id = found.dag.dag_id
    active = (DagRun.dag_id == dag_id, DagRun.run_id.in_(found.others), DagRun.state.in_(("queued", "running")))

    def unfinished() -> str:
        with create_session() as session:
            left = sorted(session.scalars(select(DagRun.run_id).where(*active)))
            model = DagModel.get_dagmodel(dag_id, session=session)
            nobody = model is None or model.is_paused or not _scheduler_alive(session)
        if not left or nobody or found.interrupted:
            return ""
        return f"{many(len(left), 'run')} that the scheduler works on: {', '.join(left[:NAMED])}"

    _until_nothing(found.dag, unfinished)


def _scheduler_alive(session: Session) -> bool:
    """Whether a scheduler lives, or may be restarting."""
    recent = Job.latest_heartbeat > timezone.utcnow() - SCHEDULER_GONE
    return bool(session.scalar(select(func.count()).select_from(Job).where(Job.job_type == "SchedulerJob", recent)))


def _settle_leftovers(dag: DAG, first: datetime, last: datetime) -> None:
    """Wait until no unfinished backfill run is in the range, or a backfill is seen to be alive."""
    known: dict[int, datetime] = {}

    def left() -> str:
        with create_session() as session:
            for line in sweep([dag.dag_id], session):
                dag.log.info(line)
            runs = session.execute(_runs(dag.dag_id, first, last, "running", True)).all()
            beats = live_backfills(dag.dag_id, session)
        if not runs:
            return ""
        for job_id, beat in beats.items():
            if known.setdefault(job_id, beat) != beat:
                dag.log.warning("%s: another backfill is at work; %s runs may be its", dag.dag_id, len(runs))
                return ""
        return (
            f"{many(len(runs), 'run')} of a backfill that was killed: its tasks end first, "
            "or two minutes pass without a beat"
        )

    _until_nothing(dag, left)


def _until_nothing(dag: DAG, look: Callable[[], str]) -> None:
    said = -SAY_S
    while text := look():
        if time.monotonic() - said >= SAY_S:
            dag.log.info("%s: waiting for %s", dag.dag_id, text)
            said = time.monotonic()
        time.sleep(POLL_S)


def _runs(dag_id: str, first: datetime, last: datetime, state: str, of_backfills: bool) -> Select[Any]:
    """Select run ids and logical dates."""
    backfill = DagRun.run_type == DagRunType.BACKFILL_JOB
    return select(DagRun.run_id, DagRun.execution_date).where(
        DagRun.dag_id == dag_id,
        DagRun.execution_date >= first,
        DagRun.execution_date <= last,
        DagRun.state == state,
        backfill if of_backfills else ~backfill,
    )


def _whole(dag: DAG, dates: tuple[datetime, ...], session: Session) -> set[datetime]:
    """Dates whose runs have succeeded with all of the DAG's tasks: none cleared since, failed before the run was
    marked, or left out, as by `-t ready`."""
    mine = and_(TaskInstance.dag_id == DagRun.dag_id, TaskInstance.run_id == DagRun.run_id)
    done = TaskInstance.state.in_(("success", "skipped", "removed")), TaskInstance.task_id.in_(dag.task_ids)
    within = (DagRun.dag_id == dag.dag_id, DagRun.execution_date >= dates[0], DagRun.execution_date <= dates[-1])
    found = select(DagRun.execution_date).join(TaskInstance, mine).where(*within, DagRun.state == "success", *done)
    every = found.group_by(DagRun.execution_date).having(func.count() == len(dag.task_ids))
    return set(session.scalars(every)) & set(dates)


def _states(dag_id: str, dates: tuple[datetime, ...], session: Session) -> list[tuple[datetime, str]]:
    """State of each date's run; `no run` without one."""
    if not dates:
        return []
    mine = (DagRun.dag_id == dag_id, DagRun.execution_date >= dates[0], DagRun.execution_date <= dates[-1])
    found = dict(session.execute(select(DagRun.execution_date, DagRun.state).where(*mine)).all())
    return [(date, str(found.get(date, "no run"))) for date in dates]
