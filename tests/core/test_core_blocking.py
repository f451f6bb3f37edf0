"""What to do about who blocks a window, and what is odd about a topic whose windows hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR

from tidegate.core.look.blocking import next_step, oddities, should_be_ready_ms
from tidegate.core.source.trouble import Trouble
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.readiness import certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

WAIT = Windows(
    size_ms=HOUR, timezone="UTC", start_ms=0, watermark_delay_ms=HOUR, idle="wait", topic_silence_ms=2 * HOUR
)
CLOCK, FOLLOW = replace(WAIT, idle="clock"), replace(WAIT, idle="follow")
MINUTE = HOUR // 60
WINDOW = WindowKey(98 * HOUR, 99 * HOUR)


def part(number: int, event: float | None, drained: bool = True, advanced: float | None = 100) -> PartitionFacts:
    return PartitionFacts(
        partition=number,
        max_event_ms=None if event is None else round(event * HOUR),
        drained=drained,
        advanced_ms=None if advanced is None else round(advanced * HOUR),
    )


def facts(*parts: PartitionFacts) -> TopicFacts:
    return TopicFacts(7, 100 * HOUR, parts)


def said(trouble: Trouble) -> str:
    """What a source would say."""
    return f"<{trouble.what} {trouble.within}>"


def step(windows: Windows, *parts: PartitionFacts) -> str:
    return next_step("flights", windows, certify("flights", windows, facts(*parts), WINDOW, 101 * HOUR), said)


def test_what_helps_against_each_blocker() -> None:
    held = replace(part(3, 90, False), open_transaction_since_ms=5)
    assert step(WAIT, held) == ("commit or abort the transaction that is open in partition 3: <transaction >")
    assert step(WAIT, part(3, 90, False)) == (
        "nothing if flights.ingest is running: it still has to read partition 3 to its end"
    )
    assert step(WAIT, part(3, 90)) == (
        "partition 3 needs a later record; if it is to stay quiet, windows.idle: clock (a live topic) or follow (a "
        "load of old data) lets another time stand in"
    )
    assert step(FOLLOW, part(3, 90)) == (
        "nothing if more is to come: a later record in any partition helps; if the load is over, it is complete"
    )
    assert step(CLOCK, part(3, 20)) == (
        "windows.idle: follow for a load of old data; for a live topic that is always so far behind, a longer "
        "windows.idle_max_lag, or null"
    )
    assert (
        step(CLOCK, part(3, 90), part(4, 99.9))
        == "nothing: partition 3 counts as idle once it has been quiet for 2.0 h"
    )
    alone = (
        "nothing if later records are to come; is the producer alive? windows.on_silence: close lets the clock close "
        "windows once the topic has been silent for 2.0 h"
    )
    assert step(CLOCK, part(3, 99.5)) == alone
    assert step(CLOCK, part(3, 99.5, True, 99.6), part(4, 99.6, True, 99.7)) == alone


def test_a_silent_topic_that_closes_by_itself_needs_no_such_key() -> None:
    close = replace(CLOCK, on_silence="close")
    words = (
        "is the producer alive? Once the topic has been silent for 2.0 h the clock closes windows (on_silence: close)"
    )
    assert step(close, part(3, 99.5)).endswith(words)
    assert "partition 0 to its end" in step(close, part(0, 90, False, None), part(1, 99.5)), "it heals by itself"


@pytest.mark.parametrize(("age", "young"), [(0, True), (15 * MINUTE - 1, True), (15 * MINUTE, False)])
def test_a_young_transaction_is_left_to_its_producer(age: int, young: bool) -> None:
    """A topic with transactions has an open one whenever it is looked at: none is to be aborted for that."""
    held = replace(part(3, 90, False), open_transaction_since_ms=101 * HOUR - age)
    words = step(WAIT, held)
    assert words.startswith("nothing yet: ") is young
    assert ("<transaction >" in words) is not young
    if young:
        assert words == "nothing yet: <young transaction 15 min>"
    assert ("partition 1 needs" in step(WAIT, held, part(1, 90))) is young, "what stays comes first"


def test_what_stays_comes_before_what_heals_by_itself() -> None:
    backlog, idle = part(0, 90, False), part(1, 90)
    assert "partition 1 needs" in step(WAIT, backlog, idle)
    held = replace(part(2, 90, False), open_transaction_since_ms=5)
    assert "transaction" in step(CLOCK, backlog, held)
    assert "partition 0 to its end" in step(FOLLOW, backlog, idle)
    assert "partition 0 to its end" in step(CLOCK, backlog, part(1, 99.5, True, 99.9))
    assert "idle_max_lag" in step(CLOCK, part(0, 20, False), part(1, 20))
    assert "partition 0 to its end" in step(WAIT, backlog, part(1, 100.5)), "who does not block is not asked"
    lone = replace(CLOCK, idle_max_lag_ms=None)
    assert "is the producer alive" in step(lone, part(0, 90, False, None), part(1, 99.5))


def test_nobody_blocks() -> None:
    assert next_step("flights", WAIT, certify("flights", WAIT, TopicFacts(None, None, ()), WINDOW, 0), said) == (
        "look at the runs of flights.ingest"
    )


# ---------------------------------------------------------------- oddities


def odd(windows: Windows, *parts: PartitionFacts, now: float = 102, unread: int | None = 0) -> list[tuple[str, str]]:
    return oddities(windows, facts(*parts), round(now * HOUR), unread)


def test_old_data_under_the_clock() -> None:
    ((what, advice),) = odd(CLOCK, part(0, 4), part(1, 3), unread=None)
    assert what == (
        "the newest event was 4.0 days old when it was read: windows.idle: clock does not stand in for idle "
        "partitions, and windows hold"
    )
    assert advice == (
        "windows.idle: follow for a load of old data; a longer windows.idle_max_lag, or null, if the topic is always "
        "so far behind"
    )
    ((what, _),) = odd(CLOCK, part(0, None))
    assert what.startswith("no event time was read: windows.idle: clock does not")
    assert odd(CLOCK, part(0, 4), part(1, 3, False)) == [], "it is still being read"
    assert odd(FOLLOW, part(0, 4)) == odd(WAIT, part(0, 4)) == []
    assert odd(replace(CLOCK, idle_max_lag_ms=None), part(0, 4), now=101) == []


@pytest.mark.parametrize(("now", "silent"), [(102 - 1 / HOUR, False), (102, True), (150, True)])
def test_a_silent_topic(now: float, silent: bool) -> None:
    live = (part(0, 99.9), part(1, 99.8, True, 99.9))
    found = odd(CLOCK, *live, now=now)
    assert bool(found) == silent
    assert odd(replace(CLOCK, on_silence="close"), *live, now=now) == []
    assert odd(CLOCK, *live, now=now, unread=None) == []
    assert odd(CLOCK, *live, now=now, unread=3) == []
    assert odd(CLOCK, part(0, 99.9), part(1, 99.8, False), now=now) == []
    assert odd(WAIT, *live, now=now) == odd(CLOCK, now=now) == []


def test_what_is_said_of_silence() -> None:
    parts = (replace(part(0, 99.9), advanced_ms=100 * HOUR + 999), part(1, None, True, None))
    assert odd(CLOCK, *parts, now=103) == [
        (
            "the topic has been silent since 1970-01-05T04:00Z, for 3.0 h: windows hold",
            "are the producers alive? windows.on_silence: close lets the clock close windows of a silent topic",
        )
    ]
    assert odd(replace(CLOCK, idle_max_lag_ms=None), part(1, None, True, None), now=300) == []


CLOSE = replace(CLOCK, on_silence="close")


@pytest.mark.parametrize(
    ("windows", "front", "ready"),
    [
        (WAIT, 0, 100),
        (WAIT, 99, 100),
        (WAIT, 105, 105),
        (CLOCK, 0, 100),
        (CLOSE, 0, 102),
        (CLOSE, 105, 107),
        (replace(CLOSE, idle="wait"), 0, 100),
    ],
)
def test_by_when_a_window_should_be_ready(windows: Windows, front: int, ready: int) -> None:
    """It ends at 99:00; the delay is an hour, the topic silent after two."""
    assert should_be_ready_ms(windows, WINDOW, front * HOUR) == ready * HOUR
