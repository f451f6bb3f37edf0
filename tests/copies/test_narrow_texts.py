"""A comparison of keys that no other place can put in order: groups of a digest are read whose checksums differ."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.copies.test_compare import compared, delivered
from tests.copies.test_narrow import WORDS, mirrored
from tests.copies.worlds import COPYING, CopyWorld
from tests.fakes.source_table import place, position
from tests.fakes.source_texts import FakeTexts
from tests.mirror.audits import Here
from tidegate.core.base.errors import SpecError
from tidegate.core.copy.port import KeyRange, Place
from tidegate.core.copy.rounds import RoundState
from tidegate.workflow.copy import narrow
from tidegate.workflow.copy.compare import compare, how_much

TEXTS = COPYING.replace("name: id, type: bigint", "name: id, type: string")
ROWS = 5
ODD = ("", "a,1:b", "NULL", "Straße", "Æsir", "😀", "日本", "O'Brien", 'x"', "\\", "%s", "x\ny", "0", "-1")


def begun(folder: Path, rows: int = 200, chunk_rows: int = 40) -> CopyWorld:
    made = CopyWorld(folder, TEXTS.replace("chunk_rows: 3", f"chunk_rows: {chunk_rows}"))
    made.source_table = FakeTexts()
    made.source_table.rows = {key: f"old {key}" for key in (*(f"{'Kk'[n % 2]}ey {n}" for n in range(rows)), *ODD)}
    made.source_table.set("first", "first event")
    return mirrored(made)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CopyWorld]:
    monkeypatch.setattr(narrow, "ROWS", ROWS)
    made = begun(tmp_path)
    yield made
    made.close()


def test_what_is_equal_is_not_read(world: CopyWorld) -> None:
    found = compared(world)
    assert (found.differ, found.rows, found.read, found.parts, found.exact) == ({}, 215, 0, 64, True)
    assert world.source_table.reads == []
    assert len(world.source_table.summed) == 6, "each row is summed once"
    assert how_much(found) == "0 of 215 rows read; 64 parts by checksum"


def test_groups_of_what_differs_are_read(world: CopyWorld) -> None:
    source: FakeTexts = world.source_table  # type: ignore[assignment]
    source.sneak("Key 40", "other")
    source.lose("Straße")
    source.sneak("never seen", "word")
    found = compared(world)
    assert found.differ == {"lacking": 1, "surplus": 1, "other": 1}
    assert {s.key for s in found.samples} == {"id=Key 40", "id=Straße", "id=never seen"}
    assert (found.rows, found.exact) == (215, True)
    assert found.read < 30
    groups = {keys.groups for keys in source.reads}
    assert [len(one.numbers) <= 3 for one in groups if one] == [True], "each chunk has the same"
    ends = [(keys.lower, keys.upper) for keys in source.reads]
    assert (ends[0][0], ends[-1][1]) == (None, None)
    assert [end for _, end in ends[:-1]] == [begin for begin, _ in ends[1:]]


@pytest.mark.parametrize(("of", "to"), [("Key 40", "kEY 40"), ("Key 40", "Key 40 "), ("Straße", "strasse")])
def test_keys_that_are_one_to_the_database_are_two(world: CopyWorld, of: str, to: str) -> None:
    """Without an event."""
    source: FakeTexts = world.source_table  # type: ignore[assignment]
    source.sneak(to, source.rows[of])
    assert of not in source.rows
    found = compared(world)
    assert found.differ == {"lacking": 1, "surplus": 1}
    assert {s.key for s in found.samples} == {f"id={of}", f"id={to}"}
    assert compared(world, fix="by hand").mended
    assert world.rows() == source.rows


def test_fix_reads_all_since_texts_have_no_parts(world: CopyWorld) -> None:
    source: FakeTexts = world.source_table  # type: ignore[assignment]
    source.lose("Key 2")
    source.sneak("Key 120", "other")
    assert compared(world, fix="by hand").mended
    assert world.rows() == source.rows
    states = [one.state for one in world.context().ledger.copies.rounds(world.pipeline.name)]
    world.close()
    assert states == [RoundState.WHOLE, RoundState.ENDED, RoundState.WHOLE]
    again = compared(world)
    assert (again.differ, again.read) == ({}, 0)
    with pytest.raises(SpecError, match=r"column id of the key is varchar\(40\)"):
        compared(world, keys=("a", "b"))


def test_where_most_groups_differ_all_is_read_once(world: CopyWorld) -> None:
    source: FakeTexts = world.source_table  # type: ignore[assignment]
    for n in range(0, 200, 2):
        source.sneak(f"Key {n}", "other")
    found = compared(world, fix="by hand")
    assert (found.differ, found.read, found.mended) == ({"other": 100}, 215, True)
    assert not any(keys.groups for keys in source.reads)
    assert sum(keys.lower is None for keys in source.reads) == 1, "what was read is what was merged"
    assert world.rows() == source.rows


def test_one_that_died_once_it_had_narrowed_reads_these_groups(world: CopyWorld) -> None:
    def dies() -> bool:
        raise KeyboardInterrupt

    world.source_table.sneak("Key 100", "other")  # type: ignore[arg-type]
    behind, world.source_table.end = position(world.delivered), world.source_table.end + 10
    world.connector = lambda: Place(behind, world.source_table.position())
    with pytest.raises(KeyboardInterrupt):
        compare(world.context(), world.source_table, Here(), dies)
    world.close()
    world.source_table.summed.clear()
    found = compared(world)
    assert (found.round, found.differ, world.source_table.summed) == (2, {"other": 1}, [])
    assert 0 < found.read < 15


def test_a_database_is_not_asked_to_look_at_more_rows_than_the_rate_says(
    world: CopyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hashes the key of each row for the few that it sends."""
    seen: list[float | None] = []

    def noted(batches: Iterator[Any], rate: float | None) -> Iterator[Any]:
        seen.append(rate)
        return batches

    monkeypatch.setattr("spark_jobs.chunks.paced", noted)
    copy = world.pipeline.copy
    assert copy is not None
    world.change_spec(copy=replace(copy, rate=6_400))
    world.source_table.sneak("Key 40", "other")  # type: ignore[arg-type]
    compared(world)
    assert set(seen) == {100.0}, "one group of 64"
    world.again()
    world.read()
    assert set(seen) == {100.0, 6_400.0}


