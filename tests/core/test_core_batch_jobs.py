"""What jobs are told, and a table without a log as a lane that is time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE

from tidegate.core.base.errors import SourceError
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import IngestPlan, JobPart, isolation_of, kind_of, wants_headers
from tidegate.core.batch.planning import NothingToPlan, PlanningView, plan_batch, still_there
from tidegate.core.batch.readings import (
    ALWAYS,
    LEAST_OFFSETS,
    Reading,
    cover_all,
    instant_of,
    offset_at,
    whole_window,
)
from tidegate.core.batch.rules_version import COPYING_RULES, RULES_VERSION, rules_of_replay
from tidegate.core.batch.states import REDRIVE, DirtySource, PartitionPlan, Plan
from tidegate.core.copy.port import KeyRange, SourceTable
from tidegate.core.files.merge import Source
from tidegate.core.source.port import ALL, Lane, LogState
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import TopicFacts

# ---------------------------------------------------------------- what a job asks its plan


def spec(isolation: str = "read_committed", kind: str = "json", **source: object) -> dict[str, object]:
    return {"format": {"type": kind}, "source": {"isolation": isolation, **source}}


def part(start: int, end: int, pinned: dict[str, object] | None, partition: int = 0, sources: tuple = ()) -> JobPart:
    return JobPart(
        batch_id=1,
        clock_ms=0,
        floor=Floor(0, ()),
        ranges=(OffsetRange("t", 9, 0, 1), OffsetRange("t", partition, start, end)),
        pinned=pinned,
        sources=sources,
    )


def job(*parts: JobPart, today: dict[str, object] | None = None) -> IngestPlan:
    return IngestPlan(
        attempt="a",
        attempt_dir="d",
        pipeline=today or spec("today"),
        topic="t",
        nonce="n",
        bootstrap={},
        topic_id="id",
        parts=parts,
    )


def test_r1_a_replay_sees_what_the_batch_could_see() -> None:
    plan = job(part(0, 10, spec("then")), part(10, 20, spec("later")), part(20, 30, None))

    def seen(start: int, end: int, partition: int = 0) -> str:
        return isolation_of(plan, OffsetRange("t", partition, start, end))

    assert [seen(0, 10), seen(2, 8), seen(10, 20), seen(20, 30)] == ["then", "then", "later", "today"]
    assert [seen(9, 11), seen(0, 5, partition=1), seen(0, 1, partition=9)] == ["today", "today", "then"]
    files = job(part(0, 10, spec("then"), sources=(Source(1, None, ()),)))  # type: ignore[arg-type]
    assert isolation_of(files, OffsetRange("t", 0, 0, 10)) == "today", "dirty files are read, no topic"


def test_headers_are_asked_for_where_any_spec_takes_records_as_they_are() -> None:
    raw = spec(kind="raw")
    assert not wants_headers(job(part(0, 1, None), part(0, 1, spec())))
    assert wants_headers(job(today=raw))
    assert wants_headers(job(part(0, 1, spec()), part(0, 1, raw)))


def test_plans_of_earlier_releases_are_of_kafka() -> None:
    assert [kind_of(job()), kind_of(job(today=spec(kind_="x") | {"source": {"kind": "rocketmq"}}))] == [
        "kafka",
        "rocketmq",
    ]


def test_a_replay_goes_by_the_rules_of_its_batch() -> None:
    """But for unknown fields that were ignored then: today's columns may get all of them."""
    ignores = replace(PIPELINE, format=replace(PIPELINE.format, unknown_fields="ignore"))
    keeps = replace(PIPELINE, format=replace(PIPELINE.format, unknown_fields="dirty"))
    assert rules_of_replay(COPYING_RULES, keeps, keeps) == COPYING_RULES
    assert rules_of_replay(COPYING_RULES, ignores, ignores) == COPYING_RULES
    assert rules_of_replay(COPYING_RULES, ignores, keeps) == RULES_VERSION
    assert rules_of_replay(RULES_VERSION, ignores, ignores) == RULES_VERSION


# ---------------------------------------------------------------- readings of a window

CHUNKS = (KeyRange(None, (3,)), KeyRange((3,), (7,)), KeyRange((7,), None))
READING = Reading(
    server="s",
    table=SourceTable(schema="a", name="t", key=("id",), columns=()),
    window=WindowKey(0, HOUR),
    complete_ms=HOUR,
    chunks=CHUNKS,
)


def window(first: int, end: int) -> OffsetRange:
    return OffsetRange("t", 0, offset_at(first), offset_at(end))


def test_an_instant_has_its_offsets() -> None:
    assert [instant_of(offset_at(ms) + more) for ms, more in ((5, 0), (5, 2**20 - 1), (5, 2**20))] == [5, 5, 6]
    assert offset_at(1) == 2**20


def test_a_range_is_one_window_or_none() -> None:
    assert whole_window(window(HOUR, 2 * HOUR)) == WindowKey(HOUR, 2 * HOUR)
    for odd in (replace(window(0, HOUR), start=1), replace(window(0, HOUR), end=offset_at(HOUR) + 1)):
        with pytest.raises(SourceError, match=r"of t are no window") as refused:
            whole_window(odd)
        assert refused.value.retry is False


