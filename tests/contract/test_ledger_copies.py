"""Copies in the ledger: rounds and chunks by compare-and-set, attempts by epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.ledgers import NAME, ledger, now, open_ledger, url
from tidegate.core.base.errors import LostComparison
from tidegate.core.copy.port import KeyRange, TableRange
from tidegate.core.copy.rounds import Chunk, ChunkFile, ChunkState, Claim, Round, RoundState, parse_attempt
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Copied, RoundIn
from tidegate.core.mirror.jobs import START
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

TABLE, KEY = "shop.orders", ("id", "shop")
LOW, HIGH = (2**50, 3), (2**50 + 7, 0)
FILES = (ChunkFile("rows-0-0000.parquet", 5, 900), ChunkFile("rows-0-0001.parquet", 2, 300))
KEYS = (KeyRange(None, (3, "a")), KeyRange((3, "a"), (7, "Ä'\"")), KeyRange((7, "Ä'\""), None))
RANGES = tuple(TableRange("shop.orders", keys) for keys in KEYS)


def begun(ledger: SqlLedger, number: int = 1) -> Round:
    return ledger.copies.begin(NAME, number, TABLE, KEY)


def cut(ledger: SqlLedger) -> list[Chunk]:
    return list(ledger.copies.cut(begun(ledger), 0, RANGES, True))


def read(ledger: SqlLedger, chunk: Chunk, nonce: str = "aa") -> Chunk:
    return ledger.copies.accept(ledger.copies.attempt(chunk, nonce), LOW, HIGH, FILES)


def chunks(ledger: SqlLedger, number: int = 1) -> list[Chunk]:
    return list(ledger.copies.chunks(NAME, number))


def untimed(chunk: Chunk) -> Chunk:
    """Without what the database's clock says."""
    return replace(chunk, tried_ms=None, read_ms=None)


def states(ledger: SqlLedger) -> list[RoundState]:
    return [one.state for one in ledger.copies.rounds(NAME)]


# ---------------------------------------------------------------- rounds


def test_a_round_begins(ledger: SqlLedger, now: list[int]) -> None:
    assert ledger.copies.newest(NAME) is None
    assert list(ledger.copies.rounds(NAME)) == []
    ledger.copies.begin(NAME, 4, TABLE, KEY, "rows were changed")
    found = ledger.copies.newest(NAME)
    wanted = Round(pipeline=NAME, number=4, table=TABLE, key=KEY, state=RoundState.OPEN, why="rows were changed")
    assert found is not None
    assert found == replace(wanted, begun_ms=found.begun_ms)
    assert found.begun_ms > 0
    assert list(ledger.copies.rounds(NAME)) == [found]
    assert ledger.copies.newest("another") is None
    assert _events(ledger, "copy 4") == ["copy begun"]


def test_no_round_begins_while_one_is_open(ledger: SqlLedger) -> None:
    begun(ledger)
    for number in (1, 2):
        with pytest.raises(LostComparison):
            begun(ledger, number)
    assert states(ledger) == [RoundState.OPEN]
    assert ledger.copies.begin("another", 1, TABLE, KEY).number == 1


def test_a_number_is_given_once(ledger: SqlLedger) -> None:
    ledger.copies.give_up(begun(ledger), "test")
    with pytest.raises(LostComparison):
        begun(ledger)
    begun(ledger, 2)
    ledger.copies.whole(NAME, 2)
    begun(ledger, 3)
    assert states(ledger) == [RoundState.GIVEN_UP, RoundState.WHOLE, RoundState.OPEN]
    assert [one.number for one in ledger.copies.rounds(NAME)] == [1, 2, 3]


def test_a_round_is_whole_once(ledger: SqlLedger) -> None:
    ledger.copies.whole(NAME, 1)
    assert list(ledger.copies.rounds(NAME)) == [], "the ledger does not know it"
    begun(ledger)
    ledger.copies.whole("another", 1)
    assert states(ledger) == [RoundState.OPEN]
    for _ in range(2):
        ledger.copies.whole(NAME, 1)
    found = ledger.copies.newest(NAME)
    assert found is not None
    assert (found.state, found.done_ms is not None) == (RoundState.WHOLE, True)
    assert _events(ledger, "copy 1") == ["copy begun", "copy whole"]
    with pytest.raises(LostComparison):
        ledger.copies.give_up(replace(found, state=RoundState.OPEN), "too late")
    assert states(ledger) == [RoundState.WHOLE]


