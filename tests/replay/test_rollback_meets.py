"""A rollback that meets something else: a ledger that was restored, a replay, somebody who asks again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.hooks import Died, Hook, die
from tests.replay.test_rollback import NEW, OLD, balanced, rolled_back, values, world
from tests.world import World, window
from tidegate.core.base.errors import LedgerError
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.replay import rollback
from tidegate.workflow.restore import adoption

__all__ = ["world"]  # a fixture


def forgotten(world: World, step: Callable[[], object]) -> None:
    """The ledger goes back to before `step`, and adopts what storage has of it."""
    world.close()
    before = world.database.read_bytes()
    step()
    world.close()
    world.clock.advance(1000)
    world.database.write_bytes(before)
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the ledger was restored")
    world.close()


def value_from(world: World, path: str) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path=path)))


def test_numbers_with_a_hole_hold_no_swap_up(world: World) -> None:
    """A replay that gave the same was discarded, and storage never had a record of it."""

    def unchanged_then_changed() -> None:
        assert world.replay(0).note == "unchanged"
        value_from(world, "$.value")
        assert world.replay(0).generation == 4

    forgotten(world, unchanged_then_changed)
    rolled_back(world, 1)
    world.change_spec(archive=replace(world.pipeline.archive, swap="directory"))
    assert world.replay(0).generation == 6
    balanced(world)


def test_the_one_before_is_the_same_in_a_ledger_that_was_restored(world: World) -> None:
    def two_more() -> None:
        value_from(world, "$.value")
        assert world.replay(0).generation == 3
        value_from(world, "$.nothing")
        assert world.replay(0).generation == 4

    forgotten(world, two_more)
    assert rollback.preview(world.context(), window(0)).then.number == 3


@pytest.mark.parametrize("answer", ["died", "no reply"])
def test_asked_again_it_goes_on_and_not_back(world: World, answer: str) -> None:
    """Whoever got no answer asks again in the same words: the rows that were to go must not come back."""

    def no_reply(*_: object) -> None:
        raise LedgerError("no reply")

    fault = die if answer == "died" else no_reply
    world.wrap = lambda name, p: Hook(p, after={"publish": fault}) if name == "windows" else p
    with pytest.raises(Died if answer == "died" else LedgerError):
        rollback.rollback(world.context(), window(0), None, "a test")
    world.wrap = lambda name, p: p
    world.close()
    again = rolled_back(world)
    assert (again.generation, again.new) == (3, True)
    assert values(world) == OLD
    assert rolled_back(world).generation == 4, "told of and done: now the one before is the other one"
    assert values(world) == NEW


def test_a_replay_gives_up_a_rollback_that_can_not_be_finished(world: World) -> None:
    world.wrap = lambda name, p: Hook(p, before={"run": die}) if name == "launcher" else p
    with pytest.raises(Died):
        rolled_back(world)
    world.wrap = lambda name, p: p
    world.close()
    min((world.folder / "lake/readings/date=2013-01-05/hour=00").rglob("*.parquet")).unlink()
    assert world.replay(0).generation == 2
    assert values(world) == NEW
