from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.base.offsets import Interval, OffsetRange, pack, share, subtract, union

intervals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda t: Interval(t[0], t[0] + t[1])), max_size=8
)


def points(items: tuple[Interval, ...] | list[Interval]) -> set[int]:
    return {p for i in items for p in range(i.start, i.end)}


@given(intervals)
def test_union_keeps_the_points_and_leaves_no_touching_neighbours(items: list[Interval]) -> None:
    merged = union(items)
    assert points(merged) == points(items)
    assert all(a.end < b.start for a, b in itertools.pairwise(merged))


@given(st.integers(0, 40), st.integers(0, 40), intervals)
def test_subtract_is_set_difference(start: int, length: int, parts: list[Interval]) -> None:
    whole = Interval(start, start + length)
    assert points(subtract(whole, parts)) == points([whole]) - points(parts)


@given(st.dictionaries(st.integers(0, 20), st.integers(-5, 10_000), max_size=12), st.integers(1, 20_000))
def test_share_never_starves_a_partition_and_never_takes_more_than_there_is(
    backlog: dict[int, int], limit: int
) -> None:
    shares = share(backlog, limit)
    waiting = {p: n for p, n in backlog.items() if n > 0}
    assert shares.keys() == waiting.keys()
    assert all(1 <= shares[p] <= waiting[p] for p in shares)
    assert sum(shares.values()) <= max(limit, len(waiting))


@given(
    st.lists(st.integers(0, 100_000), min_size=1, max_size=12), st.integers(1, 16), st.sampled_from([1, 100, 50_000])
)
def test_pack_covers_every_offset_once(counts: list[int], tasks: int, smallest: int) -> None:
    ranges = [OffsetRange("t", p, 7, 7 + n) for p, n in enumerate(counts)]
    bins = pack(ranges, tasks, smallest)
    assert len(bins) <= tasks
    for r in ranges:
        mine = sorted(x for b in bins for x in b if x.partition == r.partition)
        assert sum(x.count for x in mine) == r.count
        assert all(a.end == b.start for a, b in itertools.pairwise(mine))


def test_one_hot_partition_does_not_make_one_task() -> None:
    bins = pack([OffsetRange("t", 0, 0, 900_000), OffsetRange("t", 1, 0, 100_000)], 4)
    loads = [sum(r.count for r in b) for b in bins]
    assert len(loads) == 4
    assert max(loads) < 1.3 * 1_000_000 / 4


def test_an_interval_cannot_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="ends before"):
        Interval(3, 2)


def test_a_task_is_not_started_for_less_than_fifty_thousand_records() -> None:
    for count, tasks in ((50_000, 1), (50_001, 2), (100_000, 2), (100_001, 3)):
        assert len(pack([OffsetRange("t", 0, 0, count)], 8)) == tasks, count
