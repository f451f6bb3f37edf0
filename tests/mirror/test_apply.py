"""The whole job on files: what it reads, writes, reports and refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs import apply, rewrite
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.mirror import bucket as writing
from spark_jobs.engine.mirror import events as reading
from spark_jobs.engine.types import arrow_type
from tests.field_paths import field_paths
from tests.mirror import oracle
from tests.mirror.files import OnDisk
from tests.mirror.histories import Event, draw
from tests.mirror.tables import columns, cut_at_random, landed, spelled
from tidegate.core.base.hivetypes import parse
from tidegate.core.base.plain import loads
from tidegate.core.batch.jobs import dumps_plan
from tidegate.core.files.receipt import Failure
from tidegate.core.mirror.counts import Counts, add_up
from tidegate.core.mirror.jobs import ApplyReceipt, BaseFile, Bucket, EventFile, TableColumn
from tidegate.storage.local import LocalStorage
from tidegate.workflow.base import bounds


@pytest.fixture
def mirror(tmp_path: Path) -> OnDisk:
    return OnDisk(tmp_path)


def event(key: int, commit: int, op: str = "u", word: str | None = "a", **where: int) -> Event:
    content = None if op == "d" else (word, 1)
    return Event((key,), (commit, 0, 0), op, content, **{"batch": 1, "offset": commit} | where)


def failed(mirror: OnDisk, plan: Any) -> Failure:
    """How the job fails; `failure.json` says the same, and there is no receipt."""
    with pytest.raises(JobError) as error:
        mirror.run(plan)
    told = loads(Failure, LocalStorage().read(f"{plan.attempt_dir}/failure.json"))
    assert told == error.value.failure
    assert not LocalStorage().exists(f"{plan.attempt_dir}/_receipt.json")
    return told


def counts(receipt: ApplyReceipt) -> Counts:
    return add_up(b.counts for b in receipt.buckets)


# ---------------------------------------------------------------- what becomes of events


def test_a_first_merge_and_the_next_one(mirror: OnDisk) -> None:
    first = mirror.merge({1: [event(1, 10, "c"), event(2, 11, "c"), event(1, 12, word="b")]})
    assert counts(first) == Counts(inserted=2, superseded=1)
    assert (first.first_position, first.last_position) == ((10, 0, 0), (12, 0, 0))
    assert first.events == ((1, 3),)
    again = [event(1, 12, word="b", batch=2, offset=90), event(2, 13, "d", batch=2), event(3, 9, "c", batch=3)]
    second = mirror.merge({2: again[:2], 3: again[2:]})
    assert counts(second) == Counts(inserted=1, changed=1, same=1)
    standing = {e.key: (e.op, e.content, e.batch) for e in mirror.standing()}
    assert standing == {(1,): ("u", ("b", 1), 1), (2,): ("d", None, 2), (3,): ("c", ("a", 1), 3)}
    assert (mirror.totals.rows, mirror.totals.tombstones, mirror.totals.events) == (2, 1, 6)


def test_random_lives_on_files(tmp_path: Path, rng: random.Random) -> None:
    """The job as a whole, in several tasks, against the oracle; purged and cut anew on its way."""
    for n in range(4):
        history = draw(random.Random(f"{rng.random()}"))
        mirror, table = OnDisk(tmp_path / str(n), history.kinds, history.buckets), oracle.Rows()
        for first, last in cut_at_random(rng, len(history.batches)):
            batches = {n: history.batches[n - 1] for n in range(first, last + 1)}
            receipt = mirror.merge(batches, files=2, run_tasks=shuffled(rng), tasks=2)
            table, fates = oracle.merged(table, history.events(first, last), mirror.purged_below)
            assert {k: n for k, n in vars(counts(receipt)).items() if n} == dict(fates)
            assert set(mirror.standing()) == spelled(history.kinds, table.values())
            floor = history.floors[last - 1]
            below = max((e.position[0] for e in history.batches[first - 1]), default=0)
            if floor is not None and 0 < below <= floor[0]:
                mirror.purge(history.batches[first - 1], run_tasks=shuffled(rng), tasks=2)
                table = oracle.purged(table, (below, 0, 0))
                assert set(mirror.standing()) == spelled(history.kinds, table.values())
            if rng.random() < 0.5:
                mirror.recut(mirror.buckets * 3 if mirror.buckets % 2 else mirror.buckets // 2, run_tasks=shuffled(rng))
                assert set(mirror.standing()) == spelled(history.kinds, table.values())
        assert mirror.totals.events == sum(map(len, history.batches))


def shuffled(rng: random.Random) -> Callable[[Callable[[Any, int], Any], Sequence[Any]], list[Any]]:
    """Tasks in any order, each twice as if Spark had lost the first one's result."""

    def run_tasks(run: Callable[[Any, int], Any], works: Sequence[Any]) -> list[Any]:
        found = dict[int, Any]()
        for n in rng.sample(range(len(works)), len(works)):
            run(works[n], 2 * n)
            found[n] = run(works[n], 2 * n + 1)
        return [found[n] for n in range(len(works))]

    return run_tasks


