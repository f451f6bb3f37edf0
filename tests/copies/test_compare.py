"""A mirror held against its source: what differs is named, what only moves is not, and `fix` puts it right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies.worlds import CopyWorld
from tests.fakes.source_table import TABLE, position
from tests.mirror.audits import Here
from tidegate.core.base.errors import NotReady
from tidegate.core.copy.rounds import RoundState
from tidegate.workflow.copy.compare import Report, compare


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = CopyWorld(tmp_path)
    made.source_table.rows = {key: f"old {key}" for key in range(1, 9)}
    made.source_table.set(3, "first event")
    made.connector = lambda: (position(made.delivered), made.source_table.position())
    delivered(made)
    made.mirror()
    yield made
    made.close()


def delivered(world: CopyWorld) -> None:
    world.deliver()
    world.delivered = world.source_table.end


def compared(world: CopyWorld, fix: str = "") -> Report:
    """While it waits, the connector delivers."""
    looks = iter(range(3))

    def wait() -> bool:
        delivered(world)
        return next(looks, None) is not None

    try:
        return compare(world.context(), world.source_table, Here(), wait, fix)
    finally:
        world.close()


def test_what_is_equal_differs_in_nothing(world: CopyWorld) -> None:
    found = compared(world)
    assert (found.differ, found.rows, found.exact, found.mended) == ({}, 8, True, False)
    newest = world.context().ledger.copies.newest(world.pipeline.name)
    assert newest is not None
    assert (newest.state, newest.why) == (RoundState.GIVEN_UP, "compared: 0 of 8 keys differ")


def test_each_kind_of_difference_is_named(world: CopyWorld) -> None:
    source = world.source_table
    source.lose(2)
    source.sneak(5, "other")
    source.sneak(20, "never seen")
    found = compared(world)
    assert found.differ == {"lacking": 1, "surplus": 1, "other": 1}
    assert {(s.kind, s.key) for s in found.samples} == {
        ("lacking", "id=20"),
        ("surplus", "id=2"),
        ("other", "id=5"),
    }
    assert world.rows()[5] == "old 5", "nothing was changed"


def test_changes_meanwhile_are_no_differences(world: CopyWorld) -> None:
    steps = iter([(1, "changed"), (2, None), (11, "new"), (1, "again"), (8, None), (3, None)])

    def meanwhile() -> None:
        for change in steps:
            world.source_table.set(*change)
            break

    world.source_table.during = meanwhile
    found = compared(world)
    assert (found.differ, found.exact) == ({}, True)


def test_a_mirror_that_cannot_be_told_to_have_caught_up_is_not_exact(world: CopyWorld) -> None:
    world.connector = None
    world.source_table.set(1, "on its way")
    found = compare(world.context(), world.source_table, Here(), lambda: False)
    assert (found.exact, found.differ) == (False, {"other": 1})


def test_fix_puts_it_right(world: CopyWorld) -> None:
    source = world.source_table
    source.lose(2)
    source.sneak(5, "other")
    found = compared(world, fix="two rows were changed by hand")
    assert found.mended
    assert world.rows() == source.rows
    assert compared(world).differ == {}


def test_a_comparison_that_died_goes_on(world: CopyWorld) -> None:
    world.source_table.lose(2)

    def dies() -> bool:
        raise KeyboardInterrupt

    world.connector, world.source_table.end = None, world.source_table.end + 10
    with pytest.raises(KeyboardInterrupt):
        compare(world.context(), world.source_table, Here(), dies)
    world.close()
    reads = len(world.source_table.reads)
    assert compared(world).differ == {"surplus": 1}
    assert len(world.source_table.reads) == reads, "what was read stays read"


def test_no_comparison_while_a_copy_is_under_way(world: CopyWorld) -> None:
    world.again()
    with pytest.raises(NotReady, match="copy 2 is under way"):
        compared(world)
    world.mirror()
    assert compared(world).differ == {}


def test_a_column_that_the_source_has_dropped_is_not_compared(world: CopyWorld) -> None:
    """The mirror keeps older values of it."""
    key = tuple(c for c in TABLE.columns if c.name == "id")
    world.source_table.table = replace(TABLE, columns=key)
    world.source_table.lose(2)
    assert compared(world).differ == {"surplus": 1}
