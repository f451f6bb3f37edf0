"""What is done on the board is done once, by the person who is logged in, with a reason, and leaves an entry behind."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import board_app  # isort: skip  (before airflow: it sets its home)

import pytest
from airflow.models.dag import DagModel
from airflow.models.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.utils import timezone
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunType

from tests.cli.test_cli_commands import add_yaml
from tests.hooks import use_catalogue
from tests.world import HOUR, T0, TOPIC, World, record
from tidegate.airflow import replay_conf
from tidegate.board.reach import Reach
from tidegate.core.base.errors import BatchRefused
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.spec.pipeline import DirtyLimits, Reopening
from tidegate.spec import load_file
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile

FOUR = "2013-01-05T01:00Z"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Hours 0 and 1 are published, a late row of hour 1 waits; Airflow has the DAGs, unpaused."""
    add_yaml(tmp_path, "readings", **{"dirty: {max": "late: {reopen_age: null}\ndirty: {max"})
    made = World(tmp_path, load_file(tmp_path / "pipelines/readings.yaml"))
    made.produce(record("a", 0.1), record("b", 1.2), record("c", 2.3), record("d", 3.9))
    made.produce(record("e", 4.5), partition=1)
    made.ingest("readings.ingest/r1")
    made.archive(0)
    made.archive(1)
    made.produce(record("late", 1.5))
    made.ingest("readings.ingest/r2")
    board_app.application()
    board_app.use(monkeypatch, made.database, tmp_path / "pipelines")
    monkeypatch.setattr(Reach, "context", lambda self, pipeline, actor=None: acting(made, self, actor))
    dags(tmp_path)
    yield made
    made.close()
    forget()


def acting(world: World, reach: Reach, actor: str | None) -> Any:
    """The board's context, but for Kafka and storage, which are the world's; it must ask for nothing else."""
    ctx = world.context()
    ledger = reach.ledger() if actor is None else reach.acting(actor)
    ctx.ledger, ctx.launcher = ledger, None  # type: ignore[assignment]
    use_catalogue(ctx, None)
    return ctx


def dags(folder: Path) -> None:
    shutil.copy(Path(__file__).parents[2] / "dags/tidegate_pipelines.py", folder)
    bag = DagBag(str(folder / "tidegate_pipelines.py"), include_examples=False)
    assert bag.import_errors == {}
    with create_session() as session:
        for dag in bag.dags.values():
            dag.is_paused_upon_creation = False
            dag.sync_to_db(session=session)
            SerializedDagModel.write_dag(dag, min_update_interval=0, session=session)


def forget() -> None:
    with create_session() as session:
        for model in (TaskInstance, DagRun, SerializedDagModel, DagModel):
            session.query(model).filter(model.dag_id.like("readings.%")).delete(synchronize_session=False)
    board_app.application().dag_bag.dags.clear()


def runs() -> list[DagRun]:
    with create_session() as session:
        found = session.query(DagRun).filter(DagRun.dag_id == "readings.replay").order_by(DagRun.id).all()
        session.expunge_all()
        return found


def form(page: Any) -> dict[str, str]:
    """What the page's form sends back, but for the reason."""
    assert page.status_code == 200, page.text
    names = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.text)
    assert any(name == "token" for name, _ in names), page.text
    return dict(names)


def events(world: World) -> list[Any]:
    return world.context().ledger.reads.events("readings", 50)


def test_a_reopening_becomes_one_run_however_often_the_button_is_clicked(world: World) -> None:
    op = board_app.client("Op")
    sent = form(op.get(f"/tidegate/readings/act/reopen?window={FOUR}")) | {"why": "the outage of JFK"}
    first, again = (op.post("/tidegate/readings/act/reopen", data=sent) for _ in range(2))
    assert (first.status_code, first.location) == (303, again.location)
    (run,) = runs()
    token = sent["token"]
    assert (run.run_id, run.run_type, run.state) == (f"board__reopen__{FOUR}__{token}", "manual", "queued")
    assert run.conf == {"do": "reopen", "window": FOUR, "why": "the outage of JFK", "by": "board, op"}
    assert int(run.data_interval_start.timestamp() * 1000) == T0 + HOUR
    assert int(run.data_interval_end.timestamp() * 1000) == T0 + 2 * HOUR
    asked = [e for e in events(world) if e.what == "reopen asked"]
    assert [(e.actor, e.subject, e.detail["why"]) for e in asked] == [
        ("board, op", "window 20130105T010000Z", "the outage of JFK")
    ]
    done = op.get(first.location)
    assert "the outage of JFK" in done.text
    assert "board, op" in done.text
    assert f"readings.replay {run.run_id}" in done.text
    assert 'tab=logs"' in done.text
    # and the run's task does it
    found = replay_conf.of_run(world.pipeline, {"dag_run": run}, T0 + 1000 * HOUR)  # type: ignore[arg-type]
    assert (found.do, found.windows[0].start_ms, found.why) == ("reopen", T0 + HOUR, "the outage of JFK")


