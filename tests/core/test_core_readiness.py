"""Watermarks and certificates as whole values: what stands in for a partition, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR

from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.readiness import Certificate, certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import PartitionFacts, PartitionWatermark, TopicFacts, watermarks

SPEC = Windows(
    size_ms=HOUR,
    timezone="UTC",
    start_ms=0,
    watermark_delay_ms=HOUR,
    idle="clock",
    topic_silence_ms=2 * HOUR,
    on_silence="hold",
)
WINDOW = WindowKey(9 * HOUR, 10 * HOUR)
NOW = 123_456


def part(number: int, event: int | None, drained: bool, advanced: int | None) -> PartitionFacts:
    return PartitionFacts(
        partition=number,
        max_event_ms=None if event is None else event * HOUR,
        drained=drained,
        advanced_ms=None if advanced is None else advanced * HOUR,
        open_transaction_since_ms=5,
        last_stable_offset=7,
    )


def facts(*partitions: PartitionFacts, clock: int | None = 100) -> TopicFacts:
    return TopicFacts(7, None if clock is None else clock * HOUR, partitions)


def marks(spec: Windows, topic: TopicFacts) -> list[tuple[int | None, str]]:
    return [(None if m.watermark_ms is None else m.watermark_ms // HOUR, m.basis) for m in watermarks(spec, topic)]


def test_a_watermark_as_a_whole() -> None:
    (mark,) = watermarks(SPEC, facts(part(3, 8, False, 50)))
    assert mark == PartitionWatermark(
        partition=3,
        watermark_ms=7 * HOUR,
        basis="own",
        max_event_ms=8 * HOUR,
        drained=False,
        advanced_ms=50 * HOUR,
        open_transaction_since_ms=5,
        last_stable_offset=7,
    )


BUSY, SLOW, IDLE, NEW = part(0, 98, False, 99), part(1, 8, False, 60), part(1, 8, True, 60), part(2, None, True, None)
ONCE = part(1, 60, True, 60)
UNREAD = replace(NEW, drained=False)


@pytest.mark.parametrize(
    ("idle", "partitions", "expected"),
    [
        ("wait", (BUSY, IDLE, NEW), [(97, "own"), (7, "own"), (None, "none")]),
        ("follow", (BUSY, IDLE, NEW), [(97, "own"), (97, "follow"), (97, "follow")]),
        ("follow", (BUSY, SLOW, UNREAD), [(97, "own"), (7, "own"), (None, "none")]),
        ("follow", (NEW,), [(None, "none")]),
        ("clock", (BUSY, IDLE, NEW), [(97, "own"), (98, "clock"), (98, "clock")]),
        ("clock", (BUSY, SLOW, UNREAD), [(97, "own"), (7, "own"), (None, "none")]),
        ("clock", (replace(BUSY, drained=True), IDLE), [(97, "own"), (98, "clock")]),
        ("clock", (part(0, 58, True, 97), part(1, 96, True, 98)), [(97, "clock"), (96, "clock")]),
        ("clock", (ONCE, NEW), [(59, "own"), (59, "clock")]),  # only another partition's clock stands in
        ("clock", (IDLE, NEW), [(7, "own"), (None, "none")]),  # what is so old says nothing of the clock's time
        ("clock", (NEW,), [(None, "none")]),
        ("clock", (replace(BUSY, max_event_ms=200 * HOUR, drained=True), IDLE), [(98, "own"), (98, "clock")]),
        ("clock", (part(0, 97, True, 98), part(1, 97, True, 97)), [(96, "own"), (97, "clock")]),  # the same is its own
    ],
)
def test_what_stands_in(idle: str, partitions: tuple[PartitionFacts, ...], expected: list[tuple]) -> None:
    assert marks(replace(SPEC, idle=idle), facts(*partitions)) == expected


@pytest.mark.parametrize(("clock", "closes"), [(61, False), (62, True), (63, True)])
def test_the_silence_of_a_whole_topic(clock: int, closes: bool) -> None:
    """Partitions advanced at 60 h and 30 h; silence begins after 2 h."""
    topic = facts(ONCE, part(0, 5, True, 30), clock=clock)
    standing = [(59, "own"), (59, "clock")]
    assert marks(SPEC, topic) == standing, "hold"
    expected = [(clock - 1, "clock")] * 2 if closes else standing
    assert marks(replace(SPEC, on_silence="close"), topic) == expected
    assert marks(replace(SPEC, on_silence="close"), facts(IDLE, clock=None)) == [(7, "own")]
    assert marks(replace(SPEC, on_silence="close"), facts(ONCE, clock=None)) == [(59, "own")]
    if closes:
        assert marks(replace(SPEC, on_silence="close"), facts(ONCE, SLOW, clock=clock))[1] == (7, "own"), "a backlog"


def decide(*partitions: PartitionFacts, spec: Windows = SPEC, window: WindowKey = WINDOW) -> Certificate:
    return certify("p", spec, facts(*partitions), window, NOW)


def test_a_certificate_as_a_whole() -> None:
    ready = decide(part(0, 11, False, 50))
    assert ready == Certificate(
        pipeline="p",
        window=WINDOW,
        ready=True,
        reason=ready.reason,
        decided_ms=NOW,
        batch_id=7,
        watermark_ms=10 * HOUR,
        partitions=watermarks(SPEC, facts(part(0, 11, False, 50))),
        blockers=(),
    )
    assert ready.reason == "watermark 1970-01-01T10:00Z has passed the window's end 1970-01-01T10:00Z"
    assert ready.text() == f"p 1970-01-01T09:00Z: ready: {ready.reason}"
    blocked = decide(part(0, 50, False, 50), part(1, 10, False, 50), UNREAD)
    assert (blocked.ready, blocked.blockers, blocked.watermark_ms) == (False, (1, 2), None)
    assert blocked.text().startswith("p 1970-01-01T09:00Z: blocked: ")


@pytest.mark.parametrize(("blocking", "more"), [(3, ""), (4, "; and 1 more partition"), (9, "; and 6 more partitions")])
def test_three_blockers_are_named(blocking: int, more: str) -> None:
    parts = [replace(part(n, 5, False, 50), open_transaction_since_ms=None) for n in range(blocking)]
    reason = decide(*parts).reason
    assert reason.endswith(f"more is waiting to be ingested{more}")
    assert reason.count("partition ") == 3
    assert len(decide(*parts).blockers) == blocking


def test_what_a_blocker_lacks() -> None:
    def reason(facts_: PartitionFacts, spec: Windows = SPEC) -> str:
        return decide(replace(facts_, open_transaction_since_ms=None), spec=spec).reason

    backlog = "; more is waiting to be ingested"
    assert reason(SLOW) == (
        f"partition 1: last event 1970-01-01T08:00Z, watermark 1970-01-01T07:00Z is 3.0 h short{backlog}"
    )
    lag = "; the clock does not stand in: what was read is older than windows.idle_max_lag allows"
    assert reason(IDLE).endswith(f"is 3.0 h short; idle since 1970-01-03T12:00Z{lag}")
    assert reason(IDLE, replace(SPEC, idle="wait")).endswith("is 3.0 h short; idle since 1970-01-03T12:00Z")
    follow = decide(
        part(0, 10, True, 50), replace(IDLE, open_transaction_since_ms=None), spec=replace(SPEC, idle="follow")
    )
    assert follow.reason.endswith(
        "partition 1: last event 1970-01-01T08:00Z, watermark 1970-01-01T09:00Z (idle: follow) is 60 min short; "
        "idle since 1970-01-03T12:00Z"
    )
    assert reason(UNREAD) == f"partition 2: never had a record with an event time{backlog}"
    assert reason(NEW) == "partition 2: never had a record with an event time"
    held = "partition 1: an open transaction holds it since 1970-01-01T00:00:00.005Z"
    assert decide(SLOW).reason == f"{held}, from offset 7 on"
    assert decide(replace(SLOW, last_stable_offset=None)).reason == held


@pytest.mark.parametrize(("start", "ready"), [(10, True), (11, True), (9, False)])
def test_windows_before_the_start(start: int, ready: bool) -> None:
    found = decide(SLOW, spec=replace(SPEC, start_ms=start * HOUR))
    assert (found.ready, found.blockers) == (ready, () if ready else (1,))


def test_before_the_first_batch_and_without_partitions() -> None:
    early = certify("p", SPEC, TopicFacts(None, None, (part(0, 50, False, 50),)), WINDOW, NOW)
    assert (early.ready, early.batch_id) == (False, None)
    bare = decide()
    assert (bare.ready, bare.reason, bare.watermark_ms) == (False, "the topic has no partitions", None)
