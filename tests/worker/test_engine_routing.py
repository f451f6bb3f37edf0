"""Where records go: windows, lateness, partition values; and that nothing is lost on the way."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from engine_fixtures import (
    CLOCK,
    DAY_ONE,
    HOUR,
    TOPIC,
    all_rows,
    attempt_path,
    event,
    job_plan,
    pipeline,
    records,
    serving,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.engine import gather, together, write
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.job import cut, run_plan
from spark_jobs.engine.route import window_starts
from tidegate.core.base.offsets import Interval, OffsetRange, union
from tidegate.core.base.partition_values import HIVE_NULL
from tidegate.core.files.overflow import OVERFLOW_VALUE
from tidegate.core.files.receipt import DATA, DIRTY, LATE, arithmetic_errors
from tidegate.core.spec.pipeline import Column, EventTime, Format, Windows
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.lateness import Floor
from tidegate.storage import LocalStorage


def run(plan, topic, **options):
    return run_plan(plan, LocalStorage(), open_reader=serving(topic, **options))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-(10**12), 4 * 10**12), min_size=1, max_size=30),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe"]),
    st.sampled_from([900_000, HOUR, 6 * HOUR, 24 * HOUR]),
)
def test_many_windows_at_once_are_the_ones_that_the_core_gives(moments, zone, size):
    windows = Windows(size_ms=size, timezone=zone, start_ms=DAY_ONE, watermark_delay_ms=0)
    moments += [window_start(m, windows) for m in moments] + [window_end(m, windows) - 1 for m in moments]
    assert window_starts(pa.array(moments, pa.int64()), windows).to_pylist() == [
        window_start(m, windows) for m in moments
    ]


def test_late_is_what_the_floor_says(tmp_path):
    floor = Floor(DAY_ONE, (Interval(DAY_ONE + 2 * HOUR, DAY_ONE + 3 * HOUR),))
    moments = [DAY_ONE - 1, DAY_ONE, DAY_ONE + 2 * HOUR - 1, DAY_ONE + 2 * HOUR, DAY_ONE + 3 * HOUR]
    plan = job_plan(pipeline(tmp_path), [(0, 0, 5)], floor=floor)
    receipt = run(plan, {0: records([event(m) for m in moments])})
    assert [r["_offset"] for r in all_rows(plan, receipt, LATE)] == [0, 3]
    assert [r["_offset"] for r in all_rows(plan, receipt, DATA)] == [1, 2, 4]
    for file in receipt.files:
        assert file.window_ms is not None
        assert file.min_event_ms is not None
        assert window_start(file.min_event_ms, pipeline(tmp_path).windows) == file.window_ms
    assert (receipt.ranges[0].min_event_ms, receipt.ranges[0].max_event_ms) == (moments[0], moments[-1])


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("policy", ["reroute", "drop"])
def test_late_rows_are_counted_for_their_range_by_the_policy(tmp_path, policy, tasks):
    """Chunks of several ranges are handled as one, and a range may be cut: each row counts where it was read."""
    floor = Floor(DAY_ONE, (Interval(DAY_ONE, DAY_ONE + 2 * HOUR),), DAY_ONE + 2 * HOUR)
    late, fine, far = event(DAY_ONE + HOUR), event(DAY_ONE + 2 * HOUR), event(DAY_ONE + 7 * HOUR)
    topic = {0: records([late, fine, b"x", late, far]), 1: records([fine, far]), 2: records([late] * 3)}
    plan = job_plan(pipeline(tmp_path, late_policy=policy), [(0, 0, 5), (1, 0, 2), (2, 0, 3)], floor=floor)
    receipt = run_plan(plan, LocalStorage(), open_reader=serving(topic), tasks=tasks)
    assert [getattr(r, {"reroute": "rerouted", "drop": "dropped"}[policy]) for r in receipt.ranges] == [2, 0, 3]
    assert [r.read - r.data - r.dirty - r.dropped for r in receipt.ranges] == [0, 0, 0]
    rows = [(r["_partition"], r["_offset"]) for r in all_rows(plan, receipt, DATA)]
    lates = [(0, 0), (0, 3), (2, 0), (2, 1), (2, 2)] if policy == "reroute" else []
    assert rows == sorted([(0, 1), (0, 4), (1, 0), (1, 1), *lates])
    hours = {(f.window_ms - DAY_ONE) // HOUR for f in receipt.files if f.kind == DATA}
    assert hours == {2, 7}
    assert all_rows(plan, receipt, LATE) == []
    assert [r.min_event_ms for r in receipt.ranges] == [DAY_ONE + HOUR, DAY_ONE + 2 * HOUR, DAY_ONE + HOUR]


VALUES = ["a", "A", "", None, ".", "..", "a/b", "ü", "u\u0308", "a=b", "%41", "x\ny", " ", HIVE_NULL, "é" * 120]


NO_NAMES = ["x\x00", "n" * 300, "é" * 126]
"""No directory can be named after these."""


def test_every_partition_value_has_its_place(tmp_path):
    topic = {0: records([event(site=v) for v in [*VALUES, *NO_NAMES]])}
    plan = job_plan(pipeline(tmp_path), [(0, 0, len(topic[0]))])
    receipt = run(plan, topic)
    expected = [None if v in ("", HIVE_NULL) else v for v in VALUES]
    rows = all_rows(plan, receipt, DATA)
    assert [r["site"] for r in rows] == expected + [OVERFLOW_VALUE] * 3
    assert [r["_overflow"] for r in rows[len(VALUES) :]] == [[("site", v)] for v in NO_NAMES]
    places = [f for f in receipt.files if f.kind == DATA]
    assert len({f.path for f in places}) == len({f.values for f in places}) == len(set(expected)) + 1
    assert sum((attempt_path(plan) / f.path).stat().st_size for f in places) == sum(f.bytes for f in places)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("int", 7, "7"),
        ("boolean", True, "true"),
        ("date", "2013-01-05", "2013-01-05"),
        ("decimal(6,2)", 1.5, "1.50"),
        ("bigint", None, None),
        ("timestamp", 0, "1970-01-01 00:00:00"),
        ("timestamp", 10_120, "1970-01-01 00:00:10.12"),
    ],
)
def test_partition_values_of_other_types_are_spelled_as_hive_does(tmp_path, kind, value, text):
    spec = pipeline(tmp_path)
    spec = replace(spec, columns=(Column(name="site", type=kind, path="$.site"), *spec.columns[1:]))
    (file,) = run(job_plan(spec, [(0, 0, 1)]), {0: records([event(site=value)])}).files
    assert file.values == (("site", text),)


def test_an_unknown_field_stops_the_batch_if_the_spec_says_so(tmp_path):
    plan = job_plan(pipeline(tmp_path, format=Format("json", "fail")), [(0, 0, 2)])
    with pytest.raises(JobError) as e:
        run(plan, {0: records([event(), event(surprise=[1])])})
    assert (e.value.failure.field, e.value.failure.offset, e.value.failure.retry) == ("surprise", 1, False)
    assert "[1]" in e.value.failure.what


def test_captured_fields_are_reported_and_kept(tmp_path):
    plan = job_plan(pipeline(tmp_path, format=Format("json", "capture")), [(0, 0, 2)])
    receipt = run(plan, {0: records([event(), event(surprise=[1])])})
    assert receipt.unknown_fields == ("surprise",)
    assert [dict(r["_extra"]) for r in all_rows(plan, receipt, DATA)] == [{}, {"surprise": "[1]"}]


def test_without_a_field_the_kafka_timestamp_is_the_event_time(tmp_path):
    plan = job_plan(pipeline(tmp_path, event_time=EventTime(None)), [(0, 0, 2)])
    receipt = run(plan, {0: records([event(), event()])})
    assert (receipt.ranges[0].min_event_ms, receipt.ranges[0].max_event_ms) == (DAY_ONE, DAY_ONE + 1000)


def test_a_format_that_does_not_exist_names_those_that_do(tmp_path):
    plan = job_plan(pipeline(tmp_path, format=Format("xml")), [(0, 0, 1)])
    with pytest.raises(JobError, match=r"'xml' does not exist; there is avro, csv, debezium, json, protobuf, raw"):
        run(plan, {0: records([event()])})


def test_what_this_version_cannot_do_it_refuses(tmp_path):
    with pytest.raises(JobError, match=r"late.policy 'later' of batch 7 is not known to this worker"):
        run(job_plan(pipeline(tmp_path, late_policy="later"), [(0, 0, 1)]), {0: records([event()])})
    with pytest.raises(JobError, match="batch 7 does not say which window late rows go to"):
        run(job_plan(pipeline(tmp_path, late_policy="reroute"), [(0, 0, 1)]), {0: records([event()])})


def test_files_roll_by_size_and_open_ones_are_capped(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "ENOUGH_RECORDS", 1)
    monkeypatch.setattr(gather, "BUFFER_ROWS", 10)
    monkeypatch.setattr(gather, "ENOUGH_ROWS", 1)
    monkeypatch.setattr(write, "MAX_WRITERS", 2)
    spec = pipeline(tmp_path)
    topic = {0: records([event(site="abc"[i % 3], count=i) for i in range(40)])}
    plan = job_plan(spec, [(0, 0, 40)])
    receipt = run(plan, topic)
    assert [r["count"] for r in all_rows(plan, receipt, DATA)] == list(range(40))
    assert len(receipt.files) > 3  # the coldest were closed and begun again
    small = replace(spec, sink=replace(spec.sink, target_file_size=1))
    other = replace(job_plan(small, [(0, 0, 40)]), attempt_dir=f"{spec.sink.workdir}/tmp/other")
    rolled = run(other, topic)
    assert len(rolled.files) >= 12
    total = lambda r: sum(f.checksum for f in r.files) % 2**64  # noqa: E731
    assert total(rolled) == total(receipt)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200_000)), min_size=1, max_size=6, unique_by=lambda r: r[0]),
    st.integers(1, 4),
)
def test_tasks_cover_the_plan_exactly(sizes, tasks):
    plan = job_plan(pipeline("/nowhere"), [(p, 5, 5 + n) for p, n in sizes])
    pieces = [p.range for t in cut(plan, tasks) for p in t.pieces]
    for partition, n in sizes:
        mine = [Interval(r.start, r.end) for r in pieces if r.partition == partition]
        assert union(mine) == ((Interval(5, 5 + n),) if n else ())
        assert sum(map(len, mine)) == n


def test_overlapping_ranges_are_refused(tmp_path):
    with pytest.raises(JobError, match="reads offset 3 of partition 0 twice"):
        run(job_plan(pipeline(tmp_path), [(0, 0, 5), (0, 3, 8)]), {})


noise = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.builds(lambda h, s: event(DAY_ONE + h * HOUR, site=s), st.integers(-3, 60), st.sampled_from("abc")),
    st.just(b'{"at":1}\n{"at":2}'),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(noise, st.booleans()), max_size=25), st.integers(1, 9))
def test_every_offset_is_in_one_file_or_a_gap(tmp_path_factory, drawn, size):
    found = [(o, value) for o, (value, there) in enumerate(drawn) if there]
    topic = {0: found, 1: [(o + 100, v) for o, v in found]}
    plan = job_plan(pipeline(tmp_path_factory.mktemp("t")), [(0, 0, len(drawn)), (1, 100, 100 + len(drawn))])
    receipt = run(plan, topic, size=size)
    assert arithmetic_errors(receipt, plan.parts[0].ranges, "allow") == []
    rows = [r for kind in (DATA, LATE, DIRTY) for r in all_rows(plan, receipt, kind)]
    met = [(r["_partition"], r["_offset"]) for r in rows]
    met += [(r.range.partition, o) for r in receipt.ranges for g in r.gaps for o in range(g.start, g.end)]
    planned = [(r.partition, o) for r in plan.parts[0].ranges for o in range(r.start, r.end)]
    assert sorted(met) == planned
    raw = {(p, o): v for p, known in topic.items() for o, v in known}
    for row in all_rows(plan, receipt, DIRTY):
        assert row["raw_value"] == raw[row["_partition"], row["_offset"]]
    for row in all_rows(plan, receipt, DATA):
        assert row["site"] == json.loads(raw[row["_partition"], row["_offset"]])["site"]


def test_a_range_may_be_cut_between_tasks(tmp_path, monkeypatch):
    from spark_jobs.engine import job

    real = job.pack
    monkeypatch.setattr(job, "pack", lambda ranges, tasks: real(ranges, tasks, smallest=3))
    topic = {0: [(o, event(count=o)) for o in range(20) if o % 5]}
    plan = job_plan(pipeline(tmp_path), [(0, 0, 20)])
    receipt = run_plan(plan, LocalStorage(), open_reader=serving(topic), tasks=3)
    assert receipt.ranges[0].range == OffsetRange(TOPIC, 0, 0, 20)
    assert receipt.ranges[0].gaps == tuple(Interval(o, o + 1) for o in (0, 5, 10, 15))
    assert len(receipt.files) == 3
    assert [r["count"] for r in all_rows(plan, receipt, DATA)] == [o for o, _ in topic[0]]


def test_times_before_1970_and_far_ahead(tmp_path):
    spec = pipeline(tmp_path)
    spec = replace(spec, windows=replace(spec.windows, start_ms=-(10**11)))
    plan = job_plan(spec, [(0, 0, 2)], floor=Floor(-(10**11)))
    receipt = run(plan, {0: records([event(-1), event(CLOCK + 10**9)])})
    assert [r["_offset"] for r in all_rows(plan, receipt, DATA)] == [0]
    assert {f.path.rsplit("/", 1)[0] for f in receipt.files} == {"data/date=1969-12-31/hour=23/site=a", "dirty"}
