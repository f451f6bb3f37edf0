"""When an event time is implausible: further in the future than a batch allows."""

from __future__ import annotations

from tidegate.core.spec.pipeline import EventTime


def horizon_ms(event_time: EventTime, clock_ms: int) -> int:
    """The latest event time (inclusive, UTC ms) that a batch planned at `clock_ms` takes for a time that has been."""
    return clock_ms + event_time.future_skew_ms
