"""What a generation rests on: sums are whole, lists are bounded."""

from __future__ import annotations

from tidegate.core.base.offsets import Interval
from tidegate.core.publish.grounds import MAX_GAPS, BatchGround, Gap, Grounds, PartitionGround, bounded


def test_sums_of_a_generation() -> None:
    batches = (
        BatchGround(
            batch_id=1,
            kind="ingest",
            rows=5,
            late=False,
            rerouted=0,
            spec_version=1,
            clock_ms=10,
            landed_ms=20,
            floor_ms=300,
            closed_above=0,
        ),
        BatchGround(
            batch_id=2,
            kind="ingest",
            rows=4,
            late=True,
            rerouted=1,
            spec_version=1,
            clock_ms=11,
            landed_ms=21,
            floor_ms=400,
            closed_above=2,
        ),
    )
    parts = (
        PartitionGround(partition=0, rows=6, first=3, last=9, batches=2, offsets=12, gaps=5),
        PartitionGround(partition=1, rows=3, first=0, last=2, batches=1, offsets=3, gaps=2),
    )
    found = Grounds(
        closing_batch=3,
        batches=batches,
        partitions=parts,
        ranges=(),
        range_count=3,
        gap_intervals=(),
        gap_ranges=2,
        losses=(),
        loss_count=0,
    )
    assert (found.rows, found.gaps, found.floor_ms) == (9, 7, 400)
    empty = Grounds(
        closing_batch=3,
        batches=(),
        partitions=(),
        ranges=(),
        range_count=0,
        gap_intervals=(),
        gap_ranges=0,
        losses=(),
        loss_count=0,
    )
    assert (empty.rows, empty.gaps, empty.floor_ms) == (0, 0, None)


def test_intervals_are_bounded() -> None:
    many = tuple(Interval(2 * i, 2 * i + 1) for i in range(MAX_GAPS + 5))
    assert bounded([]) == ()
    assert bounded([(7, 1, many[:2]), (8, 0, many[2:3])]) == (Gap(7, 1, 0, 1), Gap(7, 1, 2, 3), Gap(8, 0, 4, 5))
    assert len(bounded([(7, 1, many), (8, 0, many)])) == MAX_GAPS
    assert bounded([(7, 1, many), (8, 0, many)])[-1] == Gap(7, 1, 2 * MAX_GAPS - 2, 2 * MAX_GAPS - 1)
    assert bounded([(7, 1, many[:50]), (8, 0, many)])[50:52] == (Gap(8, 0, 0, 1), Gap(8, 0, 2, 3))
