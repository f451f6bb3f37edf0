"""How far a copy is: its chunks as a map, since when nothing is older (S9', S10), and both in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE

from tidegate.core.copy import transitions as moves
from tidegate.core.copy.complete import Look, complete, kept, unmerged, unread, worth_telling
from tidegate.core.copy.port import KeyGroups, KeyRange
from tidegate.core.copy.rounds import Chunk, ChunkFile, ChunkState, Reading, Round, RoundState, damaged
from tidegate.core.copy.words import how_far, how_far_by_days
from tidegate.core.look import chunk_map as maps
from tidegate.core.look.chunk_map import Cell, chunk_map
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Complete, Copied, CopyStep, RoundIn, ranges, stays_hidden
from tidegate.core.mirror.jobs import ApplyReceipt, ServerLog
from tidegate.core.mirror.parts import KeyPart
from tidegate.core.spec.change_events import SAYS_HOW
from tidegate.core.target.prefix import Merged

ROUND = Round(pipeline="p", number=2, table="shop.t", key=("id",), state=RoundState.OPEN)


def chunk(number: int, **more: object) -> Chunk:
    made = Chunk(pipeline="p", number=number, round=2, table="shop.t", keys=KeyRange((number,), (number + 1,)))
    return replace(made, **more)  # type: ignore[arg-type]


def read(number: int, **more: object) -> Chunk:
    return replace(chunk(number), state=ChunkState.READ, epoch=1, tried_ms=0, read_ms=HOUR, **{"rows": 1200, **more})  # type: ignore[arg-type]


def inside(*chunks: int, swept: bool = False) -> RoundIn:
    return RoundIn(2, (5, 0, 2), (6, 0, 2), ranges(chunks), swept)


def test_rounds_and_chunks_are_known_by_their_numbers() -> None:
    one, part = moves.of_round(ROUND), moves.of_chunk(chunk(7))
    assert (one.row, one.subject, one.words) == ({"pipeline": "p", "round": 2}, "copy 2", {"name": "copy 2"})
    assert (part.row, part.subject, part.words) == ({"pipeline": "p", "chunk": 7}, "chunk 7", {"name": "chunk 7"})


def test_columns_that_came_later_are_named() -> None:
    whole = replace(ROUND, state=RoundState.WHOLE)
    reading = Reading(round=whole, rows=5, whole=2, columns=("id",))
    lacks = (
        "came after copy 2: rows that have not changed since are null there, whatever the source has (a default, or a "
        "column that was renamed): tidegate"
    )
    complete = Complete((7, 0), 70)
    told = Told(upto=1, copied=Copied((inside(1, swept=True),), complete=complete))
    first = "whole since copy 2, read from (5, 0) on; "
    assert (
        how_far(reading, told, True, ["shade"])
        == f"{first}column shade {lacks} compare tells, and copy --again reads them"
    )
    assert how_far(reading, told, True, ["a", "b"]).startswith(f"{first}columns a, b came after copy 2: rows")
    assert f"nothing in it is older than {complete.position}" in how_far(reading, told, True)
    assert how_far_by_days(reading, ["shade"]).endswith(f"; column shade {lacks} copy --again reads them")
    assert "shade" not in how_far_by_days(replace(reading, whole=None), ["shade"])
    assert how_far_by_days(None, ["shade"]) == how_far_by_days(None)


# ---------------------------------------------------------------- the map


def cells(*chunks: Chunk, table: RoundIn | None = None, now: int = 2 * HOUR) -> list[Cell]:
    made = chunk_map(ROUND, chunks, table, now)
    assert (made.round, made.chunks) == (ROUND, len(chunks))
    return list(made.cells)


def test_a_chunk_of_groups_says_how_many() -> None:
    keys = KeyRange(("a",), None, KeyGroups(6, (1, 2, 40), ("string",)))
    (found,) = cells(chunk(1, keys=keys))
    assert found.text == "chunk 1 of shop.t, keys above a, of 3 of 64 groups: waits to be read"


def test_each_chunk_is_a_cell_that_says_how_far_it_is() -> None:
    waits, begun = chunk(1), chunk(2, epoch=3, tried_ms=HOUR)
    assert cells(waits, begun, read(3), read(4), table=inside(4)) == [
        Cell("waiting", "chunk 1 of shop.t, keys above 1, up to 2: waits to be read"),
        Cell("begun", "chunk 2 of shop.t, keys above 2, up to 3: attempt 3 began 60 min ago"),
        Cell("read", "chunk 3 of shop.t, keys above 3, up to 4: 1,200 rows read 60 min ago, not merged yet"),
        Cell("merged", "chunk 4 of shop.t, keys above 4, up to 5: 1,200 rows read 60 min ago"),
    ]
    assert cells(read(4, rows=1))[0].text.endswith("1 row read 60 min ago, not merged yet")


def test_what_the_ledger_lost_is_merged_all_the_same() -> None:
    """S8: the table says so."""
    (cell,) = cells(chunk(1), table=inside(1))
    assert (cell.state, cell.text.split(": ")[1]) == ("merged", "0 rows read 0 s ago")


def test_clocks_that_differ_say_nothing_odd() -> None:
    found = cells(chunk(2, epoch=1, tried_ms=HOUR), read(3), now=0)
    assert [c.text.split(": ")[1] for c in found] == [
        "attempt 1 began 0 s ago", "1,200 rows read 0 s ago, not merged yet",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (KeyRange(None, None), "all keys"),
        (KeyRange(None, (3, "x")), "keys up to 3/x"),
        (KeyRange(("a" * 40,), None), "keys above " + "a" * 40),
        (KeyRange(("a" * 41,), None), "keys above " + "a" * 40 + "..."),
    ],
)
def test_keys_in_words(keys: KeyRange, words: str) -> None:
    assert cells(chunk(1, keys=keys))[0].text == f"chunk 1 of shop.t, {words}: waits to be read"


def test_of_many_chunks_a_cell_is_several_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the one that is least far."""
    monkeypatch.setattr(maps, "MOST_CELLS", 2)
    assert len(cells(read(1), read(2))) == 2
    found = cells(read(1), read(2), chunk(3, tried_ms=1), read(4), chunk(5), table=inside(1, 2))
    assert found == [
        Cell("begun", "chunks 1 to 3: 1 begun, 2 merged"),
        Cell("waiting", "chunks 4 to 5: 1 waiting, 1 read"),
    ]
    assert chunk_map(ROUND, [read(n) for n in range(5)], None, 0).each == 3
    assert chunk_map(ROUND, [], None, 0) == maps.ChunkMap(ROUND, 0, 1, ())