def test_each_form_is_a_run_of_its_own(world: World) -> None:
    op = board_app.client("Op")
    for why in ("one", "two"):
        sent = form(op.get("/tidegate/readings/act/replay?from=2013-01-05T00:00Z&until=2013-01-05T02:00Z"))
        assert op.post("/tidegate/readings/act/replay", data=sent | {"why": why}).status_code == 303
    assert [r.conf["why"] for r in runs()] == ["one", "two"]
    assert runs()[0].conf["from"] == "2013-01-05T00:00Z"
    assert runs()[0].conf["until"] == "2013-01-05T02:00Z"


def test_who_acts_is_never_taken_from_the_form(world: World) -> None:
    op = board_app.client("Op")
    sent = form(op.get(f"/tidegate/readings/act/replay?window={FOUR}"))
    more = {"why": "x", "by": "admin", "actor": "admin", "do": "rollback", "over_budget": "true", "generation": "7"}
    op.post("/tidegate/readings/act/replay?by=admin", data=sent | more)
    (run,) = runs()
    assert run.conf == {"do": "replay", "window": FOUR, "why": "x", "by": "board, op"}
    assert {e.actor for e in events(world) if "asked" in e.what} == {"board, op"}


def test_without_a_reason_nothing_is_done(world: World) -> None:
    op = board_app.client("Op")
    sent = form(op.get(f"/tidegate/readings/act/replay?window={FOUR}"))
    for why in ("", "   ", "\x00\x1b", "\u202e"):
        answer = op.post("/tidegate/readings/act/replay", data=sent | {"why": why})
        assert (answer.status_code, "A reason is needed" in answer.text) == (400, True)
    assert (runs(), [e for e in events(world) if "asked" in e.what]) == ([], [])


def test_a_paused_dag_and_one_that_is_not_parsed_are_told(world: World) -> None:
    op = board_app.client("Op")
    sent = form(op.get(f"/tidegate/readings/act/replay?window={FOUR}")) | {"why": "x"}
    with create_session() as session:
        session.get(DagModel, "readings.replay").is_paused = True
    page = op.get(f"/tidegate/readings/act/replay?window={FOUR}")
    assert "readings.replay is paused" in page.text
    assert '<form method="post"' not in page.text
    assert op.post("/tidegate/readings/act/replay", data=sent).status_code == 409
    forget()
    assert "Airflow has not parsed readings.replay" in op.get(f"/tidegate/readings/act/replay?window={FOUR}").text
    assert op.post("/tidegate/readings/act/replay", data=sent).status_code == 409
    assert (runs(), [e for e in events(world) if "asked" in e.what]) == ([], [])


def test_a_window_without_anything_to_do_offers_no_button(world: World) -> None:
    op = board_app.client("Op")
    for do, window, says in (
        ("replay", "2013-01-05T02:00Z", "ever published: there is nothing to replay"),
        ("reopen", "2013-01-05T00:00Z", "No late rows wait"),
        ("rollback", FOUR, "No earlier generation"),
        ("rollback", "2013-01-05T02:00Z", "never published"),
        ("release", None, "was not refused|is not the open one"),
    ):
        where = "batch=2" if window is None else f"window={window}"
        page = op.get(f"/tidegate/readings/act/{do}?{where}")
        assert re.search(says, page.text), page.text
        assert '<form method="post"' not in page.text


def test_over_the_budget_is_agreed_to_apart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.change_spec(reopening=Reopening(age_ms=1))
    op = board_app.client("Op")
    page = op.get(f"/tidegate/readings/act/reopen?window={FOUR}")
    assert "Also over the budget" in page.text
    sent = form(page) | {"why": "x"}
    assert op.post("/tidegate/readings/act/reopen", data=sent).status_code == 400
    assert runs() == []
    assert op.post("/tidegate/readings/act/reopen", data=sent | {"agreed": "yes"}).status_code == 303
    assert runs()[0].conf["over_budget"] is True


def refused(world: World) -> int:
    """A batch that is too dirty, and its run in Airflow with a failed `write`."""
    world.change_spec(dirty=DirtyLimits(0, None))
    world.produce(b"<script>alert(1)</script>")
    batch = ingest.plan(world.context(), "readings.ingest/r3")
    with pytest.raises(BatchRefused):
        ingest.write(world.context(), "readings.ingest/r3")
    dag = board_app.application().dag_bag.get_dag("readings.ingest")
    with create_session() as session:
        run = dag.create_dagrun(
            run_type=DagRunType.MANUAL, run_id="r3", execution_date=timezone.utcnow(), state=DagRunState.FAILED,
            data_interval=(timezone.utcnow(), timezone.utcnow()), session=session,
        )  # fmt: skip
        for ti in run.task_instances:
            states = {"plan": TaskInstanceState.SUCCESS, "write": TaskInstanceState.FAILED}
            ti.state = states.get(ti.task_id, TaskInstanceState.UPSTREAM_FAILED)
    assert batch is not None
    return batch


