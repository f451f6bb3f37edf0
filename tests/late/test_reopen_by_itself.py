"""Windows that the maintenance DAG reopens, and what people are told of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hooks import Died, Hook, catalogue_of, die, use_catalogue
from tests.late.reopenings import BOTH, WORK, balanced, begun, once, reopened
from tests.world import HOUR, World, record, window
from tidegate.core.base.errors import Alarm
from tidegate.core.late.reopen import MOST_REFUSED
from tidegate.core.look.concerns import late_words
from tidegate.core.spec.pipeline import Reopening
from tidegate.core.window.states import QUIET_MS
from tidegate.workflow.batch import ingest
from tidegate.workflow.late import reopen
from tidegate.workflow.look import explanation
from tidegate.workflow.look import status as looking
from tidegate.workflow.maintain import reconcile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = begun(World(tmp_path))
    yield made
    made.close()


# ---------------------------------------------------------------- by itself


def maintained(world: World) -> list[str]:
    done = reconcile.maintain(world.context())
    world.close()
    return [line for line in done if "reopened" in line]


def test_the_maintenance_dag_reopens_what_has_waited_long_enough(world: World) -> None:
    assert maintained(world) == []
    world.change_spec(reopening=Reopening(after_ms=2 * HOUR))
    assert maintained(world) == []
    world.clock.advance(2 * HOUR)
    (line,) = maintained(world)
    assert "2013-01-05T00:00Z was reopened as generation 2: 4 rows" in line
    once(world, BOTH)
    assert maintained(world) == []


def test_it_leaves_a_window_alone_that_is_over_its_budget(world: World) -> None:
    world.change_spec(reopening=Reopening(after_ms=0, rows=1))
    assert maintained(world) == []
    once(world, BOTH[:2], [(0, 3), (0, 4)])


def test_it_gives_up_what_is_refused_again_and_again(world: World) -> None:
    world.change_spec(reopening=Reopening(after_ms=0))
    (late,) = (world.folder / WORK / "late").rglob("*.parquet")
    kept = late.read_bytes()
    late.unlink()
    for _ in range(MOST_REFUSED):
        (line,) = maintained(world)
        assert "late file lost" in line
    assert maintained(world) == []
    late.write_bytes(kept)
    assert reopened(world).new
    once(world, BOTH)


def test_it_reopens_a_few_windows_a_run(world: World) -> None:
    world.produce(record("up", 9.9))
    world.produce(record("up", 9.9), partition=1)
    world.ingest("r3")
    for hour in range(1, 6):
        world.archive(hour)
    world.produce(*(record("late", hour + 0.5) for hour in range(1, 6)))
    world.ingest("r4")
    world.change_spec(reopening=Reopening(after_ms=0))
    assert [len(maintained(world)) for _ in range(3)] == [3, 3, 0]
    assert world.table("__late") == []
    balanced(world)


@pytest.mark.parametrize("after_ms", [None, 0])
def test_it_goes_on_with_one_that_died_while_it_was_built(world: World, after_ms: int | None) -> None:
    """Not at once: a job may be at work."""
    world.change_spec(reopening=Reopening(after_ms=after_ms))
    world.context().ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    world.clock.advance(QUIET_MS - 1)
    assert maintained(world) == []
    world.clock.advance(1)
    (line,) = maintained(world)
    assert "2013-01-05T00:00Z was reopened as generation 2: 4 rows" in line
    once(world, BOTH)
    assert maintained(world) == []


@pytest.mark.parametrize("after_ms", [None, 0])
def test_it_goes_on_at_once_with_one_whose_late_rows_are_hidden(world: World, after_ms: int | None) -> None:
    """Whoever swapped it in died after the late partitions went: its rows are in neither table."""
    world.change_spec(reopening=Reopening(after_ms=after_ms))
    ctx = world.context()
    use_catalogue(ctx, Hook(catalogue_of(ctx), after={"drop_partitions": die}))
    with pytest.raises(Died):
        reopen.reopen(ctx, window(0))
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == (BOTH[:2], [])
    assert len(maintained(world)) == 1
    once(world, BOTH)


def test_an_alarm_of_another_batch_does_not_hold_it_up(world: World) -> None:
    world.produce(record("later", 0.9))
    ingest.plan(world.context(), "r3")
    ingest.write(world.context(), "r3")
    ctx = world.context()
    ctx.ledger.batches = Hook(ctx.ledger.batches, after={"land": die})  # type: ignore[assignment]
    with pytest.raises(Died):
        ingest.land(ctx, "r3")
    world.close()
    (lost,) = (world.folder / WORK / "landed/3/late").rglob("*.parquet")
    lost.unlink()
    world.change_spec(reopening=Reopening(after_ms=0))
    with pytest.raises(Alarm):
        maintained(world)
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == (BOTH, [])


def test_it_leaves_one_alone_that_is_blocked(world: World) -> None:
    ctx = world.context()
    ctx.ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    ctx.ledger.windows.block("readings", window(0), "an alarm")
    world.clock.advance(QUIET_MS)
    assert maintained(world) == []


# ---------------------------------------------------------------- what people are told


def told(world: World) -> tuple[str, str, list[tuple[int, int]]]:
    ctx = world.context()
    found = explanation.explain(ctx, ctx.ledger.reads, window(0))  # type: ignore[attr-defined]
    world.close()
    return found.summary, found.next_step, [(s.late, s.taken_up) for s in found.shares]


def test_explain_says_what_waits_and_what_was_taken_up(world: World) -> None:
    summary, step, shares = told(world)
    assert summary == "published: generation 1 (archive), 2 rows; rows that came late (2) are in lake.readings__late"
    assert step.endswith("to take the late rows up: tidegate reopen readings 2013-01-05T00:00Z")
    assert shares == [(0, 0), (2, 0)]
    reopened(world)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    summary, step, shares = told(world)
    assert summary == (
        "published: generation 2 (reopen), 4 rows, of which 2 came late and were taken up; "
        "rows that came late (1) are in lake.readings__late"
    )
    assert shares == [(0, 0), (2, 2), (1, 0)]
    reopened(world)
    assert told(world)[0] == "published: generation 3 (reopen), 5 rows, of which 3 came late and were taken up"


def test_explain_of_one_that_is_at_work(world: World) -> None:
    world.context().ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    summary, step, _ = told(world)
    assert summary == "published: generation 1 (archive), 2 rows; generation 2 (reopen) is BUILDING"
    assert step.endswith("otherwise: tidegate reopen readings 2013-01-05T00:00Z")
    reopened(world)
    once(world, BOTH)


def left(world: World) -> tuple[str, list[str]]:
    ctx = world.context()
    found = looking.status(ctx, ctx.ledger.reads, None)  # type: ignore[attr-defined]
    world.close()
    return late_words(found.late_left, "readings"), [c.what for c in found.concerns if "late rows" in c.what]


def test_status_lists_what_is_over_its_budget(world: World) -> None:
    world.change_spec(reopening=Reopening(rows=1))
    assert left(world) == ("", []), "nobody has asked for it"
    world.change_spec(reopening=Reopening(after_ms=HOUR, rows=1))
    assert left(world) == ("", []), "not yet"
    world.clock.advance(HOUR)
    assert left(world) == (
        "late rows of 2013-01-05T00:00Z wait, over the budget: 2 late rows wait (late.reopen_rows: 1); "
        "to take them up: tidegate reopen readings 2013-01-05T00:00Z --over-budget --why '...'",
        [],
    )
    reopened(world, over_budget=True)
    assert left(world) == ("", [])


def test_a_refused_reopening_needs_a_human(world: World) -> None:
    world.change_spec(reopening=Reopening(after_ms=0))
    (late,) = (world.folder / WORK / "late").rglob("*.parquet")
    late.unlink()
    for _ in range(MOST_REFUSED):
        assert left(world) == ("", [])
        maintained(world)
    assert left(world) == ("", ["reopening 2013-01-05T00:00Z was refused: its late rows wait"])


def test_it_does_not_look_for_windows_beyond_their_age(world: World) -> None:
    world.change_spec(reopening=Reopening(after_ms=0, age_ms=10 * HOUR))
    assert maintained(world) == []
    world.change_spec(reopening=Reopening(after_ms=0, age_ms=99 * HOUR))  # it is 100:00, the window ended at 01:00
    assert len(maintained(world)) == 1
