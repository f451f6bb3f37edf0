"""Copies of a mirror by days: which copy the next day takes, and what days say of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.copy.days import all_read, copied, forgotten, to_take, whole
from tidegate.core.copy.port import KeyRange
from tidegate.core.copy.rounds import Chunk, ChunkState, Round, RoundState
from tidegate.core.mirror.copied import Copied, RoundIn
from tidegate.core.mirror.parts import KeyPart

OPEN, COMPARED, WHOLE, GIVEN_UP, ENDED = RoundState
PART = KeyPart(("id",), (7,), (9,))


def copy(number: int = 1, state: RoundState = WHOLE, **more: object) -> Round:
    made = Round(pipeline="p", number=number, table="shop.t", key=("id",), state=state, ended=True)
    return replace(made, **more)  # type: ignore[arg-type]


def chunk(number: int, low: int = 50, state: ChunkState = ChunkState.READ) -> Chunk:
    made = Chunk(pipeline="p", number=number, round=1, table="shop.t", keys=KeyRange(), state=state)
    return replace(made, low=(low, 2), high=(90, 0))


@pytest.mark.parametrize(
    ("rounds", "found"),
    [
        ([], False),
        ([copy()], True),
        ([copy(part=PART)], False),
        ([copy(state=OPEN)], False),
        ([copy(1), copy(2, OPEN), copy(3, part=PART)], True),
    ],
)
def test_the_first_day_waits_for_a_whole_copy_of_the_table(rounds: list[Round], found: bool) -> None:
    assert whole(rounds) is found


@pytest.mark.parametrize(
    ("one", "chunks", "read"),
    [
        (copy(state=OPEN), [chunk(1), chunk(2)], True),
        (copy(state=OPEN), [chunk(1), chunk(2, state=ChunkState.CUT)], False),
        (copy(state=OPEN, ended=False), [chunk(1)], False),
        (copy(state=WHOLE), [chunk(1)], False),
        (copy(state=COMPARED), [chunk(1)], False),
    ],
)
def test_a_copy_is_read_once_all_its_chunks_are_cut_and_read(one: Round, chunks: list[Chunk], read: bool) -> None:
    assert all_read(one, chunks) is read


def test_a_day_takes_the_newest_whole_copy_that_the_day_before_has_not() -> None:
    rounds = [copy(3), copy(1), copy(4, GIVEN_UP), copy(5, part=PART), copy(6, OPEN)]
    assert [to_take(rounds, after) for after in (0, 2, 3)] == [rounds[0], rounds[0], None]
    assert to_take([], 0) is None


def test_a_day_that_is_built_again_takes_no_copy_of_after_its_first_publication() -> None:
    rounds = [copy(1, done_ms=10), copy(2, done_ms=20)]
    assert [to_take(rounds, 0, by_ms) for by_ms in (9, 10, 19, 20)] == [None, rounds[0], rounds[0], rounds[1]]
    assert to_take([copy(1)], 0, by_ms=0) == copy(1), "a ledger that does not say when"


def test_r11_a_copy_that_a_day_has_and_a_restored_ledger_has_not() -> None:
    rounds = [copy(1), copy(2, OPEN)]
    assert forgotten(rounds, 0) is forgotten(rounds, 1) is None
    said = "a published day has the rows of copy {}, which the ledger {}"
    assert forgotten(rounds, 2) == said.format(2, "does not have as whole")
    assert forgotten(rounds, 3) == forgotten([], 3) == said.format(3, "does not know")


def test_what_days_say_of_whole_copies() -> None:
    chunks = {1: [chunk(4, 60), chunk(5, 40), chunk(7, 50)], 2: [chunk(8)], 3: [chunk(9)]}
    assert copied([copy(1), copy(2, OPEN), copy(3, part=PART)], chunks) == Copied(
        (
            RoundIn(1, (40, 2, 1), (60, 2, 1), ((4, 5), (7, 7)), swept=True),
            RoundIn(3, (50, 2, 1), (50, 2, 1), ((9, 9),), swept=True, part=PART),
        )
    )


def test_the_copy_that_a_day_has_is_told_as_the_day_says_it_unless_the_ledger_has_it() -> None:
    taken = RoundIn(2, (5, 0, 2), (6, 0, 2), swept=True)
    known = copied([copy(1)], {1: [chunk(4)]}, taken)
    assert known.rounds == (*copied([copy(1)], {1: [chunk(4)]}).rounds, taken)
    assert copied([copy(2)], {2: [chunk(4)]}, taken) == copied([copy(2)], {2: [chunk(4)]})


def test_a_round_that_is_whole_forgets_earlier_ones_of_its_own_keys_alone() -> None:
    """No row is left of them, and its LOW says more (S5)."""
    wide, other = KeyPart(("id",), (5,), (20,)), KeyPart(("id",), (30,), (40,))
    rounds = tuple(
        RoundIn(number, (number, 0, number), (number, 0, number), swept=True, part=part)
        for number, part in enumerate((None, PART, other, wide, PART), 1)
    )
    table = Copied(rounds)
    assert [one.number for one in table.with_sweep(4).rounds] == [1, 3, 4, 5]
    assert [one.number for one in table.with_sweep(2).rounds] == [1, 2, 3, 4, 5]
    everything = replace(table, rounds=(*rounds, replace(rounds[0], number=6, swept=False)))
    assert [one.number for one in everything.with_sweep(6).rounds] == [6]
