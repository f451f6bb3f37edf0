"""The tasks between Airflow and the workflow: outcomes, errors, windows, events. The workflow itself is a stub here."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pendulum
import pytest
from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from tests.world import make_pipeline
from tidegate.airflow import datasets, gauges, operators, replay_runs, runs, switches, task
from tidegate.core.base.errors import Alarm, LostComparison, SourceUnavailable
from tidegate.core.replay.abandoned import AtWork
from tidegate.core.window.due import RunsSeen
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Published
from tidegate.workflow.batch import ingest
from tidegate.workflow.look import certificates
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay
from tidegate.workflow.tell import announcements

PIPELINE = make_pipeline("file:///lake/readings")
FOUR = pendulum.datetime(2013, 1, 5, 4)
WINDOW = WindowKey(int(FOUR.timestamp() * 1000), int(FOUR.add(hours=1).timestamp() * 1000))


class Instance(SimpleNamespace):
    """A task instance; `pushed` are its XComs."""

    def __init__(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> None:
        super().__init__(dag_id=dag_id, run_id=run_id, task_id=task_id, try_number=try_number, pushed={})

    def xcom_push(self, key: str, value: Any) -> None:
        json.dumps(value)
        self.pushed[key] = value


def context(start: pendulum.DateTime = FOUR, end: pendulum.DateTime | None = None) -> dict[str, Any]:
    return {
        "dag_run": SimpleNamespace(dag_id="readings.ingest", run_id="manual__1"),
        "ti": Instance("readings.ingest", "manual__1", "t", 2),
        "data_interval_start": start,
        "data_interval_end": end or start.add(hours=1),
    }


NOTICES = SimpleNamespace(task_works=lambda *_: None)
"""Of a ledger in which no task has failed."""


@pytest.fixture
def ctx(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the operators open instead of a real context; `closed` counts."""
    monkeypatch.setattr(
        certificates, "readiness", lambda c, found: certificates.Shown(found.text(), {"ready": found.ready})
    )
    monkeypatch.setattr(certificates, "published", lambda c, window, number: {"generation": number})
    parts = {
        "batches": SimpleNamespace(bound=lambda name, run: 7),
        "notices": NOTICES,
    }
    made = SimpleNamespace(closed=0, ledger=SimpleNamespace(**parts))
    made.settled = []
    monkeypatch.setattr(switches, "settle", lambda ctx, dag_ids, log: made.settled.append(list(dag_ids)))
    made.ledger.close = lambda: setattr(made, "closed", made.closed + 1)
    monkeypatch.setattr(task.PipelineOperator, "_open", lambda self, context: made)
    monkeypatch.setattr(gauges, "tell", lambda ctx, ti, log: log.info("measured"))
    return made


def run(kind: type[task.PipelineOperator], where: dict[str, Any], **more: Any) -> None:
    kind(task_id="t", dag=None, pipeline=PIPELINE, **more).execute(where)


def test_nothing_planned_skips_what_follows(ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "plan", lambda c, run: None)
    with pytest.raises(AirflowSkipException):
        run(operators.PlanOperator, context())
    assert (ctx.closed, ctx.settled) == (1, [["readings.ingest"]])


