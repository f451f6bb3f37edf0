"""Event time from a field: epoch numbers, ISO 8601, or a pattern. Results are epoch ms, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from spark_jobs.engine.strict import EPOCH, MAX_MS, MIN_MS, JsonFloat, JsonInt, Unfit, describe, iso_micros, to_integer

EPOCH_UNITS = {"epoch_s": (1000, 1), "epoch_ms": (1, 1), "epoch_us": (1, 1000), "epoch_ns": (1, 1_000_000)}
"""Unit -> (multiply, divide) to milliseconds."""


def event_ms(value: Any, form: str) -> int:
    """Epoch ms of a decoded JSON value; finer parts are cut off (towards the past). Raises Unfit."""
    if value is None:
        raise Unfit("no event time")
    if form in EPOCH_UNITS:
        multiply, divide = EPOCH_UNITS[form]
        ms = to_integer(value, 64) * multiply // divide
    else:
        if not isinstance(value, str) or isinstance(value, JsonInt | JsonFloat):
            raise Unfit(f"expected an event time as a string, got {describe(value)}")
        ms = iso_micros(value) // 1000 if form == "iso8601" else _by_pattern(value, form)
    if not MIN_MS <= ms <= MAX_MS:
        raise Unfit(f"event time {str(value)[:40]} is outside of the years 1 to 9999")
    return ms


def _by_pattern(text: str, pattern: str) -> int:
    """Without a zone in the pattern the text is UTC."""
    try:
        moment = datetime.strptime(text, pattern)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise Unfit(f"event time {text[:40]!r} does not match {pattern!r}") from None
