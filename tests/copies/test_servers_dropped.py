"""The rows of a server that copy.servers names no more are dropped, once a person says so (S11, S5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.copies.servers import A, B, ServersWorld
from tests.copies.test_servers import copied as begun
from tests.copies.test_servers_gone import back, gone
from tests.copies.worlds import copy_words
from tests.mirror.audits import deep, dropped
from tidegate.core.base.errors import SpecError
from tidegate.core.copy.rounds import RoundState
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.copy.copy import to_compare
from tidegate.workflow.copy.drop import drop


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ServersWorld]:
    made = begun(tmp_path)
    yield made
    made.close()


def left(world: ServersWorld, server: str = B) -> None:
    """Its rows are dropped, and that is merged."""
    drop(world.context(), server, "its tables are elsewhere")
    world.close()
    world.apply()


def of_first(world: ServersWorld) -> dict[tuple[str, int], str]:
    return {key: word for key, word in world.source.items() if key[0] == A}


def test_s9_the_time_is_told_again_without_a_server_whose_rows_are_gone(world: ServersWorld) -> None:
    gone(world)
    assert f"tidegate copy --drop --server {B} drops them" in copy_words(world)
    left(world)
    assert world.found() == of_first(world)
    told = world.standing().copied.complete
    assert told is not None
    assert (list(dict(told.servers)), told.at_ms is not None) == ([A], True)
    words = copy_words(world)
    assert f"server {B}: copy.servers names it no more, and its rows were dropped" in words
    assert "cannot say so" not in words
    assert deep(world).problems == ()
    dropped(world)
    world.apply()
    assert world.found() == of_first(world)


def test_s5_no_event_of_before_brings_a_row_back(world: ServersWorld) -> None:
    """It comes once the line is there again: a connector that sends once more what it has sent."""
    late = world.source_tables[B].log[-1]
    before = gone(world)
    left(world)
    back(world, before)
    world.land(late)
    world.apply()
    assert world.found() == of_first(world)


def test_an_event_that_had_landed_and_comes_later_is_told_of(world: ServersWorld) -> None:
    """Its batch was planned before the line went: its row is there, and the command may be said once more."""
    before = gone(world)
    left(world)
    gone_now = world.pipeline
    back(world, before)
    world.source_tables[B].set(2, "late")
    world.deliver(B)
    world.pipeline = gone_now
    world.apply()
    assert "its rows stay as they are" in copy_words(world)
    told = world.standing().copied.complete
    assert told is None or told.at_ms is None
    left(world)
    assert world.found() == of_first(world)
    assert "its rows were dropped" in copy_words(world)


def test_a_server_that_comes_back_is_read_anew(world: ServersWorld) -> None:
    before = gone(world)
    left(world)
    back(world, before)
    world.deliver()
    world.apply()
    told = world.standing().copied.complete
    assert told is None or B not in dict(told.servers), "nothing says that its rows are in the table"
    assert world.found() == of_first(world)
    assert world.mirror() == world.source
    assert list(dict(world.standing().copied.complete.servers)) == [A, B]
    assert {name: one.differ for name, one in world.compared().items()} == {A: {}, B: {}}
    assert deep(world).problems == ()


def test_a_line_that_is_back_before_the_rows_have_gone_keeps_them(world: ServersWorld) -> None:
    before = gone(world)
    drop(world.context(), B, "too early")
    world.close()
    back(world, before)
    world.again(B)
    world.read()
    world.apply()
    assert world.found() == world.source
    states = [one.state for one in world.context().ledger.copies.rounds(world.pipeline.name)]
    assert states[-2:] == [RoundState.GIVEN_UP, RoundState.WHOLE]


@pytest.mark.parametrize("compares", [False, True])
def test_what_was_under_way_of_it_ends(world: ServersWorld, compares: bool) -> None:
    if compares:
        to_compare(world.context(), world.source_tables[B], server=B)
        world.close()
    else:
        world.again(B)
    gone(world)
    assert f"(server {B}) goes on no more" in copy_words(world)
    left(world)
    assert "goes on no more" not in copy_words(world)
    assert world.found() == of_first(world)


def test_the_ledger_forgets_its_copies(world: ServersWorld) -> None:
    gone(world)
    left(world)
    world.again(A)
    world.read()
    world.apply()
    world.clock.advance(30 * 86_400_000)
    clean(world.context())
    world.close()
    rounds = world.context().ledger.copies.rounds(world.pipeline.name)
    assert [(one.server, one.drops) for one in rounds] == [(B, True), (A, False)]


def test_rows_of_a_server_that_is_named_or_unknown_stay(world: ServersWorld) -> None:
    with pytest.raises(SpecError, match=f"copy.servers names {B}"):
        drop(world.context(), B, "test")
    with pytest.raises(SpecError, match="no rows of a server nobody"):
        drop(world.context(), "nobody", "test")
    world.close()
    assert world.found() == world.source


def test_a_column_that_came_later_is_none_that_a_server_that_is_gone_lacks(tmp_path: Path) -> None:
    """Nobody could read it there."""
    world = begun(tmp_path)
    gone(world)
    world.change_spec(columns=(*world.pipeline.columns, Column(name="note", type="string", path="$.note")))
    assert "column note came after copy" in copy_words(world)
    world.again(A)
    world.read()
    world.apply()
    assert "column note came" not in copy_words(world)
    world.close()
