"""What `tidegate explain` names as the next step is what helps: for windows outside the pipeline's time, for runs that
have ended, for a paused DAG, for generations on their way, for a count that nobody has asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import HOUR, T0, World, record, window
from tidegate.core.base.errors import BatchRefused
from tidegate.core.look.survey import LATELY_MS
from tidegate.core.spec.pipeline import Completeness, DirtyLimits
from tidegate.core.window.due import ArchiveNote
from tidegate.spec import fingerprint
from tidegate.workflow.batch import ingest
from tidegate.workflow.look.explanation import Explanation, explain
from tidegate.workflow.publish import archive

CLEAR = "airflow tasks clear readings.archive --yes -s 2013-01-05T00:00Z -e 2013-01-05T00:00Z"
BACKFILL = "airflow dags backfill readings.archive -s 2013-01-05T00:00Z -e 2013-01-05T00:00Z"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hour 0 has two rows, and its watermark has passed."""
    world = World(tmp_path)
    world.produce(record("a", 0.1), record("b", 0.2), record("c", 3.0))
    world.ingest("r1")
    world.clock.advance(LATELY_MS)  # a run would have published it by now
    yield world
    world.close()


def told(world: World, hour: int = 0) -> Explanation:
    ctx = world.context()
    return explain(ctx, ctx.ledger.reads, window(hour))  # type: ignore[attr-defined]


def noted(world: World, paused: bool, *ended: int) -> None:
    """What maintenance has seen of the archive runs."""
    world.context().ledger.due.save("readings", ArchiveNote((), paused, ended, world.clock.now_ms()), None)


def test_a_window_before_the_first_is_nobodys_to_publish(world: World) -> None:
    """A backfill refuses it: `no window begins in this range`."""
    found = told(world, -5)
    assert found.summary == "it ends before windows.start (2013-01-05T00:00Z): nothing belongs here"
    assert found.next_step == "nothing"


def test_late_rows_before_the_first_window_are_named(world: World) -> None:
    world.produce(record("too early", -4.5))
    world.ingest("r2")
    found = told(world, -5)
    assert found.summary.endswith("nothing belongs here; rows that came late (1) are in lake.readings__late")
    assert found.next_step == "nothing"


def test_a_run_that_has_ended_is_cleared(world: World) -> None:
    """A backfill leaves runs that have failed as they are."""
    assert told(world).next_step == BACKFILL
    noted(world, False, T0)
    assert told(world).next_step.endswith(f"fix what it says, then: {CLEAR}")
    assert told(world, 1).next_step == BACKFILL.replace("T00", "T01"), "it has no run that ended"


def test_windows_that_became_ready_just_now_are_left_to_their_runs(world: World) -> None:
    """A backfill would only disturb the run that is about to look."""
    world.produce(record("d", 0.3))
    world.ingest("r2")
    assert told(world).next_step == f"nothing yet, runs begin by themselves; if none has in 3 minutes, {BACKFILL}"


@pytest.mark.parametrize(("paused", "ended", "command"), [(True, (), BACKFILL), (False, (T0,), CLEAR)])
def test_a_paused_dag_and_a_run_that_has_ended_publish_nothing_by_themselves(
    world: World, paused: bool, ended: tuple[int, ...], command: str
) -> None:
    world.produce(record("d", 0.3))
    world.ingest("r2")
    noted(world, paused, *ended)
    assert told(world).next_step.endswith(command)
    assert "by themselves" not in told(world).next_step


def test_so_it_is_once_the_window_is_closed(world: World) -> None:
    archive.close(world.context(), window(0))
    assert told(world).next_step == f"if no run is at work: {BACKFILL}"
    noted(world, False, T0)
    assert told(world).next_step.startswith("if no run is at work: look at the log of the failed task")
    assert told(world).next_step.endswith(CLEAR)


def test_a_paused_archive_dag_is_named(world: World) -> None:
    noted(world, True)
    step = "readings.archive was paused when last looked at: unpause it, or run: "
    assert told(world).next_step == step + BACKFILL


