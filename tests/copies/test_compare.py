"""A mirror compared with its source: what differs is named, what only moves is not, and `fix` puts it right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies.worlds import CopyWorld
from tests.fakes.source_table import TABLE, _Checksums, place, position
from tests.mirror.audits import Here, dropped
from tidegate.core.base.errors import JobFailed, LostComparison, NotReady, SourceError
from tidegate.core.copy.port import Place
from tidegate.core.copy.rounds import RESUMED_MS, RoundState
from tidegate.workflow.apply.upkeep import _copied
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.copy.compare import Report, compare
from tidegate.workflow.copy.copy import to_compare
from tidegate.workflow.copy.tables import Keys


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = CopyWorld(tmp_path)
    made.source_table.rows = {key: f"old {key}" for key in range(1, 9)}
    made.source_table.set(3, "first event")
    made.connector = lambda: place(made.source_table, made.delivered)
    delivered(made)
    made.mirror()
    yield made
    made.close()


def delivered(world: CopyWorld) -> None:
    world.deliver()
    world.delivered = world.source_table.end


def compared(world: CopyWorld, fix: str = "", keys: Keys | None = None) -> Report:
    """While it waits, the connector delivers."""
    looks = iter(range(3))

    def wait() -> bool:
        delivered(world)
        return next(looks, None) is not None

    try:
        return compare(world.context(), world.source_table, Here(), wait, fix, keys)
    finally:
        world.close()


def test_what_is_equal_differs_in_nothing(world: CopyWorld) -> None:
    found = compared(world)
    assert (found.differ, found.rows, found.exact, found.mended) == ({}, 8, True, False)
    newest = world.context().ledger.copies.newest(world.pipeline.name)
    assert newest is not None
    assert (newest.state, newest.why) == (RoundState.ENDED, "compared: 0 of 8 keys differ")


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

    behind, world.source_table.end = position(world.delivered), world.source_table.end + 10
    world.connector = lambda: Place(behind, world.source_table.position())
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


# ---------------------------------------------------------------- other tasks, and what was left behind


def rounds(world: CopyWorld) -> list[RoundState]:
    found = [one.state for one in world.context().ledger.copies.rounds(world.pipeline.name)]
    world.close()
    return found


def test_a_comparison_does_not_end_what_another_one_merges(world: CopyWorld) -> None:
    world.source_table.sneak(5, "other")
    ctx = world.context()
    ledger = ctx.ledger.copies
    round_ = to_compare(ctx, world.source_table)
    ledger.merge(round_, "another task mends")
    with pytest.raises(LostComparison):
        ledger.give_up(round_, "compared: 1 of 8 keys differ")
    world.close()
    assert rounds(world) == [RoundState.WHOLE, RoundState.OPEN]


def test_a_comparison_that_a_copy_has_ended_says_so(world: CopyWorld) -> None:
    """It has read a part of the source: all other keys would be surplus."""
    calls = iter([world.again])
    world.source_table.during = lambda: [call() for call in calls]  # type: ignore[assignment, return-value]
    with pytest.raises((LostComparison, JobFailed), match=r"ended comparison|accepted"):
        compared(world)


def test_the_first_copy_begins_after_a_comparison(tmp_path: Path) -> None:
    world = CopyWorld(tmp_path)
    world.source_table.rows = {key: f"old {key}" for key in range(1, 9)}
    world.source_table.set(3, "first event")
    world.deliver()
    world.apply()
    assert compare(world.context(), world.source_table, Here(), lambda: False).differ == {"lacking": 7}
    world.close()
    assert world.mirror() == world.source_table.rows
    assert rounds(world) == [RoundState.ENDED, RoundState.WHOLE]


def test_a_comparison_that_died_long_ago_is_begun_anew(world: CopyWorld) -> None:
    """Its rows would tell nothing of what was lost since."""

    def dies() -> bool:
        raise KeyboardInterrupt

    behind, world.source_table.end = position(world.delivered), world.source_table.end + 10
    world.connector = lambda: Place(behind, world.source_table.position())
    world.source_table.sneak(5, "other")
    with pytest.raises(KeyboardInterrupt):
        compare(world.context(), world.source_table, Here(), dies)
    world.close()
    world.source_table.sneak(5, "old 5")
    world.source_table.lose(2)
    world.clock.advance(RESUMED_MS)
    assert compared(world).differ == {"surplus": 1}
    assert rounds(world) == [RoundState.WHOLE, RoundState.ENDED, RoundState.ENDED]


def test_fix_that_has_to_read_again_has_not_mended(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.source_table.sneak(5, "other")
    monkeypatch.setattr("tidegate.workflow.apply.copies.too_old", lambda *_: "its LOW is below the purge")
    assert not compared(world, fix="test").mended
    assert world.rows()[5] == "old 5"


def test_a_column_that_the_source_has_dropped_is_no_difference(world: CopyWorld) -> None:
    """Rows that have not changed since have its old values still."""
    source = world.source_table
    source.table = replace(source.table, columns=source.table.columns[:1])
    source.lose(2)
    assert compared(world).differ == {"surplus": 1}


def test_s7_tombstones_stay_while_it_compares(world: CopyWorld) -> None:
    """A row that was read and then deleted would be one that the mirror lacks."""
    ctx = world.context()
    assert not _copied(ctx)
    to_compare(ctx, world.source_table)
    assert _copied(ctx) == {""}
    world.clock.advance(RESUMED_MS)
    assert not _copied(ctx), "it has died"


def test_what_was_read_for_a_comparison_is_cleaned(world: CopyWorld) -> None:
    kept = {path for path in world.files() if "/copies/" in path}
    world.source_table.sneak(5, "other")
    compared(world)
    world.source_table.sneak(5, "old 5")
    read = {path for path in world.files() if "/copies/" in path} - kept
    assert read
    clean(world.context())
    world.close()
    assert {path for path in world.files() if "/copies/" in path} == kept | read, "it has ended lately"
    world.clock.advance(2 * 86_400_000)
    clean(world.context())
    world.close()
    assert {path for path in world.files() if "/copies/" in path} == kept
    dropped(world)
    world.apply()
    assert world.rows() == world.source_table.rows


def test_the_first_copy_waits_for_a_comparison_and_not_for_ever(tmp_path: Path) -> None:
    """One that has died holds it up for a day, and says so: nobody else would end it."""
    world = CopyWorld(tmp_path)
    world.source_table.rows = {key: f"old {key}" for key in range(1, 9)}
    world.source_table.set(3, "first event")
    world.deliver()
    world.apply()
    to_compare(world.context(), world.source_table)
    world.close()
    with pytest.raises(NotReady, match="comparison 1 is under way: the first copy begins once it has ended"):
        world.read()
    world.clock.advance(RESUMED_MS)
    assert world.mirror() == world.source_table.rows
    states = [one.state for one in world.context().ledger.copies.rounds(world.pipeline.name)]
    world.close()
    assert states == [RoundState.ENDED, RoundState.WHOLE]


def test_the_first_copy_begins_once_a_comparison_has_ended(tmp_path: Path) -> None:
    world = CopyWorld(tmp_path)
    world.source_table.rows = {key: f"old {key}" for key in range(1, 9)}
    world.source_table.set(3, "first event")
    world.deliver()
    world.apply()
    found = compared(world)
    assert found.differ == {"lacking": 7}
    assert world.mirror() == world.source_table.rows
    world.close()


def test_nobody_waits_where_nothing_differs(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector that says nothing of late, as the slot of a PostgreSQL that is idle, holds up no comparison of equal
    rows."""

    def refused(*_: object) -> object:
        raise SourceError("no such function", retry=False)

    monkeypatch.setattr(_Checksums, "of", refused)
    world.source_table.end += 5
    found = compare(world.context(), world.source_table, Here(), _nobody_waits)
    assert (found.differ, found.exact, found.read) == ({}, True, 8)
    (copied, *_) = world.context().ledger.copies.rounds(world.pipeline.name)
    assert copied.confirmed == 0, "rows can be equal by chance while a change waits in the topic (S12)"


def _nobody_waits() -> bool:
    raise AssertionError("it waited")


def test_a_comparison_says_what_it_waits_for(world: CopyWorld) -> None:
    """And how far that is; a row that differs may have an event on its way."""
    world.source_table.set(1, "on its way")
    said, looks = list[str](), iter([True, False])
    ctx = replace(world.context(), say=said.append)
    found = compare(ctx, world.source_table, Here(), lambda: next(looks))
    assert (found.exact, found.differ) == (False, {"other": 1})
    words = "\n".join(said)
    assert "keys differ whose events may be on their way: waiting for the connector" in words
    assert f"the connector has delivered up to {world.context().ledger.copies.looks('readings')[-1].position}" in words
    assert "nobody waits any longer" in words
