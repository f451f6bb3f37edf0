"""What surrounds the literal `airflow dags backfill`, on Airflow's own tables."""

from __future__ import annotations

import shutil
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

from tidegate.orchestration import headroom, literal
from tidegate.orchestration.backfill import sweep

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
    monkeypatch.setattr(literal, "POLL_S", 0.01)
    with create_session() as session:
        for table in (TaskInstance, DagRun, Job):
            session.query(table).delete()
        session.query(Pool).filter(Pool.pool != "default_pool").delete()
        session.add(Pool(pool="tidegate_archive", slots=8, include_deferred=False))
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


def fill(dags: DagBag, first: int, last: int, work: Callable[[], None]) -> None:
    with literal.backfilling(dags.dags[ARCHIVE], at(first), at(last)):
        work()


@pytest.mark.parametrize(
    ("without", "expected"),
    [
        ((), [(0, 5)]),
        ((0,), [(1, 5)]),
        ((5,), [(0, 4)]),
        ((2, 3), [(0, 1), (4, 5)]),
        ((1, 3), [(0, 0), (2, 2), (4, 5)]),
        (range(6), []),
    ],
)
def test_the_range_is_cut_at_what_the_scheduler_works_on(without: tuple[int, ...], expected: list) -> None:
    dates = [at(n) for n in range(6)]
    found = list(literal.parts(dates, {at(n) for n in without}))
    assert found == [(at(first), at(last)) for first, last in expected]


def test_queued_runs_are_set_aside_and_neither_scheduled_nor_counted(session: Session, dags: DagBag) -> None:
    for n, state in enumerate(("queued", "success", "queued", "failed")):
        add_run(session, dags, n, state)
    add_run(session, dags, 9, "queued")
    found = literal.begin(dags.dags[ARCHIVE], at(0), at(3))
    assert found == literal.Range(tuple(at(n) for n in range(4)), ((at(0), at(3)),), ())
    kept = {1: ("scheduled", "success"), 3: ("scheduled", "failed"), 9: ("scheduled", "queued")}
    assert runs(session) == kept | {0: ("backfill", "failed"), 2: ("backfill", "failed")}
    assert DagRun.active_runs_of_dags([ARCHIVE], session=session) == {ARCHIVE: 1}
    add_job(session, 5)
    assert sweep([ARCHIVE], session) == []  # the backfill lives, and comes to them
    session.query(Job).update({"end_date": timezone.utcnow()})
    assert len(sweep([ARCHIVE], session)) == 2
    session.commit()
    assert runs(session) == kept | {0: ("scheduled", "queued"), 2: ("scheduled", "queued")}


def test_runs_of_the_scheduler_stay_its_own_and_are_waited_for(session: Session, dags: DagBag) -> None:
    other = add_run(session, dags, 1, "running")
    ended = threading.Timer(0.3, lambda: set_state(other.run_id, "success"))
    with literal.backfilling(dags.dags[ARCHIVE], at(0), at(2)) as found:
        assert found.parts == ((at(0), at(0)), (at(2), at(2)))
        finish(session, dags, 0, 2)
        ended.start()
    ended.join()
    assert runs(session) == dict.fromkeys(range(3), ("scheduled", "success"))


def set_state(run_id: str, state: str) -> None:
    with create_session() as session:
        session.query(DagRun).filter_by(run_id=run_id).one().state = DagRunState(state)


@pytest.mark.parametrize("paused", [False, True])
def test_a_run_of_the_scheduler_that_fails_is_told(session: Session, dags: DagBag, paused: bool) -> None:
    """One that is running in a paused DAG ends never: it isn't waited for."""
    add_run(session, dags, 1, "running" if paused else "failed")
    session.query(DagModel).update({"is_paused": paused})
    session.commit()
    with (
        pytest.raises(
            AirflowException, match=r"1 of 2 runs .* have not succeeded: 2024-10-27T01:15 \((failed|running)"
        ),
        literal.backfilling(dags.dags[ARCHIVE], at(0), at(1)),
    ):
        finish(session, dags, 0)


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
    found = literal.begin(dags.dags[ARCHIVE], at(0), at(1))
    died.join()
    assert found.parts == ((at(0), at(1)),)
    assert runs(session) == {0: ("scheduled", "failed")}
    assert {t.state for t in session.query(TaskInstance)} == {None}


def test_a_backfill_that_lives_is_left_its_runs(session: Session, dags: DagBag) -> None:
    add_run(session, dags, 0, "running", BACKFILL)
    job = add_job(session, 5)
    beats = threading.Timer(0.3, lambda: beat(job.id, 0))
    beats.start()
    literal.begin(dags.dags[ARCHIVE], at(0), at(1))
    beats.join()
    assert runs(session) == {0: ("backfill", "running")}


def beat(job_id: int, ago_s: float) -> None:
    with create_session() as session:
        session.query(Job).filter_by(id=job_id).update(
            {"latest_heartbeat": timezone.utcnow() - timedelta(seconds=ago_s)}
        )


def test_a_missing_pool_is_named_before_anything_begins(session: Session, dags: DagBag) -> None:
    session.query(Pool).filter_by(pool="tidegate_archive").delete()
    session.commit()
    with pytest.raises(AirflowException, match="no pool tidegate_archive.*\n.*tidegate doctor --fix"):
        literal.begin(dags.dags[ARCHIVE], at(0), at(1))


@pytest.mark.parametrize(
    ("max_active_runs", "slots", "expected"), [(16, 8, 4), (16, 1, 1), (2, 8, 1), (1, 1, 1), (16, -1, 8), (9, 64, 4)]
)
def test_a_backfill_takes_half(session: Session, dags: DagBag, max_active_runs: int, slots: int, expected: int) -> None:
    session.query(Pool).filter_by(pool="tidegate_archive").update({"slots": slots})
    assert headroom.most(max_active_runs, headroom.slots_of(["tidegate_archive"], session)) == expected


@pytest.mark.parametrize(
    ("own", "others", "may_begin"),
    [(0, 0, True), (3, 0, True), (4, 0, False), (2, 12, True), (3, 12, False), (0, 16, True), (1, 16, False)],
)
def test_room_for_the_schedule(session: Session, dags: DagBag, own: int, others: int, may_begin: bool) -> None:
    """Half of 16 runs and half of 8 slots: 4 at most, one run stays free, and one always goes on."""
    for n in range(own + others):
        add_run(session, dags, n, "running", BACKFILL if n < own else SCHEDULED)
    assert (literal.active_runs(dags.dags[ARCHIVE], 16, session) < 16) is may_begin