def test_the_chunks_share_the_windows_offsets_without_a_hole() -> None:
    whole = window(HOUR, 2 * HOUR)
    parts = READING.parts(whole)
    assert [(p.topic, p.partition) for p in parts] == [("t", 0)] * 3
    assert [p.start for p in parts] == [whole.start, *(p.end for p in parts[:-1])]
    assert parts[-1].end == whole.end
    assert parts[0].count == parts[1].count == whole.count // 3
    assert parts[1] == READING.part(whole, 1)
    odd = OffsetRange("t", 0, 7, 7 + 3 * LEAST_OFFSETS + 2)
    assert [(p.start - 7, p.end - 7) for p in READING.parts(odd)] == [
        (0, LEAST_OFFSETS), (LEAST_OFFSETS, 2 * LEAST_OFFSETS), (2 * LEAST_OFFSETS, 3 * LEAST_OFFSETS + 2),
    ]  # fmt: skip


def test_each_chunk_has_more_offsets_than_it_can_have_rows() -> None:
    exact = OffsetRange("t", 0, 0, 3 * LEAST_OFFSETS)
    assert [p.count for p in READING.parts(exact)] == [LEAST_OFFSETS] * 3
    with pytest.raises(ValueError, match="3 chunks: at most 2 for such a window"):
        READING.part(replace(exact, end=exact.end - 1), 0)


def test_chunks_cover_all_keys_in_order() -> None:
    assert cover_all(CHUNKS)
    assert cover_all([KeyRange(None, None)])
    for odd in ([], CHUNKS[:2], CHUNKS[1:], (CHUNKS[0], CHUNKS[2]), CHUNKS[::-1]):
        assert not cover_all(odd)
    assert cover_all(iter(CHUNKS))


# ---------------------------------------------------------------- planning windows of a table

SPEC = replace(PIPELINE, windows=replace(PIPELINE.windows, start_ms=10 * HOUR, watermark_delay_ms=HOUR // 2))
TABLE = LogState(
    topic="flights", topic_id="id", partitions={0: Lane(0, ALWAYS, ALWAYS)}, traits=replace(ALL, windowed=True)
)
VIEW = PlanningView(
    version=5,
    next_batch_id=8,
    accepted_topic_id="id",
    open_batch=None,
    planned_ends={0: offset_at(12 * HOUR)},
    not_open=(),
    facts=TopicFacts(None, None, ()),
)


def planned(clock: float, view: PlanningView = VIEW, first: int = 0) -> tuple[float, float, float] | str:
    """The window that is read next and the end of the newest that could be, in hours; else why there is none."""
    plan = plan_batch(SPEC, 3, view, TABLE, {0: offset_at(first)}, round(clock * HOUR))
    if isinstance(plan, NothingToPlan):
        return plan.reason
    assert isinstance(plan, Plan)
    (p,) = plan.partitions
    assert (p.log_start, p.last_stable_offset) == (0, p.high_watermark)
    return tuple(instant_of(offset) / HOUR for offset in (p.start, p.end, p.high_watermark))  # type: ignore[return-value]


def test_a_window_is_read_once_its_delay_is_over_one_at_a_time() -> None:
    assert planned(13.5) == (12, 13, 13)
    assert planned(15.4) == (12, 13, 14), "14 to 15 can be read half an hour later"
    assert planned(15.5) == (12, 13, 15)
    assert planned(13.4) == "the window 1970-01-01T12:00Z is read at 1970-01-01T13:30Z"


def test_reading_begins_where_the_pipeline_does() -> None:
    first = replace(VIEW, planned_ends={}, next_batch_id=1, accepted_topic_id=None)
    assert planned(20, first) == (10, 11, 19)
    assert planned(20, first, first=14 * HOUR + 5) == (14, 15, 19), "the window that holds the instant"


def test_windows_that_are_cut_otherwise_than_before_are_refused() -> None:
    odd = replace(VIEW, planned_ends={0: offset_at(12 * HOUR + 5)})
    with pytest.raises(SourceError, match="cut otherwise here") as refused:
        planned(20, odd)
    assert refused.value.retry is False
    assert refused.value.advice


# ---------------------------------------------------------------- what a topic still holds of a plan


def test_what_the_topic_has_deleted_or_lost_is_not_read_again() -> None:
    parts = tuple(
        PartitionPlan(partition=p, start=10, end=20, log_start=0, last_stable_offset=20, high_watermark=20)
        for p in range(5)
    )
    plan = Plan(
        pipeline="p", batch_id=1, revision=1, spec_version=1, rules_version=3, topic="t", topic_id="id", clock_ms=0,
        floor=Floor(0, ()), partitions=parts,
    )  # fmt: skip
    lanes = {0: Lane(0, 30, 30), 1: Lane(15, 30, 30), 3: Lane(20, 30, 30), 4: Lane(0, 12, 12)}
    topic = LogState(topic="t", topic_id="id", partitions=lanes)
    assert still_there(plan, topic) == (
        OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 15, 20), OffsetRange("t", 4, 10, 12),
    )  # fmt: skip
    assert still_there(plan, replace(topic, topic_id="new")) == ()
    redrive = replace(plan, kind=REDRIVE, sources=(DirtySource(1, 0, 1, 10, 12),))
    assert still_there(redrive, topic) == ()
