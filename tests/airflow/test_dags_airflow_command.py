"""What surrounds the literal `airflow dags backfill`, on Airflow's own tables."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import airflow_home
import pendulum
import pytest
from airflow.exceptions import AirflowException
from airflow.jobs.job import Job
from airflow.models.dag import DagModel
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.timetables.base import DataInterval
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from sqlalchemy.orm import Session

from tidegate.airflow.backfill import airflow_command
from tidegate.airflow.backfill.stranded_runs import sweep

ARCHIVE, REPLAY = "tram_positions.archive", "tram_positions.replay"
FIRST = pendulum.datetime(2024, 10, 27, 1)
QUARTER = timedelta(minutes=15)
SCHEDULED, BACKFILL = DagRunType.SCHEDULED, DagRunType.BACKFILL_JOB


def at(quarter: int) -> datetime:
    return FIRST + QUARTER * quarter


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> DagBag:
    airflow_home.make_database()
    folder = tmp_path_factory.mktemp("pipelines")
    shutil.copy(airflow_home.CHECKOUT / "tests/fixtures/pipelines/tram_positions.yaml", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(folder))
        bag = DagBag(str(airflow_home.CHECKOUT / "dags/tidegate_pipelines.py"), include_examples=False)
    assert bag.import_errors == {}
    return bag


@pytest.fixture
def session(dags: DagBag, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(airflow_command, "POLL_S", 0.01)
    with create_session() as session:
        for table in (TaskInstance, DagRun, Job):
            session.query(table).delete()
        session.query(Pool).filter(Pool.pool != "default_pool").delete()
        session.add(Pool(pool="tidegate_archive", slots=8, include_deferred=False))
        session.add(Job(job_type="SchedulerJob", state="running", latest_heartbeat=timezone.utcnow()))
        dags.sync_to_db(session=session)
        for dag in dags.dags.values():
            SerializedDagModel.write_dag(dag, session=session)
        session.query(DagModel).update({"is_paused": False})
        session.commit()
        yield session


def add_run(session: Session, dags: DagBag, quarter: int, state: str, kind: DagRunType = SCHEDULED) -> DagRun:
    start = at(quarter)
    run = dags.dags[ARCHIVE].create_dagrun(
        run_type=kind,
        execution_date=start,
        data_interval=DataInterval(start, start + QUARTER),
        state=DagRunState.RUNNING,
        session=session,
    )
    run.state = DagRunState(state)
    if run.state == DagRunState.SUCCESS:
        session.query(TaskInstance).filter_by(dag_id=ARCHIVE, run_id=run.run_id).update({"state": "success"})
    session.commit()
    return run


def runs(session: Session) -> dict[int, tuple[str, str]]:
    session.expire_all()
    found = session.query(DagRun).filter_by(dag_id=ARCHIVE)
    return {round((run.execution_date - FIRST).total_seconds() / 900): (run.run_type, run.state) for run in found}


def add_job(session: Session, beat_ago_s: float) -> Job:
    beat = timezone.utcnow() - timedelta(seconds=beat_ago_s)
    job = Job(job_type="BackfillJob", state="running", latest_heartbeat=beat)
    job.end_date = None
    session.add(job)
    session.commit()
    return job


def finish(session: Session, dags: DagBag, *quarters: int) -> None:
    """As Airflow's backfill does."""
    for quarter in quarters:
        run = session.query(DagRun).filter_by(dag_id=ARCHIVE, execution_date=at(quarter)).one_or_none()
        run = run or add_run(session, dags, quarter, "running", BACKFILL)
        run.state = DagRunState.SUCCESS
    session.commit()


def begin(dags: DagBag, first: int, last: int) -> None:
    dates = [at(n) for n in range(first, last + 1)]
    airflow_command.begin(airflow_command.Range(dags.dags[ARCHIVE], dates))


def fill(dags: DagBag, first: int, last: int, work: Callable[[], None]) -> None:
    with airflow_command.backfilling(dags.dags[ARCHIVE], at(first), at(last)):
        work()


@pytest.mark.parametrize(
    ("busy", "room", "backwards", "expected"),
    [
        ((), 9, False, (0, 5)),
        ((), 2, False, (0, 1)),
        ((), 2, True, (4, 5)),
        ((2, 3), 9, False, (0, 1)),
        ((2, 3), 9, True, (4, 5)),
        ((1,), 9, False, (0, 0)),
        ((4,), 9, True, (5, 5)),
        ((0, 5), 9, False, (1, 4)),
    ],
)
def test_a_part_has_none_of_the_schedulers_runs_in_it(
    busy: tuple[int, ...], room: int, backwards: bool, expected: tuple[int, int]
) -> None:
    todo = [at(n) for n in range(6) if n not in busy]
    found = airflow_command.next_part(todo, {at(n) for n in busy}, room, backwards)
    assert (found[0], found[-1]) == (at(expected[0]), at(expected[1]))
    assert not {at(n) for n in busy} & set(found)