def test_files_of_a_chunk_are_whole_or_the_first_that_is_not_is_named() -> None:
    files = [ChunkFile("a", 1, 10), ChunkFile("b", 2, 20), ChunkFile("c", 3, 30)]
    assert damaged(files, {"a": 10, "b": 20, "c": 30, "d": 1}) is None
    assert damaged(files, {"a": 10, "b": 21}) == "b is not as long as it was"
    assert damaged(files, {"a": 10, "c": 31}) == "b is gone"


# ---------------------------------------------------------------- since when nothing is older


def look(position: int, at: int, log_end: int | None = None, **ends: int) -> Look:
    end = position if log_end is None else log_end
    return Look(
        position=(position, 0), log_end=(end, 0), at_ms=at, ends={int(p[1:]): offset for p, offset in ends.items()}
    )


def test_s10_a_look_tells_once_all_its_ends_are_merged() -> None:
    looks = [look(10, 1, p0=5), look(20, 2, p0=8, p1=3)]
    assert complete(looks, {0: 8, 1: 3}) == Complete((20, 0), 2, exact=True)
    assert complete(looks, {0: 8, 1: 2}) == Complete((10, 0), 1)
    assert complete(looks, {0: 7}) == Complete((10, 0), 1)
    assert complete(looks, {0: 4, 1: 9}) is None
    assert complete(looks, {}) is None, "nobody knows what is merged"
    assert complete([], {0: 8}) is None


def test_the_instant_is_that_of_a_look_whose_log_ended_below() -> None:
    """What the connector had delivered by then says nothing of the end of the log."""
    looks = [look(10, 1, log_end=15, p0=5), look(20, 2, log_end=30, p0=8)]
    assert complete(looks, {0: 8}) == Complete((20, 0), 1)
    assert complete(looks[1:], {0: 8}) == Complete((20, 0), None)
    assert complete([look(20, 1, p0=1), look(10, 2, p0=1)], {0: 8}) == Complete((20, 0), 2)


def test_what_a_look_asks_for_and_the_table_lacks() -> None:
    asked = look(1, 1, p2=7, p0=5, p1=3)
    assert unmerged(asked, {0: 5, 1: 2}) == [(1, 2, 3), (2, 0, 7)]
    assert unmerged(look(1, 1, p0=0), {}) == []
    assert unmerged(look(1, 1, p0=1), {}) == [(0, 0, 1)]


def test_what_is_worth_a_commit() -> None:
    said = Complete((7, 0), 1_000)
    assert not worth_telling(said, None)
    assert not worth_telling(None, Complete((8, 0), None)), "how old it is would not be known"
    assert worth_telling(None, said)
    assert worth_telling(Complete((6, 0), None), said)
    assert not worth_telling(said, Complete((9, 0), 1_000 + HOUR - 1))
    assert worth_telling(said, Complete((9, 0), 1_000 + HOUR))
    assert worth_telling(said, Complete((9, 0), 2_000, exact=True))
    assert not worth_telling(Complete((7, 0), 1_000, exact=True), Complete((9, 0), 2_000, exact=True))


