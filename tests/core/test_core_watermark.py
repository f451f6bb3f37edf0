"""Watermarks and certificates: each rule of event time by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.base.plain import dumps, loads
from tidegate.core.batch.planning import advance
from tidegate.core.batch.states import PartitionPlan, Plan, first_batch
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.lateness import Floor
from tidegate.core.window.readiness import Certificate, certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import PartitionFacts, TopicFacts, global_watermark, watermarks

HOUR = 3_600_000
SPEC = Windows(size_ms=HOUR, timezone="UTC", start_ms=0, watermark_delay_ms=HOUR, idle="wait", topic_silence_ms=HOUR)


def facts(*partitions: PartitionFacts, clock: int = 100 * HOUR) -> TopicFacts:
    return TopicFacts(7, clock, partitions)


def part(number: int, event: float | None, drained: bool = False, advanced: float | None = 100) -> PartitionFacts:
    return PartitionFacts(
        partition=number,
        max_event_ms=None if event is None else int(event * HOUR),
        drained=drained,
        advanced_ms=None if advanced is None else int(advanced * HOUR),
    )


def low(spec: Windows, f: TopicFacts) -> float | None:
    mark = global_watermark(watermarks(spec, f))
    return None if mark is None else mark / HOUR


def test_the_slowest_partition_decides() -> None:
    assert low(SPEC, facts(part(0, 10), part(1, 8))) == 7


@pytest.mark.parametrize("idle", ["wait", "follow", "clock"])
def test_a_partition_with_a_backlog_is_never_stood_in_for(idle: str) -> None:
    assert low(replace(SPEC, idle=idle), facts(part(0, 50), part(1, 8))) == 7


def test_wait_lets_an_idle_partition_hold_every_window() -> None:
    assert low(SPEC, facts(part(0, 50), part(1, 8, drained=True))) == 7


def test_follow_takes_the_largest_own_watermark() -> None:
    follow = replace(SPEC, idle="follow")
    assert low(follow, facts(part(0, 50), part(1, 8, drained=True), part(2, None, drained=True))) == 49
    assert low(follow, facts(part(0, 50, drained=True), part(1, 8, drained=True))) == 49
    assert low(follow, facts(part(0, None, drained=True))) is None


def test_clock_stands_in_while_another_partition_advances() -> None:
    clock = replace(SPEC, idle="clock")
    f = facts(part(0, 99.5), part(1, 8, drained=True, advanced=20), clock=100 * HOUR)
    assert low(clock, f) == 98.5
    assert [m.basis for m in watermarks(clock, f)] == ["own", "clock"]


def test_a_silent_topic_holds_or_closes_by_the_spec() -> None:
    hold = replace(SPEC, idle="clock", on_silence="hold")
    f = facts(part(0, 60, True, 60), part(1, 8, True, 20), clock=100 * HOUR)
    assert low(hold, f) == 59, "the clock of the last plan in which anything moved"
    assert low(replace(hold, on_silence="close"), f) == 99
    not_silent_yet = facts(part(0, 90, True, 99.5), part(1, 8, True, 20), clock=100 * HOUR)
    assert low(replace(hold, on_silence="close"), not_silent_yet) == 89, "nobody but partition 0 itself advanced"


def test_a_stand_in_never_pulls_a_watermark_back() -> None:
    clock = replace(SPEC, idle="clock")
    assert low(clock, facts(part(0, 99.9, True, 100), part(1, 50, True, 50))) == 98.9


def test_an_event_ahead_of_the_clock_says_no_more_than_the_clock() -> None:
    for idle in ("wait", "follow", "clock"):
        assert low(replace(SPEC, idle=idle), facts(part(0, 120, drained=True, advanced=100))) == 99
    assert low(SPEC, facts(part(0, 120, advanced=None))) == 119, "read by nobody knows whom"


def test_certificates_name_the_blocker_and_what_it_lacks() -> None:
    window = WindowKey(9 * HOUR, 10 * HOUR)
    blocked = certify("p", SPEC, facts(part(0, 50), part(17, 8, drained=True, advanced=30)), window, 0)
    assert not blocked.ready
    assert blocked.blockers == (17,)
    assert "partition 17: last event 1970-01-01T08:00Z" in blocked.text()
    assert "3.0 h short; idle since 1970-01-02T06:00Z" in blocked.text()
    assert loads(Certificate, dumps(blocked)) == blocked


def test_certificates_for_everything_that_is_missing() -> None:
    window = WindowKey(9 * HOUR, 10 * HOUR)
    assert "no batch has landed" in certify("p", SPEC, TopicFacts(None, None, ()), window, 0).reason
    first = first_batch(1, "WRITING")
    reason = certify("p", SPEC, TopicFacts(None, None, ()), window, 0, first=first).reason
    assert reason == "no batch has landed yet: batch 1 is being written (WRITING)"
    assert first_batch(1, "SEALED", stuck=True) == "batch 1 is SEALED, and waits for somebody"
    never = certify("p", SPEC, facts(part(0, None, drained=True)), window, 0)
    assert "partition 0: never had a record" in never.reason
    many = certify("p", SPEC, facts(*[part(i, 1) for i in range(20)]), window, 0)
    assert "and 17 more partitions" in many.reason
    open_ = replace(part(0, 1), open_transaction_since_ms=3 * HOUR)
    assert "an open transaction holds it since 1970-01-01T03:00Z" in certify("p", SPEC, facts(open_), window, 0).reason


def test_a_window_is_ready_when_the_watermark_reaches_its_end_not_before() -> None:
    window = WindowKey(9 * HOUR, 10 * HOUR)
    assert certify("p", SPEC, facts(part(0, 11)), window, 0).ready
    assert not certify("p", SPEC, facts(replace(part(0, 11), max_event_ms=11 * HOUR - 1)), window, 0).ready


def test_windows_before_the_start_hold_nothing() -> None:
    spec = replace(SPEC, start_ms=20 * HOUR)
    assert certify("p", spec, TopicFacts(None, None, ()), WindowKey(9 * HOUR, 10 * HOUR), 0).ready


def plan(*partitions: PartitionPlan, clock: int = 200 * HOUR) -> Plan:
    return Plan(
        pipeline="p",
        batch_id=8,
        revision=1,
        spec_version=1,
        rules_version=1,
        topic="t",
        topic_id="id",
        clock_ms=clock,
        floor=Floor(0),
        partitions=partitions,
    )


def test_facts_advance_with_each_landed_batch() -> None:
    before = facts(part(0, 10, advanced=50), part(1, 20, advanced=60))
    after = advance(
        before,
        plan(
            PartitionPlan(
                partition=0, start=5, end=9, log_start=0, last_stable_offset=9, high_watermark=9
            ),  # read to its end; its newest event is older than what was seen
            PartitionPlan(
                partition=1, start=7, end=7, log_start=0, last_stable_offset=7, high_watermark=9
            ),  # nothing readable: an open transaction
            PartitionPlan(
                partition=2, start=0, end=0, log_start=0, last_stable_offset=0, high_watermark=0
            ),  # added since, empty
        ),
        {0: 3 * HOUR},
    )
    zero, one, two = after.partitions
    assert (zero.max_event_ms, zero.drained, zero.advanced_ms) == (10 * HOUR, True, 200 * HOUR)
    assert (one.drained, one.advanced_ms, one.open_transaction_since_ms) == (False, 60 * HOUR, 200 * HOUR)
    assert (two.max_event_ms, two.drained, two.advanced_ms) == (None, True, None)
    again = advance(
        after,
        plan(
            PartitionPlan(partition=1, start=7, end=7, log_start=0, last_stable_offset=7, high_watermark=9),
            clock=300 * HOUR,
        ),
        {},
    )
    assert again.partitions[0].open_transaction_since_ms == 200 * HOUR, "since the first plan that met it"