def test_batches_without_events_are_merged_too(mirror: OnDisk) -> None:
    receipt = mirror.merge({1: [], 2: []})
    assert (receipt.buckets, receipt.first_position, receipt.events) == ((), None, ())
    assert mirror.base == {}


def test_an_event_below_the_purge_stays_out_and_is_told(mirror: OnDisk) -> None:
    mirror.purged_below = (20, 0, 0)
    receipt = mirror.merge({1: [event(1, 19), event(1, 18, "d"), event(2, 20)]})
    assert counts(receipt) == Counts(inserted=1, below_purge=2)
    assert sorted(receipt.below_purge) == [
        "k0=1 from shop.public.orders, partition 0, offset 18 (batch 1) at (18, 0, 0)",
        "k0=1 from shop.public.orders, partition 0, offset 19 (batch 1) at (19, 0, 0)",
    ]
    assert [e.key for e in mirror.standing()] == [(2,)]


def test_a_delete_says_nothing_but_its_key(mirror: OnDisk) -> None:
    """Whatever stands beside it in a landed file."""
    rows = landed(("bigint",), [event(1, 10), event(2, 11, "d"), event(3, 12, "d")])
    rows = rows.set_column(rows.schema.get_field_index("word"), "word", pa.array(["a", "left", None]))
    receipt = mirror.run(plan := mirror.plan([mirror.write("landed/1/a.parquet", rows, 1)], 1, 1))
    mirror.commit(plan, receipt)
    found = {row["k0"]: row for table in mirror.tables().values() for row in table.to_pylist()}
    assert {k: row["word"] for k, row in found.items()} == {1: "a", 2: None, 3: None}


# ---------------------------------------------------------------- files


def test_files_are_as_the_table_wants_them(mirror: OnDisk) -> None:
    events = [event(k, k + 1, word=f"word {k:03d} {'x' * 30}") for k in range(200)]
    receipt = mirror.run(plan := mirror.plan(mirror.land(1, [*events, event(500, 900, "d")]), 1, 1))
    told = bounds.read(LocalStorage(), plan.attempt_dir)
    assert sorted(told) == sorted(f.path for b in receipt.buckets for f in b.files)
    for bucket in receipt.buckets:
        (file,) = bucket.files
        parquet = pq.ParquetFile(plan.attempt_dir.removeprefix("file://") + "/" + file.path)
        rows = parquet.read()
        assert rows.column_names == [c.name for c in plan.columns]
        ids = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in parquet.schema_arrow}
        assert ids == {name: number for name, number in plan.fields}
        assert set(rows["_bucket"].to_pylist()) == {bucket.number}
        assert {parquet.metadata.row_group(0).column(n).compression for n in (1, 2)} <= {"ZSTD", "UNCOMPRESSED"}
        assert (file.rows, file.tombstones) == (len(rows), rows["_op"].to_pylist().count("d"))
        assert set(rows["_position_n"].to_pylist()) == {0}
        one = told[file.path]
        assert one.nulls[ids["k0"]] == 0
        assert one.nulls[ids["number"]] == file.tombstones
        assert set(one.lower) >= {ids["_bucket"], ids["k0"], ids["_position_commit"], ids["_offset"]}
    assert sum(f.tombstones for b in receipt.buckets for f in b.files) == 1
    assert sum(f.rows for b in receipt.buckets for f in b.files) == 201


