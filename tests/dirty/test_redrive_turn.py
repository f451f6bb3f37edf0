"""A redrive behind a backlog has the next turn, says what it waits for, and holds nobody up once it is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import airflow_home
import pytest
from airflow.exceptions import AirflowSkipException
from sqlalchemy import create_engine, text

from tests.audit.audits import balanced
from tests.dirty.redrives import first_batch, mend, odd, once
from tests.world import World, record
from tidegate.adapters.airflow_facts import ingest_facts
from tidegate.cli.redrive import patience
from tidegate.core.base.errors import BehindBatch, GivesWay, LostComparison, NotReady, TidegateError
from tidegate.core.batch.planning import NothingToPlan
from tidegate.core.dirty.redrive import ASK_LASTS_MS, IngestFacts, InTheWay, waits_for
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive

assert airflow_home.CHECKOUT.is_dir(), "before Airflow is imported"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def waiting(world: World) -> None:
    """Batch 1 has dirty rows that today's spec can read; batch 2 is open and there is a backlog behind it."""
    first_batch(world)
    mend(world)
    world.produce(record("e0", 3.8))
    ingest.plan(world.context(), "readings.ingest/r2")
    world.produce(record("f0", 3.9))


def test_behind_a_backlog_it_is_next(world: World) -> None:
    """Each run that lands a batch is followed by another at once: without a turn no redrive is ever planned."""
    waiting(world)
    said: list[str] = []

    def wait(error: TidegateError) -> None:
        """The open batch lands, and the next run is there before this command looks again."""
        assert isinstance(error, BehindBatch)
        run = f"readings.ingest/r{len(said) + 2}"
        ingest.write(world.context(), run)
        ingest.land(world.context(), run)
        world.produce(record("more", 4.0))
        with pytest.raises(GivesWay) as gives:
            ingest.plan(world.context(), f"readings.ingest/r{len(said) + 3}")
        said.append(str(gives.value.args[0]))
        assert isinstance(found := ingest.preview(world.context()), NothingToPlan)
        assert "a redrive goes first" in found.reason

    (found,) = redrive.all_of(world.context(), None, wait)
    assert (found.batch_id, found.data, len(said)) == (3, 3, 1)
    (line,) = said
    assert line.startswith("readings: a redrive goes first, asked for 2013-01-09T04:00Z by ")
    assert line.endswith("by test: this run plans nothing")
    assert world.context().ledger.redrives.asked("readings") is None, "it has had its turn"
    assert world.ingest("readings.ingest/r9") == 4
    once(world)
    balanced(world)


