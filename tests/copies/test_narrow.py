"""A comparison reads those key ranges alone whose checksums differ, and finds what it finds without them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies.test_compare import compared, delivered
from tests.copies.worlds import COPYING, CopyWorld
from tests.fakes.source_table import TABLE, _Checksums, place, position
from tests.mirror.audits import Here
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.copy.port import Checksum, KeyRange, Place
from tidegate.core.copy.rounds import RoundState
from tidegate.workflow.copy import narrow
from tidegate.workflow.copy.compare import compare, how_much
from tidegate.workflow.copy.copy import to_compare

WORDS = ("other", "", " ", "old 5 ", "Old 5", "é", "e\u0301", "😀", "4:word", ",", "NULL", "0", None)


def begun(folder: Path, rows: int = 200, chunk_rows: int = 40) -> CopyWorld:
    yaml = COPYING.replace("chunk_rows: 3", f"chunk_rows: {chunk_rows}")
    made = CopyWorld(folder, yaml)
    made.source_table.rows = {key: f"old {key}" for key in range(1, rows + 1)}
    made.source_table.set(3, "first event")
    return mirrored(made)


def mirrored(made: CopyWorld) -> CopyWorld:
    """The first copy is in, and nothing is noted of how it was read."""
    made.connector = lambda: place(made.source_table, made.delivered)
    delivered(made)
    made.mirror()
    made.source_table.reads.clear()
    made.source_table.batch_rows = 50
    return made


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CopyWorld]:
    monkeypatch.setattr(narrow, "ROWS", 5)
    made = begun(tmp_path)
    yield made
    made.close()


def test_what_is_equal_is_not_read(world: CopyWorld) -> None:
    found = compared(world)
    assert (found.differ, found.rows, found.read, found.parts, found.exact) == ({}, 200, 0, 6, True)
    assert world.source_table.reads == []
    assert world.source_table.summed[:2] == [KeyRange(None, (40,)), KeyRange((40,), (80,))]
    assert how_much(found) == "0 of 200 rows read; 6 parts by checksum"


def test_small_ranges_around_what_differs_are_read(world: CopyWorld) -> None:
    source = world.source_table
    source.sneak(41, "other")
    source.lose(123)
    source.sneak(900, "never seen")
    found = compared(world)
    assert found.differ == {"lacking": 1, "surplus": 1, "other": 1}
    assert {s.key for s in found.samples} == {"id=41", "id=123", "id=900"}
    assert (found.rows, found.read) == (200, 15)
    assert source.reads == [KeyRange((40,), (45,)), KeyRange((120,), (126,)), KeyRange((196,), (900,))]


def test_ranges_far_apart_are_read_with_what_is_between_them(world: CopyWorld) -> None:
    """Of one chunk: no more than so many queries and files."""
    for key in range(1, 200, 10):
        world.source_table.sneak(key, "other")
    assert compared(world).differ == {"other": 20}
    assert len(world.source_table.reads) == 5 * 4
    world.source_table.reads.clear()
    for key in range(1, 40, 2):
        world.source_table.sneak(key, "more")
    assert compared(world).differ == {"other": 20 + 16}
    assert world.source_table.reads[0] == KeyRange(None, (40,)), "neighbours are one"


def test_keys_outside_what_was_read_are_no_surplus(world: CopyWorld) -> None:
    world.source_table.sneak(100, "other")
    assert compared(world).differ == {"other": 1}


def test_fix_reads_the_ranges_again_and_nothing_else(world: CopyWorld) -> None:
    source = world.source_table
    source.lose(2)
    source.sneak(120, None)  # type: ignore[arg-type]
    source.sneak(201, "never seen")
    found = compared(world, fix="by hand")
    assert found.mended
    assert world.rows() == source.rows
    assert max(len(source._keys(keys)) for keys in source.reads) <= 6
    states = [one.state for one in world.context().ledger.copies.rounds(world.pipeline.name)]
    world.close()
    assert states == [RoundState.WHOLE, RoundState.ENDED, *[RoundState.WHOLE] * 3]
    again = compared(world)
    assert (again.differ, again.read) == ({}, 0)


def test_fix_leaves_the_rows_between_what_was_read(world: CopyWorld) -> None:
    """What was read to be compared is not merged: the sweep of it would take all other keys."""
    for key in (5, 190):
        world.source_table.sneak(key, "other")
    assert compared(world, fix="by hand").mended
    assert world.rows() == world.source_table.rows


def test_some_keys_are_narrowed_too(world: CopyWorld) -> None:
    source = world.source_table
    source.sneak(7, "outside")
    source.sneak(77, "inside")
    source.lose(90)
    found = compared(world, keys=("50", "99"))
    assert (found.rows, found.differ) == (49, {"surplus": 1, "other": 1})
    assert (source.summed[0].lower, max(keys.upper or (0,) for keys in source.summed)) == ((49,), (99,))
    assert compared(world, keys=("50", "99"), fix="by hand").mended
    assert {key for key, word in source.rows.items() if world.rows().get(key) != word} == {7}


def test_a_comparison_that_died_while_it_summed_is_begun_anew(world: CopyWorld) -> None:
    world.source_table.sneak(100, "other")
    to_compare(world.context(), world.source_table)
    world.close()
    found = compared(world)
    assert (found.round, found.read, found.differ) == (2, 5, {"other": 1})


def test_one_that_died_once_it_had_narrowed_reads_these_ranges(world: CopyWorld) -> None:
    def dies() -> bool:
        raise KeyboardInterrupt

    world.source_table.sneak(100, "other")
    behind, world.source_table.end = position(world.delivered), world.source_table.end + 10
    world.connector = lambda: Place(behind, world.source_table.position())
    with pytest.raises(KeyboardInterrupt):
        compare(world.context(), world.source_table, Here(), dies)
    world.close()
    world.source_table.summed.clear()
    found = compared(world, fix="by hand")
    assert (found.round, found.read, found.differ, found.mended) == (2, 5, {"other": 1}, True)
    assert world.source_table.summed == []
    assert world.rows() == world.source_table.rows


def test_a_mirror_without_a_whole_copy_is_read_wholly(tmp_path: Path) -> None:
    world = CopyWorld(tmp_path)
    world.source_table.rows = {key: f"old {key}" for key in range(1, 9)}
    world.source_table.set(3, "first event")
    delivered(world)
    world.apply()
    found = compared(world)
    assert found.unsummed == "its first copy is not whole"
    assert how_much(found) == "8 of 8 rows read: its first copy is not whole"


def test_a_database_that_refuses_to_sum_has_its_rows_read(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """As MySQL 9.6 and later do, which have no MD5; one that does not answer is asked by the next try."""

    def says(error: SourceError) -> None:
        def summed(*_: object) -> Checksum:
            raise error

        monkeypatch.setattr(_Checksums, "of", summed)

    world.source_table.sneak(100, "other")
    says(SourceError("the database refused: no such function", advice="correct the table", retry=False))
    found = compared(world)
    assert (found.differ, found.read) == ({"other": 1}, 200)
    assert how_much(found).endswith("read: the database does not sum it: the database refused: no such function")
    assert compared(world, fix="by hand").mended
    says(SourceUnavailable("it did not answer"))
    with pytest.raises(SourceUnavailable):
        compared(world)


def test_a_column_that_is_dropped_while_it_is_summed_is_not_compared(world: CopyWorld) -> None:
    """What was read has no value of it, and the mirror keeps older ones."""
    source = world.source_table
    source.sneak(100, "other")

    def drop() -> None:
        source.table = replace(TABLE, columns=TABLE.columns[:1])

    source.during = drop
    found = compared(world)
    assert (found.read, found.differ) == (5, {})


@pytest.mark.parametrize("seed", range(4))
def test_random_lives_find_what_was_planted(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is summed and read, other keys change; a key that changes is right from then on."""
    rng = random.Random(seed)
    monkeypatch.setattr(narrow, "ROWS", rng.choice((1, 4, 10)))
    world = begun(tmp_path, rng.randrange(1, 250), rng.choice((1, 7, 20, 60)))
    source, planted = world.source_table, set[int]()

    def change() -> None:
        if rng.random() < 0.3:
            key = rng.randrange(1, 280)
            planted.discard(key)
            source.set(key, rng.choice(("event", "event ", None)))

    for turn in range(2):
        for key in rng.sample(range(1, 280), rng.choice((0, 1, 3, 30))):
            word = rng.choice(WORDS)
            if key in source.rows and rng.random() < 0.3:
                source.lose(key)
            elif source.rows.get(key, "missing") == word:
                continue
            else:
                source.sneak(key, word)  # type: ignore[arg-type]
            planted.add(key)
        source.during = change
        found = compared(world)
        assert found.exact
        assert sum(found.differ.values()) == len(planted), (turn, found, planted)
        assert {int(s.key.removeprefix("id=")) for s in found.samples} <= planted
        source.during = lambda: None
        assert compared(world, fix="by hand").mended == bool(planted)
        assert world.rows() == source.rows
        planted.clear()
    world.close()
