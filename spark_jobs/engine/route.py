"""Routes records: dirty, (filtered,) late (by policy) or data, by the rules that the batch's plan pinned."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.formats import Bad, Decoded
from spark_jobs.engine.plausibility import Plausibility
from spark_jobs.engine.sinks import format_of
from tidegate.core.base.instants import DAY_MS, MINUTE_MS
from tidegate.core.base.partition_values import HIVE_NULL
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Pipeline, Windows
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.lateness import DROP, SIDE, Floor

_SLOT_MS = 15 * MINUTE_MS  # every zone's midnight is at a multiple of this since 1972


@dataclass(kw_only=True)
class Routed:
    """One entry per record of the chunk; those of bad records mean nothing.

    `event` and `window` (the start of the one that the row goes to) are epoch ms; `values` are the dynamic partition
    values as text, null for Hive's default partition; `plausible` is false where the event time may not move the
    watermark. `late` rows go to the late table; `rerouted` and `dropped` ones came late under those policies: None is
    none.
    """

    event: pa.Array
    window: pa.Array
    late: pa.Array
    plausible: pa.Array
    values: dict[str, pa.Array]
    bad: dict[int, Bad]
    rerouted: pa.Array | None = None
    dropped: pa.Array | None = None


class Router:
    """`pipeline` is the spec that decides membership; `clock_ms` the plan's ingest clock."""

    def __init__(self, pipeline: Pipeline, floor: Floor, clock_ms: int) -> None:
        self._pipeline, self._floor = pipeline, floor
        self._format = format_of(pipeline.sink.format)
        self._plausible = Plausibility(pipeline.event_time, clock_ms).of
        self._late: dict[int, bool] = {}

    def route(self, chunk: Chunk, decoded: Decoded) -> Routed:
        bad = dict(decoded.bad)
        event, plausible = self._plausible(chunk, decoded.event_ms, bad)
        for i, (field, reason) in self._format.unfit(decoded.table).items():
            bad.setdefault(i, Bad(reason, field))
        values = {n: partition_text(decoded.table.column(n)) for n in self._pipeline.dynamic_partitions}
        # rows without an event time are bad: any window does
        window = window_starts(pc.fill_null(event, self._pipeline.windows.start_ms), self._pipeline.windows)
        return self._by_policy(
            Routed(event=event, window=window, late=self._is_late(window), plausible=plausible, values=values, bad=bad)
        )

    def _is_late(self, window: pa.Array) -> pa.Array:
        late = []
        for start in pc.unique(window).to_pylist():
            if start not in self._late:
                self._late[start] = self._floor.is_late(start, window_end(start, self._pipeline.windows))
            if self._late[start]:
                late.append(start)
        if not late:
            return pa.repeat(pa.scalar(False), len(window))
        return pc.is_in(window, pa.array(late, pa.int64()))

    def _by_policy(self, routed: Routed) -> Routed:
        policy, late = self._pipeline.late_policy, routed.late
        if policy == SIDE or not pc.any(late).as_py():
            return routed
        nowhere = pa.repeat(pa.scalar(False), len(late))
        if policy == DROP:
            return replace(routed, late=nowhere, dropped=late)
        window = pc.if_else(late, pa.scalar(self._floor.reroute_ms, pa.int64()), routed.window)
        return replace(routed, window=window, late=nowhere, rerouted=late)


def partition_text(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Values as the text that a directory name spells; empty and Hive's own null name become null."""
    texts = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_timestamp(texts.type):
        # always with six digits behind the seconds; Hive drops zeros at the end
        texts = pc.replace_substring_regex(pc.strftime(texts, "%Y-%m-%d %H:%M:%S"), r"\.?0*$", "")
    if not pa.types.is_string(texts.type):
        texts = texts.cast(pa.string())
    return pc.if_else(pc.is_in(texts, pa.array(["", HIVE_NULL])), None, texts)


def window_starts(event: pa.Array, windows: Windows) -> pa.Array:
    """`core.window.cut.window_start` for many at once."""
    if windows.size_ms >= DAY_MS:
        return _by_slots(event, windows)
    since = pc.subtract(event, windows.start_ms)
    rest = pc.subtract(since, pc.multiply(pc.divide(since, windows.size_ms), windows.size_ms))
    rest = pc.if_else(pc.less(rest, 0), pc.add(rest, windows.size_ms), rest)  # division cuts towards zero
    return pc.subtract(event, rest)


def _by_slots(event: pa.Array, windows: Windows) -> pa.Array:
    """Local days: one look-up per quarter of an hour; a slot that midnight splits is looked up row by row."""
    if not len(event):
        return event
    slots = window_starts(event, _quarter_hours(windows)).dictionary_encode()
    starts: list[int | None] = []
    for slot in slots.dictionary.to_pylist():
        first, last = window_start(slot, windows), window_start(slot + _SLOT_MS - 1, windows)
        starts.append(first if first == last else None)
    found = pa.array(starts, pa.int64()).take(slots.indices)
    if found.null_count:
        rows = [
            window_start(ms, windows) if s is None else s
            for ms, s in zip(event.to_pylist(), found.to_pylist(), strict=True)
        ]
        return pa.array(rows, pa.int64())
    return found


def _quarter_hours(windows: Windows) -> Windows:
    return Windows(
        size_ms=_SLOT_MS, timezone=windows.timezone, start_ms=0, watermark_delay_ms=windows.watermark_delay_ms
    )
