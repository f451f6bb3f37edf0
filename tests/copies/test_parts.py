"""Some keys of a copied mirror are read again, or compared: these alone, and whatever else is on its way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.copies.test_compare import delivered
from tests.copies.worlds import COPYING, CopyWorld
from tests.fakes.source_table import TABLE, place
from tests.mirror.audits import Here, deep
from tests.mirror.test_where_key import ask
from tidegate.core.base.errors import NotReady, SpecError
from tidegate.core.copy.port import KeyRange, SourceColumn
from tidegate.core.copy.rounds import RoundState
from tidegate.core.copy.steps import cut, uncut
from tidegate.core.mirror.parts import KeyPart, SweptPart, holds, key_part, swept_below
from tidegate.workflow.copy.compare import Report, compare
from tidegate.workflow.look import status

SEVEN_TO_NINE = KeyPart(("id",), (7,), (9,))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    """Copied once: keys 1 to 12."""
    made = begun(tmp_path)
    yield made
    made.close()


def begun(folder: Path, yaml: str = COPYING) -> CopyWorld:
    made = CopyWorld(folder, yaml)
    made.source_table.rows = {key: f"old {key}" for key in range(1, 13)}
    made.source_table.set(3, "first event")
    made.connector = lambda: place(made.source_table, made.delivered)
    delivered(made)
    made.mirror()
    return made


def read_again(world: CopyWorld, first: int, last: int) -> None:
    world.again(keys=(str(first), str(last)))
    world.read()
    world.apply()


def test_only_these_keys_are_read_and_put_right(world: CopyWorld) -> None:
    source = world.source_table
    source.lose(2)
    source.lose(8)
    source.sneak(9, "sneaked")
    source.sneak(11, "elsewhere")
    source.reads.clear()
    read_again(world, 7, 9)
    assert source.reads == [KeyRange((6,), (9,))]
    wanted = {**{key: f"old {key}" for key in range(1, 13)}, 3: "first event", 9: "sneaked"}
    del wanted[8]
    assert world.rows() == wanted
    told = world.apply().told
    assert told.rows + told.tombstones + told.purged == told.inserted
    assert deep(world).problems == ()


def test_a_part_is_cut_into_chunks_and_ends_at_its_last_key(world: CopyWorld) -> None:
    world.source_table.rows |= {key: "more" for key in range(20, 40)}
    world.source_table.reads.clear()
    read_again(world, 5, 30)
    reads = world.source_table.reads
    assert (reads[0].lower, reads[-1].upper) == ((4,), (30,))
    assert [one.upper for one in reads[:-1]] == [one.lower for one in reads[1:]]
    assert len(reads) > 5
    assert {k for k in world.rows() if k >= 20} == set(range(20, 31))


def test_a_part_without_rows_takes_those_of_the_mirror_away(world: CopyWorld) -> None:
    for key in (7, 8, 9):
        world.source_table.lose(key)
    read_again(world, 7, 9)
    assert world.rows() == world.source_table.rows


def test_an_event_of_before_the_part_brings_nothing_back(world: CopyWorld) -> None:
    """S5: the key was not there when the part was read, whatever comes later from before."""
    source = world.source_table
    source.set(8, "to be lost")
    source.set(20, "of another part")
    source.lose(8)
    read_again(world, 7, 9)
    assert 8 not in world.rows()
    delivered(world)  # both events are older than what was read
    told = world.apply().told
    assert world.rows() == source.rows
    assert told.below_purge == 0, "it is no alarm"
    assert deep(world).problems == ()
    assert [e.state for e in ask(world, "id=8").events if e.n == 0] == ["swept"]
    assert [e.state for e in ask(world, "id=20").events] == ["row"]


def test_an_event_of_after_the_part_brings_the_key_back(world: CopyWorld) -> None:
    world.source_table.lose(8)
    read_again(world, 7, 9)
    world.source_table.set(8, "again")
    delivered(world)
    world.apply()
    assert world.rows() == world.source_table.rows


def test_a_part_makes_no_table_whole_and_does_not_end_a_copy(tmp_path: Path) -> None:
    made = CopyWorld(tmp_path)
    made.source_table.rows = {key: "old" for key in range(1, 9)}
    made.source_table.set(3, "first event")
    made.deliver()
    made.apply()
    with pytest.raises(NotReady, match="its first copy is not whole"):
        made.again(keys=("1", "2"))
    made.mirror()
    made.again("all of it")
    with pytest.raises(NotReady, match="copy 2 is under way: it reads these keys, too"):
        made.again(keys=("1", "2"))
    made.close()


def test_the_certificate_stays_that_of_the_whole_copy(world: CopyWorld) -> None:
    before = world.standing().copied
    world.source_table.lose(8)
    read_again(world, 7, 9)
    after = world.standing().copied
    assert (after.whole, after.swept_below) == (before.whole, before.swept_below)
    assert after.swept_parts == (SweptPart(SEVEN_TO_NINE, after.rounds[-1].low),)
    world.again("all of it")
    world.mirror()
    assert world.standing().copied.swept_parts == (), "the whole copy says it of all keys"


def test_a_part_under_way_is_given_up_for_another(world: CopyWorld) -> None:
    world.again(keys=("1", "2"))
    world.again(keys=("7", "9"))
    rounds = world.context().ledger.copies.rounds(world.pipeline.name)
    assert [(one.state, one.part) for one in rounds[1:]] == [
        (RoundState.GIVEN_UP, KeyPart(("id",), (1,), (2,))),
        (RoundState.OPEN, SEVEN_TO_NINE),
    ]
    ctx = world.context()
    found = status.statuses([world.pipeline], {}, ctx.ledger.reads, world.clock.now_ms())[world.pipeline.name]
    world.close()
    assert "copy 3 (id 7 to 9): 0 of 0 chunks so far read" in found.copy_words


# ---------------------------------------------------------------- compare


def compared(world: CopyWorld, first: int, last: int, fix: str = "") -> Report:
    try:
        return compare(world.context(), world.source_table, Here(), lambda: True, fix, (str(first), str(last)))
    finally:
        world.close()


def test_only_these_keys_are_compared_and_fixed(world: CopyWorld) -> None:
    source = world.source_table
    source.lose(2)
    source.lose(8)
    source.sneak(9, "sneaked")
    source.sneak(12, "elsewhere")
    found = compared(world, 7, 9)
    assert (found.rows, found.differ, found.mended) == (2, {"surplus": 1, "other": 1}, False)
    assert compared(world, 4, 6).differ == {}
    assert compared(world, 7, 9, fix="by hand").mended
    assert compared(world, 7, 9).differ == {}
    assert {k for k, v in world.rows().items() if source.rows.get(k) != v} == {2, 12}


# ---------------------------------------------------------------- what a part is


def test_bad_parts_are_refused(world: CopyWorld) -> None:
    for keys, why in (
        (("a", "b"), "'a' is no key: whole numbers are needed for id"),
        (("1,2", "3"), "'1,2' is no key: a value is needed for each of id"),
        (("9", "7"), "'7' is below '9'"),
        (("0", str(2**63)), "no column holds such a number"),
    ):
        with pytest.raises(SpecError, match=why):
            world.again(keys=keys)
    text = (SourceColumn("id", "varchar(20)", nullable=False), *TABLE.columns[1:])
    world.source_table.table = replace(TABLE, columns=text)
    with pytest.raises(
        SpecError, match=r"column id of the key is varchar\(20\) in the source and bigint in the mirror"
    ):
        world.again(keys=("1", "2"))


def test_keys_of_several_columns_are_compared_column_by_column(rng: random.Random) -> None:
    part = key_part(["a", "b"], "2,5", "4,1")
    pairs = [(a, b) for a in range(6) for b in range(7)]
    wanted = [(2, 5) <= pair <= (4, 1) for pair in pairs]
    assert [bool(holds(part, {"a": a, "b": b})) for a, b in pairs] == wanted
    columns = {name: np.array([pair[at] for pair in pairs]) for at, name in enumerate(("a", "b"))}
    assert holds(part, columns).tolist() == wanted
    assert (part.lower, part.words) == ((2, 4), "a, b 2, 5 to 4, 1")


def test_the_newest_part_that_holds_a_key_counts() -> None:
    parts = [
        SweptPart(KeyPart(("id",), (1,), (5,)), (2**61, 1, 2)),
        SweptPart(KeyPart(("id",), (4,), (9,)), (2**62, 0, 3)),
    ]
    found = {key: swept_below({"id": key}, (7, 7, 1), parts) for key in range(11)}
    assert found[0] == found[10] == (7, 7, 1)
    assert found[1] == found[3] == (2**61, 1, 2)
    assert found[4] == found[9] == (2**62, 0, 3)
    many = swept_below({"id": np.arange(11)}, (7, 7, 1), parts)
    assert [tuple(int(c[k]) for c in many) for k in range(11)] == [tuple(map(int, found[k])) for k in range(11)]


def test_cuts_of_a_part() -> None:
    part = KeyPart(("id",), (7,), (9,))
    assert cut((6,), [(8,), (10,)], 2, part) == ([KeyRange((6,), (8,)), KeyRange((8,), (9,))], True)
    assert cut((6,), [(9,), (12,)], 2, part) == ([KeyRange((6,), (9,))], True)
    assert cut((6,), [], 2, part) == ([KeyRange((6,), (9,))], True)
    assert cut((6,), [(7,), (8,)], 2, part) == ([KeyRange((6,), (7,)), KeyRange((7,), (8,))], False)
    assert uncut(["t"], [], part) == [("t", (6,))]


TWICE = COPYING.replace("string}}\n", "string}}\n  - {{name: again, type: bigint, from: $.id}}\n", 1)
"""Another column of the mirror is taken from the key's, too."""


def test_a_column_beside_the_key_that_is_taken_from_the_same_one(tmp_path: Path) -> None:
    """A sweep by that one would meet tombstones, which have no value of it, and the key in none."""
    world = begun(tmp_path, TWICE)
    source = world.source_table
    source.set(7, None)
    delivered(world)
    world.apply()
    source.lose(8)
    source.sneak(2, "sneaked")
    read_again(world, 7, 9)
    assert {**world.rows(), 2: "sneaked"} == source.rows
    for fix in ("", "by hand"):
        found = compare(world.context(), source, Here(), lambda: False, fix)
        world.close()
        assert (found.differ, found.unsummed, found.mended) == ({"other": 1}, "", bool(fix))
    source.set(9, "goes on")
    delivered(world)
    world.apply()
    assert world.rows() == source.rows
