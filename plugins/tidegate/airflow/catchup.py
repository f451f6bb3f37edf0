"""The task `catch_up`: one process publishes many ready windows, and each gets a run that has succeeded.

So the archive's grid, Clear and the schedule find the same as after a run of the window's own. The run is
made after the publication, under the lock that the scheduler makes runs under: a window that has a run by then keeps
it. When windows are left, the next maintenance run is triggered: it takes its turn by its logical date, behind other
pipelines that catch up too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowSkipException, DagNotFound
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XCom
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState

from tidegate.airflow import datasets, pools, weights
from tidegate.airflow import runs as runs_module
from tidegate.airflow.timetable import to_ms
from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval
from tidegate.core.base.wording import many, those
from tidegate.core.publish import catchup as rules
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.context import Context
    from sqlalchemy.orm import Session

    from tidegate.airflow.task import PipelineOperator
    from tidegate.workflow.base.context import Context as PipelineContext
    from tidegate.workflow.base.context import Published

CERTIFICATE = "certificate"


def carry_out(task: PipelineOperator, archive_dag_id: str, ctx: PipelineContext, context: Context) -> None:
    """Publish the windows that have no run. Raises AirflowSkipException without enough of them."""
    from tidegate.workflow.maintain import reconcile
    from tidegate.workflow.publish import catchup

    part, looked_ms = part_of(context), to_ms(timezone.utcnow())
    seen = reconcile.look(ctx)
    with create_session() as session:
        ready = runs_module.without_run(archive_dag_id, seen.due, looked_ms, session)
    made = Runs(task, archive_dag_id, ctx, context)
    if context["ti"].try_number > 1:
        made.complete(ctx, list(islice(reconcile.published_since(ctx, seen), rules.MOST)))
    if not rules.worth_it(ready, part, run_of(context)):
        raise AirflowSkipException("nothing to catch up with: few windows, or none, are ready and have no run")
    keys = rules.in_turn(ready, part)
    task.log.info(
        "catching up: %s ready without a run, %s of them have their turn", those(len(ready), "window"), f"{len(keys):,}"
    )
    tally = catchup.catch_up(ctx, keys, len(ready), made)
    owed, made.owed = made.owed, []
    made.complete(ctx, owed)
    if tally.remain and tally.published:
        left = [key for key in rules.in_turn(ready, part, len(ready)) if key.start_ms not in made.done]
        name = next((key for key in left if key.start_ms not in made.looked_at), left[0])
        task.log.info("%s left; %s", those(len(left), "window"), trigger(task.dag_id, name, part))


def part_of(context: Context) -> Interval | None:
    """The range that the run's conf asks for first. Raises AskedWrong."""
    return rules.asked_part(getattr(context["dag_run"], "conf", None))


def run_of(context: Context) -> str:
    return str(getattr(context["dag_run"], "run_id", ""))


def trigger(dag_id: str, left: WindowKey, part: Interval | None) -> str:
    """Trigger the maintenance run that goes on, named by the first window left: a Clear triggers no second one, nor
    does a run without progress. Returns what it did, in words."""
    try:
        return runs_module.trigger(dag_id, rules.next_run(left), rules.conf_of(part))
    except DagNotFound:
        return f"Airflow doesn't know {dag_id} now: its next run by its schedule goes on"


@dataclass
class _Dag:
    dag: Any
    dag_hash: str | None