def test_what_a_table_may_tell() -> None:
    found = Complete((7, 0), 1_000, exact=True)
    whole = inside(1, swept=True)
    assert Copied(rounds=(whole,), high=(7, 0, 0)).may_tell(found) == found
    above = Copied(rounds=(whole,), high=(7, 1, 0)).may_tell(found)
    assert above == Complete((7, 0), 1_000), "a row that was read may be newer"
    assert Copied((inside(1),)).may_tell(found) is None
    assert Copied(rounds=(whole,), by_hand=True).may_tell(found) is None
    assert Copied(rounds=(whole,)).may_tell(None) is None


def test_columns_that_a_whole_copy_has_not_read() -> None:
    """A position of the source says nothing of them (S9')."""
    newer = replace(PIPELINE, columns=(*PIPELINE.columns, replace(PIPELINE.columns[0], name="shade")))
    hidden = replace(newer, columns=(*newer.columns[:3], replace(newer.columns[3], hidden=True)))
    copied = ("carrier", "leg", "fare")
    assert (unread(newer, copied), unread(newer, ()), unread(hidden, copied)) == (("shade",), (), ())
    how = replace(PIPELINE.columns[0], name=min(SAYS_HOW))
    assert kept(replace(PIPELINE, columns=(how, *newer.columns))) == (*copied, "shade")


# ---------------------------------------------------------------- in words

READING = Reading(round=ROUND, chunks=1500, read=12, rows=1)
WHOLE = Copied((inside(1, swept=True),))


def test_before_anything_is_read() -> None:
    assert how_far(None, None, True) == "nothing of the source's table is read yet"
    assert how_far(None, Told(copied=Copied((inside(1),))), True) == "nothing of the source's table is read yet"


@pytest.mark.parametrize(
    ("table", "ended", "words"),
    [
        (Copied(), True, "copy 2: 12 of 1,500 chunks read (1 row), 0 merged; until it is whole the table lacks rows"),
        (
            Copied((inside(4, 5, 6),), hidden=True),
            False,
            "copy 2: 12 of 1,500 chunks so far read (1 row), 3 merged; readers see an empty table until it is whole",
        ),
    ],
)
def test_a_copy_that_is_under_way(table: Copied, ended: bool, words: str) -> None:
    assert how_far(replace(READING, round=replace(ROUND, ended=ended)), Told(copied=table), True) == words


def test_a_second_copy_beside_a_whole_table() -> None:
    table = Copied((inside(1, swept=True), RoundIn(3, (7, 0, 3), (7, 0, 3), ranges([9]))), complete=Complete((9, 1), 0))
    third = replace(READING, round=replace(ROUND, number=3, part=KeyPart(("id",), (7,), (9,))))
    assert how_far(third, Told(copied=table), True) == (
        "whole since copy 2, read from (5, 0) on; "
        "nothing in it is older than (9, 1), what the source had at 1970-01-01T00:00Z; "
        "copy 3 (id 7 to 9): 12 of 1,500 chunks so far read (1 row), 1 merged"
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (RoundState.COMPARED, "copy 2 is read to be compared"),
        (RoundState.GIVEN_UP, "copy 2 has ended: why"),
        (RoundState.ENDED, "copy 2 has ended: why"),
        (RoundState.WHOLE, ""),
    ],
)
def test_copies_of_which_nothing_more_is_merged(state: RoundState, words: str) -> None:
    assert how_far(replace(READING, round=replace(ROUND, state=state, why="why")), None, True) == words


EXACT = Told(copied=replace(WHOLE, complete=Complete((9, 1), 0, exact=True)))