def test_a_command_that_was_killed_holds_nobody_up_for_long(world: World) -> None:
    waiting(world)

    class Killed(BaseException):
        pass

    ctx = world.context()
    withdraw = ctx.ledger.redrives.withdraw
    ctx.ledger.redrives.withdraw = lambda *_: None  # type: ignore[method-assign]

    def kill(_: TidegateError) -> None:
        raise Killed

    with pytest.raises(Killed):
        list(redrive.all_of(ctx, None, kill))
    world.ingest("readings.ingest/r2")
    with pytest.raises(GivesWay):
        world.ingest("readings.ingest/r3")
    asks = world.context().ledger.redrives
    ask = asks.asked("readings")
    assert ask is not None
    world.clock.advance(ASK_LASTS_MS // 2)
    longer = asks.ask("readings", ask)
    assert longer.id == ask.id
    world.clock.advance(ASK_LASTS_MS // 2 + 1)
    with pytest.raises(GivesWay):
        world.ingest("readings.ingest/r3")
    with pytest.raises(LostComparison):
        asks.ask("readings", ask), "who stood still compares with what was"
    world.clock.advance(ASK_LASTS_MS)
    with pytest.raises(LostComparison, match="lapsed"):
        asks.ask("readings", longer)
    assert world.ingest("readings.ingest/r3") == 3
    assert withdraw is not None
    once(world)


def test_two_that_wait_and_one_that_gives_up(world: World) -> None:
    waiting(world)
    asks = world.context().ledger.redrives
    mine = asks.ask("readings", None)

    def give_up(error: TidegateError) -> None:
        raise error

    with pytest.raises(BehindBatch, match="batch 2 is PLANNED"):
        list(redrive.all_of(world.context(), None, give_up))
    world.ingest("readings.ingest/r2")
    assert asks.asked("readings") == mine, "the other's is gone, this one stands"
    asks.withdraw("readings", mine)
    asks.withdraw("readings", mine)
    with pytest.raises(LostComparison):
        asks.ask("readings", mine)
    assert world.ingest("readings.ingest/r3") == 3


def test_what_is_not_behind_a_batch_holds_no_ingest_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first_batch(world)
    mend(world)
    world.produce(odd("e0", 3.8))
    batches: list[int | None] = []

    def not_yet(*_: object, **named: object) -> None:
        raise NotReady("dirty rows of batch 1 are not in the dirty table yet")

    def wait(_: TidegateError) -> None:
        batches.append(world.ingest("readings.ingest/r2"))
        raise NotReady("enough")

    monkeypatch.setattr(redrive, "plan", not_yet)
    with pytest.raises(NotReady, match="enough"):
        list(redrive.all_of(world.context(), None, wait))
    assert batches == [2]


# ---------------------------------------------------------------- what it says

OPEN = InTheWay(7, "WRITING", 2, 1_357_351_830_000, ("readings.ingest/r6", "readings.ingest/r7", "redrive/x"))
WHAT = "batch 7 is WRITING (epoch 2) since 2013-01-05T02:10:30Z"


@pytest.mark.parametrize(
    ("found", "airflow", "what", "advice"),
    [
        (OPEN, None, f"{WHAT}, by run r7", "is readings.ingest paused? tidegate unpause readings; has its run failed?"),
        (OPEN, IngestFacts(True, {"r7": "running"}), f"{WHAT} and readings.ingest is paused",
         "tidegate unpause readings"),
        (OPEN, IngestFacts(False, {}, False), f"{WHAT} and no scheduler of Airflow beats", "start Airflow's scheduler"),
        (OPEN, IngestFacts(False, {"r6": "running", "r7": "failed"}), f"{WHAT}, its run r6 is running", "by itself"),
        (OPEN, IngestFacts(False, {"r6": "success", "r7": "failed"}), f"{WHAT}, its run r7 is failed",
         "the next run of readings.ingest goes on with it; at once: airflow dags trigger readings.ingest"),
        (InTheWay(7, "PLANNED", 0, 1_357_351_800_000, ()), IngestFacts(False, {}),
         "batch 7 is PLANNED since 2013-01-05T02:10Z, no run works on it", "the next run of readings.ingest"),
        (InTheWay(7, "SEALED", 2, 1_357_351_830_000, (), "landed/7 differs"), IngestFacts(True, {}),
         "batch 7 is SEALED (epoch 2) since 2013-01-05T02:10:30Z and blocked: landed/7 differs", "tidegate repair"),
    ],
)  # fmt: skip
def test_what_it_waits_for_and_what_helps(found: InTheWay, airflow: IngestFacts | None, what: str, advice: str) -> None:
    said = waits_for("readings", found, airflow)
    assert said[0] == what
    assert advice in said[1]


def test_the_ledger_says_whose_the_open_batch_is(world: World) -> None:
    waiting(world)
    ledger = world.context().ledger
    assert ledger.redrives.in_the_way("readings") == InTheWay(
        2, "PLANNED", 0, world.clock.now_ms(), ("readings.ingest/r2",)
    )
    batch = ledger.batches.open("readings")
    assert batch is not None
    world.clock.advance(5000)
    ledger.batches.take(batch, "nonce")
    found = ledger.redrives.in_the_way("readings")
    assert found is not None
    assert (found.state, found.epoch, found.since_ms) == ("WRITING", 1, world.clock.now_ms())
    world.ingest("readings.ingest/r2")
    assert ledger.redrives.in_the_way("readings") is None


def test_it_is_said_again_after_half_a_minute_and_at_once_when_it_changes(capsys: pytest.CaptureFixture) -> None:
    now = [0.0]
    words = ["paused"]
    wait = patience(
        300, lambda s: now.__setitem__(0, now[0] + 3), lambda: now[0],
        lambda error: BehindBatch(words[0], advice="tidegate unpause readings"),
    )  # fmt: skip
    for _ in range(12):
        wait(BehindBatch("batch 7 is WRITING"))
    words[0] = "running"
    wait(BehindBatch("batch 8 is PLANNED"))
    lines = capsys.readouterr().err.splitlines()
    told = "waiting for: {}; what to do: tidegate unpause readings"
    assert lines == [told.format("paused"), told.format("paused"), told.format("running")]
    now[0] = 300.0
    with pytest.raises(BehindBatch, match="running") as ended:
        wait(BehindBatch("batch 8 is PLANNED"))
    assert ended.value.advice == "tidegate unpause readings"


def test_airflow_is_asked_by_plain_sql(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/airflow.db"
    with create_engine(url).begin() as c:
        for statement in (
            "CREATE TABLE job (job_type TEXT, state TEXT, latest_heartbeat TIMESTAMP)",
            "CREATE TABLE slot_pool (pool TEXT, slots INTEGER)",
            "CREATE TABLE dag (dag_id TEXT, is_paused BOOLEAN, is_active BOOLEAN, fileloc TEXT)",
            "CREATE TABLE import_error (filename TEXT, stacktrace TEXT)",
            "CREATE TABLE dag_run (dag_id TEXT, run_id TEXT, state TEXT)",
            "INSERT INTO dag VALUES ('readings.ingest', 1, 1, '')",
            "INSERT INTO dag_run VALUES ('readings.ingest', 'r7', 'failed'), ('readings.ingest', 'r8', 'running')",
            "INSERT INTO job VALUES ('SchedulerJob', 'running', CURRENT_TIMESTAMP)",
        ):
            c.execute(text(statement))
    runs = ("readings.ingest/r7", "redrive/abc")
    assert ingest_facts(url, "readings.ingest", runs, 5) == IngestFacts(True, {"r7": "failed"}, True)
    assert ingest_facts(url, "readings.ingest", (), 5) == IngestFacts(True, {}, True)
    assert ingest_facts(url, "other.ingest", runs, 5) is None


# ---------------------------------------------------------------- the task


def test_the_task_skips_with_the_reason_and_waits_where_no_schedule_comes_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from tidegate.airflow import operators

    waiting(world)
    world.ingest("readings.ingest/r2")
    asks = world.context().ledger.redrives
    mine = asks.ask("readings", None)
    scheduled = replace(world.pipeline, ingest=replace(world.pipeline.ingest, schedule="*/5 * * * *"))
    task = operators.PlanOperator(task_id="plan", dag=None, pipeline=scheduled)
    with pytest.raises(AirflowSkipException, match=r"a redrive goes first, asked for .*; the next run reads on"):
        task._planned(world.context(), "readings.ingest/r3")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            asks.withdraw("readings", mine)

    monkeypatch.setattr(operators.time, "sleep", sleep)
    alone = replace(world.pipeline, ingest=replace(world.pipeline.ingest, schedule=None))
    task = operators.PlanOperator(task_id="plan", dag=None, pipeline=alone)
    assert task._planned(world.context(), "readings.ingest/r3") == 3
    assert slept == [operators.LOOK_S] * 2
