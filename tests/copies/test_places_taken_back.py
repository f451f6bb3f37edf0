"""A mirror that is taken back lacks what was compared: a comparison of before makes nothing good any more (S12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.copies.planted_places import PLACE_BUGS
from tests.copies.test_complete import told
from tests.copies.test_later_columns import alters, changes, compared
from tests.copies.test_places import MAY_LACK, concerned, goes_on, purged, skips, world
from tests.copies.worlds import CopyWorld, copy_words
from tests.fakes.source_table import position
from tests.mirror.test_taking_back import back, tag
from tests.mutants.planting import Planted
from tidegate.core.base.instants import HOUR_MS
from tidegate.workflow.copy import copy as reading

__all__ = ["world"]  # how each test begins


def test_a_comparison_counts_while_the_table_has_the_batches_that_it_had(world: CopyWorld) -> None:
    """It is taken back to before the change that made good what was lost, and merged batch by batch."""
    purged(world)
    goes_on(world)
    tag(world, "lacks")
    before = told(world)
    goes_on(world)
    world.source_table.set(2, "comes again")
    goes_on(world)
    assert compared(world).differ == {}
    goes_on(world)
    back(world, "lacks")
    assert MAY_LACK in copy_words(world)
    assert concerned(world)
    world.clock.advance(2 * HOUR_MS)
    world.apply(most_events=1, go_on=lambda: False)
    assert world.rows()[2] != world.source_table.rows[2]
    assert told(world) == before
    world.apply()
    now = told(world)
    assert now is not None
    assert now.position == position(world.delivered), "it has them again"
    assert not concerned(world)


def test_a_comparison_counts_while_the_table_has_the_copies_that_it_had(world: CopyWorld) -> None:
    """What a copy has read that was given up is not merged again."""
    skips(world, 2, "lost")
    world.source_table.begin = world.source_table.end
    goes_on(world)
    tag(world, "lacks")
    before = told(world)
    copy = world.again(keys=("1", "9"))
    world.read()
    world.apply(go_on=lambda: False)
    world.context().ledger.copies.give_up(copy, "test")
    assert world.rows() == world.source_table.rows
    assert compared(world).differ == {}
    goes_on(world)
    assert not concerned(world)
    back(world, "lacks")
    goes_on(world)
    assert world.rows() != world.source_table.rows
    assert told(world) == before
    assert concerned(world)
    world.again()
    world.read()
    goes_on(world)
    assert not concerned(world)


def test_a_table_that_is_taken_back_while_it_is_compared_confirms_nothing(
    world: CopyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its checksums and the rows that differ by them: what was equal is not any more."""
    skips(world, 2, "lost")
    world.source_table.begin = world.source_table.end
    goes_on(world)
    tag(world, "lacks")
    copy = world.again(keys=("1", "3"))
    world.read()
    world.apply(go_on=lambda: False)
    world.context().ledger.copies.give_up(copy, "test")
    world.source_table.set(4, "differs for a moment")

    def meanwhile(*given: Any, **options: Any) -> Any:
        back(world, "lacks")
        world.deliver()
        world.delivered = world.source_table.end
        return reading.copy(*given, **options)

    monkeypatch.setattr("tidegate.workflow.copy.compare.copy", meanwhile)
    found = compared(world)
    assert (found.differ, found.read) == ({}, 1)
    assert world.rows() != world.source_table.rows
    assert concerned(world)


def test_columns_that_were_compared_are_so_while_the_table_has_what_it_had(world: CopyWorld) -> None:
    """ALTER TABLE with a default, and a change of each row: the table is taken back to before these changes."""
    alters(world)
    tag(world, "lacks")
    changes(world)
    for key in range(2, 9):
        world.source_table.set(key, f"changed {key}")
    changes(world)
    assert (told(world), compared(world).differ) == (None, {})
    changes(world)
    assert told(world) is not None
    back(world, "lacks")
    assert "column shade came after copy 1" in copy_words(world)
    world.apply(most_events=1, go_on=lambda: False)
    assert told(world) is None
    world.apply()
    assert told(world) is not None
    assert "shade" not in copy_words(world)


FOUND_BY = {
    "a comparison counts whatever was taken back of batches": (
        test_a_comparison_counts_while_the_table_has_the_batches_that_it_had
    ),
    "a comparison counts whatever was taken back of copies": (
        test_a_comparison_counts_while_the_table_has_the_copies_that_it_had
    ),
}


@pytest.mark.parametrize("name", FOUND_BY)
def test_a_planted_bug_is_found(world: CopyWorld, name: str) -> None:
    with Planted(PLACE_BUGS[name]) as planted:
        with pytest.raises(AssertionError):
            FOUND_BY[name](world)
        assert planted.never_called() == []