@pytest.mark.parametrize(
    ("kind", "command"), [("heal", CLEAR), ("replay", "tidegate replay readings 2013-01-05T00:00Z")]
)
def test_a_generation_on_its_way_is_gone_on_with(world: World, kind: str, command: str) -> None:
    world.archive(0)
    world.context().ledger.windows.begin_generation("readings", window(0), 1, kind)
    assert told(world).next_step == f"nothing if its run is at work; otherwise: {command}"


def test_a_count_that_nobody_has_asked_for_is_asked_by_the_run(world: World) -> None:
    """Not accepted unseen: who asks is the archive run, and it may be paused."""
    world.change_spec(
        completeness=Completeness(source="topic", conn_id="kafka", topic="audit", poll_ms=60_000, patience_ms=None)
    )
    found = told(world)
    assert "audit has not been asked" in found.summary
    assert found.next_step == f"its archive run asks: {BACKFILL}"
    world.truth.counts[T0] = 3
    archive.ready(world.context(), window(0))
    assert "short: 2 of 3" in told(world).summary
    assert found.next_step != told(world).next_step
    assert "tidegate complete readings 2013-01-05T00:00Z --why" in told(world).next_step


def refuse(world: World, run: str) -> None:
    """The run's batch has a dirty record and may have none."""
    world.change_spec(dirty=DirtyLimits(0, None))
    world.produce(b"not json", record("more", 0.9))
    ingest.plan(world.context(), run)
    with pytest.raises(BatchRefused):
        ingest.write(world.context(), run)


@pytest.mark.parametrize("hour", [0, 4])
def test_a_refused_batch_holds_windows_until_a_human_has_looked(world: World, hour: int) -> None:
    """One that is closing, and those whose watermark cannot move. Ingest runs on and on, and does not land it."""
    refuse(world, "r2")
    if hour == 0:
        with pytest.raises(Exception, match="batch 2"):
            archive.close(world.context(), window(0))
    step = told(world, hour).next_step
    assert step.startswith("batch 2 was refused: ")
    assert "tidegate repair readings --release 2" in step


def test_an_open_batch_that_is_on_its_way_is_waited_for(world: World) -> None:
    world.produce(record("more", 0.9))
    ingest.plan(world.context(), "r2")
    with pytest.raises(Exception, match="batch 2"):
        archive.close(world.context(), window(0))
    assert told(world).next_step == "nothing if readings.ingest is running; otherwise look at its last run"


def test_a_blocked_batch_is_named(world: World) -> None:
    world.produce(record("more", 0.9))
    ingest.plan(world.context(), "r2")
    ingest.write(world.context(), "r2")
    batch = world.context().ledger.batches.open("readings")
    world.context().ledger.batches.block(batch, "files differ\nmore words")
    step = "batch 2 is blocked: files differ; find out why, then: tidegate repair readings --batch 2 --why '...'"
    assert told(world, 4).next_step == step


def late(world: World) -> None:
    world.archive(0)
    world.produce(record("late", 0.5))
    world.ingest("late")


def test_late_rows_within_the_budget_are_taken_up_by_a_plain_command(world: World) -> None:
    late(world)
    assert told(world).next_step.endswith("to take the late rows up: tidegate reopen readings 2013-01-05T00:00Z")


def test_late_rows_over_the_budget_take_a_reason(world: World) -> None:
    late(world)
    world.clock.advance(8 * 24 * HOUR)
    step = told(world).next_step
    assert "over the budget: it ended at 2013-01-05T01:00Z (late.reopen_age: 168 h)" in step
    assert step.endswith("tidegate reopen readings 2013-01-05T00:00Z --over-budget --why '...'")


def test_late_rows_without_offsets_are_not_taken_up(world: World) -> None:
    late(world)
    world.pipeline = replace(world.pipeline, kafka_columns=False)
    world.registered.add(fingerprint(world.pipeline))
    assert "reopen" not in told(world).next_step
