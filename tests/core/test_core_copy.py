"""The rules of a copy (S1 to S8): what is cut, read and merged next, and what a table says of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.copy import transitions
from tidegate.core.copy.port import KeyRange
from tidegate.core.copy.rounds import Chunk, ChunkState, Round, RoundState, parse_attempt
from tidegate.core.copy.steps import CopyCommit, cut, to_merge, to_read, too_old, uncut, unknown, unread_topic
from tidegate.core.mirror.commits import CopyIn, Cut, Merge, Purge, next_commit
from tidegate.core.mirror.copied import NOTHING, Copied, CopyStep, RoundIn, numbers, ranges
from tidegate.core.mirror.jobs import START
from tidegate.core.mirror.next_merge import BatchRange
from tidegate.core.mirror.parts import KeyPart
from tidegate.spec.copy_rules import is_plain

OPEN, COMPARED, WHOLE, GIVEN_UP, ENDED = RoundState
MANY = 10**6


def round_(number: int = 1, state: RoundState = OPEN, ended: bool = True) -> Round:
    return Round(pipeline="p", number=number, table="shop.t", key=("id",), state=state, ended=ended)


def chunk(number: int, read: bool = True, low: int = 50, high: int = 60, rows: int = 10, of: int = 1) -> Chunk:
    made = Chunk(pipeline="p", number=number, round=of, table="shop.t", keys=KeyRange((number - 1,), (number,)))
    if not read:
        return made
    return replace(made, state=ChunkState.READ, epoch=1, nonce="aa", low=(low, 0), high=(high, 0), rows=rows)


def inside(number: int, *chunks: int, low: int = 50, top: int = 50, swept: bool = False) -> RoundIn:
    return RoundIn(number, (low, 0, number), (top, 0, number), ranges(chunks), swept)


# ---------------------------------------------------------------- cutting


def test_bounds_become_ranges_without_a_hole() -> None:
    assert cut(None, [(3,), (7,)], 2) == ([KeyRange(None, (3,)), KeyRange((3,), (7,))], False)
    assert cut((7,), [(9,)], 1) == ([KeyRange((7,), (9,))], False)


def test_fewer_bounds_than_were_asked_for_are_the_end() -> None:
    """What is above the last bound has fewer rows than a chunk, and may have none: it is read all the same."""
    assert cut((7,), [(9,)], 2) == ([KeyRange((7,), (9,)), KeyRange((9,), None)], True)
    assert cut((9,), [], 2) == ([KeyRange((9,), None)], True)
    assert cut(None, [], 2) == ([KeyRange(None, None)], True), "of an empty table, too"


@given(st.lists(st.integers(), unique=True), st.integers(1, 5))
def test_however_it_is_cut_the_ranges_cover_all_keys_once(ends: list[int], most: int) -> None:
    ends, found, ended = sorted(ends), [], False
    while not ended:
        bounds = [(e,) for e in ends[len(found) :][:most]]
        more, ended = cut(found[-1].upper if found else None, bounds, most)
        assert (bool(more) and more[-1].upper is None) == ended
        found += more
    assert [r.upper for r in found] == [*((e,) for e in ends), None]


# ---------------------------------------------------------------- reading


def test_chunks_that_are_cut_are_read_first() -> None:
    one, left = round_(ended=False), chunk(2, read=False)
    assert to_read([], {}) is None
    assert to_read([one], {}) == (one, [])
    assert to_read([one], {1: [chunk(1), left]}) == (one, [left])
    assert to_read([one], {1: [chunk(1)]}) == (one, []), "more is to be cut"
    assert to_read([round_()], {1: [chunk(1), chunk(2)]}) is None


def test_the_oldest_round_is_read_to_its_end() -> None:
    """A whole one, too: a table that was taken back may have to lack its chunks, and one of them was too old."""
    old, new = round_(1, WHOLE), round_(2, ended=False)
    left = chunk(1, read=False)
    assert to_read([old, new], {1: [left], 2: []}) == (old, [left])
    assert to_read([old, new], {1: [chunk(1)]}) == (new, [])
    assert to_read([round_(1, WHOLE, ended=False)], {}) is None


def test_what_was_given_up_is_not_read() -> None:
    new = round_(2, ended=False)
    assert to_read([round_(1, GIVEN_UP, ended=False), new], {1: [chunk(1, read=False)]}) == (new, [])
    assert to_read([round_(1, GIVEN_UP)], {1: [chunk(1, read=False)]}) is None


def test_what_is_compared_is_read_by_who_compares_it() -> None:
    """And not merged before that is asked for."""
    one, two = round_(1, WHOLE), round_(2, COMPARED, ended=False)
    left = chunk(2, read=False, of=2)
    assert to_read([one, two], {1: [chunk(1)], 2: [left]}) is None
    assert to_read([one, two], {1: [chunk(1, read=False)], 2: [left]}, compared=True) == (two, [left])
    assert to_read([one, two], {1: [chunk(1)], 2: []}, compared=True) == (two, [])
    assert to_read([one], {1: [chunk(1, read=False)]}, compared=True) is None
    assert to_merge([one, two], {1: [], 2: [chunk(2, of=2)]}, Copied((inside(1, 1, swept=True),)), MANY) is None


def test_s4_the_topic_must_have_begun() -> None:
    said = unread_topic(None)
    assert said is not None
    assert said.startswith("no event of the table has been merged yet, so that")
    assert said.endswith("and let it be merged")
    by_days = unread_topic(None, by_days=True)
    assert by_days is not None
    assert by_days.startswith("no event of the table waits for its day, so that")
    assert by_days.endswith("and let it land"), "they show it until their day is built"
    assert unread_topic((1, 0, 0)) is None


EARLIER = Copied((inside(2, 5, low=35, top=40),))


@pytest.mark.parametrize(
    ("position", "table", "purged_below", "begins", "why"),
    [
        ((30, 0, 1), NOTHING, START, (30, 0, 0), None),
        ((30, 0, 1), NOTHING, START, (30, 1, 0), None),  # PostgreSQL: the query has seen that commit, which is merged
        ((29, 9, 1), NOTHING, START, (30, 0, 0), "its LOW is before the topic begins"),
        ((30, 0, 1), NOTHING, (30, 0, 0), START, None),
        ((30, 0, 1), NOTHING, (30, 0, 1), START, None),
        ((30, 0, 1), NOTHING, (30, 0, 2), START, "its LOW is below the purge"),
        ((30, 0, 1), NOTHING, (30, 1, 0), START, "its LOW is below the purge"),
        ((40, 0, 3), EARLIER, START, START, None),
        ((39, 9, 3), EARLIER, START, START, "its LOW is below that of an earlier copy"),
        ((36, 0, 3), EARLIER, START, START, "its LOW is below that of an earlier copy"),
        ((30, 0, 2), EARLIER, START, START, None),
        ((30, 0, 1), EARLIER, START, START, None),
    ],
)
def test_s4_s5_s7_a_chunk_that_is_too_old_is_read_again(position, table, purged_below, begins, why) -> None:
    said = too_old(position, table, purged_below, begins)
    assert (said is None) if why is None else said is not None and why in said


def test_s5_a_round_is_newer_than_all_that_earlier_ones_have_read() -> None:
    """Whole or not: an event between them may have been outdated by an earlier one's rows."""
    table = Copied((inside(1, 1, top=70, swept=True), inside(2, 2, low=20, top=60)))
    assert [table.floor(n) for n in (1, 2, 3)] == [START, (70, 0, 1), (70, 0, 1)]
    assert NOTHING.floor(1) == START


