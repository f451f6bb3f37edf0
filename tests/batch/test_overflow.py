"""Values beyond `sink.max_partitions`: a defined place, nothing lost, and the operator is told."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from engine_fixtures import DAY_ONE, HOUR, all_rows, attempt_path, event, job_plan, pipeline, records, serving

from spark_jobs.engine import gather, places, together, write
from spark_jobs.engine.job import run_plan
from tests.world import World, record
from tidegate.core.files.overflow import MAX_COUNTED, OVERFLOW_VALUE, Known, Overflow, overflow_values, told
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.spec.pipeline import Column
from tidegate.storage import LocalStorage

BEYOND = (("site", OVERFLOW_VALUE),)


def spec_of(tmp_path, limit, **changes):
    spec = pipeline(tmp_path, **changes)
    return replace(spec, sink=replace(spec.sink, max_partitions=limit))


def run(plan, topic, tasks=1, **options):
    return run_plan(plan, LocalStorage(), open_reader=serving(topic, **options), tasks=tasks)


def by_values(receipt):
    found = Counter()
    for f in receipt.files:
        found[f.values] += f.rows
    return found


def test_values_beyond_the_limit_share_the_overflow_partition_and_keep_what_they_said(tmp_path):
    plan = job_plan(spec_of(tmp_path, 3), [(0, 0, 20)])
    receipt = run(plan, {0: records([event(site=f"s{i % 5}", count=i) for i in range(20)])})
    assert by_values(receipt) == {(("site", f"s{i}"),): 4 for i in range(3)} | {BEYOND: 8}
    rows = all_rows(plan, receipt, DATA)
    assert [r["count"] for r in rows] == list(range(20))
    beyond = [r for r in rows if r["site"] == OVERFLOW_VALUE]
    assert [r["_overflow"] for r in beyond] == [[("site", f"s{r['count'] % 5}")] for r in beyond]
    assert receipt.overflow == (Overflow(DAY_ONE, 8, 2, ("site=s3", "site=s4")),)
    (file,) = [f for f in receipt.files if f.values == BEYOND]
    assert file.path.startswith(f"data/date=2013-01-05/hour=00/site={OVERFLOW_VALUE}/")
    others = [f for f in receipt.files if f.values != BEYOND]
    assert all("_overflow" not in pq.read_schema(attempt_path(plan) / f.path).names for f in others)


def test_each_window_has_its_own_limit(tmp_path):
    plan = job_plan(spec_of(tmp_path, 3), [(0, 0, 9)])
    receipt = run(plan, {0: records([event(DAY_ONE + i // 3 * HOUR, site=f"s{i}") for i in range(9)])})
    assert len(receipt.files) == 9
    assert receipt.overflow == ()


def test_what_a_window_has_already_stays_even_beyond_the_limit(tmp_path):
    known = Known.of({DAY_ONE: [(("site", s),) for s in ("x", "y", "z")], DAY_ONE + HOUR: [(("site", "x"),)]})
    topic = {0: records([event(DAY_ONE + h * HOUR, site=s) for h in (0, 1) for s in ("a", "x", "b", "z", None)])}
    receipt = run(job_plan(spec_of(tmp_path, 2), [(0, 0, 10)], known=known), topic)
    found = {(f.window_ms, dict(f.values)["site"]): f.rows for f in receipt.files}
    assert found == {
        (DAY_ONE, "x"): 1, (DAY_ONE, "z"): 1, (DAY_ONE, OVERFLOW_VALUE): 3,
        (DAY_ONE + HOUR, "x"): 1, (DAY_ONE + HOUR, "a"): 1, (DAY_ONE + HOUR, OVERFLOW_VALUE): 3,
    }  # fmt: skip


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_tasks_together_let_in_no_more_than_the_limit_and_the_largest_stay(tmp_path, tasks):
    monkey = [f"{i:03d}" for i in range(40)]
    values = [v for i, v in enumerate(monkey) for _ in range(1 + i)]  # the last ones have the most rows
    topic = {p: records([event(site=v) for v in values[p::5]]) for p in range(5)}
    plan = job_plan(spec_of(tmp_path, 7), [(p, 0, len(topic[p])) for p in range(5)])
    known = Known.of({DAY_ONE: [(("site", "000"),)]})
    in_one = lambda run_one, tasks_: [run_one(t, 0) for t in tasks_]  # noqa: E731
    plan = replace(plan, known=known)
    from spark_jobs.engine import job

    pieces = job.pack
    job.pack = lambda ranges, n: pieces(ranges, n, smallest=1)  # type: ignore[assignment]
    try:
        receipt = run_plan(plan, LocalStorage(), in_one, serving(topic), tasks=tasks)
    finally:
        job.pack = pieces
    found = by_values(receipt)
    own = {dict(v)["site"] for v in found if v != BEYOND}
    assert "000" in own
    assert len(own) == 7
    if tasks > 1:
        assert receipt.overflow[0].rows == found[BEYOND]
    assert sum(found.values()) == len(values)
    for site in own:
        assert found[(("site", site),)] == values.count(site)
    named = {attempt_path(plan) / f.path for f in receipt.files}
    assert set(attempt_path(plan).rglob("part-*")) == named
    assert len(all_rows(plan, receipt, DATA)) == len(
        {(r["_partition"], r["_offset"]) for r in all_rows(plan, receipt, DATA)}
    )


def test_other_types_overflow_into_hives_null_partition(tmp_path):
    spec = spec_of(tmp_path, 1, partition_by=("date", "hour", "site", "count"))
    assert overflow_values(spec) == (("site", OVERFLOW_VALUE), ("count", None))
    plan = job_plan(spec, [(0, 0, 3)])
    receipt = run(plan, {0: records([event(site="a", count=1), event(site="a", count=2), event(site=None)])})
    assert by_values(receipt) == {(("site", "a"), ("count", "1")): 1, overflow_values(spec): 2}
    rows = all_rows(plan, receipt, DATA)
    assert rows[1]["_overflow"] == [("site", "a"), ("count", "2")]
    assert rows[2]["_overflow"] == [("site", None), ("count", None)]


def test_a_value_that_is_spelled_like_the_overflow_partition_is_one_of_its_rows(tmp_path):
    plan = job_plan(spec_of(tmp_path, 1), [(0, 0, 3)])
    receipt = run(plan, {0: records([event(site=s) for s in ("a", "b", OVERFLOW_VALUE)])})
    assert by_values(receipt) == {(("site", "a"),): 1, BEYOND: 2}
    rows = all_rows(plan, receipt, DATA)
    assert [r.get("_overflow") for r in rows] == [None, [("site", "b")], None]


def test_several_columns_with_very_many_values_each(tmp_path, monkeypatch):
    """Together more combinations than an integer can number, and few that are there."""
    names = [f"c{i}" for i in range(5)]
    spec = spec_of(
        tmp_path,
        4,
        columns=tuple(Column(name=n, type="string", path=f"$.{n}") for n in names),
        partition_by=("date", "hour", *names),
    )
    monkeypatch.setattr(places, "MOST_CODES", 100)  # the same as 2**62 with ten thousand values each
    rows = [{n: f"{i * (at + 1) % 7}" for at, n in enumerate(names)} for i in range(40)]
    rows[3]["c2"] = None
    plan = job_plan(spec, [(0, 0, 40)])
    receipt = run(plan, {0: records([event(**row) for row in rows])}, size=40)
    wanted = Counter()
    for row in rows:
        values = tuple(row.items())
        wanted[values if values in wanted or len(wanted) < 4 else overflow_values(spec)] += 1
    assert by_values(receipt) == wanted
    beyond = [dict(r["_overflow"]) for r in all_rows(plan, receipt, DATA) if r.get("_overflow")]
    assert Counter(tuple(r.items()) for r in beyond) == Counter(
        tuple(row.items()) for row in rows if tuple(row.items()) not in wanted
    )


def test_the_most_combinations_that_a_chunk_can_have(tmp_path):
    names = [f"c{i}" for i in range(5)]
    columns = tuple(Column(name=n, type="string", path=f"$.{n}") for n in names)
    spec = spec_of(tmp_path, 4, columns=columns, partition_by=("date", "hour", *names))
    topic = {0: records([event(**dict.fromkeys(names, f"{i}")) for i in range(9_000)])}
    receipt = run(job_plan(spec, [(0, 0, 9_000)]), topic, size=9_000)
    assert (receipt.read_rows, len(receipt.files)) == (9_000, 5)


def test_late_rows_need_no_partition_of_their_own(tmp_path):
    plan = job_plan(spec_of(tmp_path, 1), [(0, 0, 6)])
    receipt = run(plan, {0: records([event(DAY_ONE - 1, site=f"s{i}") for i in range(6)])})
    assert [r["site"] for r in all_rows(plan, receipt, LATE)] == [f"s{i}" for i in range(6)]
    assert receipt.overflow == ()


def test_checksums_do_not_depend_on_how_often_rows_were_flushed(tmp_path, monkeypatch):
    topic = {0: records([event(site=f"s{i * i % 11}", count=i) for i in range(300)])}
    spec = spec_of(tmp_path, 4)
    one = run(job_plan(spec, [(0, 0, 300)]), topic)
    monkeypatch.setattr(together, "ENOUGH_RECORDS", 5)
    monkeypatch.setattr(gather, "BUFFER_ROWS", 20)
    monkeypatch.setattr(places, "MANY_NUMBERS", 6)
    monkeypatch.setattr(write, "MAX_WAITING", 3_000)
    monkeypatch.setattr(write, "MAX_OPEN", 1)
    monkeypatch.setattr(write, "MAX_GROUPS", 9)
    plan = replace(job_plan(spec, [(0, 0, 300)]), attempt_dir=f"{spec.sink.workdir}/tmp/other")
    other = run(plan, topic)
    assert len(other.files) > len(one.files)
    sums = lambda r: {v: sum(f.checksum for f in r.files if f.values == v) % 2**64 for v in by_values(r)}  # noqa: E731
    assert sums(one) == sums(other)
    assert [r["count"] for r in all_rows(plan, other, DATA)] == list(range(300))
    assert one.overflow == other.overflow
    for f in other.files:
        assert (attempt_path(plan) / f.path).stat().st_size == f.bytes
        footer = pq.read_metadata(attempt_path(plan) / f.path)
        assert json.loads(footer.metadata[b"tidegate.values"]) == [list(v) for v in f.values]


def test_very_many_values_are_counted_to_a_bound(tmp_path):
    count = MAX_COUNTED + 50
    plan = job_plan(spec_of(tmp_path, 1), [(0, 0, count + 1)])
    receipt = run(plan, {0: records([event(site=f"{i}" * 30) for i in range(count + 1)])}, size=10_000)
    (one,) = receipt.overflow
    assert (one.rows, one.values) == (count, MAX_COUNTED)
    assert one.samples[0] == "site=" + "1" * 30
    assert f"{count:,} rows with {MAX_COUNTED:,} or more values of site" in told(one, ("site",), 1)


def test_a_window_has_the_same_values_over_batches_and_replays(tmp_path):
    world = World(tmp_path)
    world.change_spec(sink=replace(world.pipeline.sink, max_partitions=2))
    world.produce(*(record(f"one-{s}", 0.1, s) for s in "aab"))
    world.ingest("r1")
    world.produce(*(record(f"two-{s}", 0.2, s) for s in "cab"), record("other", 1.1, "c"))
    world.ingest("r2")
    world.produce(record("late enough", 9, "z"))
    world.produce(record("late enough", 9, "z"), partition=1)
    world.ingest("r3")
    assert world.archive(0).generation == 1
    found = {dict(v)["site"]: len(world.rows_at(at)) for v, at in world.partitions("lake.readings").items()}
    assert found == {"a": 3, "b": 2, OVERFLOW_VALUE: 1}
    assert [
        line for line in world.said if line.startswith("overflow: window") and " 1 row with 1 value of site" in line
    ]
    world.replay(0)
    assert [line for line in world.said if line.startswith("unchanged")]
    world.change_spec(sink=replace(world.pipeline.sink, max_partitions=3))  # room for all of them, and read again
    assert world.replay(0).new
    found = {dict(v)["site"]: len(world.rows_at(at)) for v, at in world.partitions("lake.readings").items()}
    assert found == {"a": 3, "b": 2, "c": 1}
