"""A whole job in one process, on a topic in memory."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from engine_fixtures import (
    CLOCK,
    DAY_ONE,
    HOUR,
    all_rows,
    attempt_path,
    event,
    job_plan,
    pipeline,
    records,
    serving,
)

from spark_jobs.engine import gather, together
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.job import run_plan
from spark_jobs.engine.tally import Tally, merge
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.base.plain import loads
from tidegate.core.files.receipt import DATA, DIRTY, LATE, Failure, RangeResult, Receipt, arithmetic_errors
from tidegate.core.source.records import Chunk
from tidegate.storage import LocalStorage


def run(plan, topic, **options):
    return run_plan(plan, LocalStorage(), open_reader=serving(topic, **options))


def test_records_go_to_their_hours_and_the_receipt_comes_last(tmp_path):
    topic = {
        0: records([event(DAY_ONE, count=1), event(DAY_ONE + HOUR, site="b"), event(DAY_ONE - 1), b"rubbish"]),
        1: records([event(DAY_ONE + 5, count=2, reading={"value": 1.5})], first=10),
    }
    plan = job_plan(pipeline(tmp_path), [(0, 0, 4), (1, 10, 11)])
    receipt = run(plan, topic)

    assert loads(Receipt, (attempt_path(plan) / "_receipt.json").read_bytes()) == receipt
    assert arithmetic_errors(receipt, plan.parts[0].ranges, "forbid") == []
    first, second = receipt.ranges
    assert (first.read, first.data, first.late, first.dirty) == (4, 2, 1, 1)
    assert (first.min_event_ms, first.max_event_ms) == (DAY_ONE - 1, DAY_ONE + HOUR)
    assert (second.read, second.data) == (1, 1)
    assert {f.path.rsplit("/", 1)[0] for f in receipt.files} == {
        "data/date=2013-01-05/hour=00/site=a",
        "data/date=2013-01-05/hour=01/site=b",
        "late/date=2013-01-04/hour=23",
        "dirty",
    }
    rows = all_rows(plan, receipt, DATA)
    assert [(r["_partition"], r["_offset"], r["site"], r["count"], r["value"]) for r in rows] == [
        (0, 0, "a", 1, None),
        (0, 1, "b", None, None),
        (1, 10, "a", 2, 1.5),
    ]
    assert all(r["_batch_id"] == 7 and r["_topic"] == "readings" for r in rows)
    assert [r["site"] for r in all_rows(plan, receipt, LATE)] == ["a"]
    dirty = all_rows(plan, receipt, DIRTY)
    assert [(r["raw_value"], r["raw_key"], r["_offset"]) for r in dirty] == [(b"rubbish", b"3", 3)]
    assert receipt.samples[0].offset == 3


def test_a_file_says_what_it_holds(tmp_path):
    topic = {0: records([event(), event()]), 3: records([event()])}
    plan = job_plan(pipeline(tmp_path), [(0, 0, 2), (3, 0, 1)])
    (file,) = run(plan, topic).files
    footer = pq.ParquetFile(attempt_path(plan) / file.path).metadata
    told = {k.decode(): v.decode() for k, v in footer.metadata.items() if k.startswith(b"tidegate.")}
    assert footer.num_rows == file.rows == 3
    assert json.loads(told["tidegate.rows"]) == [
        {"partition": 0, "rows": 2, "min_offset": 0, "max_offset": 1},
        {"partition": 3, "rows": 1, "min_offset": 0, "max_offset": 0},
    ]
    assert told["tidegate.batch_id"] == "7"
    assert told["tidegate.epoch"] == "1"
    assert told["tidegate.window_ms"] == str(DAY_ONE)
    assert told["tidegate.checksum"] == str(file.checksum)


def test_gaps_are_reported_as_intervals(tmp_path):
    topic = {0: [(o, event()) for o in (2, 3, 7, 8)]}
    plan = job_plan(pipeline(tmp_path), [(0, 0, 10)])
    (found,) = run(plan, topic).ranges
    assert found.read == 4
    assert found.gaps == (Interval(0, 2), Interval(4, 7), Interval(9, 10))


def test_the_checksum_depends_on_rows_alone(tmp_path):
    topic = {0: records([event(DAY_ONE + i, count=i) for i in range(50)])}
    spec = pipeline(tmp_path)
    one = run(job_plan(spec, [(0, 0, 50)]), topic, size=50)
    other = run(
        replace(job_plan(spec, [(0, 0, 50)]), attempt_dir=f"{spec.sink.workdir}/tmp/other", batch_id=8), topic, size=7
    )
    assert [f.checksum for f in one.files] == [f.checksum for f in other.files]
    changed = {0: records([event(DAY_ONE + i, count=i + (i == 49)) for i in range(50)])}
    third = run(replace(job_plan(spec, [(0, 0, 50)]), attempt_dir=f"{spec.sink.workdir}/tmp/third"), changed)
    assert third.files[0].checksum != one.files[0].checksum


def test_the_buffer_decides_how_often_rows_are_written_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "ENOUGH_RECORDS", 1)
    monkeypatch.setattr(gather, "SMALLEST_BUFFER", 1)
    monkeypatch.setattr(gather, "ENOUGH_ROWS", 1)
    topic = {0: records([event(DAY_ONE, count=i) for i in range(9)])}
    contents, groups = [], []
    for folder, size in (("small", 1), ("large", 96 * 1024 * 1024)):
        spec = pipeline(tmp_path / folder)
        spec = replace(spec, ingest=replace(spec.ingest, task_buffer=size))
        plan = job_plan(spec, [(0, 0, 9)])
        receipt = run(plan, topic, size=3)
        (file,) = receipt.files
        groups.append(pq.ParquetFile(attempt_path(plan) / file.path).metadata.num_row_groups)
        contents.append((file.rows, file.checksum, file.partitions))
    assert contents[0] == contents[1]
    assert groups == [3, 1]


def test_a_recreated_topic_is_refused_with_both_ids(tmp_path):
    plan = job_plan(pipeline(tmp_path), [(0, 0, 1)])
    with pytest.raises(JobError, match=r"id other, planned was topic-one"):
        run(plan, {0: records([event()])}, topic_id="other")
    failure = loads(Failure, (attempt_path(plan) / "failure.json").read_bytes())
    assert not failure.retry
    assert not (attempt_path(plan) / "_receipt.json").exists()


@pytest.mark.parametrize(("future", "kind"), [("dirty", DIRTY), ("accept", DATA)])
def test_the_future_never_moves_the_watermark(tmp_path, future, kind):
    spec = pipeline(tmp_path)
    spec = replace(spec, event_time=replace(spec.event_time, future=future, future_skew_ms=1000))
    plan = job_plan(spec, [(0, 0, 2)])
    receipt = run(plan, {0: records([event(CLOCK + 1000), event(CLOCK + 1001)])})
    assert receipt.ranges[0].max_event_ms == CLOCK + 1000
    assert [r["_offset"] for r in all_rows(plan, receipt, kind)][-1] == 1


def test_an_empty_plan_has_an_empty_receipt(tmp_path):
    receipt = run(job_plan(pipeline(tmp_path), [(0, 5, 5)]), {})
    assert receipt.ranges[0].read == 0
    assert receipt.files == ()


@pytest.mark.parametrize("size", [1, 4, 60])
@pytest.mark.parametrize("enough", [1, 10, 1000])
def test_bad_records_take_nobody_with_them(tmp_path, size, enough, monkeypatch):
    monkeypatch.setattr(together, "ENOUGH_RECORDS", enough)
    values = [
        b"rubbish" if i % 13 == 5 else event(DAY_ONE + i % 3 * HOUR, site="ab"[i % 2], count=i) for i in range(60)
    ]
    plan = job_plan(pipeline(tmp_path), [(0, 0, 60)])
    receipt = run(plan, {0: records(values)}, size=size)
    good = [i for i in range(60) if i % 13 != 5]
    assert [(r["_offset"], r["count"], r["site"]) for r in all_rows(plan, receipt, DATA)] == [
        (i, i, "ab"[i % 2]) for i in good
    ]
    assert [r["_offset"] for r in all_rows(plan, receipt, DIRTY)] == [i for i in range(60) if i % 13 == 5]
    assert len(receipt.files) == 7


def test_pieces_that_leave_a_hole_are_no_receipt():
    def piece(start: int, end: int) -> RangeResult:
        return RangeResult(
            range=OffsetRange("t", 0, start, end),
            read=end - start,
            data=end - start,
            late=0,
            dirty=0,
            filtered=0,
            dropped=0,
            gaps=(),
            min_event_ms=5,
            max_event_ms=9,
        )

    whole = OffsetRange("t", 0, 0, 30)
    merged = merge(whole, [piece(20, 30), piece(0, 20)])
    assert (merged.range, merged.read, merged.min_event_ms, merged.max_event_ms) == (whole, 30, 5, 9)
    for pieces in ([piece(0, 20)], [piece(0, 10), piece(20, 30)], [piece(0, 20), piece(10, 30)], []):
        with pytest.raises(JobError, match="only up to"):
            merge(whole, pieces)


@pytest.mark.parametrize("offsets", [[3, 2], [2, 2], [9, 10], [-1, 0]])
def test_a_source_that_delivers_something_else_is_not_believed(offsets):
    tally = Tally(range=OffsetRange("t", 0, 0, 10))
    with pytest.raises(JobError, match="delivered offsets"):
        tally.consume(Chunk(offsets, [0] * 2, [None] * 2, [None] * 2))


def test_storages_own_advice_reaches_the_failure(tmp_path):
    plan = job_plan(pipeline(tmp_path), [(0, 0, 1)])
    attempt_path(plan).mkdir(parents=True)
    (attempt_path(plan) / "data").write_text("a file where a directory should be")
    with pytest.raises(JobError, match="a file is where a directory should be") as e:
        run(plan, {0: records([event()])})
    assert e.value.failure.retry
    assert not e.value.failure.what.startswith("PathExists")


@pytest.mark.parametrize("enough", [1, 4, 1000])
def test_ranges_that_are_decoded_together_are_counted_apart(tmp_path, enough, monkeypatch):
    monkeypatch.setattr(together, "ENOUGH_RECORDS", enough)
    topic = {
        p: records([b"rubbish" if (i + p) % 7 == 0 else event(DAY_ONE + p * 1000 + i, count=i) for i in range(5 + p)])
        for p in range(6)
    }
    plan = job_plan(pipeline(tmp_path), [(p, 0, 5 + p) for p in range(6)])
    receipt = run(plan, topic, size=2)
    for p, found in enumerate(receipt.ranges):
        good = [i for i in range(5 + p) if (i + p) % 7]
        assert (found.read, found.data, found.dirty) == (5 + p, len(good), 5 + p - len(good))
        assert (found.min_event_ms, found.max_event_ms) == (DAY_ONE + p * 1000 + good[0], DAY_ONE + p * 1000 + good[-1])
    rows = all_rows(plan, receipt, DATA)
    assert [(r["_partition"], r["count"]) for r in rows] == [
        (p, i) for p in range(6) for i in range(5 + p) if (i + p) % 7
    ]
    dirty = [(r["_partition"], r["_offset"]) for r in all_rows(plan, receipt, DIRTY)]
    assert dirty == [(p, i) for p in range(6) for i in range(5 + p) if (i + p) % 7 == 0]
    assert sorted((s.partition, s.offset) for s in receipt.samples) == dirty


def test_a_tally_counts_bytes_of_keys_and_values_and_the_largest_kafka_timestamp():
    tally = Tally(range=OffsetRange("t", 0, 0, 10))
    tally.consume(Chunk([0, 1], [5_000, 7_000], [b"k", None], [b"abc", None]))
    tally.consume(Chunk([2, 3], [6_000, -1], [None, b""], [b"", b"\x00\xff"], known_bytes=2))
    found = tally.result(4, 0, 0)
    assert (found.bytes, found.max_kafka_ms) == (6, 7_000)
    without = Tally(range=OffsetRange("t", 0, 0, 10))
    without.consume(Chunk([5], [-1], [None], [None]))
    assert (without.result(1, 0, 0).bytes, without.result(1, 0, 0).max_kafka_ms) == (0, None)
    nothing = Tally(range=OffsetRange("t", 0, 0, 10)).result(0, 0, 0)
    assert (nothing.bytes, nothing.max_kafka_ms) == (0, None)


def test_pieces_of_a_range_add_up_their_bytes_and_keep_the_largest_kafka_timestamp():
    def piece(start: int, size: int, newest: int | None) -> RangeResult:
        return RangeResult(
            range=OffsetRange("t", 0, start, start + 5),
            read=5,
            data=5,
            late=0,
            dirty=0,
            filtered=0,
            dropped=0,
            gaps=(),
            min_event_ms=5,
            max_event_ms=9,
            bytes=size,
            max_kafka_ms=newest,
        )

    merged = merge(OffsetRange("t", 0, 0, 15), [piece(0, 10, 900), piece(5, 7, None), piece(10, 0, 800)])
    assert (merged.bytes, merged.max_kafka_ms) == (17, 900)
    assert merge(OffsetRange("t", 0, 0, 5), [piece(0, 0, None)]).max_kafka_ms is None
