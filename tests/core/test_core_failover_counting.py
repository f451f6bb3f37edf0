"""Copies that do not say what they are of are counted from a known pair on: what proves the pair, what refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest

from tidegate.core.base.offsets import Interval
from tidegate.core.failover.counting import (
    FEWEST,
    Copied,
    Landed,
    Row,
    coordinates,
    crossed_end,
    objection,
    proof,
    way_back,
)
from tidegate.core.failover.crossing import Pair, Refusal, RefusalKind
from tidegate.core.source.coordinates import Coordinate

KNOWN = Landed((Interval(3, 6), Interval(8, 10)))  # 6 and 7 hold no record


def refusal(kind: RefusalKind, words: str, advice: str) -> Refusal:
    return Refusal(kind, f"partition 0: {words}", advice)


# ---------------------------------------------------------------- counting


def test_records_are_counted_over_offsets_that_hold_none() -> None:
    assert (KNOWN.count, list(KNOWN.offsets())) == (5, [3, 4, 5, 8, 9])
    assert KNOWN.last(2, below=9) == [(3, 8), (4, 9)]
    assert KNOWN.last(2, below=3) == [(1, 4), (2, 5)], "of the first three"
    assert KNOWN.last(9, below=4) == [(0, 3), (1, 4), (2, 5), (3, 8)]
    assert KNOWN.last(0, below=4) == []


def test_a_copy_is_of_the_next_record_and_behind_what_has_landed_of_the_next_offset() -> None:
    counted = coordinates("t", 1, Pair(2, 70), KNOWN, landed=12)
    assert list(islice(counted, 7)) == [
        Coordinate("t", 1, before, offset) for before, offset in
        ((2, 3), (4, 4), (5, 5), (6, 8), (9, 9), (10, 12), (13, 13))
    ]  # fmt: skip


# ---------------------------------------------------------------- which pairs can be


def test_a_pair_is_of_a_record_that_has_landed() -> None:
    assert objection(0, Pair(12, 70), landed=12, base=60, mark=90) is None
    assert objection(0, Pair(13, 70), landed=12, base=60, mark=90) == refusal(
        RefusalKind.BEGINS_ABOVE, "batches have landed up to 12, the pair begins at 13",
        "say an earlier pair, of a record that has landed",
    )  # fmt: skip


@pytest.mark.parametrize(("here", "mark", "can_be"), [(59, 90, 0), (60, 90, 1), (89, 90, 1), (90, 90, 0), (60, 60, 1)])
def test_its_copy_lies_between_the_first_copy_and_the_mark(here: int, mark: int, can_be: int) -> None:
    found = objection(0, Pair(12, here), landed=12, base=60, mark=mark)
    words = f"the pair's copy at {here} is not between 60 and the mark {mark}"
    assert found == (
        None if can_be else refusal(RefusalKind.NO_PROOF, words, "look again for the pair; see docs/failover.md")
    )


def test_f6_on_the_way_back_there_is_one_pair() -> None:
    assert way_back(0, Pair(50, 9), mark=50, noted=9) is None
    words = "the pair is 50:8; copying back had to begin at 50, and the site's own records end at 9"
    assert way_back(0, Pair(50, 8), mark=50, noted=9) == refusal(
        RefusalKind.DIFFERENCE, words, "--pair 0=50:9, and no other"
    )


# ---------------------------------------------------------------- the proof

PAIR = Pair(3, 70)


def judged(times: Sequence[int], stamps: Sequence[int] | None = None, known: Landed = KNOWN) -> Refusal | None:
    """`times`: of the copies; `stamps`: with which their records landed."""
    rows = [Row(i, 3 + i, ms) for i, ms in enumerate(times if stamps is None else stamps)]
    return proof(0, PAIR, known, rows, [70 + i for i in range(len(times))], times)


def test_f2_a_hundred_rows_with_the_times_of_their_copies_prove_a_pair() -> None:
    assert judged(range(FEWEST)) is None
    words = "99 rows that landed could be compared from pair 3:70 on, 100 are needed"
    advice = "say an earlier pair; rows have to carry their timestamps (kafka_columns)"
    assert judged(range(FEWEST - 1)) == refusal(RefusalKind.NO_PROOF, words, advice)


def test_f2_where_it_is_not_known_which_offsets_hold_a_record_nothing_is_proven() -> None:
    advice = "say a later pair, from which on batches have read each offset"
    found = judged(range(FEWEST), known=replace(KNOWN, unknown="batch 3 was given up"))
    assert found == refusal(RefusalKind.NO_PROOF, "batch 3 was given up", advice)


def test_f2_a_row_with_another_time_refutes_it() -> None:
    stamps = [*range(1200), 7, 7]
    found = judged(range(1202), stamps)
    assert found == refusal(
        RefusalKind.DIFFERENCE,
        "from pair 3:70 on, the record at 1203 landed with timestamp 7, its copy at 1270 has 1200; "
        "2 of 1,202 rows differ",
        "the pair is another one, or the copier is not exact, or the topic has "
        "message.timestamp.type=LogAppendTime; see docs/failover.md",
    )


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([5] * 100, "were 1 record later: timestamps from 5 to 5 repeat"),
        ([*[1, 2, 3] * 40], "were 3 records later: timestamps from 1 to 3 repeat"),
    ],
)
def test_f2_times_that_repeat_prove_nothing(times: list[int], words: str) -> None:
    found = judged(times)
    said = f"{len(times)} rows agree, and would agree if each copy {words}"
    assert found == refusal(RefusalKind.NO_PROOF, said, "say an earlier pair, or let more records land")


def test_f2_a_shift_the_other_way_is_found_too() -> None:
    """Of rows that are not the first ones: a copy before them may be theirs."""
    times = [*[5] * 101, 9]
    rows = [Row(i, 3 + i, 5) for i in range(1, 101)]
    said = "100 rows agree, and would agree if each copy were 1 record earlier: timestamps from 5 to 5 repeat"
    found = proof(0, PAIR, KNOWN, rows, [70 + i for i in range(102)], times)
    assert found == refusal(RefusalKind.NO_PROOF, said, "say an earlier pair, or let more records land")


def test_f6_on_the_way_back_no_other_pair_is_asked_for() -> None:
    more = "the pair is right: let more records land at site oslo, and be copied back; then again"
    anew = "name the returned site anew, with another name, and copy into a new topic"
    for count, times, known, advice in (
        (FEWEST - 1, range(FEWEST), KNOWN, more),
        (FEWEST, [5] * (FEWEST + 1), KNOWN, more),
        (FEWEST, range(FEWEST), replace(KNOWN, unknown="batch 3 was given up"), anew),
    ):
        rows = [Row(i, 3 + i, times[i]) for i in range(count)]
        found = proof(0, PAIR, known, rows, [70 + i for i in range(len(times))], times, back_from="oslo")
        assert found is not None
        assert (found.kind, found.advice) == (RefusalKind.NO_PROOF, advice)
        assert proof(0, PAIR, known, rows, [70 + i for i in range(len(times))], times).advice != advice  # type: ignore[union-attr]


def test_f2_equal_times_between_two_others_prove_a_pair() -> None:
    times = [9, *[5] * 100, 9]
    assert proof(0, PAIR, KNOWN, [Row(i, 3 + i, 5) for i in range(1, 101)], range(102), times) is None


@pytest.mark.parametrize(("by", "proven"), [(99, False), (100, True)])
def test_f2_a_pair_that_is_wrong_by_less_than_a_hundred_records_is_found(by: int, proven: bool) -> None:
    times = [n % by for n in range(300)]
    assert (judged(times) is None) is proven


# ---------------------------------------------------------------- there and back

ONE = Copied(offset=70, timestamp_ms=5, key=b"k", value=b"12")


def log(*offsets: int, **more: object) -> list[Copied]:
    return [replace(ONE, offset=offset, timestamp_ms=at, **more) for at, offset in enumerate(offsets)]  # type: ignore[arg-type]


def test_a_copy_has_the_time_the_key_and_the_value_of_its_record() -> None:
    assert ONE.same(replace(ONE, offset=3, sources=[b"x"]))
    for other in (replace(ONE, timestamp_ms=6), replace(ONE, key=None), replace(ONE, value=b"13")):
        assert not ONE.same(other)


def test_f6_what_crossed_ends_behind_the_record_of_the_last_copy() -> None:
    assert crossed_end(0, 12, 0, iter(log(12)), iter([])) == 12
    assert crossed_end(0, 12, 2, iter(log(12, 14, 20)), iter(log(70, 71))) == 15


ADVICE = "nothing says what of the returned site has been read: name it anew, with another name"


def test_f6_a_copy_of_another_record_is_refused() -> None:
    ended = crossed_end(0, 12, 2, iter(log(12)), iter(log(70, 71)))
    told = "timestamp 1, key b'k', 2 bytes"
    read = f"the record at 71 was read as the copy of the next one from 13 on ({told}); "
    assert ended == refusal(RefusalKind.DIFFERENCE, f"{read}that log has ended", ADVICE)
    other = crossed_end(0, 12, 2, iter([*log(12), replace(ONE, offset=14, key=None, value=None)]), iter(log(70, 71)))
    here = "the one at 14 is another (timestamp 5, no key, 0 bytes)"
    assert other == refusal(RefusalKind.DIFFERENCE, read + here, ADVICE)
    long = crossed_end(0, 12, 1, iter([]), iter(log(70, key=b"x" * 60, value=b"1")))
    assert isinstance(long, Refusal)
    assert f"(timestamp 0, key {b'x' * 40!r}, 1 byte)" in long.words


def test_f6_all_that_was_read_has_to_be_there_to_compare() -> None:
    words = "1,200 copied records were read, of 12 and what follows; 1 are there to compare"
    assert crossed_end(0, 12, 1200, iter(log(12, 13)), iter(log(70))) == refusal(RefusalKind.DIFFERENCE, words, ADVICE)
