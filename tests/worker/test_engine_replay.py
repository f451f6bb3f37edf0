"""Replay: one window's rows again, membership by the pinned rules, columns by today's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_fixtures import (
    CLOCK,
    DAY_ONE,
    HOUR,
    TOPIC,
    all_rows,
    event,
    job_plan,
    pipeline,
    records,
    replay_plan_of,
    serving,
)

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.job import run_plan
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import JobPart
from tidegate.core.files.receipt import DATA, arithmetic_errors, content_digest
from tidegate.core.spec.pipeline import Column
from tidegate.core.window.lateness import Floor
from tidegate.storage import LocalStorage

OPEN = Floor(DAY_ONE)
CLOSED = Floor(DAY_ONE, (Interval(DAY_ONE, DAY_ONE + HOUR),))


def part(batch: int, floor: Floor, *ranges: tuple[int, int, int], pinned=None) -> JobPart:
    return JobPart(
        batch_id=batch, clock_ms=CLOCK, floor=floor, ranges=tuple(OffsetRange(TOPIC, *r) for r in ranges), pinned=pinned
    )


def replay_plan(spec, *parts: JobPart, window: int = DAY_ONE):
    plan = replay_plan_of(job_plan(spec, []), parts=parts, window_ms=window, batch_id=0)
    return replace(plan, attempt="w.2.1-abc", attempt_dir=f"{spec.sink.workdir}/tmp/w.2.1-abc")


def run(plan, topic):
    return run_plan(plan, LocalStorage(), open_reader=serving(topic))


def test_only_the_windows_data_is_written_each_row_with_its_batch(tmp_path):
    values = [event(count=1), event(DAY_ONE + HOUR), b"rubbish", event(count=2), event(CLOCK + HOUR)]
    topic = {0: records(values), 1: records([event(count=3)])}
    parts = (part(5, OPEN, (0, 0, 3), (1, 0, 1)), part(6, CLOSED, (0, 3, 4)), part(8, OPEN, (0, 4, 5)))
    plan = replay_plan(pipeline(tmp_path), *parts)
    receipt = run(plan, topic)
    assert [(r["_batch_id"], r["_partition"], r["count"]) for r in all_rows(plan, receipt, DATA)] == [
        (5, 0, 1),
        (5, 1, 3),
    ]
    assert [(r.range.start, r.read, r.data, r.dropped, r.late, r.dirty) for r in receipt.ranges] == [
        (0, 3, 1, 2, 0, 0),
        (0, 1, 1, 0, 0, 0),
        (3, 1, 0, 1, 0, 0),
        (4, 1, 0, 1, 0, 0),
    ]
    assert {f.kind for f in receipt.files} == {DATA}
    assert arithmetic_errors(receipt, [r for p in parts for r in p.ranges], "forbid") == []


def test_a_replay_of_what_was_ingested_is_the_same_content(tmp_path):
    spec = pipeline(tmp_path)
    topic = {0: records([event(DAY_ONE + i * 60_000, site="abc"[i % 3], count=i) for i in range(100)])}
    ingested = run(job_plan(spec, [(0, 0, 100)]), topic)
    window = [f for f in ingested.files if f.window_ms == DAY_ONE]
    again = run(replay_plan(spec, part(7, OPEN, (0, 0, 40)), part(8, OPEN, (0, 40, 100))), topic)
    assert content_digest(again.files) == content_digest(window)
    assert sum(f.rows for f in again.files) == 60


def test_membership_is_pinned_and_columns_are_todays(tmp_path):
    old = pipeline(tmp_path)
    new = replace(
        old,
        columns=(
            *old.columns[:2],
            Column(name="count", type="bigint", path="$.count"),
            Column(name="note", type="string", path="$.note"),
        ),
        event_time=replace(old.event_time, path="$.elsewhere"),
    )
    topic = {0: records([event(note="n", count=1), event(note="m", count=2**40)])}
    plan = replay_plan(new, part(5, OPEN, (0, 0, 2), pinned=to_plain(old)))
    receipt = run(plan, topic)
    # the second was dirty by its batch's rules and stays so, although it fits today
    assert [(r["count"], r["note"]) for r in all_rows(plan, receipt, DATA)] == [(1, "n")]
    assert receipt.ranges[0].dropped == 1


def test_the_field_of_the_event_time_is_no_unknown_one(tmp_path):
    """By the spec that decided; nor is it in rows that no column's change concerns."""
    old = pipeline(tmp_path)
    old = replace(old, format=replace(old.format, unknown_fields="capture"))
    new = replace(old, columns=(*old.columns, Column(name="note", type="string", path="$.note")))
    values = [event(note="n"), event(other=1), event(at=DAY_ONE, z={"at": 1}), event()]
    plan = replay_plan(new, part(5, OPEN, (0, 0, 4), pinned=to_plain(old)))
    rows = all_rows(plan, run(plan, {0: records(values)}), DATA)
    assert [dict(r["_extra"]) for r in rows] == [{}, {"other": "1"}, {"z": '{"at":1}'}, {}]


def test_a_replay_is_refused_when_todays_columns_cannot_decode_data(tmp_path):
    old = pipeline(tmp_path)
    new = replace(old, columns=(*old.columns[:2], Column(name="count", type="tinyint", path="$.count")))
    topic = {0: records([event(count=1), event(DAY_ONE + HOUR, count=1000), event(count=1000)])}
    plan = replay_plan(new, part(5, OPEN, (0, 0, 3), pinned=to_plain(old)))
    with pytest.raises(JobError, match=r"replay refused.*offset 2: count: 1000 does not fit in 8 bits") as e:
        run(plan, topic)
    assert not e.value.failure.retry
    # the row of another window is not what this replay is about
    less = replay_plan(new, part(5, OPEN, (0, 0, 2), pinned=to_plain(old)))
    assert run(replace(less, attempt_dir=less.attempt_dir + "2"), topic).rows == 1


@pytest.mark.parametrize("todays", [False, True], ids=["the same columns", "other columns"])
def test_each_part_goes_by_the_rules_of_its_batch(tmp_path, todays):
    old = pipeline(tmp_path)
    columns = (*old.columns, Column(name="info", type="struct<a:int>", path="$.info"))
    old = replace(old, columns=columns, format=replace(old.format, unknown_fields="capture"))
    spec = replace(old, columns=(*old.columns, Column(name="note", type="string", path="$.note"))) if todays else old
    topic = {0: records([b'{"at":%d,"site":"a","count":1,"info":{"a":1,"b":2}}' % DAY_ONE] * 2)}
    first, second = (part(b, OPEN, (0, b, b + 1), pinned=to_plain(old) if todays else None) for b in (0, 1))
    plan = replay_plan(spec, replace(first, rules_version=2), second)
    receipt = run(plan, topic)
    # version 2 does not look inside of fields
    found = [(r["_offset"], r["_extra"]) for r in all_rows(plan, receipt, DATA)]
    assert found == [(0, []), (1, [("$.info.b", "2")])]
    with pytest.raises(JobError, match="needs rules version 5, this worker knows 2, 3, 4"):
        run(replace(plan, parts=(replace(first, rules_version=5),)), topic)