def test_a_round_is_given_up_once(ledger: SqlLedger) -> None:
    one = begun(ledger)
    after = ledger.copies.give_up(one, "another one is better")
    assert (after.state, after.why) == (RoundState.GIVEN_UP, "another one is better")
    with pytest.raises(LostComparison):
        ledger.copies.give_up(one, "again")
    ledger.copies.whole(NAME, 1)
    found = ledger.copies.newest(NAME)
    assert found is not None
    assert (found.state, found.why, found.done_ms is not None) == (after.state, after.why, True)
    assert _events(ledger, "copy 1") == ["copy begun", "copy given up"]


def test_a_round_is_compared_and_may_be_merged_then(ledger: SqlLedger) -> None:
    one = ledger.copies.begin(NAME, 1, TABLE, KEY, only=True)
    assert states(ledger) == [one.state] == [RoundState.COMPARED]
    with pytest.raises(LostComparison):
        begun(ledger, 2)
    ledger.copies.whole(NAME, 1)
    assert states(ledger) == [RoundState.COMPARED], "nothing of it is in the table"
    assert len(ledger.copies.cut(one, 0, RANGES, True)) == 3
    after = ledger.copies.merge(one, "it differs")
    assert (after.state, after.why, states(ledger)) == (RoundState.OPEN, "it differs", [RoundState.OPEN])
    for known in (one, after):
        with pytest.raises(LostComparison):
            ledger.copies.merge(known, "again")
    ledger.copies.give_up(after, "test")
    two = ledger.copies.begin(NAME, 2, TABLE, KEY, only=True)
    ledger.copies.give_up(two, "nothing differs")
    with pytest.raises(LostComparison):
        ledger.copies.merge(two, "too late")
    assert states(ledger) == [RoundState.GIVEN_UP, RoundState.ENDED]


def test_a_whole_copy_has_what_a_comparison_confirms(ledger: SqlLedger) -> None:
    claim = Claim(4, (RoundIn(1, START, START, ((1, 3),), swept=True),), ("also", "later", "word"))
    ledger.copies.confirm(NAME, 1, 2, claim)  # the ledger has no such copy
    ledger.copies.begin(NAME, 1, TABLE, KEY, columns=["id", "word"])
    with pytest.raises(LostComparison):
        ledger.copies.confirm(NAME, 1, 2, claim)
    ledger.copies.whole(NAME, 1)
    for by in (3, 3, 2):
        ledger.copies.confirm(NAME, 1, by, claim)
    whole = ledger.copies.newest(NAME)
    assert whole is not None
    assert (whole.columns, whole.confirmed, whole.claim) == (("id", "word"), 3, claim)
    told = None
    for upto, rounds, columns in (
        (3, claim.rounds, ("id", "word")),
        (4, (), ("id", "word")),
        (4, claim.rounds, ("id", "word", "also", "later")),
    ):
        now = Told(upto=upto, copied=Copied(rounds))
        ledger.applies.stands(NAME, told, now)
        told = now
        assert whole.as_of(now).columns == ledger.reads.readings([NAME])[NAME].columns == columns
    assert _events(ledger, "copy 1").count("copy confirmed") == 1
    begun(ledger, 2)
    ledger.copies.whole(NAME, 2)
    ledger.copies.confirm(NAME, 2, 4, claim)  # of a copy of before nobody knows what it has
    assert ledger.reads.readings([NAME])[NAME].columns == ()


def test_what_is_over_is_forgotten_once(ledger: SqlLedger) -> None:
    """The greatest number of all chunks stays, and goes once there is a greater one."""
    first = cut(ledger)
    one = ledger.copies.rounds(NAME)[0]
    with pytest.raises(LostComparison, match="copy 1 was OPEN"):
        ledger.copies.forget(one, "read again")
    given_up = ledger.copies.give_up(one, "instead")
    begun(ledger, 2)
    ledger.copies.forget(given_up, "read again")
    with pytest.raises(LostComparison, match="forgetting copy 1"):
        ledger.copies.forget(given_up, "read again")
    assert [round_.number for round_ in ledger.copies.rounds(NAME)] == [2]
    assert list(ledger.copies.by_number(NAME, [c.number for c in first])) == [first[-1].number]
    assert _events(ledger, "copy 1")[-1] == "copy forgotten"
    second = list(ledger.copies.cut(ledger.copies.rounds(NAME)[0], 0, RANGES, True))
    assert second[0].number == first[-1].number + 1
    two = ledger.copies.give_up(ledger.copies.rounds(NAME)[0], "instead")
    begun(ledger, 3)
    ledger.copies.forget(two, "read again")
    assert list(ledger.copies.by_number(NAME, range(20))) == [second[-1].number]


# ---------------------------------------------------------------- chunks are cut