# ---------------------------------------------------------------- merging


def bringing(*chunks: int, low: int = 50, top: int = 50, high: int = 60, of: int = 1) -> CopyStep:
    return CopyStep(round=of, chunks=chunks, low=(low, 0, of), top=(top, 0, of), high=(high, 0, 0))


def merged(*chunks: Chunk, low: int = 50, top: int = 50, high: int = 60, of: int = 1) -> CopyCommit:
    return CopyCommit(bringing(*(c.number for c in chunks), low=low, top=top, high=high, of=of), chunks)


def sweep(of: int = 1, low: int = 50) -> CopyCommit:
    return CopyCommit(CopyStep(round=of, low=(low, 0, of), sweep=True))


def test_chunks_that_the_table_lacks_are_merged() -> None:
    one, two, three = chunk(1, low=55, high=80), chunk(2, low=50), chunk(3, read=False)
    assert to_merge([], {}, NOTHING, MANY) is None
    assert to_merge([round_()], {1: [three]}, NOTHING, MANY) is None
    assert to_merge([round_()], {1: [one, two, three]}, NOTHING, MANY) == merged(one, two, low=50, top=55, high=80)
    assert to_merge([round_()], {1: [one, two, three]}, Copied((inside(1, 2),)), MANY) == merged(
        one, low=55, top=55, high=80
    )