def test_a_released_batch_has_its_write_task_cleared(world: World) -> None:
    batch, op = refused(world), board_app.client("Op")
    page = op.get(f"/tidegate/readings/act/release?batch={batch}")
    assert "&lt;script&gt;alert(1)" in page.text
    assert "<script>alert(1)" not in page.text
    sent = form(page) | {"why": "they know"}
    answers = [op.post("/tidegate/readings/act/release", data=sent) for _ in range(2)]
    assert [a.status_code for a in answers] == [303, 303], answers[1].text
    assert answers[0].location == answers[1].location
    with create_session() as session:
        states = dict(session.query(TaskInstance.task_id, TaskInstance.state).filter(TaskInstance.run_id == "r3").all())
    assert states == {"plan": "success", "write": None, "land": None}
    assert "task write" in op.get(answers[0].location).text or "r3" in op.get(answers[0].location).text
    told = [(e.what, e.actor, e.detail["why"]) for e in events(world) if e.what in ("released", "write task cleared")]
    assert told == [("write task cleared", "board, op", "they know"), ("released", "board, op", "they know")]
    ingest.write(world.context(), "readings.ingest/r3")
    ingest.land(world.context(), "readings.ingest/r3")


def test_a_refusal_that_changed_since_it_was_shown_is_shown_again(world: World) -> None:
    batch, op = refused(world), board_app.client("Op")
    sent = form(op.get(f"/tidegate/readings/act/release?batch={batch}")) | {"why": "they know"}
    world.change_spec(dirty=DirtyLimits(0, 0.5))  # a new spec: the next try refuses anew, with another number
    world.produce(b"more")
    ledger = world.context().ledger
    anew = Refusal(kind=RefusalKind.DIRTY_LIMIT, said="batch 3: 9 of 9 records are dirty, over dirty.max_count 0")
    ledger.batches.refuse(ledger.batches.open("readings"), anew)
    answer = op.post("/tidegate/readings/act/release", data=sent)
    assert (answer.status_code, "changed since you looked" in answer.text) == (409, True)
    assert ledger.repairs.released("readings", batch) is None


def test_a_recreated_topic_is_accepted_once(world: World) -> None:
    op = board_app.client("Op")
    assert "there is nothing to accept" in op.get("/tidegate/readings/act/reset").text
    replay = f"/tidegate/readings/act/replay?window={FOUR}"
    assert "all of them are still there" in op.get(replay).text
    world.kafka.create(TOPIC, 3)
    world.produce(record("new", 3.5))
    assert "a topic of this name before it" in op.get(replay).text
    page = op.get("/tidegate/readings/act/reset")
    assert "1 offset in 3 partitions" in page.text
    sent = form(page) | {"why": "more partitions"}
    answers = [op.post("/tidegate/readings/act/reset", data=sent) for _ in range(2)]
    assert [a.status_code for a in answers] == [303, 303]
    assert answers[0].location == answers[1].location
    accepted = [e for e in events(world) if e.what == "topic accepted"]
    assert [(e.actor, e.detail["why"]) for e in accepted] == [("board, op", "more partitions")]
    assert "a topic of this name before it" in op.get(replay).text, "accepted, and yet not what was read"


HOSTILE = (
    "replay?window=yesterday", "replay?window=%00", "replay?from=2013-01-05", "replay?from=0001-01-01&until=9999-01-01",
    "release", "release?batch=1e3", "release?batch=99999999999999999999", "release?batch=-1",
    "rollback?from=2013-01-05T00:00Z&until=2013-01-05T02:00Z",
)  # fmt: skip


def test_parameters_that_name_nothing_are_refused(world: World) -> None:
    op = board_app.client("Op")
    for address in HOSTILE:
        answer = op.get(f"/tidegate/readings/act/{address}")
        assert (answer.status_code, "Traceback" in answer.text) == (400, False), address


def test_what_is_not_there_is_not_found(world: World) -> None:
    op = board_app.client("Op")
    for address in (
        "other/act/replay",
        "readings/act/drop",
        "readings/done/999999",
        "readings/done/99999999999999999999",
    ):
        assert op.get(f"/tidegate/{address}").status_code == 404, address


def test_a_form_that_this_page_did_not_make_is_refused(world: World) -> None:
    op = board_app.client("Op")
    sent = form(op.get(f"/tidegate/readings/act/replay?window={FOUR}")) | {"why": "x"}
    for token in ("", "x", "0123456789ABCDEF", "0" * 17, "../../../etc/pas"):
        assert op.post("/tidegate/readings/act/replay", data=sent | {"token": token}).status_code == 400
    assert runs() == []


def test_a_release_of_a_batch_that_was_given_up_meanwhile_is_not_said_to_be_done(world: World) -> None:
    """One person releases it, another gives it up, a third comes with a page from before."""
    batch, op = refused(world), board_app.client("Op")
    mine, late = (
        form(op.get(f"/tidegate/readings/act/release?batch={batch}")) | {"why": why} for why in ("they know", "me too")
    )
    assert op.post("/tidegate/readings/act/release", data=mine).status_code == 303
    assert op.post("/tidegate/readings/act/release", data=late).status_code == 303, "the other's entry is shown"
    reconcile.abandon(world.context(), batch, "retention has passed it", force=True)
    for sent in (mine, late):
        answer = op.post("/tidegate/readings/act/release", data=sent)
        assert (answer.status_code, f"batch {batch} is not the open one" in answer.text) == (409, True)
