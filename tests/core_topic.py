"""A topic that goes through plans as a real one does; no I/O, no adapter. Hours are of one day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from core_values import PIPELINE

from tidegate.core.batch.planning import NothingToPlan, PlanningView, advance, plan_batch
from tidegate.core.batch.states import Plan
from tidegate.core.source.port import Lane, LogState
from tidegate.core.window.plausibility import horizon_ms
from tidegate.core.window.readiness import Certificate, certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import TopicFacts, global_watermark, watermarks

HOUR, MINUTE, DAY = 3_600_000, 60_000, 86_400_000
NOON = 1_767_441_600_000 + 12 * HOUR  # 2026-01-03T12:00Z
DIRTY = None
"""A record without a usable event time."""


def at(hour: float) -> int:
    """`12.5` is 12:30 of that day; 36 is noon of the next."""
    return NOON + round((hour - 12) * HOUR)


class Topic:
    """Partitions that producers send to, and the pipeline that reads them. Hours everywhere."""

    def __init__(self, partitions: int = 2, idle: str = "clock", delay: float = 0.5, **windows: object) -> None:
        self.spec = replace(
            PIPELINE,
            windows=replace(
                PIPELINE.windows,
                **{"start_ms": at(-9000), "watermark_delay_ms": round(delay * HOUR), "idle": idle} | windows,
            ),
            ingest=replace(PIPELINE.ingest, max_records=1_000_000),
        )
        self.logs: dict[int, list[float | None]] = {p: [] for p in range(partitions)}
        self.transactions: dict[int, int] = {}  # first offset by partition
        self.facts = TopicFacts(None, None, ())
        self.ends: dict[int, int] = {}
        self.next_id = 1

    def send(self, partition: int, *events: float | None) -> None:
        self.logs.setdefault(partition, []).extend(events)

    def begin(self, partition: int) -> None:
        self.transactions[partition] = len(self.logs[partition])

    def plan(self, clock: float) -> Plan | NothingToPlan:
        """A plan at `clock`, landed at once."""
        offsets = {p: Lane(0, self.transactions.get(p, len(log)), len(log)) for p, log in self.logs.items()}
        view = PlanningView(
            version=1,
            next_batch_id=self.next_id,
            accepted_topic_id="id",
            open_batch=None,
            planned_ends=self.ends,
            not_open=(),
            facts=self.facts,
        )
        plan = plan_batch(
            self.spec, 1, view, LogState(topic="flights", topic_id="id", partitions=offsets), {}, at(clock)
        )
        if isinstance(plan, Plan):
            horizon = horizon_ms(self.spec.event_time, plan.clock_ms)
            newest: dict[int, int | None] = {}
            for r in plan.ranges:
                read = [at(e) for e in self.logs[r.partition][r.start : r.end] if e is not None]
                newest[r.partition] = max((e for e in read if e <= horizon), default=None)
            self.facts = advance(self.facts, plan, newest)
            self.ends = {p.partition: p.end for p in plan.partitions}
            self.next_id += 1
        return plan

    def certify(self, hour: int, now: float = 1000) -> Certificate:
        """Of the window that begins at `hour`."""
        return certify("p", self.spec.windows, self.facts, WindowKey(at(hour), at(hour + 1)), at(now))

    def ready(self, hour: int, now: float = 1000) -> bool:
        return self.certify(hour, now).ready

    def low(self) -> float | None:
        """The global watermark as an hour."""
        mark = global_watermark(watermarks(self.spec.windows, self.facts))
        return None if mark is None else (mark - at(0)) / HOUR

    def held(self) -> list[str]:
        return [m.held for m in watermarks(self.spec.windows, self.facts)]


def both(topic: Topic, *events: float | None, partitions: Iterable[int] = (0, 1)) -> Topic:
    for p in partitions:
        topic.send(p, *events)
    return topic