def test_the_run_is_the_key_of_its_batch(ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []
    monkeypatch.setattr(ingest, "plan", lambda c, run: keys.append(run) or 7)
    monkeypatch.setattr(ingest, "write", lambda c, run: keys.append(run))
    monkeypatch.setattr(ingest, "land", lambda c, run: keys.append(run) or False)
    for kind in (operators.PlanOperator, operators.WriteOperator, operators.LandOperator):
        run(kind, context())
    assert keys == ["readings.ingest/manual__1"] * 3
    assert ctx.closed == 3


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (SourceUnavailable("Kafka at k:9092 has no answer"), AirflowException),
        (LostComparison("somebody else"), AirflowException),
        (Alarm("files contradict the ledger"), AirflowFailException),
    ],
)
def test_only_what_a_retry_can_mend_is_retried(
    ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(ingest, "write", fail)
    with pytest.raises(raised) as caught:
        run(operators.WriteOperator, context())
    assert type(caught.value) is raised
    assert str(caught.value) == str(error)  # with what to do
    assert ctx.closed == 1


def test_a_backlog_triggers_the_run_after_this_batch(ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(ingest, "land", lambda c, run: True)
    monkeypatch.setattr(runs, "trigger_after_backlog", lambda _, *more: asked.append(more) or "triggered")
    run(operators.LandOperator, context())
    assert asked == [(7, False)]


def published(new: bool) -> Published:
    return Published(
        window=WINDOW,
        generation=2,
        new=new,
        rows=300,
        digest="d1gest",
        location="file:///lake/readings/date=2013-01-05/hour=04",
    )


@pytest.mark.parametrize(
    ("kind", "module", "call"),
    [(operators.PublishOperator, archive, "publish"), (operators.ReplayOperator, replay, "replay")],
)
@pytest.mark.parametrize("new", [True, False])
def test_only_a_new_generation_is_an_event(
    ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, kind: type, module: Any, call: str, new: bool
) -> None:
    windows: list[WindowKey] = []
    monkeypatch.setattr(module, call, lambda c, window: windows.append(window) or published(new))
    monkeypatch.setattr(announcements, "notice", lambda c, window, number: (window, number))
    announced: list[Any] = []
    monkeypatch.setattr(datasets, "announce", lambda c, notice, ti: announced.append((notice, ti.task_id)) or "told")
    where, task = context(), kind(task_id="t", dag=None, pipeline=PIPELINE)
    assert task.outlets == [datasets.dataset_of(PIPELINE)]  # so that the dataset is known before the first event
    task.execute(where)
    assert windows == [WINDOW]
    assert announced == [((WINDOW, 2), "t")] * new
    assert where["ti"].pushed == {"certificate": {"generation": 2}}
    assert task.outlets == []  # Airflow emits one event for each outlet that is left


@pytest.mark.parametrize(
    ("start", "end"),
    [(FOUR.add(minutes=10), FOUR.add(minutes=70)), (FOUR, FOUR.add(hours=2)), (FOUR, FOUR.add(minutes=15))],
)
def test_an_interval_that_is_no_window_is_refused(
    ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, start: pendulum.DateTime, end: pendulum.DateTime
) -> None:
    monkeypatch.setattr(archive, "publish", lambda c, window: pytest.fail("published"))
    with pytest.raises(AirflowFailException, match="is not a window"):
        run(operators.PublishOperator, context(start, end))


def test_maintenance_sweeps_first_whatever_else_is_down(ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(operators, "create_session", _Session)
    monkeypatch.setattr(runs, "create_session", _Session)
    monkeypatch.setattr(runs, "locked", lambda dag_id, session: True)
    monkeypatch.setattr(
        "tidegate.airflow.backfill.stranded_runs.sweep", lambda ids, session: done.append("sweep") or ["x"]
    )
    monkeypatch.setattr("tidegate.airflow.clear.leftovers.revive", lambda ids, session: done.append("revive") or ["y"])
    monkeypatch.setattr(
        "tidegate.airflow.clear.leftovers.hand_on", lambda ids, session: done.append("hand on") or ["h"]
    )
    monkeypatch.setattr("tidegate.airflow.clear.leftovers.start", lambda dag_id, session: done.append("start") or ["z"])

    def fill(dag: str, windows: list[str], looked_ms: int, session: None, create: bool, held: bool) -> runs.Filled:
        assert create
        done.append(f"fill {windows}")
        return runs.Filled(("a run",), ("another",), RunsSeen(False, ()))

    def maintain(c: Any, seen: RunsSeen, at_work: AtWork) -> list[str]:
        done.append(f"maintain {seen.paused}")
        assert at_work([WINDOW]) == {1}
        return []

    monkeypatch.setattr(runs, "without_run", lambda dag, windows, looked_ms, session: [WINDOW] * 19)
    monkeypatch.setattr(runs, "create_missing_runs", fill)
    monkeypatch.setattr(reconcile, "due", lambda c: ["w"])
    monkeypatch.setattr(reconcile, "maintain", maintain)
    monkeypatch.setattr(replay_runs, "at_work", lambda name, windows, session: done.append(f"{name} {windows}") or {1})
    monkeypatch.setattr(announcements, "due", lambda c: done.append("announce") or [])
    more = {"dag_ids": ["readings.ingest"], "archive_dag_id": "readings.archive"}
    run(operators.MaintainOperator, context(), **more)
    assert done == [
        "sweep", "revive", "hand on", "start", "fill ['w']", "maintain False", f"readings {[WINDOW]}", "announce",
    ]  # fmt: skip
    assert ctx.settled == [["readings.ingest"]], "a DAG that was unpaused in the UI is not paused on purpose"

    def down(self: Any, context: Any) -> None:
        raise SourceUnavailable("the ledger is down")

    monkeypatch.setattr(task.PipelineOperator, "_open", down)
    with pytest.raises(AirflowException, match="ledger is down"):
        run(operators.MaintainOperator, context(), **more)
    assert done[8:] == ["sweep", "revive", "hand on", "start"]


@pytest.mark.parametrize("fails", [False, True])
def test_many_windows_are_left_to_the_catch_up_unless_it_will_not_come(
    ctx: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(operators, "create_session", _Session)
    monkeypatch.setattr(runs, "create_session", _Session)
    monkeypatch.setattr(runs, "locked", lambda dag_id, session: True)
    monkeypatch.setattr(operators.MaintainOperator, "prepare", lambda self: None)
    monkeypatch.setattr(reconcile, "due", lambda c: [])
    monkeypatch.setattr(announcements, "due", lambda c: [])
    created: list[bool] = []
    monkeypatch.setattr(runs, "without_run", lambda dag, windows, looked_ms, session: [WINDOW] * 20)
    monkeypatch.setattr(runs, "create_missing_runs", lambda *_, create, held: created.append(create) or runs.Filled())

    def maintain(*_: Any) -> list[str]:
        if fails:
            raise Alarm("a batch waits for somebody")
        return []

    monkeypatch.setattr(reconcile, "maintain", maintain)
    skipped: list[set[str]] = []
    monkeypatch.setattr("tidegate.airflow.clear.leftovers.free", lambda ti, followers, session: [])
    monkeypatch.setattr("tidegate.airflow.clear.leftovers.skip", lambda ti, followers: skipped.append(followers))
    task = operators.MaintainOperator(
        task_id="maintain", dag=None, pipeline=PIPELINE, dag_ids=[], archive_dag_id="readings.archive"
    )
    task.downstream_task_ids = {"catch_up"}
    where = context()
    if fails:
        with pytest.raises(AirflowFailException):
            task.execute(where)
        assert created == [False, True]  # a failed task has no followers
        return
    task.execute(where)
    task.post_execute(where)
    assert (created, skipped) == ([False], [])
    monkeypatch.setattr(runs, "without_run", lambda dag, windows, looked_ms, session: [WINDOW] * 19)
    task.execute(where)
    task.post_execute(where)
    assert (created, skipped) == ([False, True], [{"catch_up"}])


class _Session:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None