@pytest.mark.parametrize("seed", range(3))
def test_random_lives_find_what_was_planted(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is summed and read, other keys change, some to another spelling; what changes is right from then on."""
    rng = random.Random(seed)
    monkeypatch.setattr(narrow, "ROWS", rng.choice((1, 4, 10)))
    world = begun(tmp_path, rng.randrange(1, 150), rng.choice((1, 7, 20, 60)))
    source: FakeTexts = world.source_table  # type: ignore[assignment]

    def some_key() -> str:
        found = rng.choice((f"Key {rng.randrange(170)}", rng.choice(ODD)))
        return rng.choice((found, found.upper(), f"{found} "))

    def change() -> None:
        if rng.random() < 0.3:
            source.set(some_key(), rng.choice(("event", "event ", None)))

    def wrong() -> set[str]:
        """Keys of either side that the other one does not have alike, once all events are merged."""
        mirror = world.rows()
        return {k for k in {*mirror, *source.rows} if mirror.get(k, "missing") != source.rows.get(k, "missing")}

    for _ in range(2):
        for _ in range(rng.choice((0, 1, 3, 30))):
            key = some_key()
            if key in source.rows and rng.random() < 0.3:
                source.lose(key)
            else:
                source.sneak(key, rng.choice(WORDS))  # type: ignore[arg-type]
        source.during = change
        found = compared(world)
        assert found.exact
        delivered(world)
        world.apply()
        planted = wrong()
        assert sum(found.differ.values()) == len(planted), (found, planted)
        source.during = lambda: None
        assert compared(world, fix="by hand").mended == bool(planted)
        assert world.rows() == source.rows
    world.close()


def test_a_table_without_rows_is_one_group(tmp_path: Path) -> None:
    world = CopyWorld(tmp_path, TEXTS)
    world.source_table = FakeTexts()
    world.source_table.set("first", "event")  # type: ignore[arg-type]
    world.connector = lambda: place(world.source_table, world.delivered)
    delivered(world)
    world.mirror()
    world.source_table.lose("first")  # type: ignore[arg-type]
    found = compared(world)
    assert (found.differ, found.rows, found.parts) == ({"surplus": 1}, 0, 1)
    assert world.source_table.reads[-1] == KeyRange()
    world.close()