def test_a_merge_takes_so_many_rows_and_at_least_one_chunk() -> None:
    three = [chunk(1), chunk(2), chunk(3, rows=1)]
    for most, takes in ((1, 1), (10, 1), (19, 1), (20, 2), (21, 3)):
        assert to_merge([round_()], {1: three}, NOTHING, most) == merged(*three[:takes])


def test_s5_the_sweep_comes_once_all_is_in() -> None:
    both = [chunk(1), chunk(2)]
    table = Copied((inside(1, 1, 2, low=50),))
    assert to_merge([round_()], {1: both}, table, MANY) == sweep()
    assert to_merge([round_(ended=False)], {1: both}, table, MANY) is None, "more chunks are to be cut"
    assert to_merge([round_()], {1: [*both, chunk(3, read=False)]}, table, MANY) is None, "one is to be read"
    assert to_merge([round_()], {1: [*both, chunk(3)]}, table, MANY) == merged(chunk(3)), "one is to be merged"
    assert to_merge([round_()], {1: both}, Copied((inside(1, 1, 2, swept=True),)), MANY) is None


def test_the_sweep_is_at_the_smallest_low_that_the_table_tells() -> None:
    """Of a chunk that was read again, the table may have rows of both."""
    both = [chunk(1, low=70), chunk(2, low=60)]
    assert to_merge([round_()], {1: both}, Copied((inside(1, 1, 2, low=20),)), MANY) == sweep(low=20)


def test_s8_a_table_that_was_taken_back_gets_the_chunks_of_a_whole_round_again() -> None:
    whole = round_(state=WHOLE)
    assert to_merge([whole], {1: [chunk(1)]}, NOTHING, MANY) == merged(chunk(1))
    assert to_merge([whole], {1: [chunk(1)]}, Copied((inside(1, 1),)), MANY) == sweep()


def test_s6_rounds_come_in_the_order_of_their_numbers() -> None:
    rounds = [round_(1, WHOLE), round_(2)]
    chunks = {1: [chunk(1)], 2: [chunk(2, of=2)]}
    assert to_merge(rounds, chunks, NOTHING, MANY) == merged(chunk(1))
    assert to_merge(rounds, chunks, Copied((inside(1, 1, swept=True),)), MANY) == merged(chunk(2, of=2), of=2)
    newer = Copied((inside(2, 2),))
    assert to_merge(rounds, chunks, newer, MANY) == sweep(2), "nothing of an older one once a newer one is in"


def test_what_was_given_up_brings_nothing_more() -> None:
    rounds = [round_(1, GIVEN_UP), round_(2)]
    chunks = {1: [chunk(1)], 2: [chunk(2, of=2)]}
    assert to_merge(rounds, chunks, NOTHING, MANY) == merged(chunk(2, of=2), of=2)
    assert to_merge(rounds[:1], chunks, Copied((inside(1, 1),)), MANY) is None, "it is not swept either"


def test_a_copy_comes_before_batches_and_after_a_cut() -> None:
    copy = CopyIn(CopyStep(round=1, chunks=(1,)))
    lacking = BatchRange(1, 2)
    assert next_commit(lacking, 3, lambda: Purge(1), copy) == Cut(3)
    assert next_commit(lacking, None, lambda: Purge(1), copy) == copy
    assert next_commit(lacking, None, lambda: Purge(1), None) == Merge(lacking)
    assert next_commit(None, None, lambda: Purge(1), None) == Purge(1)


# ---------------------------------------------------------------- a ledger that was restored (R11)