def parts(dags: DagBag, first: int, last: int, work: Callable[[int, int], None], backwards: bool = False) -> list:
    """What is done, by quarters; `work` does it."""
    done = []
    with airflow_command.backfilling(dags.dags[ARCHIVE], at(first), at(last)) as found:
        for begin, end in found.parts(backwards):
            done.append(((begin - FIRST).total_seconds() // 900, (end - FIRST).total_seconds() // 900))
            work(*map(int, done[-1]))
    return done


@pytest.mark.parametrize("backwards", [False, True])
def test_part_by_part_without_what_has_succeeded(session: Session, dags: DagBag, backwards: bool) -> None:
    """8 slots: 4 runs at a time."""
    for n in (0, 1, 5):
        add_run(session, dags, n, "success")

    def work(first: int, last: int) -> None:
        finish(session, dags, *range(first, last + 1))

    found = parts(dags, 0, 9, work, backwards)
    assert found == ([(6, 9), (2, 4)] if backwards else [(2, 6), (7, 9)])
    assert runs(session) == dict.fromkeys(range(10), ("scheduled", "success"))


def test_a_task_that_was_cleared_without_its_run_runs_again(session: Session, dags: DagBag) -> None:
    for n in range(3):
        add_run(session, dags, n, "success")
    run_id = session.query(DagRun.run_id).filter_by(dag_id=ARCHIVE, execution_date=at(1)).scalar()
    session.query(TaskInstance).filter_by(run_id=run_id, task_id="publish").update({"state": None})
    session.commit()
    assert parts(dags, 0, 2, lambda first, last: None) == [(1, 1)]


def test_what_the_scheduler_begins_meanwhile_is_left_to_it(session: Session, dags: DagBag) -> None:
    """It comes to quarter 4 while the first part is done, and ends it later."""
    ended: list[threading.Timer] = []

    def work(first: int, last: int) -> None:
        finish(session, dags, *range(first, last + 1))
        if first == 0:
            other = add_run(session, dags, 4, "running")
            ended.append(threading.Timer(0.3, set_state, (other.run_id, "success")))
            ended[0].start()

    assert parts(dags, 0, 6, work) == [(0, 3), (5, 6)]
    ended[0].join()
    assert runs(session) == dict.fromkeys(range(7), ("scheduled", "success"))


def test_after_ctrl_c_no_further_part_is_begun(session: Session, dags: DagBag) -> None:
    """Airflow's backfill ends after it as if all were well."""

    def work(first: int, last: int) -> None:
        finish(session, dags, *range(first, last + 1))
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(AirflowException, match="6 of 10 runs"):
        parts(dags, 0, 9, work)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_first_ctrl_c_of_a_terminal_is_not_for_the_executors_workers(session: Session, dags: DagBag) -> None:
    """They are forks, and would leave their tasks."""

    def work(first: int, last: int) -> None:
        pid = os.fork()
        if pid == 0:
            code = 9
            try:
                signal.raise_signal(signal.SIGINT)
                code = 1
                signal.raise_signal(signal.SIGINT)
                code = 2
            except KeyboardInterrupt:
                os._exit(code)
            os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
        finish(session, dags, *range(first, last + 1))

    assert parts(dags, 0, 5, work) == [(0, 3), (4, 5)]


def test_queued_runs_are_set_aside_and_neither_scheduled_nor_counted(session: Session, dags: DagBag) -> None:
    for n, state in enumerate(("queued", "success", "queued", "failed")):
        add_run(session, dags, n, state)
    add_run(session, dags, 9, "queued")
    begin(dags, 0, 3)
    kept = {1: ("scheduled", "success"), 3: ("scheduled", "failed"), 9: ("scheduled", "queued")}
    assert runs(session) == kept | {0: ("backfill", "failed"), 2: ("backfill", "failed")}
    assert DagRun.active_runs_of_dags([ARCHIVE], session=session) == {ARCHIVE: 1}
    add_job(session, 5)
    assert sweep([ARCHIVE], session) == []  # the backfill lives, and comes to them
    session.query(Job).update({"end_date": timezone.utcnow()})
    assert sweep([ARCHIVE], session) == []  # there is no job yet, or its next part has none yet
    session.query(DagRun).update({"updated_at": timezone.utcnow() - timedelta(minutes=3)})
    assert len(sweep([ARCHIVE], session)) == 2
    session.commit()
    assert runs(session) == kept | {0: ("scheduled", "queued"), 2: ("scheduled", "queued")}


def test_the_schedule_can_make_no_run_of_a_part_that_begins(session: Session, dags: DagBag) -> None:
    """8 slots: 4 runs at a time."""
    seen: list[dict[int, tuple[str, str]]] = []

    def work(first: int, last: int) -> None:
        seen.append(runs(session))
        finish(session, dags, *range(first, last + 1))

    parts(dags, 0, 5, work)
    aside, over = ("backfill", "failed"), ("scheduled", "success")
    assert seen[0] == dict.fromkeys(range(4), aside)
    assert {n: seen[1][n] for n in (4, 5)} == {4: aside, 5: aside}
    assert runs(session) == dict.fromkeys(range(6), over)
    [interval] = {run.data_interval_end - run.data_interval_start for run in session.query(DagRun)}
    assert interval == QUARTER


def test_what_the_schedule_begins_in_the_last_moment_is_left_to_it(
    session: Session, dags: DagBag, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = airflow_command.held_runs.take

    def begun(dag_id: str, first: datetime, last: datetime, own: Session) -> int:
        if first == at(0) and 2 not in runs(session):
            add_run(session, dags, 2, "running")
        return take(dag_id, first, last, own)

    def work(first: int, last: int) -> None:
        finish(session, dags, *range(first, last + 1), 2)

    monkeypatch.setattr(airflow_command.held_runs, "make_missing", lambda *_: set())
    monkeypatch.setattr(airflow_command.held_runs, "take", begun)
    assert parts(dags, 0, 3, work) == [(0, 1), (3, 3)]


def test_nothing_is_left_of_what_it_made_and_did_not_begin(session: Session, dags: DagBag) -> None:
    """Ctrl-C: what it had taken is queued again, what was not there is not there."""
    add_run(session, dags, 1, "queued")

    def work(first: int, last: int) -> None:
        finish(session, dags, 0)
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(AirflowException, match="5 of 6 runs"):
        parts(dags, 0, 5, work)
    assert runs(session) == {0: ("scheduled", "success"), 1: ("scheduled", "queued")}


def test_a_run_of_a_part_of_the_tasks_has_not_succeeded_as_a_whole(session: Session, dags: DagBag) -> None:
    """`-t ready` makes a run without `publish`, which succeeds."""
    for n in (0, 1):
        add_run(session, dags, n, "success")
    session.query(TaskInstance).filter_by(run_id=f"scheduled__{at(1).isoformat()}", task_id="publish").delete()
    session.commit()
    done: list[tuple[int, int]] = []

    def work(first: int, last: int) -> None:
        done.append((first, last))

    parts(dags, 0, 1, work)
    assert done == [(1, 1)]


def set_state(run_id: str, state: str) -> None:
    with create_session() as session:
        session.query(DagRun).filter_by(run_id=run_id).one().state = DagRunState(state)


@pytest.mark.parametrize("around", ["", "paused", "no scheduler"])
def test_a_run_of_the_scheduler_that_fails_is_told(session: Session, dags: DagBag, around: str) -> None:
    """One that is running in a paused DAG, or where no scheduler is, never ends: it isn't waited for."""
    add_run(session, dags, 1, "running" if around else "failed")
    session.query(DagModel).update({"is_paused": around == "paused"})
    if around == "no scheduler":
        session.query(Job).update({"latest_heartbeat": timezone.utcnow() - timedelta(minutes=10)})
    session.commit()
    told = r"1 of 2 runs .* have not succeeded: 2024-10-27T01:15 \((failed|running)"
    with pytest.raises(AirflowException, match=told):
        parts(dags, 0, 1, lambda first, last: finish(session, dags, 0))


def test_a_range_that_was_not_finished_is_told_although_airflow_says_nothing(session: Session, dags: DagBag) -> None:
    """With --continue-on-failures, and after Ctrl-C, Airflow's own exit code is 0."""

    def work() -> None:
        finish(session, dags, 0)
        add_run(session, dags, 1, "failed", BACKFILL)

    with pytest.raises(AirflowException, match=r"2 of 3 runs .*: 2024-10-27T01:15 \(failed\), 2024-10-27T01:30 \(no r"):
        fill(dags, 0, 2, work)
    assert {kind for kind, _ in runs(session).values()} == {"scheduled"}


def test_after_a_second_ctrl_c_too_no_run_is_left_as_a_backfill_run(session: Session, dags: DagBag) -> None:
    def work() -> None:
        add_run(session, dags, 0, "running", BACKFILL)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(dags, 0, 2, work)
    assert runs(session) == {0: ("scheduled", "failed")}


def test_what_a_killed_backfill_left_is_gone_on_with(session: Session, dags: DagBag) -> None:
    """Not before its heart has not beaten for a while."""
    add_run(session, dags, 0, "running", BACKFILL)
    task = session.query(TaskInstance).filter_by(dag_id=ARCHIVE, task_id="ready").one()
    task.state = "running"
    job = add_job(session, 5)
    died = threading.Timer(0.3, lambda: beat(job.id, 600))
    died.start()
    begin(dags, 0, 1)
    died.join()
    assert runs(session) == {0: ("scheduled", "failed")}
    assert {t.state for t in session.query(TaskInstance)} == {None}


def test_a_backfill_that_lives_is_left_its_runs(session: Session, dags: DagBag) -> None:
    add_run(session, dags, 0, "running", BACKFILL)
    job = add_job(session, 5)
    beats = threading.Timer(0.3, lambda: beat(job.id, 0))
    beats.start()
    begin(dags, 0, 1)
    beats.join()
    assert runs(session) == {0: ("backfill", "running")}


def beat(job_id: int, ago_s: float) -> None:
    with create_session() as session:
        session.query(Job).filter_by(id=job_id).update(
            {"latest_heartbeat": timezone.utcnow() - timedelta(seconds=ago_s)}
        )