def test_chunks_are_cut_in_steps(ledger: SqlLedger) -> None:
    one = begun(ledger)
    first = ledger.copies.cut(one, 0, RANGES[:2], False)
    assert chunks(ledger) == list(first)
    assert [(c.number, c.round, c.keys, c.state, c.epoch) for c in first] == [
        (1, 1, KEYS[0], ChunkState.CUT, 0),
        (2, 1, KEYS[1], ChunkState.CUT, 0),
    ]
    (last,) = ledger.copies.cut(one, 2, RANGES[2:], True)
    assert (last.number, last.table, last.keys) == (3, "shop.orders", KEYS[2])
    newest = ledger.copies.newest(NAME)
    assert newest is not None
    assert newest.ended
    with pytest.raises(LostComparison):
        ledger.copies.cut(one, 3, RANGES[2:], True)
    assert len(chunks(ledger)) == 3


def test_a_cut_is_lost_where_others_have_cut(ledger: SqlLedger) -> None:
    one = begun(ledger)
    ledger.copies.cut(one, 0, RANGES[:2], False)
    for after in (0, 1, 3):
        with pytest.raises(LostComparison):
            ledger.copies.cut(one, after, RANGES[2:], True)
    newest = ledger.copies.newest(NAME)
    assert newest is not None
    assert not newest.ended
    assert len(chunks(ledger)) == 2


def test_nothing_is_cut_of_a_round_that_is_over(ledger: SqlLedger) -> None:
    one = begun(ledger)
    ledger.copies.give_up(one, "test")
    with pytest.raises(LostComparison):
        ledger.copies.cut(one, 0, RANGES, True)
    two = begun(ledger, 2)
    ledger.copies.whole(NAME, 2)
    with pytest.raises(LostComparison):
        ledger.copies.cut(two, 0, RANGES, True)
    assert (chunks(ledger), chunks(ledger, 2)) == ([], [])


def test_the_end_may_be_seen_without_another_chunk(ledger: SqlLedger) -> None:
    one = begun(ledger)
    ledger.copies.cut(one, 0, RANGES[:1], False)
    assert list(ledger.copies.cut(one, 1, (), True)) == []
    newest = ledger.copies.newest(NAME)
    assert newest is not None
    assert newest.ended


def test_chunks_by_their_numbers(ledger: SqlLedger) -> None:
    first, _, third = cut(ledger)
    assert ledger.copies.by_number(NAME, ()) == {}
    assert ledger.copies.by_number(NAME, [3, 1, 3, 9, *range(100, 1200)]) == {1: first, 3: third}
    assert ledger.copies.by_number("another", [1]) == {}


def test_numbers_of_chunks_go_on_from_round_to_round(ledger: SqlLedger) -> None:
    cut(ledger)
    ledger.copies.whole(NAME, 1)
    found = ledger.copies.cut(begun(ledger, 2), 0, RANGES[:1], False)
    assert [(c.number, c.round) for c in found] == [(4, 2)]
    assert [c.number for c in chunks(ledger)] == [1, 2, 3]
    other = ledger.copies.cut(ledger.copies.begin("another", 1, TABLE, KEY), 0, RANGES[:1], False)
    assert [c.number for c in other] == [1]


# ---------------------------------------------------------------- attempts


def test_r9_an_attempt_has_a_name_of_its_own(ledger: SqlLedger, now: list[int]) -> None:
    first, *others = cut(ledger)
    one = ledger.copies.attempt(first, "aa")
    two = ledger.copies.attempt(one, "bb")
    assert (one.attempt, two.attempt) == ("1.1-aa", "1.2-bb")
    assert parse_attempt(two.attempt) == (1, 2, "bb")
    assert list(map(untimed, chunks(ledger))) == [two, *others]
    assert chunks(ledger)[0].tried_ms == now[0]
    for old in (first, one):
        with pytest.raises(LostComparison):
            ledger.copies.attempt(old, "cc")


def test_the_newest_attempt_alone_is_accepted(ledger: SqlLedger) -> None:
    first = cut(ledger)[0]
    one = ledger.copies.attempt(first, "aa")
    two = ledger.copies.attempt(one, "bb")
    for overtaken in (first, one, replace(two, nonce="zz"), replace(two, epoch=9)):
        with pytest.raises(LostComparison):
            ledger.copies.accept(overtaken, LOW, HIGH, FILES)
    assert untimed(chunks(ledger)[0]) == two
    done = ledger.copies.accept(two, LOW, HIGH, FILES)
    found = chunks(ledger)[0]
    assert untimed(found) == done
    assert (found.state, found.low, found.high, found.rows) == (ChunkState.READ, LOW, HIGH, 7)
    assert (found.files, found.attempt, found.read_ms is not None) == (FILES, "1.2-bb", True)
    assert (found.position, found.batch_id) == ((*LOW, 1), -1)
    with pytest.raises(LostComparison):
        ledger.copies.accept(two, LOW, HIGH, FILES)
    for known in (two, found):
        with pytest.raises(LostComparison):
            ledger.copies.attempt(known, "cc")