def test_chunks_that_the_ledger_does_not_know() -> None:
    table = Copied((inside(1, 1, 2),))
    assert unknown([round_()], {1: [chunk(1), chunk(2), chunk(3)]}, table) is None
    for chunks in ([chunk(1)], [chunk(1), chunk(2, read=False)]):
        said = unknown([round_()], {1: chunks}, table)
        assert said is not None
        assert "chunk 2 of copy 1, which the ledger does not have as read" in said
    said = unknown([], {}, table)
    assert said is not None
    assert "rows of copy 1, which the ledger does not know" in said
    assert unknown([], {}, NOTHING) is None


def test_of_rounds_before_the_ledgers_newest_nothing_comes_any_more() -> None:
    table = Copied((inside(1, 1), inside(2, 2)))
    known = {2: [chunk(2, of=2)]}
    assert unknown([round_(2)], known, table) is None
    said = unknown([round_(2)], known, table, all_of_them=True)
    assert said is not None
    assert "rows of copy 1" in said
    assert unknown([round_(1), round_(2)], {1: [chunk(1)], **known}, table, all_of_them=True) is None


# ---------------------------------------------------------------- what the table says (S8)


@given(st.lists(st.integers(1, 40)))
def test_numbers_and_ranges(values: list[int]) -> None:
    found = ranges(values)
    assert numbers(found) == sorted(set(values))
    assert all(last < first - 1 for (_, last), (first, _) in pairwise(found))


def test_chunks_come_into_the_table() -> None:
    one = NOTHING.with_chunks(bringing(2)).with_chunks(bringing(1, 4, low=40, top=45, high=55))
    assert one == Copied((RoundIn(1, (40, 0, 1), (50, 0, 1), ((1, 2), (4, 4))),), (60, 0, 0))
    assert one.with_chunks(bringing(2, low=45, top=45)) == one, "a second time"
    found = one.round(1)
    assert found is not None
    assert [n in found for n in (1, 2, 3, 4)] == [True, True, False, True]
    assert (one.newest, one.whole, one.swept_below, one.round(2)) == (1, None, START, None)


def test_a_sweep_makes_a_round_whole() -> None:
    with pytest.raises(LookupError):
        NOTHING.with_sweep(1)
    both = NOTHING.with_chunks(bringing(5, low=70, top=75, high=80, of=2)).with_chunks(bringing(1, low=40))
    assert [r.number for r in both.rounds] == [1, 2]
    assert (both.newest, both.high) == (2, (80, 0, 0))
    first = both.with_sweep(1)
    assert (first.whole, first.swept_below) == (first.rounds[0], (40, 0, 1))
    second = first.with_sweep(2)
    assert (second.whole, second.swept_below) == (second.rounds[-1], (70, 0, 2))
    assert (len(second.rounds), first.with_sweep(1)) == (1, first), "no row is left of the first"


def test_what_a_commit_leaves() -> None:
    table = bringing(1, 2, low=40).after(NOTHING)
    assert table == Copied((RoundIn(1, (40, 0, 1), (50, 0, 1), ((1, 2),)),), (60, 0, 0))
    assert CopyStep(round=1, low=(40, 0, 1), sweep=True).after(table) == table.with_sweep(1)


# ---------------------------------------------------------------- names, positions, machines


def test_s1_rows_of_a_chunk_are_behind_every_event_at_its_low() -> None:
    assert chunk(7, low=50, of=3).position == (50, 0, 3) > (50, 0, 0)
    assert chunk(7).batch_id == -7
    with pytest.raises(AssertionError, match="chunk 7 is not read"):
        _ = chunk(7, read=False).position


def test_an_attempt_is_named_by_its_chunk_epoch_and_nonce() -> None:
    assert parse_attempt(chunk(7).attempt) == (7, 1, "aa")
    for name in ("7", "0.1-aa", "7.0-aa", "7.1-", "7.1-a b", "x7.1-aa", "1-2.1-aa"):
        assert parse_attempt(name) is None


def test_tables_are_cut_one_after_the_other() -> None:
    assert uncut(["a", "b"], []) == [("a", None), ("b", None)]
    mine = [replace(chunk(n), table=table, keys=KeyRange(None, upper)) for n, table, upper in CUT]
    assert uncut(["a", "b", "c"], mine) == [("b", (7,)), ("c", None)]
    assert uncut(["a"], mine) == []
    assert uncut(["a", "aa", "b"], mine) == [("aa", None), ("b", (7,))], "it came meanwhile"