class Runs:
    """Implements `workflow.publish.catchup.Runs`. Starts of windows: `looked_at` by this process, and `done`. `owed`:
    published windows without a run, because another process held the lock."""

    def __init__(self, task: PipelineOperator, archive_dag_id: str, ctx: PipelineContext, context: Context) -> None:
        self._task, self._ctx, self._ti = task, ctx, context["ti"]
        self._dag_id = archive_dag_id
        self._by = f"{self._ti.dag_id} {self._ti.run_id}"
        self._known: _Dag | None = None
        self._turn = pools.Turn(task.pool, weights.DELIVER)  # deliveries come between two catch-ups
        self._made = 0
        self.owed: list[WindowKey] = []
        self.looked_at: set[int] = set()
        self.done: set[int] = set()

    def free(self, key: WindowKey) -> bool:
        """Whether the window has no run yet: the schedule may have come to it meanwhile."""
        self._task.about = f"window {iso(key.start_ms)}"
        self.looked_at.add(key.start_ms)
        with create_session() as session:
            free = not runs_module.runs_of(self._dag_id, [key], session)
        if not free:
            self.done.add(key.start_ms)
        return free

    def published(self, key: WindowKey, certificate: Certificate, published: Published) -> None:
        """Make the run, then the event: a consumer can look at the run."""
        from tidegate.workflow.tell import announcements

        self.done.add(key.start_ms)
        what = "published" if published.new else "unchanged"
        line = f"{iso(key.start_ms)} {what}: generation {published.generation}, {many(published.rows, 'row')}"
        self._task.log.info("%s, %s", line, published.location)
        teller = self._finished(key, certificate, published.generation, line) or self._ti
        notice = announcements.notice(self._ctx, key, published.generation) if published.new else None
        if notice is not None:
            self._task.log.info(datasets.announce(self._ctx, notice, teller))

    def leave(self, key: WindowKey) -> bool:
        """Whether the window got an ordinary run; as many do as maintenance makes at once."""
        self.done.add(key.start_ms)
        if self._made >= runs_module.MOST_AT_ONCE:
            return False
        with runs_module.unless_held(self._dag_id) as (session, held):
            known = None if held else self._dag(session)
            if known is None or runs_module.runs_of(self._dag_id, [key], session):
                return False
            run_id = runs_module.create_run(known.dag, key, known.dag_hash, session)
        self._made += 1
        self._task.log.info("%s: created %s, which tries this window by itself", self._dag_id, run_id)
        return True

    def yields(self) -> bool:
        """Whether more urgent tasks wait for the pool."""
        return self._turn.over()

    def complete(self, ctx: PipelineContext, keys: Sequence[WindowKey]) -> None:
        """Make the runs of published windows that have none, because an earlier try ended in between."""
        from tidegate.workflow.publish import archive

        with create_session() as session:
            missing = runs_module.without_run(self._dag_id, keys, 0, session) if keys else []
        for key in missing:
            current = ctx.ledger.windows.get(ctx.name, key).current
            if current is not None:
                line = f"{iso(key.start_ms)} generation {current} was published, and had no run"
                self._task.log.info(line)
                self._finished(key, archive.ready(ctx, key), current, line)

    def _finished(self, key: WindowKey, certificate: Certificate, number: int, line: str) -> TaskInstance | None:
        """Make the window's finished run. Returns its publishing task; None where another run exists by now."""
        from tidegate.workflow.look import certificates

        shown = {
            "ready": certificates.readiness(self._ctx, certificate).plain,
            "publish": certificates.published(self._ctx, key, number),
        }
        with runs_module.unless_held(self._dag_id) as (session, held):
            known = None if held else self._dag(session)
            if known is None:
                self.owed.append(key)
                return None
            if runs_module.runs_of(self._dag_id, [key], session):
                return None
            note = f"published by {self._by}; its log: {line}"
            return finished_run(known, key, note, shown, session)

    def _dag(self, session: Session) -> _Dag | None:
        if self._known is None:
            bag = DagBag(read_dags_from_db=True)
            dag = bag.get_dag(self._dag_id, session=session)
            self._known = None if dag is None else _Dag(dag, bag.dags_hash.get(self._dag_id))
        return self._known


def finished_run(known: _Dag, key: WindowKey, note: str, shown: dict[str, Any], session: Session) -> TaskInstance:
    """Make the window's scheduled run as it would be after its tasks; `shown` are their certificates. The scheduler
    never sees it unfinished: one transaction makes and finishes it."""
    run_id = runs_module.create_run(known.dag, key, known.dag_hash, session)
    run = session.query(DagRun).filter_by(dag_id=known.dag.dag_id, run_id=run_id).one()
    now = timezone.utcnow()
    run.state, run.start_date, run.end_date = DagRunState.SUCCESS, now, now
    tis: Sequence[TaskInstance] = run.get_task_instances(session=session)
    for ti in tis:
        ti.state, ti.try_number = TaskInstanceState.SUCCESS, 1
        ti.queued_dttm = ti.start_date = ti.end_date = now
        ti.duration = 0.0
        if ti.task_id in shown:
            XCom.set(
                CERTIFICATE, shown[ti.task_id], dag_id=ti.dag_id, task_id=ti.task_id, run_id=run_id, session=session
            )
    runs_module.write_note(run.id, note, session, "published by ")
    session.flush()
    return next((ti for ti in tis if ti.task_id == "publish"), tis[0])
