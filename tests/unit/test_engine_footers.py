"""The audit's child process: what it tells about files, and about those that it cannot read."""

from __future__ import annotations

import io
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
from engine_fixtures import DAY_ONE, attempt_path, event, job_plan, pipeline, serving

from spark_jobs import footers
from spark_jobs.engine.job import run_plan
from tidegate.adapters.storage import LocalStorage
from tidegate.core.offsets import Interval, union


def ask(paths: list[str], *arguments: str) -> list[dict]:
    sink = io.StringIO()
    assert footers.main(list(arguments), io.StringIO(json.dumps(paths)), sink) == 0
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def test_what_a_file_holds(tmp_path):
    topic = {0: [(o, event()) for o in (3, 4, 5, 9)], 2: [(7, event())]}
    plan = job_plan(pipeline(tmp_path), [(0, 0, 10), (2, 0, 10)])
    (file,) = run_plan(plan, LocalStorage(), open_reader=serving(topic)).files
    uri = f"{plan.attempt_dir}/{file.path}"
    (told,) = ask([uri], "--coordinates")
    assert told == {
        "path": uri,
        "rows": 5,
        "bytes": file.bytes,
        "kind": "data",
        "checksum": file.checksum,
        "partitions": [
            {"partition": 0, "rows": 4, "min_offset": 3, "max_offset": 9},
            {"partition": 2, "rows": 1, "min_offset": 7, "max_offset": 7},
        ],
        "intervals": {"0": [[3, 6], [9, 10]], "2": [[7, 8]]},
        "duplicates": [],
        "duplicate_rows": 0,
    }
    assert "intervals" not in ask([uri])[0]
    assert (attempt_path(plan) / file.path).stat().st_size == file.bytes


def write(path, coordinates: list[tuple[int, int]]) -> str:
    table = pa.table(
        {
            "_partition": pa.array([p for p, _ in coordinates], pa.int32()),
            "_offset": pa.array([o for _, o in coordinates], pa.int64()),
        }
    )
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"tidegate.rows": "[]", "tidegate.checksum": "0", "tidegate.kind": "data"})
    return f"file://{path}"


def test_duplicates_are_named_wherever_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(footers, "BATCH_ROWS", 4)
    found = [(0, 5), (0, 6), (0, 6), (1, 6), (0, 5), (0, 4), (1, 7), (0, 7), (1, 6)]
    (told,) = ask([write(tmp_path / "f", found)], "--coordinates")
    assert told["duplicate_rows"] == 3
    assert sorted(told["duplicates"]) == [[0, 5], [0, 6], [1, 6]]
    assert told["intervals"] == {"0": [[4, 8]], "1": [[6, 8]]}


def test_intervals_of_rows_in_any_order(tmp_path, monkeypatch):
    monkeypatch.setattr(footers, "BATCH_ROWS", 5)
    chance = random.Random(7)
    for turn in range(20):
        offsets = [chance.randrange(60) for _ in range(50)]
        (told,) = ask([write(tmp_path / f"f{turn}", [(0, o) for o in offsets])], "--coordinates")
        assert told["intervals"]["0"] == [[i.start, i.end] for i in union(Interval(o, o + 1) for o in offsets)]
        assert told["duplicate_rows"] == len(offsets) - len(set(offsets))


def test_one_files_trouble_does_not_hide_the_others(tmp_path):
    (tmp_path / "cut").write_bytes(b"PAR1")
    pq.write_table(pa.table({"a": [DAY_ONE]}), tmp_path / "foreign")
    uris = [f"file://{tmp_path}/{name}" for name in ("absent", "cut", "foreign")]
    told = ask([*uris, write(tmp_path / "good", [(0, 1)])])
    assert [("error" in t) for t in told] == [True, True, True, False]
    assert "does not say" in told[2]["error"]