def test_only_buckets_that_change_get_files(mirror: OnDisk) -> None:
    mirror.buckets = 16
    mirror.merge({1: [event(k, k + 1) for k in range(100)]})
    before = dict(mirror.base)
    assert len(before) == 16
    receipt = mirror.merge({2: [event(7, 8, batch=2), event(8, 500, batch=2), event(9, 2, word="old", batch=2)]})
    assert counts(receipt) == Counts(changed=1, same=1, stale=1)
    assert [b.changed for b in receipt.buckets].count(True) == 1
    assert len(receipt.buckets) == len({b.number for b in receipt.buckets}) > 1
    assert [n for n in before if before[n] != mirror.base[n]] == [b.number for b in receipt.buckets if b.changed]


def test_a_large_bucket_has_several_files(mirror: OnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 100)
    mirror.buckets = 1
    mirror.changes = {"target_file_size": 1}
    receipt = mirror.merge({1: [event(k, k + 1) for k in range(350)]})
    assert [f.rows for f in receipt.buckets[0].files] == [100, 100, 100, 50]
    receipt = mirror.merge({2: [event(3, 900, batch=2), event(1000, 901, batch=2)]})
    assert counts(receipt) == Counts(inserted=1, changed=1)
    assert len(mirror.standing()) == 351


def test_many_runs_and_tasks(mirror: OnDisk, monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    monkeypatch.setattr(reading, "RUN_BYTES", 1)
    monkeypatch.setattr(reading, "BATCH_ROWS", 50)
    for name, value in (("TASK_EVENTS", 50), ("FEWEST_EVENTS", 10), ("TASK_BYTES", 2_000), ("FEWEST_BYTES", 100)):
        monkeypatch.setattr(apply, name, value)
    calls: list[int] = []

    def run_tasks(run: Callable[[Any, int], Any], works: Sequence[Any]) -> list[Any]:
        calls.append(len(works))
        return shuffled(rng)(run, works)

    mirror.buckets = 8
    events = [event(k % 100, k + 1, word=str(k), offset=k) for k in range(300)]
    receipt = mirror.merge({1: events}, files=5, run_tasks=run_tasks, tasks=None)
    assert calls[0] == 5
    assert 4 < calls[1] <= 8
    assert counts(receipt) == Counts(inserted=100, superseded=200)
    assert {(e.key[0], e.position[0]) for e in mirror.standing()} == {(k % 100, k + 1) for k in range(200, 300)}


# ---------------------------------------------------------------- columns that change


def test_a_new_column_is_null_in_rows_and_events_of_before(mirror: OnDisk) -> None:
    mirror.merge({1: [event(1, 10), event(2, 11)]})
    old = columns(("bigint",))
    wider = (*old, TableColumn("price", "decimal(10,2)", "price"))
    fields = (*((c.name, n) for n, c in enumerate(old, 1)), ("price", 99))
    mirror.changes = {"columns": wider, "fields": fields}
    plan = mirror.plan(mirror.land(2, [event(1, 10, batch=2), event(3, 12, batch=2)]), 2, 2)
    receipt = mirror.run(plan)
    assert counts(receipt) == Counts(inserted=1, same=1), (
        "a row without the column says the same as an event without it"
    )
    mirror.commit(plan, receipt)
    assert {v for t in mirror.tables().values() if "price" in t.column_names for v in t["price"].to_pylist()} == {None}


def test_columns_are_found_by_their_ids(mirror: OnDisk) -> None:
    """A column that was dropped and came back under its name is another one; a key that grows stays in its bucket."""
    mirror.kinds = ("int",)
    mirror.merge({1: [event(k, 10 + k) for k in range(20)]})
    mirror.kinds = ("bigint",)
    fields = tuple((c.name, 77 if c.name == "word" else n) for n, c in enumerate(columns(("bigint",)), 1))
    mirror.changes = {"fields": fields}
    receipt = mirror.merge({2: [event(k, 40 + k, batch=2) for k in range(0, 20, 2)]})
    assert counts(receipt) == Counts(changed=10)
    rows = [r for b in receipt.buckets if b.changed for r in mirror.tables()[b.number].to_pylist()]
    assert {(r["k0"] % 2, r["word"]) for r in rows} == {(0, "a"), (1, None)}


# ---------------------------------------------------------------- refusals


def test_two_contents_at_one_position_are_refused(mirror: OnDisk) -> None:
    events = [event(1, 10), event(1, 10, word="b", partition=1, offset=77)]
    failure = failed(mirror, mirror.plan(mirror.land(1, events), 1, 1))
    assert (failure.kind, failure.retry) == ("conflict", False)
    assert failure.offset in (10, 77)
    for words in ("k0=1", "(10, 0, 0)", "partition 0, offset 10 (batch 1)", "partition 1, offset 77 (batch 1)"):
        assert words in failure.what
    mirror.merge({1: events[:1]})
    failure = failed(mirror, mirror.plan(mirror.land(2, [replace(events[1], batch=2)]), 2, 2))
    assert failure.kind == "conflict"
    assert "the table's row from shop.public.orders, partition 0, offset 10 (batch 1)" in failure.what


def test_a_key_without_a_value_is_refused(mirror: OnDisk) -> None:
    rows = landed(("bigint",), [event(1, 10), event(2, 11)])
    rows = rows.set_column(0, "k0", pa.array([1, None], pa.int64()))
    failure = failed(mirror, mirror.plan([mirror.write("landed/1/a.parquet", rows, 1)], 1, 1))
    assert (failure.kind, failure.field, failure.offset, failure.retry) == ("null_key", "k0", 11, False)


@pytest.mark.parametrize(("column", "value"), [("_op", "t"), ("_op", None), ("_position_row", None), ("_batch_id", 5)])
def test_events_that_say_no_event_are_refused(mirror: OnDisk, column: str, value: Any) -> None:
    rows = landed(("bigint",), [event(1, 10), event(2, 11)])
    at = rows.schema.get_field_index(column)
    values = pa.array([rows[column][0].as_py(), value], rows.schema.field(column).type)
    rows = rows.set_column(at, column, values)
    failure = failed(mirror, mirror.plan([mirror.write("landed/1/a.parquet", rows, 1)], 1, 1))
    assert (failure.kind, failure.retry) == ("mirror_files", False)


def test_a_landed_file_with_other_rows_is_refused(mirror: OnDisk) -> None:
    (file,) = mirror.land(1, [event(1, 10), event(2, 11)])
    failure = failed(mirror, mirror.plan([replace(file, rows=3)], 1, 1))
    assert (failure.kind, failure.retry) == ("mirror_files", False)
    assert "2 events, its batch's manifest has 3" in failure.what


def spoilt_base(mirror: OnDisk, change: Callable[[Bucket, pa.Table], pa.Table | None], rows: int = 0) -> Failure:
    """How a merge fails after another writer has changed the file of the bucket that key 1 is in."""
    mirror.merge({1: [event(k, 10 + k) for k in range(30)]})
    number = next(n for n, t in mirror.tables().items() if 1 in t["k0"].to_pylist())
    path = mirror.base[number].files[0].uri.removeprefix("file://")
    changed = change(mirror.base[number], pq.ParquetFile(path).read())
    Path(path).unlink()
    if changed is not None:
        pq.write_table(changed, path)
        mirror.base[number] = Bucket(number, (BaseFile(f"file://{path}", len(changed) + rows, 1),))
    return failed(mirror, mirror.plan(mirror.land(2, [event(1, 99, batch=2)]), 2, 2))


def test_a_base_file_with_other_rows_is_refused(mirror: OnDisk) -> None:
    failure = spoilt_base(mirror, lambda bucket, rows: rows, rows=1)
    assert (failure.kind, failure.retry) == ("mirror_files", False)
    assert "the table says" in failure.what


def test_a_table_with_two_rows_of_a_key_is_refused(mirror: OnDisk) -> None:
    failure = spoilt_base(mirror, lambda bucket, rows: pa.concat_tables([rows, rows.slice(2, 1)]))
    assert failure.kind == "mirror_files"
    assert "two rows of one key: k0=" in failure.what


def test_a_key_in_another_bucket_is_refused(mirror: OnDisk) -> None:
    """Or a table whose number of buckets was changed."""
    mirror.merge({1: [event(k, 10 + k) for k in range(30)]})
    mirror.buckets = 4
    failure = failed(mirror, mirror.plan(mirror.land(2, [event(1, 99, batch=2)]), 2, 2))
    assert failure.kind == "mirror_files"
    assert "keys of other buckets" in failure.what


def test_a_base_file_that_is_gone_is_worth_another_try(mirror: OnDisk) -> None:
    """A compaction has named other files: the next try loads the table again."""
    assert spoilt_base(mirror, lambda bucket, rows: None).retry


def test_a_file_of_other_bytes_is_refused(mirror: OnDisk) -> None:
    file = mirror.folder / "landed/1/a.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"PAR1 nothing")
    failure = failed(mirror, mirror.plan([EventFile(1, f"file://{file}", 3)], 1, 1))
    assert not failure.retry
    assert failure.advice == "restore the file from a backup of the filesystem"


def test_a_table_without_a_column_or_an_id_is_refused(mirror: OnDisk) -> None:
    events = mirror.land(1, [event(1, 10)])
    without = tuple(c for c in columns(("bigint",)) if c.name != "_position_row")
    assert "no column for _position_row" in failed(mirror, mirror.plan(events, 1, 1, columns=without)).what
    failure = failed(mirror, mirror.plan(events, 1, 1, fields=(("k0", 1),)))
    assert "no field id for _bucket" in failure.what


# ---------------------------------------------------------------- beside the control plane


def test_a_small_one_needs_no_spark(mirror: OnDisk, capsys: pytest.CaptureFixture[str]) -> None:
    plan = mirror.plan(mirror.land(1, [event(1, 10), event(1, 11)]), 1, 1)
    path = mirror.folder / "plans/apply.json"
    path.parent.mkdir()
    path.write_text(dumps_plan(plan))
    assert rewrite.main([f"file://{path}"]) == 0
    assert capsys.readouterr().out == (
        "tidegate: 1-1.1-abc: merged 2 events: 1 inserted, 0 changed; wrote 1 row of 1 bucket\n"
    )
    receipt = json.loads(LocalStorage().read(f"{plan.attempt_dir}/_receipt.json"))
    assert receipt["events"] == [[1, 2]]


def test_values_of_every_type_come_back_as_they_were(mirror: OnDisk) -> None:
    """Merged again from the files, nothing is news; narrow integers are wider in the table."""
    kinds = {
        "tiny": ("tinyint", "int", [-1, None]),
        "small": ("smallint", "int", [7, None]),
        "single": ("float", "float", [float("nan"), -0.0]),
        "whole": ("double", "double", [1e300, None]),
        "flag": ("boolean", "boolean", [True, None]),
        "raw": ("binary", "binary", [b"\x00\xff", b""]),
        "day": ("date", "date", [-700_000, None]),
        "moment": ("timestamp", "timestamp", [-62_135_596_800_000_000, 253_402_300_799_999_999]),
        "money": ("decimal(38,4)", "decimal(38,4)", [Decimal("-1.0001"), None]),
        "list": ("array<int>", "array<int>", [[1, None], []]),
        "map": ("map<string,bigint>", "map<string,bigint>", [[("k", 1), ("l", None)], None]),
        "struct": ("struct<x:int,y:array<string>>", "struct<x:int,y:array<string>>", [{"x": 1, "y": ["z"]}, None]),
    }
    rows = landed(("bigint",), [event(1, 10), event(2, 11)])
    for name, (kind, _, values) in kinds.items():
        rows = rows.append_column(name, pa.array(values, arrow_type(parse(kind))))
    table = (*columns(("bigint",)), *(TableColumn(name, kind, name) for name, (_, kind, _) in kinds.items()))
    paths = [path for c in table for path in field_paths(c.name, c.type)]
    mirror.changes = {"columns": table, "fields": tuple((path, 5 * n) for n, path in enumerate(paths, 1))}
    first = mirror.write("landed/1/a.parquet", rows, 1)
    mirror.commit(plan := mirror.plan([first], 1, 1), mirror.run(plan))
    again = rows.set_column(rows.schema.get_field_index("_batch_id"), "_batch_id", pa.array([2, 2]))
    receipt = mirror.run(mirror.plan([mirror.write("landed/2/a.parquet", again, 2)], 2, 2))
    assert counts(receipt) == Counts(same=2)
    found = pa.concat_tables(mirror.tables().values()).sort_by("k0")
    for name, (_, kind, _) in kinds.items():
        assert found[name].cast(arrow_type(parse(kind))).to_pylist()[1] == rows[name].to_pylist()[1], name
    deletes = landed(("bigint",), [event(1, 20, "d", batch=3)])
    for name, (kind, _, values) in kinds.items():
        deletes = deletes.append_column(name, pa.array(values[:1], arrow_type(parse(kind))))
    plan = mirror.plan([mirror.write("landed/3/a.parquet", deletes, 3)], 3, 3)
    mirror.commit(plan, mirror.run(plan))
    tombstone = next(r for t in mirror.tables().values() for r in t.to_pylist() if r["_op"] == "d")
    assert {tombstone[name] for name in kinds} == {None}
