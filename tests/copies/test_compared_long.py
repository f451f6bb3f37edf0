"""A comparison that lasts longer than purges wait for it (S7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.copies import test_overtaken
from tests.copies.test_overtaken import DAY, KEPT
from tests.copies.worlds import CopyWorld
from tests.fakes.source_table import place
from tests.mirror.audits import Here
from tidegate.core.base.errors import NotReady
from tidegate.core.copy.rounds import RoundState
from tidegate.workflow.copy.compare import Report, compare


def begun(folder: Path) -> CopyWorld:
    """A mirror that is whole, but for a row that was changed by hand."""
    made = test_overtaken.begun(folder, KEPT)
    made.connector = lambda: place(made.source_table, made.delivered)
    made.mirror()
    made.source_table.sneak(2, "by hand")
    return made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = begun(tmp_path)
    yield made
    made.close()


def merged(world: CopyWorld) -> None:
    world.deliver()
    world.delivered = world.source_table.end
    world.apply()


def compared(world: CopyWorld, deleted: int, fix: str = "") -> Report:
    """While it waits for an event of the row that differs, a row is deleted, and days pass."""
    source = world.source_table

    def days() -> bool:
        source.set(deleted, None)
        source.set(3, "news")
        merged(world)
        world.clock.advance(5 * DAY)
        source.set(4, "lately")
        merged(world)
        return True

    found = compare(world.context(), source, Here(), days, fix)
    assert world.standing().purged == 1
    return found


def test_s7_deleted_keys_that_were_purged_are_not_missing(world: CopyWorld) -> None:
    """Nor do they come back."""
    with pytest.raises(NotReady, match="comparison 2 has ended: a purge at .* came behind rows that it has read"):
        compared(world, 1, fix="by hand")
    newest = world.context().ledger.copies.newest(world.pipeline.name)
    assert newest is not None
    assert newest.state == RoundState.ENDED
    assert 1 not in world.rows()
    again = compare(world.context(), world.source_table, Here(), lambda: False)
    assert (again.differ, again.exact) == ({"other": 1}, True)


def test_a_purge_of_other_keys_is_no_matter(world: CopyWorld) -> None:
    """Those that it has not read had equal checksums."""
    found = compared(world, 8)
    assert (found.differ, found.exact) == ({"other": 1}, True)
