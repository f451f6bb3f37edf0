"""What a job reports that reads a plan's ranges and judges by the plan: the worker's routing, record by record.

It stands for `spark_jobs/engine/route.py` and `task.py`; `test_simulation` holds it against the real router.
"""

from __future__ import annotations

from collections import Counter

from tests.simulation.topic import BAD, FILTERED, Record, Topic
from tests.simulation.verdicts import Fate
from tidegate.core.base.offsets import Interval, OffsetRange, subtract
from tidegate.core.batch.states import Plan
from tidegate.core.files.receipt import DATA, DIRTY, LATE, FileEntry, PartitionRows, RangeResult, Receipt
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.plausibility import horizon_ms


class _Judge:
    def __init__(self, pipeline: Pipeline, plan: Plan) -> None:
        self._pipeline, self._plan = pipeline, plan
        self._horizon = horizon_ms(pipeline.event_time, plan.clock_ms)
        self._late: dict[int, bool] = {}

    def place(self, record: Record) -> tuple[str, int | None]:
        event, windows = record.event, self._pipeline.windows
        if record.kind == BAD or event is None:
            return DIRTY, None
        if event > self._horizon and self._pipeline.event_time.future == "dirty":
            return DIRTY, None
        if record.kind == FILTERED:
            return "filtered", None
        start = window_start(event, windows)
        if start not in self._late:
            self._late[start] = self._plan.floor.is_late(start, window_end(start, windows))
        if not self._late[start]:
            return DATA, start
        policy = self._pipeline.late_policy
        if policy == "reroute":
            return "rerouted", self._plan.floor.reroute_ms
        return (LATE, start) if policy == "side" else ("dropped", None)

    def moves(self, record: Record) -> bool:
        return record.kind != BAD and record.event is not None and record.event <= self._horizon


def read(pipeline: Pipeline, plan: Plan, topic: Topic) -> tuple[Receipt, list[Fate]]:
    """A complete receipt, and the place of each record in the order of partitions and offsets."""
    judge, fates, results, files = _Judge(pipeline, plan), [], [], []
    for r in plan.ranges:
        mine, result = _range(judge, r, topic)
        fates += mine
        results.append(result)
        files += _files(r.partition, mine)
    receipt = Receipt(
        attempt="a",
        batch_id=plan.batch_id,
        epoch=1,
        nonce="n",
        topic=plan.topic,
        topic_id=plan.topic_id,
        spec_version=1,
        rules_version=plan.rules_version,
        ranges=tuple(results),
        files=tuple(files),
    )
    return receipt, fates


def _range(judge: _Judge, r: OffsetRange, topic: Topic) -> tuple[list[Fate], RangeResult]:
    fates: list[Fate] = []
    low: int | None = None
    high: int | None = None
    records = topic.logs[r.partition].records
    missing = []
    for offset in range(r.start, r.end):
        record = records[offset]
        if record is None:
            missing.append(Interval(offset, offset + 1))
            continue
        fates.append((r.partition, offset, *judge.place(record)))
        event = record.event
        if event is not None and judge.moves(record):
            low = event if low is None or event < low else low
            high = event if high is None or event > high else high
    n = Counter(place for _, _, place, _ in fates)
    whole = Interval(r.start, r.end)
    gaps = subtract(whole, subtract(whole, missing)) if missing else ()
    data = n[DATA] + n["rerouted"]
    result = RangeResult(
        range=r,
        read=len(fates),
        data=data,
        late=n[LATE],
        dirty=n[DIRTY],
        filtered=n["filtered"],
        dropped=n["dropped"],
        gaps=gaps,
        min_event_ms=low,
        max_event_ms=high,
        rerouted=n["rerouted"],
    )
    return fates, result


def _files(partition: int, fates: list[Fate]) -> list[FileEntry]:
    spans: dict[tuple[str, int | None], list[int]] = {}
    for _, offset, place, window in fates:
        kind = DATA if place == "rerouted" else place
        if kind in (DATA, LATE, DIRTY):
            spans.setdefault((kind, window), []).append(offset)
    return [
        FileEntry(
            path=f"{kind}/{window}/{partition}",
            kind=kind,
            window_ms=window,
            values=(),
            rows=len(o),
            bytes=len(o),
            min_event_ms=window,
            max_event_ms=window,
            checksum=0,
            partitions=(PartitionRows(partition, len(o), o[0], o[-1]),),
        )
        for (kind, window), o in spans.items()
    ]
