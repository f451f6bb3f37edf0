"""What operators' commands do when something else happens at the same time, and the words that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.airflow.test_filling import FILL, Scheduler, scheduler
from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.cli.test_cli_complete import counts
from tests.cli.test_cli_rollback import working
from tests.world import World, record
from tidegate.airflow.backfill.range_runs import Ground
from tidegate.airflow.last_line import explained
from tidegate.core.base.errors import BatchRefused, StepMissing, TidegateError
from tidegate.core.publish.backfill import Run
from tidegate.core.spec.pipeline import DirtyLimits
from tidegate.core.window.states import WindowKey
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive

__all__ = ["counts", "scheduler", "tide", "working", "world"]
HOUR_0, HOUR_1 = "2013-01-05T00:00Z", "2013-01-05T01:00Z"


# ---------------------------------------------------------------- tidegate backfill


def test_a_pool_that_is_deleted_during_a_backfill_is_waited_for(tide: Tide, scheduler: Scheduler) -> None:
    asked, room = [], scheduler.room

    def without_pool(own: int, most: int | None) -> int:
        asked.append(own)
        scheduler.state = Ground(missing_pools=("tidegate_archive",)) if len(asked) == 2 else Ground()
        return 0 if scheduler.state.missing_pools else room(own, most)

    scheduler.room = without_pool  # type: ignore[method-assign]
    done = tide(*FILL)
    assert done.exit_code == 0, done.output
    assert scheduler.begun == [1, 2, 3]
    assert "there is no pool tidegate_archive: its runs wait until there is one" in done.stderr


def test_windows_are_waited_for_although_a_failure_would_stop(tide: Tide, scheduler: Scheduler, world: World) -> None:
    looks, look = [], scheduler.look

    def later(keys: Sequence[WindowKey]) -> dict[int, Run]:
        looks.append(keys)
        if len(looks) == 6:
            world.produce(record("z0", 19.5), partition=0)
            world.produce(record("z1", 19.5), partition=1)
            world.ingest("readings.ingest/r3")
        return look(keys)

    scheduler.look = later  # type: ignore[method-assign]
    words = ("backfill", "readings", "-s", "2013-01-05T07:00Z", "-e", "2013-01-05T09:00Z", "--poll", "1ms")
    done = tide(*words, "--wait", "10m", "--stop-on-failure")
    assert (done.exit_code, scheduler.begun) == (0, [7, 8, 9]), done.output


# ---------------------------------------------------------------- a batch that is too dirty


@pytest.fixture
def refused(world: World) -> BatchRefused:
    """Batch 2 is too dirty, which its write task has just said."""
    world.change_spec(dirty=DirtyLimits(1, None))
    world.produce(b"x", b"y")
    ctx = world.context()
    ingest.plan(ctx, "readings.ingest/r2")
    with pytest.raises(BatchRefused) as caught:
        ingest.write(ctx, "readings.ingest/r2")
    world.close()
    return caught.value


def test_the_last_line_of_a_refused_write_names_a_command_that_knows_the_batch(
    tide: Tide, refused: BatchRefused
) -> None:
    command = explained(refused, "readings", "batch 2")[2].split()
    assert command[0] == "tidegate"
    assert "2 of 2 records are dirty" in " ".join(tide(*command[1:]).stdout.split())


# ---------------------------------------------------------------- a window that was never published


@pytest.mark.parametrize(
    "words", [("replay",), ("replay", "--dry-run"), ("rollback", "--why", "x"), ("rollback", "--dry-run")]
)
def test_what_was_never_published_gets_a_command_that_can_be_run(working: Tide, words: tuple[str, ...]) -> None:
    """Airflow wants the dates of a backfill."""
    command, *options = words
    done = working(command, "readings", HOUR_1, *options)
    assert done.exit_code == 1
    assert f"airflow dags backfill readings.archive -s {HOUR_1} -e {HOUR_1}" in done.output, done.output


# ---------------------------------------------------------------- --json


@pytest.mark.parametrize("option", ["--release", "--abandon", "--reread"])
def test_repair_prints_no_text_where_json_was_asked_for(
    tide: Tide, refused: BatchRefused, world: World, option: str
) -> None:
    """And does nothing before it has said so."""
    done = tide("repair", "readings", option, "2", "--why", "x", "--yes", "--json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--json" in done.stderr
    batch = world.context().ledger.batches.open("readings")
    assert batch is not None
    assert world.context().ledger.batches.refusal("readings", 2) is not None


def test_complete_asks_no_question_in_the_middle_of_json(tide: Tide, counts: Path) -> None:
    asked = tide("complete", "readings", HOUR_1, "--why", "x", "--json", input="y\n")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert "--yes" in asked.stderr
    accepted = the_json(tide("complete", "readings", HOUR_1, "--why", "x", "--json", "--yes"))
    assert accepted["comparison"]["accepted"] == "x"


# ---------------------------------------------------------------- after a rollback


def test_a_dry_run_tells_of_columns_what_the_rows_in_force_were_made_with(working: Tide) -> None:
    """Generation 4 holds the rows of generation 2, which is by today's columns."""
    assert working("rollback", "readings", HOUR_0, "--why", "it is worse").exit_code == 0
    dry = working("replay", "readings", HOUR_0, "--dry-run")
    assert "  column value comes from somewhere else now\n" in dry.stdout
    assert working("rollback", "readings", HOUR_0, "--to", "2", "--why", "it was not").exit_code == 0
    dry = working("replay", "readings", HOUR_0, "--dry-run")
    assert dry.stdout.startswith(f"{HOUR_0} same\n")
    assert "  column " not in dry.stdout, dry.stdout


def test_a_redrive_waits_for_no_batch_that_waits_for_a_human(world: World, refused: BatchRefused) -> None:
    waited: list[TidegateError] = []

    def wait(error: TidegateError) -> None:
        waited.append(error)
        raise error

    with pytest.raises(StepMissing, match="batch 2 was refused.*\n.*--release 2 --why"):
        list(redrive.all_of(world.context(), None, wait))
    assert waited == []
