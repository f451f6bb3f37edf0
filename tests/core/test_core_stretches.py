"""Offsets that are never read, as they hold copies (F1, F6): where reading goes on, and where a range ends."""

from __future__ import annotations

import pytest

from tidegate.core.base.offsets import Interval
from tidegate.core.source.stretches import below, never_read, past, stop

TWO = (Interval(8, 9), Interval(3, 5), Interval(5, 6))
"""Offsets 3 to 5, in two pieces that touch, and 8; in any order."""


@pytest.mark.parametrize(("offset", "on"), [(0, 0), (2, 2), (3, 6), (4, 6), (5, 6), (6, 6), (7, 7), (8, 9), (9, 9)])
def test_reading_goes_on_behind_a_stretch(offset: int, on: int) -> None:
    assert past(offset, TWO) == on
    assert past(offset, ()) == offset


@pytest.mark.parametrize(
    ("start", "end", "stops"),
    [(0, 20, 3), (0, 4, 3), (0, 3, 3), (0, 2, 2), (2, 20, 3), (6, 20, 8), (6, 7, 7), (9, 20, 20), (3, 20, 3)],
)
def test_a_range_ends_where_the_next_stretch_begins(start: int, end: int, stops: int) -> None:
    assert stop(start, end, TWO) == stops
    assert stop(start, end, ()) == end


@pytest.mark.parametrize(
    ("offset", "left"),
    [(0, ()), (3, ()), (4, ((3, 4),)), (6, ((3, 6),)), (8, ((3, 6),)), (9, ((3, 6), (8, 9))), (20, ((3, 6), (8, 9)))],
)
def test_where_the_log_was_cut_stretches_end(offset: int, left: tuple[tuple[int, int], ...]) -> None:
    assert below(offset, TWO) == tuple(Interval(*one) for one in left)


@pytest.mark.parametrize(
    ("start", "end", "never"),
    [(3, 6, True), (3, 5, True), (4, 6, True), (5, 6, True), (8, 9, True), (2, 6, False), (3, 7, False), (3, 9, False),
     (4, 4, False), (6, 8, False)],
)  # fmt: skip
def test_a_range_is_left_out_if_one_stretch_has_all_of_it(start: int, end: int, never: bool) -> None:
    assert never_read(start, end, TWO) is never
    assert not never_read(start, end, ())
