"""What a generation rests on: sums are whole, lists are bounded."""

from __future__ import annotations

from tidegate.core.base.offsets import Interval
from tidegate.core.publish.grounds import MAX_GAPS, BatchGround, Gap, Grounds, PartitionGround, bounded


def test_sums_of_a_generation() -> None:
    batches = (
        BatchGround(1, "ingest", 5, False, 0, 1, 10, 20, 300, 0),
        BatchGround(2, "ingest", 4, True, 1, 1, 11, 21, 400, 2),
    )
    parts = (PartitionGround(0, 6, 3, 9, 2, 12, 5), PartitionGround(1, 3, 0, 2, 1, 3, 2))
    found = Grounds(3, batches, parts, (), 3, (), 2, (), 0)
    assert (found.rows, found.gaps, found.floor_ms) == (9, 7, 400)
    empty = Grounds(3, (), (), (), 0, (), 0, (), 0)
    assert (empty.rows, empty.gaps, empty.floor_ms) == (0, 0, None)


def test_intervals_are_bounded() -> None:
    many = tuple(Interval(2 * i, 2 * i + 1) for i in range(MAX_GAPS + 5))
    assert bounded([]) == ()
    assert bounded([(7, 1, many[:2]), (8, 0, many[2:3])]) == (Gap(7, 1, 0, 1), Gap(7, 1, 2, 3), Gap(8, 0, 4, 5))
    assert len(bounded([(7, 1, many), (8, 0, many)])) == MAX_GAPS
    assert bounded([(7, 1, many), (8, 0, many)])[-1] == Gap(7, 1, 2 * MAX_GAPS - 2, 2 * MAX_GAPS - 1)
    assert bounded([(7, 1, many[:50]), (8, 0, many)])[50:52] == (Gap(8, 0, 0, 1), Gap(8, 0, 2, 3))
