"""Lateness, receipts, recovery, thresholds, plain JSON: the rules that need no story around them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.base.plain import dumps, from_plain, loads
from tidegate.core.base.renames import Do, Seen, decide, held_against
from tidegate.core.dirty.limits import refusal
from tidegate.core.files.balance import Balance
from tidegate.core.files.receipt import (
    DirtySample,
    FileEntry,
    PartitionRows,
    RangeResult,
    Receipt,
    arithmetic_errors,
    content_digest,
    identity_of,
)
from tidegate.core.spec.pipeline import DirtyLimits, Windows
from tidegate.core.window.lateness import Floor, floor_of

HOUR = 3_600_000


@given(st.sets(st.integers(0, 30)), st.integers(0, 40))
def test_the_floor_says_late_exactly_for_windows_that_were_not_open(closed: set[int], probe: int) -> None:
    windows = Windows(size_ms=HOUR, timezone="UTC", start_ms=5 * HOUR, watermark_delay_ms=0)
    floor = floor_of(windows, [h * HOUR for h in closed], clock_ms=0)
    assert floor.is_late(probe * HOUR, (probe + 1) * HOUR) == (probe < 5 or probe in closed)
    assert loads(Floor, dumps(floor)) == floor


def test_max_age_raises_the_floor_with_the_plans_clock() -> None:
    windows = Windows(size_ms=HOUR, timezone="UTC", start_ms=0, watermark_delay_ms=0, max_age_ms=10 * HOUR)
    assert floor_of(windows, [], clock_ms=15 * HOUR).low_ms == 5 * HOUR


def test_contiguous_closed_hours_are_one_interval() -> None:
    windows = Windows(size_ms=HOUR, timezone="UTC", start_ms=0, watermark_delay_ms=0)
    assert floor_of(windows, range(0, 10_000 * HOUR, HOUR), 0).closed == (Interval(0, 10_000 * HOUR),)


def entry(**changes: object) -> FileEntry:
    base = FileEntry(
        path="data/x/part-0",
        kind="data",
        window_ms=0,
        values=(),
        rows=3,
        bytes=100,
        min_event_ms=1,
        max_event_ms=2,
        checksum=77,
        partitions=(PartitionRows(0, 3, 0, 2),),
    )
    return replace(base, **changes)


def receipt(**changes: object) -> Receipt:
    result = RangeResult(
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
    return replace(
        Receipt(
            attempt="1.1-n",
            batch_id=1,
            epoch=1,
            nonce="n",
            topic="t",
            topic_id="id",
            spec_version=1,
            rules_version=1,
            ranges=(result,),
            files=(entry(),),
        ),
        **changes,
    )


PLANNED = [OffsetRange("t", 0, 0, 3)]


def test_a_receipt_that_adds_up_has_no_errors() -> None:
    assert arithmetic_errors(receipt(), PLANNED, "forbid") == []
    assert arithmetic_errors(receipt(ranges=(replace(receipt().ranges[0], rerouted=3),)), PLANNED, "forbid") == []
    assert loads(Receipt, dumps(receipt())) == receipt()


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ({"ranges": (replace(receipt().ranges[0], read=4),)}, "is not data"),
        ({"ranges": (replace(receipt().ranges[0], data=2),)}, "is not data"),
        ({"ranges": (replace(receipt().ranges[0], range=OffsetRange("t", 0, 0, 4)),)}, "not the planned ones"),
        ({"ranges": ()}, "not the planned ones"),
        ({"files": (entry(rows=4),)}, "add up differently"),
        ({"ranges": (replace(receipt().ranges[0], rerouted=4),)}, "[0, 3): 4 of 3 data rows are said to be rerouted"),
        ({"ranges": (replace(receipt().ranges[0], rerouted=-1),)}, "-1 of 3 data rows are said to be rerouted"),
        ({"files": ()}, "3 data rows counted, 0 written"),
        ({"files": (entry(), entry(path="other"))}, "3 data rows counted, 6 written"),
        ({"files": (entry(kind="late"),)}, "0 late rows counted, 3 written"),
    ],
)
def test_a_receipt_that_does_not_add_up_says_where(broken: dict[str, object], says: str) -> None:
    errors = arithmetic_errors(receipt(**broken), PLANNED, "forbid")
    assert any(says in e for e in errors), errors


def test_gaps_are_intervals_and_need_permission() -> None:
    gappy = RangeResult(
        range=OffsetRange("t", 0, 0, 5),
        read=3,
        data=3,
        late=0,
        dirty=0,
        filtered=0,
        dropped=0,
        gaps=(Interval(1, 3),),
        min_event_ms=1,
        max_event_ms=2,
    )
    told = receipt(ranges=(gappy,))
    planned = [OffsetRange("t", 0, 0, 5)]
    assert arithmetic_errors(told, planned, "allow") == []
    assert "gaps: allow" in arithmetic_errors(told, planned, "forbid")[0]


def test_a_digest_is_of_content_not_of_how_it_is_cut_into_files() -> None:
    whole = entry(rows=10, checksum=2**64 - 1)
    halves = (entry(path="a", rows=4, checksum=2**63), entry(path="b", rows=6, checksum=2**63 - 1))
    assert content_digest([whole]) == content_digest(halves)
    assert content_digest([whole]) != content_digest([entry(rows=10, checksum=1)])
    assert content_digest([whole]) != content_digest([replace(whole, values=(("c", "x"),))])


def test_a_checksum_says_which_row_identity_it_is_of() -> None:
    """All that was ever written is below 2**64: identity 0."""
    assert [identity_of(c) for c in (0, 2**64 - 1, 2**64, 2 * 2**64 + 5)] == [0, 0, 1, 2]


def test_r10_the_rename_table_is_total_and_only_one_row_renames() -> None:
    table = {(s, d): decide(s, d) for s in Seen for d in Seen}
    assert len(table) == 9
    assert [k for k, v in table.items() if v is Do.RENAME] == [(Seen.MATCHES, Seen.ABSENT)]
    assert all(v.is_alarm for (_, d), v in table.items() if d is Seen.DIFFERS)
    assert not any(v.is_alarm for (_, d), v in table.items() if d is Seen.MATCHES)


def test_r10_other_files_are_not_data_and_lengths_count() -> None:
    manifest = {"a": 1, "b": 2}
    assert held_against(manifest, None) is Seen.ABSENT
    assert held_against(manifest, [("a", 1), ("b", 2), ("zombie", 9)]) is Seen.MATCHES
    assert held_against(manifest, [("a", 1), ("b", 3)]) is Seen.DIFFERS
    assert held_against(manifest, []) is Seen.DIFFERS
    assert held_against({}, []) is Seen.MATCHES


@pytest.mark.parametrize(
    ("dirty", "read", "limits", "refused"),
    [
        (0, 0, DirtyLimits(0, 0.0), False),
        (1, 20, DirtyLimits(None, 0.01), False),  # one bad record is not a broken producer
        (2, 20, DirtyLimits(None, 0.01), True),
        (1, 20, DirtyLimits(0, None), True),
        (1000, 10**6, DirtyLimits(1000, 0.01), False),
        (1001, 10**6, DirtyLimits(1000, 0.01), True),
        (99, 100, DirtyLimits(None, None), False),
    ],
)
def test_thresholds(dirty: int, read: int, limits: DirtyLimits, refused: bool) -> None:
    result = RangeResult(
        range=OffsetRange("t", 0, 0, read),
        read=read,
        data=read - dirty,
        late=0,
        dirty=dirty,
        filtered=0,
        dropped=0,
        gaps=(),
        min_event_ms=None,
        max_event_ms=None,
    )
    sample = DirtySample(0, 5, "not a number", "price", "1e999")
    reason = refusal(limits, receipt(ranges=(result,), samples=(sample,)))
    assert (reason is not None) == refused
    if reason:
        assert "price: not a number" in reason
        assert "partition 0 offset 5: 1e999" in reason


def test_a_refusal_in_words() -> None:
    result = RangeResult(
        range=OffsetRange("t", 0, 0, 9),
        read=9,
        data=0,
        late=0,
        dirty=9,
        filtered=0,
        dropped=0,
        gaps=(),
        min_event_ms=None,
        max_event_ms=None,
    )
    samples = tuple(DirtySample(0, o, "cut off" if o else "odd", "", "x" * 99) for o in range(4))
    told = receipt(ranges=(result,), samples=samples)
    examples = "; ".join(f"partition 0 offset {o}: {'x' * 80}" for o in (1, 2, 3))
    words = f"9 of 9 records are dirty, over dirty.max_count 0; mostly record: cut off (for example {examples})"
    assert refusal(DirtyLimits(0, 0.5), told) == words
    bare = refusal(DirtyLimits(None, 0.5), replace(told, samples=()))
    assert bare == "9 of 9 records are dirty, over dirty.max_ratio 0.5"


def test_plain_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="unknown"):
        from_plain(Interval, {"start": 1, "end": 2, "middle": 3})
    with pytest.raises(ValueError, match="Interval"):
        from_plain(Interval, {"start": 1})


def test_a_balance_holds_or_does_not() -> None:
    good = Balance(offsets=10, read=9, gaps=1, data=6, late=1, dirty=1, filtered=1)
    assert good.holds
    assert (good + good).holds
    assert not replace(good, data=5).holds
    assert "≠" in replace(good, data=5).text()