def test_a_part_of_the_keys_is_cut_from_its_first_to_its_last() -> None:
    part = KeyPart(("id",), (3,), (7,))
    assert uncut(["a", "b"], [], part) == [("a", (2,)), ("b", (2,))]
    mine = [replace(chunk(1), table="a", keys=KeyRange((2,), (5,)))]
    assert uncut(["a", "b"], mine, part) == [("a", (5,)), ("b", (2,))]
    assert uncut(["a"], [*mine, replace(chunk(2), table="a", keys=KeyRange((5,), (7,)))], part) == []


def test_a_commit_brings_the_part_that_its_round_reads() -> None:
    part = KeyPart(("id",), (3,), (7,))
    step = CopyStep(round=1, chunks=(1,), low=(50, 0, 1), top=(60, 0, 1), high=(70, 0, 0), part=part)
    (one,) = step.after(NOTHING).rounds
    assert one == RoundIn(1, (50, 0, 1), (60, 0, 1), ((1, 1),), part=part)
    (more,) = replace(step, chunks=(2,), low=(40, 0, 1), top=(80, 0, 1)).after(step.after(NOTHING)).rounds
    assert (more.low, more.top, more.chunks) == ((40, 0, 1), (80, 0, 1), ((1, 2),))
    with pytest.raises(LookupError, match="round 9 has no chunk"):
        NOTHING.with_sweep(9)


CUT = ((1, "a", (3,)), (2, "a", None), (3, "b", (5,)), (4, "b", (7,)))
"""Number, table and upper bound."""


def test_what_nobody_may_be_reading_comes_first() -> None:
    cut = [replace(chunk(n), state=ChunkState.CUT, tried_ms=tried) for n, tried in ((1, 20), (2, None), (3, 10))]
    found = to_read([round_(1)], {1: cut})
    assert found is not None
    assert [c.number for c in found[1]] == [2, 3, 1]


def test_what_is_over_stays_over() -> None:
    """A chunk alone goes back: it is read again (S7). No round leaves WHOLE, GIVEN_UP or ENDED but to be forgotten."""
    ends = {(a, t.end) for t in transitions.ROUND_TRANSITIONS for a in t.start}
    assert ends == {
        ("-", OPEN),
        ("-", COMPARED),
        (COMPARED, OPEN),
        (OPEN, WHOLE),
        (OPEN, GIVEN_UP),
        (COMPARED, ENDED),
        *((over, "-") for over in (WHOLE, GIVEN_UP, ENDED)),
    }
    of_attempts = [t for t in transitions.CHUNK_TRANSITIONS if t.name in ("accept", "again")]
    assert [t.guards for t in of_attempts] == [("epoch", "nonce")] * 2, "R9: an overtaken attempt changes nothing"


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        (None, True),
        ("$.id", True),
        ('$."two words"', True),
        ('$."a.b"', True),
        ("$.Ä", True),
        ("$.a.b", False),
        ('$."a b".c', False),
        ("$._source.ts_ms", False),
        ("$._key", False),
    ],
)
def test_which_paths_name_a_column_of_the_source(path: str | None, plain: bool) -> None:
    assert is_plain(path) == plain


def test_rounds_behind_a_known_one_are_looked_at_too() -> None:
    """R11: one that brings nothing any more does not end the look."""
    table = Copied((inside(1, 1), inside(2, 2)))
    said = unknown([round_(2)], {2: []}, table)
    assert said is not None
    assert "chunk 2 of copy 2" in said
    none = unknown([round_(2)], {}, table)
    assert none is not None
    assert "chunk 2 of copy 2" in none
    assert unknown([], {}, Copied((inside(1, 1),))) is not None
    assert too_old((40, 0, 3), Copied((inside(2, 5, low=35, top=40),)), START, START) is None
    assert too_old((40, 0, 2), Copied((RoundIn(1, (1, 0, 1), (40, 0, 2), ()),)), START, START) is None


def test_a_chunk_that_nobody_has_tried_comes_before_one_that_was_tried_at_once() -> None:
    cut_ = [replace(chunk(n, read=False), tried_ms=tried) for n, tried in ((1, 1), (2, None))]
    found = to_read([round_()], {1: cut_})
    assert found is not None
    assert [c.number for c in found[1]] == [2, 1]
