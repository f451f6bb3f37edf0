"""How far batches of a topic's one partition have come, in hours before a fixed now; no I/O, no adapter."""

from __future__ import annotations

from tidegate.core.source.loss_forecast import LossForecast, forecast
from tidegate.core.source.port import Lane, LogState
from tidegate.core.source.progress import BatchLook, Look, Progress

MINUTE, HOUR = 60_000, 3_600_000
DAY = 24 * HOUR
NOW = 100 * DAY


def topic(end: int = 2_000, start: int = 0, **settings: object) -> LogState:
    given = {"retention_ms": 7 * DAY} | settings
    return LogState(topic="t", topic_id="id-1", partitions={0: Lane(start, end, end)}, **given)  # type: ignore[arg-type]


def batch(
    number: int, landed: float, look: Look | None, state: str = "LANDED", clock: float | None = None
) -> BatchLook:
    """`landed` and `clock` in hours before NOW; planned a minute before it landed."""
    at = NOW - int(landed * HOUR)
    asked = at - MINUTE if clock is None else NOW - int(clock * HOUR)
    looks = {} if look is None else {0: look}
    return BatchLook(number, state in ("SEALED", "LANDED"), asked, at, looks, state == "ABANDONED")


def read(start: int, end: int, newest_h: float | None, high: int = 2_000, size: int = 0) -> Look:
    """Read up to a record that is `newest_h` hours old."""
    newest = None if newest_h is None else NOW - int(newest_h * HOUR)
    return Look(
        start=start, end=end, log_start=0, high_watermark=high, read=end - start, bytes=size, max_kafka_ms=newest
    )


def progress(newest: BatchLook | None, landed: BatchLook | None, base: BatchLook | None = None) -> Progress:
    return Progress("id-1", newest, landed, base)


def one(state: LogState, found: Progress, now: int = NOW) -> LossForecast:
    (answer,) = forecast(state, found, now)
    return answer


# ---------------------------------------------------------------- by time


LANDED = batch(13, 0.1, read(900, 1_000, 160))
BASE = batch(1, 1.1, read(0, 100, 160.5, high=1_900))  # half an hour of records in an hour


# ---------------------------------------------------------------- by bytes


def sized(end: int, *, unread: int, limit: int | None, written: int = 100, taken: int = 50, **settings) -> LossForecast:
    """30-byte records, 100 with what Kafka adds; in the last hour `written` came and `taken` were read."""
    landed = batch(13, 0.1, read(end - unread - 10, end - unread, 1, high=end - 10, size=300), clock=0.1)
    base = batch(1, 1.1, read(0, end - unread - taken, 2, high=end - written, size=300), clock=1)
    state = topic(end, retention_ms=None, retention_bytes=limit, segment_bytes=1, **settings)
    return one(state, progress(landed, landed, base))
