"""A second reading of a range against the first: gaps as intervals."""

from __future__ import annotations

import random

import pytest

from tidegate.core.base.offsets import Interval, union, without
from tidegate.core.files.second_reading import compare, listed

SPAN = Interval(10, 20)


def gaps(*bounds: tuple[int, int]) -> tuple[Interval, ...]:
    return tuple(Interval(*b) for b in bounds)


def test_the_same_gaps_are_no_objection() -> None:
    for allowed in ("forbid", "allow"):
        assert compare(SPAN, gaps((12, 14)), gaps((12, 13), (13, 14))).objection(allowed) is None


def test_what_lies_outside_the_span_was_not_read_again() -> None:
    again = compare(SPAN, gaps((0, 5), (8, 12), (19, 30)), gaps((10, 12), (19, 20)))
    assert (again.vanished, again.appeared) == ((), ())


@pytest.mark.parametrize("allowed", ["forbid", "allow"])
def test_one_record_gone_and_another_come_back_do_not_cancel_out(allowed: str) -> None:
    objection = compare(SPAN, gaps((12, 14)), gaps((13, 15))).objection(allowed)
    assert objection is not None
    assert "records at offsets [12, 13)" in objection


def test_compaction_takes_more_only_where_gaps_are_allowed() -> None:
    again = compare(SPAN, gaps((12, 13)), gaps((11, 13), (15, 16)))
    assert again.vanished == gaps((11, 12), (15, 16))
    assert again.objection("allow") is None
    assert "[11, 12), [15, 16)" in str(again.objection("forbid"))
    assert "source.gaps: allow" in str(again.objection("forbid"))


def test_without_is_the_difference_of_sets(rng: random.Random) -> None:
    def some() -> tuple[Interval, ...]:
        starts = (rng.randrange(40) for _ in range(rng.randrange(7)))
        return tuple(Interval(s, s + rng.randrange(1, 8)) for s in starts)

    def points(intervals: tuple[Interval, ...]) -> set[int]:
        return {p for i in intervals for p in range(i.start, i.end)}

    for _ in range(500):
        these, those = some(), some()
        found = without(these, those)
        assert points(found) == points(these) - points(those), (these, those)
        assert found == union(found)


def test_many_gaps_are_compared_in_one_pass() -> None:
    many = tuple(Interval(i, i + 1) for i in range(0, 100_000, 2))
    again = compare(Interval(0, 100_000), many, many)
    assert (again.vanished, again.appeared) == ((), ())


def test_a_list_for_people_is_bounded() -> None:
    assert listed(gaps((1, 2), (3, 4), (5, 6), (7, 8))) == "[1, 2), [3, 4), [5, 6) and 1 more"
