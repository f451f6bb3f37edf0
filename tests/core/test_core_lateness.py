"""Where late rows go: the oldest window that the floor leaves open, and what a receipt must not claim about them."""

from __future__ import annotations

import itertools
import zoneinfo
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.base.instants import DAY_MS, HOUR_MS
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.base.plain import dumps, loads
from tidegate.core.files.receipt import FileEntry, PartitionRows, RangeResult, Receipt
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.lateness import DROP, POLICIES, REROUTE, SIDE, Floor, by_policy, errors, floor_of

HOURS = Windows(size_ms=HOUR_MS, timezone="UTC", start_ms=5 * HOUR_MS, watermark_delay_ms=0)
# midnight that does not exist, midnight that comes twice, days of 23 and 25 hours, half-hour changes
ZONES = (
    "UTC", "Europe/Berlin", "America/Havana", "America/Sao_Paulo", "America/St_Johns", "Australia/Lord_Howe",
    "Pacific/Apia",
)  # fmt: skip


def following(start_ms: int, windows: Windows, count: int) -> list[int]:
    found = [start_ms]
    while len(found) < count:
        found.append(window_end(found[-1], windows))
    return found


def test_nothing_is_closed_yet() -> None:
    assert floor_of(HOURS, [], 0, REROUTE).reroute_ms == 5 * HOUR_MS, "the first window, however far in the past"


def test_the_oldest_open_window_lies_behind_what_is_closed_and_in_its_holes() -> None:
    closed = [h * HOUR_MS for h in (5, 6, 8, 9)]
    assert floor_of(HOURS, closed, 0, REROUTE).reroute_ms == 7 * HOUR_MS
    assert floor_of(HOURS, [*closed, 7 * HOUR_MS], 0, REROUTE).reroute_ms == 10 * HOUR_MS
    assert floor_of(HOURS, [h * HOUR_MS for h in (6, 7)], 0, REROUTE).reroute_ms == 5 * HOUR_MS
    assert floor_of(HOURS, [h * HOUR_MS for h in (2, 3, 4)], 0, REROUTE).reroute_ms == 5 * HOUR_MS


def test_neighbours_that_were_not_joined_are_gone_through_all_the_same() -> None:
    floor = Floor(5 * HOUR_MS, tuple(Interval(h * HOUR_MS, (h + 1) * HOUR_MS) for h in (5, 6, 7)))
    assert floor.oldest_open(HOURS) == 8 * HOUR_MS


def test_a_window_that_the_age_limit_cuts_is_open_until_its_end_is_too_old() -> None:
    aged = replace(HOURS, max_age_ms=10 * HOUR_MS)
    for minutes, hour in ((0, 7), (1, 7), (59, 7), (60, 8)):
        floor = floor_of(aged, [], 17 * HOUR_MS + minutes * 60_000, REROUTE)
        assert floor.reroute_ms == hour * HOUR_MS
        assert not floor.is_late(hour * HOUR_MS, (hour + 1) * HOUR_MS)
        assert floor.is_late((hour - 1) * HOUR_MS, hour * HOUR_MS)


def test_only_rerouting_needs_a_target() -> None:
    assert floor_of(HOURS, [], 0) == floor_of(HOURS, [], 0, SIDE) == floor_of(HOURS, [], 0, DROP) == Floor(5 * HOUR_MS)


def test_a_floor_of_before_has_no_target() -> None:
    assert loads(Floor, '{"low_ms":5,"closed":[{"start":7,"end":9}]}') == Floor(5, (Interval(7, 9),), None)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_target_follows_from_the_floor_alone(policy: str) -> None:
    """So that a refused batch can take another policy with its next revision."""
    first = floor_of(HOURS, [5 * HOUR_MS], 0, policy)
    for other in POLICIES:
        assert by_policy(first, HOURS, other) == floor_of(HOURS, [5 * HOUR_MS], 0, other)
    assert loads(Floor, dumps(first)) == first


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_the_target_is_the_first_window_that_is_not_late(data: st.DataObject) -> None:
    """Any size and zone, any set of closed windows, any age: it is open, and every window before it is not."""
    zone = data.draw(st.sampled_from(ZONES))
    size = data.draw(st.sampled_from((15 * 60_000, HOUR_MS, 6 * HOUR_MS, DAY_MS)))
    first = data.draw(st.integers(1_262_304_000_000, 1_577_836_800_000)) // 60_000 * 60_000  # 2010 to 2020
    windows = Windows(size_ms=size, timezone=zone, start_ms=first, watermark_delay_ms=0)
    if size == DAY_MS:
        windows = replace(windows, start_ms=window_start(first, windows))
    starts = following(windows.start_ms, windows, 40)
    closed = data.draw(st.sets(st.integers(0, 38)))
    age = data.draw(st.none() | st.integers(1, 30 * size))
    clock = starts[0] + data.draw(st.integers(0, 38 * size))
    windows = replace(windows, max_age_ms=age)
    floor = floor_of(windows, [starts[i] for i in closed], clock, REROUTE)
    target = floor.reroute_ms
    assert target in starts
    assert not floor.is_late(target, window_end(target, windows))
    for start in starts[: starts.index(target)]:
        assert floor.is_late(start, window_end(start, windows))
    assert window_start(target, windows) == target


