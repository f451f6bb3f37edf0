"""Redrives that meet other runs, and that die on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import balanced
from tests.dirty.redrives import first_batch, mend, once, redriven
from tests.hooks import Died, Hook, catalogue_of, die, use_catalogue
from tests.world import World, record
from tidegate.core.base.errors import CatalogueError, LostComparison, NotReady
from tidegate.core.batch.states import LandedBatch
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive
from tidegate.workflow.maintain import reconcile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_while_another_batch_is_open_it_waits(world: World) -> None:
    first_batch(world)
    world.produce(record("e0", 4.0))
    ingest.plan(world.context(), "r2")
    mend(world)
    with pytest.raises(NotReady, match="batch 2 is PLANNED") as refused:
        redrive.plan(world.context(), "redrive 1")
    assert refused.value.retry
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    assert redriven(world) is not None
    once(world)
    balanced(world)


def test_an_ingest_run_finishes_an_open_redrive_and_asks_for_another_run(world: World) -> None:
    first_batch(world)
    mend(world)
    redrive.plan(world.context(), "redrive 1")
    world.produce(record("e0", 4.0))
    assert ingest.plan(world.context(), "r2") == 2
    ingest.write(world.context(), "r2")
    assert ingest.land(world.context(), "r2")
    assert redrive.carry_out(world.context(), "redrive 1").data == 3
    assert world.ingest("r3") == 3
    once(world)
    balanced(world)


def test_two_at_once_plan_one(world: World) -> None:
    first_batch(world)
    mend(world)
    first = world.context()

    def other(*_: object) -> None:
        assert redrive.plan(world.context(), "redrive 2") == 2

    first.ledger.batches = Hook(first.ledger.batches, before={"insert_plan": once_only(other)})  # type: ignore[misc]
    assert redrive.plan(first, "redrive 1") == 2
    for run in ("redrive 1", "redrive 2"):
        assert redrive.carry_out(world.context(), run) == redrive.Redriven(
            batch_id=2, sources=(1,), rows=4, data=3, dirty=1
        )
    once(world)
    balanced(world)


def once_only(step: Callable[..., None]) -> Callable[..., None]:
    left = [step]
    return lambda *a: left.pop()(*a) if left else None


def test_the_overtaken_one_touches_nothing(world: World) -> None:
    first_batch(world)
    mend(world)
    redrive.plan(world.context(), "redrive 1")
    slow = world.context()

    def other(*_: object) -> None:
        assert redrive.carry_out(world.context(), "redrive 1").data == 3

    slow.launcher = Hook(slow.launcher, before={"run": once_only(other)})  # type: ignore[assignment]
    found = redrive.carry_out(slow, "redrive 1")
    assert found.data == 3
    once(world)
    balanced(world)


def test_a_window_that_closes_meanwhile_makes_no_row_vanish(world: World) -> None:
    """R5: hour 0 closes between looking and planning: its rows are late."""
    first_batch(world)
    mend(world)
    ctx = world.context()

    def close(*_: object) -> None:
        world.archive(0)

    ctx.ledger.batches = Hook(ctx.ledger.batches, before={"insert_plan": once_only(close)})  # type: ignore[misc]
    redrive.plan(ctx, "redrive 1")
    found = redrive.carry_out(world.context(), "redrive 1")
    assert (found.data, found.late) == (2, 1)
    once(world)
    balanced(world)


def test_a_window_does_not_close_over_an_open_redrive(world: World) -> None:
    first_batch(world)
    mend(world)
    redrive.plan(world.context(), "redrive 1")
    with pytest.raises(NotReady):
        world.archive(0)
    redrive.carry_out(world.context(), "redrive 1")
    world.archive(0)
    assert world.by_window()["00"] == [(0, 0), (0, 1)]
    balanced(world)


@pytest.mark.parametrize(("port", "call"), [
    ("storage", "rename_no_replace"), ("storage", "write_new"), ("catalogue", "drop_partitions"),
    ("catalogue", "add_partitions"), ("launcher", "run"),
])  # fmt: skip
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_anywhere_it_heals(world: World, port: str, call: str, when: str) -> None:
    first_batch(world)
    mend(world)
    redrive.plan(world.context(), "redrive 1")
    for n in range(12):
        ctx = world.context()
        nth = [n]

        def kill(*_: object, nth: list[int] = nth) -> None:
            nth[0] -= 1
            if nth[0] < 0:
                die()

        if port == "catalogue":
            use_catalogue(ctx, Hook(catalogue_of(ctx), **{when: {call: kill}}))  # type: ignore[arg-type]
        else:
            setattr(ctx, port, Hook(getattr(ctx, port), **{when: {call: kill}}))  # type: ignore[arg-type]
        try:
            redrive.carry_out(ctx, "redrive 1")
            break
        except Died:
            world.close()
    assert redrive.carry_out(world.context(), "redrive 1").data == 3
    reconcile.maintain(world.context())
    once(world)
    balanced(world)


def test_a_catalogue_that_is_away_holds_nothing_up(world: World) -> None:
    first_batch(world)
    mend(world)
    ctx = world.context()
    redrive.plan(ctx, "redrive 1")
    away = world.context()
    use_catalogue(away, Hook(catalogue_of(away), before={"drop_partitions": fails}))
    assert redrive.carry_out(away, "redrive 1").data == 3
    assert world.table("__dirty") == [(0, 1), (0, 2), (0, 4), (1, 1)]  # none of them twice
    reconcile.maintain(world.context())
    assert world.table("__dirty") == [(0, 4)]
    once(world)
    balanced(world)


def fails(*_: object) -> None:
    raise CatalogueError("the endpoint is away")


def test_the_ledger_gives_rows_to_one_owner_only(world: World) -> None:
    """Whatever planned it: a second redrive of the same rows is no plan."""
    first_batch(world)
    mend(world)
    ctx = world.context()
    redrive.plan(ctx, "redrive 1")
    batch = ctx.ledger.batches.open("readings")
    assert batch is not None
    redrive.carry_out(world.context(), "redrive 1")
    view = ctx.ledger.batches.planning_view("readings")
    with pytest.raises(LostComparison):
        ctx.ledger.batches.insert_plan(replace(batch.plan, batch_id=3), view.version, None)
    assert isinstance(ctx.ledger.batches.get("readings", 2), LandedBatch)
