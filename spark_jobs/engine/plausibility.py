"""Implausible event times: no usable Kafka timestamp, the ends of the calendar, beyond the ingest clock."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.formats import Bad
from spark_jobs.engine.strict import MAX_MS, MIN_MS
from tidegate.core.base.instants import DAY_MS, iso, span
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import EventTime
from tidegate.core.window.plausibility import horizon_ms


class Plausibility:
    """`clock_ms`: the plan's ingest clock."""

    def __init__(self, event_time: EventTime, clock_ms: int) -> None:
        self._event_time, self._field = event_time, event_time.path or ""
        self._horizon = horizon_ms(event_time, clock_ms)

    def of(self, chunk: Chunk, event: pa.Array | None, bad: dict[int, Bad]) -> tuple[pa.Array, pa.Array]:
        """(Event times in epoch ms, whether each may move the watermark); adds those that are dirty to `bad`.

        `event` None: the pipeline goes by Kafka's timestamps."""
        if event is None:
            event = self._kafka_time(chunk, bad)
        event = self._in_every_calendar(event, bad)
        return event, self._not_in_future(event, bad)

    def _kafka_time(self, chunk: Chunk, bad: dict[int, Bad]) -> pa.Array:
        if min(chunk.timestamps) < 0 or max(chunk.timestamps) > MAX_MS:
            for i, ms in enumerate(chunk.timestamps):
                if not 0 <= ms <= MAX_MS:
                    bad.setdefault(i, Bad(f"no usable Kafka timestamp ({ms})"))
            return pa.array([ms if 0 <= ms <= MAX_MS else None for ms in chunk.timestamps], pa.int64())
        return pa.array(chunk.timestamps, pa.int64())

    def _in_every_calendar(self, event: pa.Array, bad: dict[int, Bad]) -> pa.Array:
        """Two days off both ends of the calendar: a window there has no local date in some zone."""
        low, high = MIN_MS + 2 * DAY_MS, MAX_MS - 2 * DAY_MS
        outside = pc.fill_null(pc.or_(pc.less(event, low), pc.greater(event, high)), False)
        if not pc.any(outside).as_py():
            return event
        for i in pc.indices_nonzero(outside).to_pylist():
            reason = "event time is at the end of the calendar (years 1 and 9999): a missing one?"
            bad.setdefault(i, Bad(reason, self._field))
        return pc.if_else(outside, pa.scalar(None, event.type), event)

    def _not_in_future(self, event: pa.Array, bad: dict[int, Bad]) -> pa.Array:
        plausible = pc.fill_null(pc.less_equal(event, self._horizon), False)
        if self._event_time.future == "dirty" and (pc.max(event).as_py() or 0) > self._horizon:
            for i in pc.indices_nonzero(pc.fill_null(pc.greater(event, self._horizon), False)).to_pylist():
                at = event[i].as_py()
                ahead = f"{span(at - self._horizon)} beyond the ingest clock + future_skew"
                bad.setdefault(i, Bad(f"event time {iso(at)} is {ahead}", self._field))
        return plausible