@pytest.mark.parametrize("zone", ZONES[1:4])
def test_days_of_other_lengths_are_whole_windows(zone: str) -> None:
    """Through a year, every day closed but one: that one is the target."""
    first = datetime(2016, 1, 1, tzinfo=zoneinfo.ZoneInfo(zone)).astimezone(UTC)
    windows = Windows(size_ms=DAY_MS, timezone=zone, start_ms=int(first.timestamp() * 1000), watermark_delay_ms=0)
    days = following(windows.start_ms, windows, 366)
    lengths = [b - a for a, b in itertools.pairwise(days)]
    assert len(set(lengths)) == 3, "this year has days of 23, 24 and 25 hours"
    odd = [i for i, length in enumerate(lengths) if length != DAY_MS]
    for hole in [i + j for i in odd for j in (-1, 0, 1)]:
        floor = floor_of(windows, [d for i, d in enumerate(days) if i != hole], 0, REROUTE)
        assert floor.reroute_ms == days[hole]
        assert not floor.is_late(days[hole], days[hole + 1])


# ---------------------------------------------------------------- receipts

TARGET = Floor(5 * HOUR_MS, (Interval(5 * HOUR_MS, 6 * HOUR_MS),), 6 * HOUR_MS)


def file(kind: str, hour: int, rows: int, partition: int = 0) -> FileEntry:
    window = None if kind == "dirty" else hour * HOUR_MS
    parts = (PartitionRows(partition, rows, 0, rows - 1),)
    return FileEntry(
        path=f"{kind}/{hour}",
        kind=kind,
        window_ms=window,
        values=(),
        rows=rows,
        bytes=9,
        min_event_ms=1,
        max_event_ms=2,
        checksum=7,
        partitions=parts,
    )


def receipt(*files: FileEntry, partition: int = 0, **counts: int) -> Receipt:
    told = dict.fromkeys(("read", "data", "late", "dirty", "filtered", "dropped"), 0) | counts
    found = RangeResult(range=OffsetRange("t", partition, 0, 9), gaps=(), min_event_ms=None, max_event_ms=None, **told)
    return Receipt(
        attempt="1.1-n",
        batch_id=1,
        epoch=1,
        nonce="n",
        topic="t",
        topic_id="id",
        spec_version=1,
        rules_version=1,
        ranges=(found,),
        files=files,
    )


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (SIDE, receipt(file("data", 6, 3), file("late", 5, 2), file("dirty", 0, 1), data=3, late=2, dirty=1)),
        (REROUTE, receipt(file("data", 6, 3), file("data", 8, 3), data=6, rerouted=3)),
        (DROP, receipt(file("data", 6, 3), data=3, dropped=2)),
        (DROP, receipt(file("data", 6, 3), data=3)),
    ],
)
def test_a_receipt_by_the_policy_has_no_errors(policy: str, found: Receipt) -> None:
    assert errors(TARGET, HOURS, policy, found) == []


@pytest.mark.parametrize(
    ("policy", "found", "says"),
    [
        (SIDE, receipt(file("data", 5, 1), data=1), "data/5: data rows, but window 1970-01-01T05:00Z was not open"),
        (SIDE, receipt(file("late", 6, 1), late=1), "late/6: late rows, but window 1970-01-01T06:00Z was open"),
        (SIDE, receipt(file("dirty", 0, 1), file("data", 5, 1), data=1, dirty=1), "data/5: data rows, but window"),
        (SIDE, receipt(file("data", 4, 1), data=1), "window 1970-01-01T04:00Z was not open"),
        (SIDE, receipt(file("data", 6, 1), data=1, rerouted=1), "1 row rerouted, but late.policy is side"),
        (SIDE, receipt(dropped=2), "partition 0: 2 rows dropped, but late.policy is side"),
        (REROUTE, receipt(file("late", 5, 1), late=1), "1 row late, but late.policy is reroute"),
        (REROUTE, receipt(dropped=2), "2 rows dropped, but late.policy is reroute"),
        (REROUTE, receipt(file("data", 6, 2), data=2, rerouted=3), "3 rows rerouted, 2 in the window"),
        (REROUTE, receipt(file("data", 7, 3), data=3, rerouted=3), "3 rows rerouted, 0 in the window"),
        (REROUTE, receipt(file("data", 6, 3, 1), data=3, rerouted=3), "3 rows rerouted, 0 in the window"),
        (DROP, receipt(file("late", 5, 1), late=1), "1 row late, but late.policy is drop"),
        (DROP, receipt(file("data", 6, 1), data=1, rerouted=1), "1 row rerouted, but late.policy is drop"),
    ],
)
def test_a_receipt_that_cannot_be_of_its_plan_says_why(policy: str, found: Receipt, says: str) -> None:
    assert any(says in line for line in errors(TARGET, HOURS, policy, found))


def test_rows_of_several_files_are_added_up() -> None:
    two = (file("data", 6, 2), replace(file("data", 6, 2), path="data/6/more"))
    assert errors(TARGET, HOURS, REROUTE, receipt(*two, data=4, rerouted=4)) == []
    assert errors(TARGET, HOURS, REROUTE, receipt(*two, data=4, rerouted=5)) != []
