"""Copies that were read again are forgotten: by the table's snapshots, in storage, and by the ledger; and what was
compared. Nobody misses them, wherever the table is taken back to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.copies.test_compare import compared
from tests.copies.test_parts import begun, read_again
from tests.copies.worlds import COPYING, CopyWorld
from tests.mirror.audits import deep, dropped
from tidegate.core.base.errors import LostComparison
from tidegate.core.copy.rounds import RoundState, parse_attempt
from tidegate.core.target.paths import Layout
from tidegate.targets.iceberg.live import said_by
from tidegate.targets.mirror.prefix import UPTO
from tidegate.workflow.apply.taking_back import take_back
from tidegate.workflow.clean.duties import Item, clean
from tidegate.workflow.copy.narrow import next_keys

DAY = 86_400_000


__all__ = ["begun"]  # tests/copies/test_planted.py begins with it


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    """Copied once: keys 1 to 12, in chunks of three."""
    made = begun(tmp_path)
    yield made
    made.close()


def whole(world: CopyWorld) -> None:
    """All keys are read again, and merged."""
    world.again()
    world.read()
    world.apply()


def in_table(world: CopyWorld) -> list[int]:
    return [one.number for one in world.standing().copied.rounds]


def in_ledger(world: CopyWorld) -> list[int]:
    found = world.context().ledger.copies.rounds(world.pipeline.name)
    world.close()
    return [one.number for one in found]


def chunks_in_files(world: CopyWorld) -> set[int]:
    names = world.store.list_names(Layout.of(world.pipeline).copies()) or []
    found = (parse_attempt(name.removesuffix(".json")) for name in names)
    return {one[0] for one in found if one is not None}


def cleaned(world: CopyWorld, days: int = 2) -> list[Item]:
    """What of copies goes after so many days."""
    world.clock.advance(days * DAY)
    try:
        return [one for one in clean(world.context()).deleted if one.kind in ("copies", "rounds")]
    finally:
        world.close()


def first_snapshot(world: CopyWorld) -> str:
    """The one in which the first copy is whole."""
    loaded = world.loaded()
    assert loaded is not None
    shown = [s for s in loaded.metadata.snapshots if UPTO in said_by(s)]
    return str(shown[-1].snapshot_id)


def has_all(world: CopyWorld) -> None:
    """The mirror is the source, and what is left of copies and batches makes it."""
    assert world.rows() == world.source_table.rows
    assert deep(world).problems == ()


# ---------------------------------------------------------------- the table


def test_a_table_names_no_copy_that_was_read_again(world: CopyWorld) -> None:
    whole(world)
    world.source_table.lose(8)
    whole(world)
    assert in_table(world) == [3]
    has_all(world)


def test_a_table_names_copies_of_keys_that_no_later_one_has(world: CopyWorld) -> None:
    world.source_table.sneak(8, "sneaked")
    world.source_table.sneak(2, "of the first copy")
    read_again(world, 7, 9)
    assert in_table(world) == [1, 2]
    read_again(world, 8, 10)
    assert in_table(world) == [1, 2, 3], "of key 7 copy 2 is the newest"
    read_again(world, 7, 10)
    assert in_table(world) == [1, 4]
    read_again(world, 1, 3)
    assert in_table(world) == [1, 4, 5]
    has_all(world)
    whole(world)
    assert in_table(world) == [6]


def test_a_copy_that_was_given_up_is_named_until_its_keys_are_read_again(world: CopyWorld) -> None:
    world.source_table.rows |= {key: "of no event" for key in range(20, 50)}
    world.again()
    world.read(go_on=lambda: False)
    world.apply()
    world.again("instead")
    assert in_table(world) == [1, 2]
    assert deep(world).problems == ()
    world.read()
    world.apply()
    assert in_table(world) == [3]
    has_all(world)


# ---------------------------------------------------------------- storage and the ledger


def test_what_was_read_again_goes(world: CopyWorld) -> None:
    whole(world)
    world.source_table.lose(8)
    whole(world)
    before = chunks_in_files(world)
    found = cleaned(world)
    rounds = [(one.path, one.why) for one in found if one.kind == "rounds"]
    assert rounds == [
        ("copy 1", "copy 2 has read its keys again"),
        ("copy 2", "copy 3 has read its keys again"),
    ]
    assert in_ledger(world) == [3]
    left = {one.number for one in world.context().ledger.copies.chunks(world.pipeline.name, 3)}
    assert chunks_in_files(world) == left < before
    assert cleaned(world) == []
    has_all(world)
    dropped(world)
    world.apply()
    has_all(world)


def test_nothing_goes_before_a_later_copy_is_whole_for_a_while(world: CopyWorld) -> None:
    world.clock.advance(9 * DAY)
    world.again()
    world.read()
    before = chunks_in_files(world)
    assert cleaned(world) == [], "it is not merged"
    world.apply()
    assert cleaned(world, 0) == [], "an audit may be reading"
    assert (chunks_in_files(world), in_ledger(world)) == (before, [1, 2])
    cleaned(world)
    assert (in_ledger(world), len(chunks_in_files(world))) == ([2], len(before) // 2)


def test_what_was_read_counts_while_a_later_copy_is_read(world: CopyWorld) -> None:
    """A table that was dropped is whole by it."""
    world.source_table.rows |= {key: "of no event" for key in range(20, 50)}
    world.again()
    world.read(go_on=lambda: False)
    dropped(world)
    told = world.apply().told.copied
    assert ([one.number for one in told.rounds], told.whole and told.whole.number) == ([1, 2], 1)


def test_what_a_table_names_stays(world: CopyWorld) -> None:
    """An audit of a table that was taken back makes its rows of what it names."""
    first = first_snapshot(world)
    whole(world)
    take_back(world.context(), first, "test")
    assert [one for one in cleaned(world) if "read its keys again" in one.why] == []
    assert deep(world).problems == ()
    assert deep(world).notes == ()


def test_a_lap_goes_on_where_it_was(tmp_path: Path) -> None:
    made = COPYING.replace("chunk_rows: 3", 'chunk_rows: 3, compare: "0 3 * * 0", compare_rows: 5')
    world = CopyWorld(tmp_path, made)
    world.source_table.rows = {key: f"old {key}" for key in range(1, 13)}
    world.source_table.set(3, "first event")
    world.mirror()
    begins = []
    for _ in range(4):
        keys = next_keys(world.context(), world.source_table)
        assert keys is not None
        begins.append(keys[0])
        compared(world, keys=keys)
        cleaned(world)
    assert begins[1:] == ["6", "11", begins[0]]
    assert in_ledger(world) == [1, 5], "of the lap before nothing is needed"
    world.close()


def test_a_copy_of_a_part_lets_no_other_keys_go(world: CopyWorld) -> None:
    read_again(world, 7, 9)
    assert cleaned(world) == []
    dropped(world)
    world.apply()
    has_all(world)
    read_again(world, 6, 9)
    cleaned(world)
    assert in_ledger(world) == [1, 3]
    has_all(world)


def test_numbers_are_never_given_twice(world: CopyWorld) -> None:
    """Rows of a table say them for a batch, and its snapshots for chunks."""
    world.source_table.sneak(5, "other")
    compared(world)
    ledger = world.context().ledger.copies
    greatest = max(one.number for one in ledger.chunks(world.pipeline.name, 2))
    world.source_table.sneak(5, "old 5")
    assert compared(world).differ == {}
    cleaned(world)
    assert in_ledger(world) == [1, 3]
    assert greatest not in chunks_in_files(world)
    whole(world)
    found = world.context().ledger.copies.chunks(world.pipeline.name, 4)
    assert min(one.number for one in found) == greatest + 1
    cleaned(world)
    assert in_ledger(world) == [4]
    assert list(world.context().ledger.copies.by_number(world.pipeline.name, range(greatest + 1))) == []


def test_the_newest_stays(world: CopyWorld) -> None:
    """The next one gets a number that no row has."""
    compared(world)
    compared(world)
    cleaned(world)
    assert in_ledger(world) == [1, 3]
    assert world.again().number == 4


def test_two_cleaners_forget_a_copy_once(world: CopyWorld) -> None:
    whole(world)
    ledger = world.context().ledger.copies
    first = ledger.rounds(world.pipeline.name)[0]
    assert first.state == RoundState.WHOLE
    ledger.forget(first, "test")
    with pytest.raises(LostComparison):
        ledger.forget(first, "test")
    assert in_ledger(world) == [2]


def test_a_copy_that_is_under_way_is_not_forgotten(world: CopyWorld) -> None:
    ledger = world.context().ledger.copies
    with pytest.raises(LostComparison, match="copy 2 was OPEN"):
        ledger.forget(world.again(), "test")


# ---------------------------------------------------------------- tables that are taken back


def test_a_table_that_is_taken_back_gets_the_newest_whole_copy(world: CopyWorld) -> None:
    first = first_snapshot(world)
    world.source_table.lose(8)
    whole(world)
    whole(world)
    cleaned(world)
    take_back(world.context(), first, "test")
    assert in_table(world) == [1]
    notes = deep(world).notes
    assert any("copy 1, which the ledger does not know" in note and "taken back" in note for note in notes), notes
    world.apply()
    assert in_table(world) == [3]
    has_all(world)


def test_what_was_read_again_is_not_merged_again_though_its_row_is_there(world: CopyWorld) -> None:
    """Its files go before its row does."""
    first = first_snapshot(world)
    whole(world)
    world.source_table.lose(8)
    whole(world)
    world.clock.advance(2 * DAY)
    ctx = world.context()
    ctx.ledger.copies.forget = lambda *_: (_ for _ in ()).throw(LostComparison("killed"))  # type: ignore[method-assign]
    clean(ctx)
    world.close()
    assert in_ledger(world) == [1, 2, 3]
    take_back(world.context(), first, "test")
    world.apply()
    has_all(world)
