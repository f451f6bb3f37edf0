"""Arithmetic of offsets, receipts, balances, slabs and coverage: whole answers, edge by edge."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from tidegate.core.audit.coverage import Allowance, Excess, Findings, Missing, Stray, check_coverage
from tidegate.core.base.offsets import Interval, OffsetRange, pack, share, subtract, union, without
from tidegate.core.base.slabs import UNBOUNDED, Slab, slabs
from tidegate.core.files.balance import Balance, window_difference
from tidegate.core.files.receipt import (
    BatchRows,
    FileEntry,
    PartitionRows,
    RangeResult,
    Receipt,
    arithmetic_errors,
    content_digest,
    manifest_digest,
)
from tidegate.core.files.second_reading import compare, listed

# ---------------------------------------------------------------- offsets


def spans(*bounds: tuple[int, int]) -> tuple[Interval, ...]:
    return tuple(Interval(*b) for b in bounds)


def test_intervals_and_ranges() -> None:
    assert len(Interval(3, 7)) == 4
    assert [p in Interval(3, 7) for p in (2, 3, 6, 7)] == [False, True, True, False]
    assert len(Interval(3, 3)) == 0
    assert OffsetRange("t", 0, 0, 0).count == 0
    assert OffsetRange("t", 0, 3, 7).count == 4
    for start, end in ((-1, 3), (4, 3)):
        with pytest.raises(ValueError, match=f"start={start}, end={end}"):
            OffsetRange("t", 0, start, end)


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ((), ((10, 20),)),
        (((10, 20),), ()),
        (((0, 10),), ((10, 20),)),
        (((20, 30),), ((10, 20),)),
        (((0, 12), (15, 15), (18, 40)), ((12, 18),)),
        (((11, 12), (12, 13)), ((10, 11), (13, 20))),
        (((40, 50),), ((10, 20),)),
        (((12, 14), (30, 40)), ((10, 12), (14, 20))),
    ],
)
def test_gaps(parts: tuple[tuple[int, int], ...], left: tuple[tuple[int, int], ...]) -> None:
    assert subtract(Interval(10, 20), spans(*parts)) == spans(*left)
    assert without([Interval(10, 20)], spans(*parts)) == spans(*left)


def test_union_joins_what_touches() -> None:
    assert union(spans((5, 6), (1, 3), (3, 4), (1, 2), (8, 8))) == spans((1, 4), (5, 6))
    assert union(spans((1, 9), (2, 3))) == spans((1, 9))


def test_without_goes_on_with_the_next_one() -> None:
    assert without(spans((0, 5), (10, 15), (20, 25)), spans((3, 12), (14, 22))) == spans((0, 3), (12, 14), (22, 25))
    assert without(spans((0, 5), (5, 9), (10, 12)), spans((5, 6), (9, 10))) == spans((0, 5), (6, 9), (10, 12))


@pytest.mark.parametrize(
    ("backlog", "limit", "shares"),
    [
        ({0: 5, 1: 0, 2: -3}, 100, {0: 5}),
        ({0: 60, 1: 40}, 100, {0: 60, 1: 40}),
        ({0: 61, 1: 40}, 100, {0: 60, 1: 39}),
        ({0: 901, 1: 101}, 102, {0: 91, 1: 11}),
        ({0: 9, 1: 1, 2: 1}, 2, {0: 1, 1: 1, 2: 1}),
        ({0: 1, 1: 1, 2: 1}, 2, {0: 1, 1: 1, 2: 1}),
        ({0: 1, 1: 1}, 2, {0: 1, 1: 1}),
        ({0: 3, 1: 2, 2: 1}, 5, {0: 2, 1: 1, 2: 1}),
        ({}, 5, {}),
        ({0: 100}, 10, {0: 10}),
    ],
)
def test_share(backlog: dict[int, int], limit: int, shares: dict[int, int]) -> None:
    assert share(backlog, limit) == shares


@pytest.mark.parametrize(
    ("counts", "tasks", "smallest", "loads"),
    [
        ((), 4, 10, []),
        ((0, 0), 4, 10, []),
        ((9,), 4, 10, [[9]]),
        ((11,), 4, 10, [[6], [5]]),
        ((100,), 4, 10, [[25], [25], [25], [25]]),
        ((100,), 0, 10, [[100]]),
        ((30, 10, 20), 2, 1, [[30], [20, 10]]),
        ((12,), 2, 6, [[6], [6]]),
        ((61, 59), 2, 1, [[61], [59]]),
        ((72, 48), 2, 1, [[72], [48]]),  # a rest of a fifth is no piece of its own
        ((73, 47), 2, 1, [[60], [47, 13]]),
        ((10, 10, 10, 70), 2, 1, [[50], [20, 10, 10, 10]]),
    ],
)
def test_pack(counts: tuple[int, ...], tasks: int, smallest: int, loads: list[list[int]]) -> None:
    packed = pack([OffsetRange("t", p, 100, 100 + n) for p, n in enumerate(counts)], tasks, smallest)
    assert {r.topic for b in packed for r in b} <= {"t"}
    assert all(b == sorted(b) for b in packed)
    assert sorted(sorted((r.count for r in b), reverse=True) for b in packed) == sorted(loads)


# ---------------------------------------------------------------- receipts

ENTRY = FileEntry(
    path="data/a",
    kind="data",
    window_ms=0,
    values=(("c", "x"),),
    rows=3,
    bytes=100,
    min_event_ms=1,
    max_event_ms=2,
    checksum=77,
    partitions=(PartitionRows(0, 3, 0, 2),),
)
RESULT = RangeResult(
    range=OffsetRange("t", 0, 0, 3),
    read=3,
    data=3,
    late=0,
    dirty=0,
    filtered=0,
    dropped=0,
    gaps=(),
    min_event_ms=1,
    max_event_ms=2,
)


def told(results: tuple[RangeResult, ...], *files: FileEntry) -> list[str]:
    receipt = Receipt(
        attempt="1.1-n",
        batch_id=1,
        epoch=1,
        nonce="n",
        topic="t",
        topic_id="id",
        spec_version=1,
        rules_version=1,
        ranges=results,
        files=files,
    )
    return arithmetic_errors(receipt, (r.range for r in results), "forbid")


def test_every_way_that_a_record_can_go_is_counted() -> None:
    parts = [
        (kind, replace(ENTRY, path=kind, kind=kind, rows=n)) for kind, n in (("data", 3), ("late", 2), ("dirty", 1))
    ]
    files = [replace(f, partitions=(PartitionRows(0, f.rows, 0, 20),)) for _, f in parts]
    whole = RangeResult(
        range=OffsetRange("t", 0, 0, 20),
        read=15,
        data=3,
        late=2,
        dirty=1,
        filtered=4,
        dropped=5,
        gaps=(Interval(0, 5),),
        min_event_ms=1,
        max_event_ms=2,
    )
    receipt = Receipt(
        attempt="1.1-n",
        batch_id=1,
        epoch=1,
        nonce="n",
        topic="t",
        topic_id="id",
        spec_version=1,
        rules_version=1,
        ranges=(whole,),
        files=tuple(files),
    )
    assert arithmetic_errors(receipt, [whole.range], "allow") == []
    assert (receipt.rows, receipt.dirty_rows, receipt.read_rows) == (6, 1, 15)
    assert arithmetic_errors(receipt, [whole.range], "forbid") == [
        "partition 0 [0, 20): no record at offsets [0, 5); a transactional or compacted topic needs "
        "`source.gaps: allow`"
    ]
    for field in ("read", "filtered", "dropped"):
        wrong = replace(receipt, ranges=(replace(whole, **{field: getattr(whole, field) + 1}),))
        assert any("is not data + late" in e for e in arithmetic_errors(wrong, [whole.range], "allow")), field


def test_offsets_that_are_neither_read_nor_gaps() -> None:
    gappy = replace(RESULT, range=OffsetRange("t", 0, 0, 9), gaps=(Interval(3, 5), Interval(7, 9)))
    assert "partition 0 [0, 9): 3 records and 4 gaps of 9 offsets" in told((gappy,), ENTRY)


def test_rows_are_compared_for_each_kind_and_partition() -> None:
    other = replace(RESULT, range=OffsetRange("t", 1, 0, 3))
    two = replace(ENTRY, path="data/b", rows=6, partitions=(PartitionRows(0, 2, 0, 1), PartitionRows(1, 4, 0, 3)))
    one = replace(ENTRY, rows=1, partitions=(PartitionRows(0, 1, 2, 2),))
    assert told((RESULT, other), one, two) == ["partition 1: 3 data rows counted, 4 written"]
    split = (
        replace(RESULT, range=OffsetRange("t", 0, 0, 1), read=1, data=1),
        replace(RESULT, range=OffsetRange("t", 0, 1, 3), read=2, data=2),
    )
    assert told(split, ENTRY) == []
    stray = replace(ENTRY, path="data/z", partitions=(PartitionRows(5, 3, 0, 2),))
    assert told((RESULT,), ENTRY, stray) == ["partition 5: 0 data rows counted, 3 written"]
    single = replace(stray, rows=1, partitions=(PartitionRows(5, 1, 0, 0),))
    assert told((RESULT,), ENTRY, single) == ["partition 5: 0 data rows counted, 1 written"]


def test_rows_that_a_replay_copied_are_data_too() -> None:
    def errors(*copied: BatchRows) -> list[str]:
        receipt = Receipt(
            attempt="1.1-n",
            batch_id=1,
            epoch=1,
            nonce="n",
            topic="t",
            topic_id="id",
            spec_version=1,
            rules_version=1,
            ranges=(RESULT,),
            files=(ENTRY, more),
        )
        return arithmetic_errors(receipt, [RESULT.range], "forbid", iter(copied))

    partitions = (PartitionRows(0, 4, 0, 2), PartitionRows(1, 1, 0, 0), PartitionRows(5, 0, 0, 0))
    more = replace(ENTRY, path="data/b", rows=5, partitions=partitions)
    first, second, third = BatchRows(1, 0, 3, 0, 2), BatchRows(2, 0, 1, 9, 9), BatchRows(1, 1, 1, 0, 0)
    assert errors(first, second, third) == []
    assert errors(first, second) == ["partition 1: 0 data rows counted, 1 written"]
    assert errors(second, third) == ["partition 0: 4 data rows counted, 7 written"]
    assert errors(first, first, third) == ["partition 0: 9 data rows counted, 7 written"]
    assert errors(first, second, third, BatchRows(1, 7, 2, 0, 1)) == ["partition 7: 2 data rows counted, 0 written"]


def test_digests_are_what_they_were() -> None:
    """Ledgers and records in storage hold them: another spelling would make every old manifest look broken."""
    b = replace(ENTRY, path="data/b", rows=4, checksum=2**64 - 1)
    assert manifest_digest([b, ENTRY]) == manifest_digest([ENTRY, b]) != manifest_digest([ENTRY])
    content = '{"[[\\"c\\",\\"x\\"]]":[7,76]}'
    assert content_digest([ENTRY, b]) == hashlib.sha256(content.encode()).hexdigest()
    assert content_digest([]) == hashlib.sha256(b"{}").hexdigest()
    assert manifest_digest([]) == hashlib.sha256(b"[]").hexdigest()


def test_a_second_reading_says_which_offsets() -> None:
    again = compare(Interval(10, 20), spans((12, 14)), spans((13, 15)))
    assert (again.span, again.vanished, again.appeared) == (Interval(10, 20), spans((14, 15)), spans((12, 13)))
    assert listed(()) == ""
    assert listed(spans((1, 2), (3, 4), (5, 6))) == "[1, 2), [3, 4), [5, 6)"
    assert listed(spans((1, 2), (3, 4), (5, 6)), 1) == "[1, 2) and 2 more"


# ---------------------------------------------------------------- balances and coverage

GOOD = Balance(offsets=20, read=15, gaps=5, data=3, late=2, dirty=1, filtered=4, dropped=5)


@pytest.mark.parametrize("term", ["offsets", "read", "gaps", "data", "late", "dirty", "filtered", "dropped"])
def test_each_term_of_a_balance_counts(term: str) -> None:
    assert GOOD.holds
    for step in (-1, 1):
        assert not replace(GOOD, **{term: getattr(GOOD, term) + step}).holds
    assert getattr(GOOD + Balance(**{term: 7}), term) == getattr(GOOD, term) + 7


def test_rerouted_rows_are_no_term() -> None:
    assert replace(GOOD, rerouted=3).holds
    assert not replace(GOOD, rerouted=4).holds, "only data rows were rerouted"
    assert not replace(GOOD, rerouted=-1).holds
    assert (replace(GOOD, rerouted=2) + Balance(rerouted=5)).rerouted == 7
    told = replace(GOOD, data=1003, rerouted=1002, read=1015).text()
    assert told == "read 1,015 = data 1,003 (1,002 of them rerouted) + late 2 + dirty 1 + filtered 4 + dropped 5"


def test_a_balance_in_words() -> None:
    assert GOOD.text() == "read 15 = data 3 + late 2 + dirty 1 + filtered 4 + dropped 5"
    for term in ("read", "data", "late", "dirty", "filtered", "dropped"):
        assert "≠" in replace(GOOD, **{term: 99}).text()


def test_the_difference_of_a_window() -> None:
    owed, published = {(0, 1): 5, (0, 2): 6, (0, 3): 1}, {(0, 1): 5, (0, 2): 7, (0, 4): 2}
    assert window_difference(owed, published) == {(0, 2): (6, 7), (0, 3): (1, 0), (0, 4): (0, 2)}


@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        ((), [Slab(0, UNBOUNDED, 0)]),
        (((1, 4), (2, 6)), [Slab(0, UNBOUNDED, 10)]),
        (((1, 4), (2, 7)), [Slab(0, 1, 4), Slab(2, UNBOUNDED, 7)]),
        (((1, 99), (5, 1)), [Slab(0, 1, 99), Slab(2, UNBOUNDED, 1)]),
        (((1, 0), (2, 99), (3, 1)), [Slab(0, 2, 99), Slab(3, UNBOUNDED, 1)]),
        (((1, 5), (2, 5), (3, 5), (4, 5), (6, 5)), [Slab(0, 2, 10), Slab(3, 4, 10), Slab(5, UNBOUNDED, 5)]),
    ],
)
def test_slabs(sizes: tuple[tuple[int, int], ...], cut: list[Slab]) -> None:
    assert slabs(sizes, 10) == cut


def test_a_slab_holds_its_ends() -> None:
    assert [i in Slab(3, 5, 1) for i in (2, 3, 5, 6)] == [False, True, True, False]


def problems(
    found: Findings,
    spans_: dict[tuple[int, int], int],
    anywhere: dict[int, int] | None = None,
    unread: dict[tuple[int, int], int] | None = None,
) -> list[str]:
    allowed = Allowance()
    allowed.spans.update(spans_)
    allowed.anywhere.update(anywhere or {})
    allowed.unread.update(unread or {})
    seen = list(check_coverage(found, allowed))
    assert all(p.advice for p in seen)
    return [f"{p.subject}: {p.what}" for p in seen]


def test_exactly_as_many_rows_are_missing_as_were_filtered_or_dropped() -> None:
    missing = Findings(10, (Missing(3, 0, 4, spans((5, 9))),))
    assert problems(missing, {(3, 0): 4}) == []
    assert problems(Findings(), {(3, 0): 0}) == []
    for due in (0, 3, 5):
        (one,) = problems(missing, {(3, 0): due})
        assert one == f"partition 0: offsets read, but in no file: 4, where {due} may be: [5, 9) of batch 3"
    assert "offsets read, but in no file: 0, where 2 may be:  of batch 4" in problems(Findings(), {(4, 1): 2})[0]


@pytest.mark.parametrize(("spare", "fine"), [(0, False), (1, False), (2, True), (3, True)])
def test_rows_of_unreadable_files_may_be_missing_anywhere(spare: int, fine: bool) -> None:
    missing = Findings(10, (Missing(3, 0, 2, spans((5, 7))), Missing(4, 0, 1, spans((9, 10)))))
    assert (problems(missing, {(3, 0): 1}, {0: spare}) == []) == fine
    assert problems(missing, {(3, 0): 1}, {1: 9}) != [], "of another partition"
    elsewhere = replace(missing, missing=(*missing.missing, Missing(3, 1, 1, spans((2, 3)))))
    assert any(p.startswith("partition 1: ") for p in problems(elsewhere, {(3, 0): 1}, {0: 9}))


@pytest.mark.parametrize(
    ("unread", "due"), [(None, 1), ({(3, 0): 1}, 2), ({(3, 0): 2}, None), ({(3, 0): 9}, None), ({(4, 0): 9}, 1)]
)
def test_rows_of_a_batchs_unreadable_file_may_be_missing_from_that_batch(unread, due: int | None) -> None:
    """And need not be: what is left of the file is read."""
    missing = Findings(10, (Missing(3, 0, 3, spans((5, 8))),))
    said = [f"partition 0: offsets read, but in no file: 3, where {due} may be: [5, 8) of batch 3"]
    assert problems(missing, {(3, 0): 1}, None, unread) == ([] if due is None else said)
    assert problems(Findings(10, (Missing(3, 0, 1, spans((5, 6))),)), {(3, 0): 1}, None, unread) == []


def test_what_one_batch_misses_does_not_make_up_for_what_another_has_too_much() -> None:
    """Batch 3 misses one row less than were filtered, batch 4 one more."""
    found = Findings(10, (Missing(3, 0, 1, spans((5, 6))), Missing(4, 0, 3, spans((9, 12)))))
    (both,) = problems(found, {(3, 0): 2, (4, 0): 2})
    assert both.endswith("of batch 3 and 1 batch more")


def test_rows_of_an_unreadable_file_do_not_hide_a_filtered_row_that_is_in_a_file() -> None:
    found = Findings(10, (Missing(3, 0, 1, spans((5, 6))), Missing(4, 0, 4, spans((9, 13)))))
    (both,) = problems(found, {(3, 0): 2, (4, 0): 2}, {0: 5})
    assert "offsets read, but in no file: 5" in both


def test_a_spare_row_is_no_excuse_for_one_that_was_to_be_missing() -> None:
    (one,) = problems(Findings(10, (Missing(3, 0, 1, spans((5, 6))),)), {(3, 0): 2}, {0: 5})
    assert "offsets read, but in no file: 1, where 7 may be" in one


def test_several_batches_of_a_partition_are_one_problem() -> None:
    found = Findings(10, tuple(Missing(b, p, 1, spans((b, b + 1))) for b in (3, 4, 5) for p in (1, 0)))
    first, second = problems(found, {})
    assert first == "partition 0: offsets read, but in no file: 3, where 0 may be: [3, 4) of batch 3 and 2 batches more"
    assert second.startswith("partition 1: offsets read, but in no file: 3")


def test_rows_too_many_and_rows_of_nobody() -> None:
    places = spans((1, 2), (3, 4), (5, 6), (7, 8))
    found = Findings(
        9,
        (),
        (Excess(2, 1200, places, ("a", "b", "c", "d")), Excess(3, 1, places[:3], ("a",))),
        (Stray(9, 2, 1, 77, "f"),),
    )
    assert problems(found, {}) == [
        "partition 2: 1,200 rows too many, at offsets [1, 2), [3, 4), [5, 6) ...; in a, b, c",
        "partition 3: 1 row too many, at offsets [1, 2), [3, 4), [5, 6); in a",
        "batch 9: never landed, but 2 rows are of it, the first one at partition 1 offset 77 in f",
    ]