def test_a_chunk_without_rows_is_accepted_too(ledger: SqlLedger) -> None:
    one = ledger.copies.attempt(cut(ledger)[0], "aa")
    ledger.copies.accept(one, (1, 0), (1, 0), ())
    found = chunks(ledger)[0]
    assert (found.state, found.rows, found.files, found.low) == (ChunkState.READ, 0, (), (1, 0))


def test_s7_a_chunk_is_read_again(ledger: SqlLedger) -> None:
    first = cut(ledger)[0]
    with pytest.raises(LostComparison):
        ledger.copies.again(first, "it is not read")
    done = read(ledger, first)
    back = ledger.copies.again(done, "its LOW is below the purge")
    assert untimed(chunks(ledger)[0]) == back
    assert (back.state, back.low, back.high, back.rows, back.files, back.read_ms) == (
        *(ChunkState.CUT, None, None, 0, ()),
        None,
    )
    assert _events(ledger, "chunk 1") == ["chunk to be read again"]
    with pytest.raises(LostComparison):
        ledger.copies.again(done, "twice")
    second = read(ledger, back, "bb")
    assert second.attempt == "1.2-bb", "the attempt of before is named by nobody any more"
    with pytest.raises(LostComparison):
        ledger.copies.again(done, "of another attempt")
    assert chunks(ledger)[0].state == ChunkState.READ


def test_what_was_read_of_a_copy_that_was_given_up_is_accepted(ledger: SqlLedger) -> None:
    """It is left alone from then on: `core.copy.steps.to_merge` asks the round."""
    first = cut(ledger)[0]
    one = ledger.copies.attempt(first, "aa")
    newest = ledger.copies.newest(NAME)
    assert newest is not None
    ledger.copies.give_up(newest, "test")
    assert ledger.copies.accept(one, LOW, HIGH, FILES).state == ChunkState.READ
    assert states(ledger) == [RoundState.GIVEN_UP]


# ---------------------------------------------------------------- two tasks at once


@pytest.mark.parametrize("what", ["begin", "cut", "cut the end", "attempt", "accept", "again", "merge", "give up"])
def test_of_two_at_once_exactly_one_wins(open_ledger: Callable[[], SqlLedger], ledger: SqlLedger, what: str) -> None:
    race: list[Callable[[SqlLedger], object]]
    if what == "begin":
        race = [lambda me: me.copies.begin(NAME, 1, TABLE, KEY)] * 2
    elif what.startswith("cut"):
        one, ended = begun(ledger), what == "cut the end"
        race = [lambda me, n=n: me.copies.cut(one, 0, RANGES[:n], ended) for n in (2, 3)]
    elif what == "attempt":
        first = cut(ledger)[0]
        race = [lambda me, n=n: me.copies.attempt(first, n) for n in ("aa", "bb")]
    elif what == "accept":
        tried = ledger.copies.attempt(cut(ledger)[0], "aa")
        race = [lambda me: me.copies.accept(tried, LOW, HIGH, FILES)] * 2
    elif what == "again":
        done = read(ledger, cut(ledger)[0])
        race = [lambda me: me.copies.again(done, "test")] * 2
    elif what == "merge":
        compared = ledger.copies.begin(NAME, 1, TABLE, KEY, only=True)
        race = [lambda me: me.copies.merge(compared, "test")] * 2
    else:
        open_round = begun(ledger)
        race = [lambda me: me.copies.give_up(open_round, "test")] * 2
    assert sorted(_raced(open_ledger, race)) == ["lost", "won"]
    found = chunks(ledger)
    assert [c.number for c in found] == list(range(1, len(found) + 1))


def _raced(open_ledger: Callable[[], SqlLedger], race: list[Callable[[SqlLedger], object]]) -> list[str]:
    barrier, outcomes = threading.Barrier(len(race)), []

    def run(step: Callable[[SqlLedger], object]) -> None:
        me = open_ledger()
        me.copies.newest(NAME)  # connected before the start
        barrier.wait()
        try:
            step(me)
            outcomes.append("won")
        except LostComparison:
            outcomes.append("lost")

    threads = [threading.Thread(target=run, args=(step,)) for step in race]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return outcomes


def _events(ledger: SqlLedger, subject: str) -> list[str]:
    return [m.what for m in ledger.cleaning.history(NAME, subject)]