@pytest.mark.parametrize(
    ("told", "asks", "asked_ms", "words"),
    [
        (Told(copied=replace(WHOLE, complete=Complete((9, 1)))), True, 0, "nothing in it is older than (9, 1)"),
        (EXACT, True, 0, "it is exactly what the source had at (9, 1), at 1970-01-01T00:00Z or a moment later"),
        (
            replace(EXACT, copied=replace(WHOLE, complete=Complete((9, 1), exact=True))),
            True,
            0,
            "it is exactly what the source had at (9, 1)",
        ),
        (Told(copied=replace(WHOLE, by_hand=True), below_purge=1), True, 0, "a person has let the order decide"),
        (Told(copied=WHOLE, below_purge=1), False, 0, "a purge has kept events out"),
        (Told(copied=WHOLE), False, 0, "nobody says how far the connector is"),
        (Told(copied=WHOLE), True, None, "the connector has not said yet"),
        (Told(copied=WHOLE), True, 0, "what the connector had delivered at 1970-01-01T00:00Z is not merged"),
    ],
)
def test_a_whole_table_says_since_when_nothing_is_older_or_why_not(told, asks, asked_ms, words: str) -> None:
    done = replace(READING, round=replace(ROUND, state=RoundState.WHOLE), asked_ms=asked_ms)
    said = how_far(done, told, asks).split("; ", 1)
    assert said[0] == "whole since copy 2, read from (5, 0) on"
    assert words in said[1]
    assert how_far(None, told, asks).startswith(said[0])
    if told.copied.complete is not None:
        assert said[1] == words
    assert ("cannot say" in said[1]) == (told.copied.complete is None)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"ended": True}, "copy 2: 12 of 1,500 chunks read (1 row); the next day after it takes it whole"),
        ({"ended": False}, "copy 2: 12 of 1,500 chunks so far read (1 row); the next day after it takes it whole"),
        ({"state": RoundState.WHOLE}, "copy 2 is whole (1 row): the next day that is built has its rows, if none has"),
        ({"state": RoundState.COMPARED, "why": "why"}, "copy 2 has ended: why"),
        ({"state": RoundState.GIVEN_UP, "why": "why"}, "copy 2 has ended: why"),
    ],
)
def test_how_far_a_copy_of_a_mirror_by_days_is(more: dict, words: str) -> None:
    assert how_far_by_days(replace(READING, round=replace(ROUND, **more))) == words
    again = how_far_by_days(replace(READING, round=replace(ROUND, **more), whole=1))
    whole = more.get("state") == RoundState.WHOLE
    assert again == ("" if whole else "copy 1 is whole; ") + words
    assert how_far_by_days(None) == "nothing of the source's table is read yet; no day is published before it is"


# ---------------------------------------------------------------- what a commit makes of it


def test_readers_see_nothing_before_the_first_copy_is_whole() -> None:
    """What they once saw is never taken from them, and nobody waits where nothing is copied."""
    assert stays_hidden(shown=False, copies=True, after=Copied())
    assert not stays_hidden(shown=True, copies=True, after=Copied())
    assert not stays_hidden(shown=False, copies=False, after=Copied())
    assert not stays_hidden(shown=False, copies=True, after=WHOLE)


def test_what_a_commit_may_tell_of_completeness() -> None:
    told = Complete((9, 1), 5)
    plain = Merged(1, 2, "a", "d", ApplyReceipt(attempt="a", events=(), buckets=()), complete=told)
    assert plain.copied(WHOLE) == replace(WHOLE, complete=told)
    servers = (ServerLog("a"), ServerLog("b"))
    assert replace(plain, servers=servers).copied(WHOLE).servers == servers
    assert replace(plain, complete=None).copied(replace(WHOLE, complete=told)).complete is None
    assert plain.copied(Copied((inside(1),))).complete is None, "not before a copy is whole"
    swept = replace(plain, copy=CopyStep(round=2, sweep=True))
    assert swept.copied(Copied((inside(1),))) == Copied((inside(1, swept=True),), complete=told)


def test_s9_what_was_read_above_the_position_makes_it_no_exact_one() -> None:
    plain = Merged(1, 2, "a", "d", ApplyReceipt(attempt="a", events=(), buckets=()))
    for high, exact in (((9, 1, 0), True), ((9, 1, 7), True), ((9, 2, 0), False), ((10, 0, 0), False)):
        told = replace(plain, complete=Complete((9, 1), 5, exact=True)).copied(replace(WHOLE, high=high))
        assert told.complete == Complete((9, 1), 5, exact=exact), high


def test_of_many_copies_of_some_keys_people_are_told() -> None:
    """Each of them is about 200 bytes of every snapshot's summary."""
    some = tuple(RoundIn(n, (5, 0, n), (6, 0, n), ((1, 1),), True, KeyPart(("id",), (n,), (n,))) for n in range(3, 104))
    whole = inside(1, swept=True)
    few, many = (how_far(None, Told(copied=Copied((whole, *parts))), True) for parts in (some[1:], some))
    told = "each snapshot names 101 copies of some keys: tidegate copy --again reads all, and they are forgotten"
    assert ("each snapshot names" in few, f"; {told}; " in many) == (False, True)


def test_a_hand_in_the_order_is_never_forgotten() -> None:
    told = Complete((9, 1), 5)
    plain = Merged(1, 2, "a", "d", ApplyReceipt(attempt="a", events=(), buckets=()), complete=told)
    by_hand = replace(plain, by_hand=True).copied(WHOLE)
    assert (by_hand.by_hand, by_hand.complete) == (True, None)
    assert (plain.copied(by_hand).by_hand, plain.copied(by_hand).complete) == (True, None)
