"""When the ledger is behind what storage or the source tells (R11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from core_values import HOUR, T0

from tidegate.core.base.errors import StorageAhead
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.states import Plan
from tidegate.core.files.receipt import Receipt
from tidegate.core.restore import ahead
from tidegate.core.restore.record import BatchRecord
from tidegate.core.window.lateness import Floor

PLAN = Plan(
    pipeline="flights",
    batch_id=7,
    revision=1,
    spec_version=3,
    rules_version=2,
    topic="flights",
    topic_id="id",
    clock_ms=T0,
    floor=Floor(0),
    partitions=(),
)
RECEIPT = Receipt(
    attempt="a",
    batch_id=7,
    epoch=1,
    nonce="n",
    topic="flights",
    topic_id="id",
    spec_version=3,
    rules_version=2,
    ranges=(),
    files=(),
)


def view(**planned: int) -> PlanningView:
    ends = {int(p[1:]): end for p, end in planned.items()}
    facts: Any = None
    return PlanningView(
        version=1,
        next_batch_id=1,
        accepted_topic_id="id",
        open_batch=None,
        planned_ends=ends,
        not_open=(),
        facts=facts,
    )


def test_offsets_that_the_source_was_told_of_and_nobody_planned() -> None:
    assert ahead.beyond({0: 5, 1: 3}, view(p0=5, p1=4)) == []
    assert ahead.beyond({2: 0, 1: 5, 0: 9}, view(p0=5, p1=4)) == [(0, 9), (1, 5), (2, 0)]
    error = ahead.unplanned_offset("flights", "the group", 2, 0, view(p0=5))
    assert str(error).startswith(
        "flights: the group is at offset 0 of partition 2, the ledger has planned up to nothing"
    )
    assert "planned up to 5" in str(ahead.unplanned_offset("flights", "the group", 0, 9, view(p0=5)))


def test_a_first_generation_alone_is_compared_with_its_close() -> None:
    assert ahead.held_against_the_close([(T0, 1), (T0 + HOUR, 2)]) == [T0]
    assert ahead.held_against_the_close([(T0, 1), (T0, 2), (T0 + HOUR, 1)]) == [T0 + HOUR]


def test_three_unknown_publications_are_named_and_the_others_counted() -> None:
    unknown = [(T0 + i * HOUR, i + 1) for i in range(4)]
    three = str(ahead.unknown_publications("flights", unknown[:3])).splitlines()[0]
    assert three.endswith(
        "generation 1 of 2013-01-05T00:00Z, generation 2 of 2013-01-05T01:00Z, generation 3 of 2013-01-05T02:00Z"
    )
    assert "2013-01-05T02:00Z and 1 more" in str(ahead.unknown_publications("flights", unknown))


@pytest.mark.parametrize(
    "other",
    [replace(RECEIPT, batch_id=8), replace(RECEIPT, topic_id="new")],
)
def test_a_receipt_of_other_ranges(other: Receipt) -> None:
    ahead.check_ranges(PLAN, RECEIPT, "landed/7")
    with pytest.raises(StorageAhead, match="landed/7 holds another plan's batch 7"):
        ahead.check_ranges(PLAN, other, "landed/7")


def test_a_batch_written_by_another_plan() -> None:
    ahead.check_recorded_plan(PLAN, replace(PLAN, spec_version=9))
    ahead.check_written_plan(PLAN, [(T0, Floor(0), 2)])
    with pytest.raises(StorageAhead, match="batch 7 landed by another plan"):
        ahead.check_recorded_plan(PLAN, replace(PLAN, clock_ms=1))
    for written in ([], [(T0, Floor(0), 1)], [(T0, Floor(0), 2)] * 2, [(T0 + 1, Floor(0), 2)]):
        with pytest.raises(StorageAhead, match="batch 7 landed by another plan"):
            ahead.check_written_plan(PLAN, written)


def test_a_batch_that_landed_by_another_attempt() -> None:
    record = BatchRecord(PLAN, None, "f", RECEIPT, None)  # type: ignore[arg-type]
    assert not ahead.other_attempt(record, "n")
    assert ahead.other_attempt(record, "m")
    assert ahead.other_attempt(replace(record, manifest=None), "n")
    assert isinstance(ahead.unknown_attempt(7), StorageAhead)
    assert "next batch is 7, but hwm/7 exists" in str(ahead.unknown_batch("flights", 7, "hwm/7"))
