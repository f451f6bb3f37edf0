"""The audit's child process: what it tells about files, and about those that it cannot read."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
from engine_fixtures import DAY_ONE, attempt_path, event, job_plan, pipeline, serving

from spark_jobs import child
from spark_jobs.engine.job import run_plan
from spark_jobs.handlers import contents
from tidegate.storage import LocalStorage


def ask(*requests) -> list[dict]:
    sink = io.StringIO()
    assert child.main(["footers"], io.StringIO("".join(json.dumps({"ask": r}) + "\n" for r in requests)), sink) == 0
    return [json.loads(line)["answer"] for line in sink.getvalue().splitlines()]


def deep(spans: list, files: list, slab: tuple[int, int, int] = (0, 99, 1000)) -> tuple[list[dict], dict]:
    *told, found = ask({"slab": slab}, {"spans": spans}, {"files": files}, {"end": True})
    return told, found


def test_what_a_file_holds(tmp_path):
    topic = {0: [(o, event()) for o in (3, 4, 5, 9)], 2: [(7, event())]}
    plan = job_plan(pipeline(tmp_path), [(0, 0, 10), (2, 0, 10)])
    (file,) = run_plan(plan, LocalStorage(), open_reader=serving(topic)).files
    uri = f"{plan.attempt_dir}/{file.path}"
    ((told,), found) = deep([[plan.batch_id, 0, 0, 10, []], [plan.batch_id, 2, 0, 10, []]], [[uri, None]])
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
        "coordinates": {"0": [4, 3, 9], "2": [1, 7, 7]},
        "batches": [plan.batch_id, plan.batch_id],
    }
    missing = [[plan.batch_id, 0, 6, [[0, 3], [6, 9]]], [plan.batch_id, 2, 9, [[0, 7], [8, 10]]]]
    assert found == {"rows": 5, "missing": missing, "excess": [], "strays": []}
    assert "coordinates" not in ask([uri])[0]
    assert (attempt_path(plan) / file.path).stat().st_size == file.bytes


def write(path, rows: list[tuple[int, int, int]], columns: tuple[str, ...] = ("_batch_id",)) -> str:
    """Rows of (batch, partition, offset)."""
    table = pa.table(
        {
            "_batch_id": pa.array([b for b, _, _ in rows], pa.int64()),
            "_partition": pa.array([p for _, p, _ in rows], pa.int32()),
            "_offset": pa.array([o for _, _, o in rows], pa.int64()),
        }
    ).select([*columns, "_partition", "_offset"])
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"tidegate.rows": "[]", "tidegate.checksum": "0", "tidegate.kind": "data"})
    return f"file://{path}"


def model(spans: list, files: list[list[tuple[int, int, int]]]) -> dict:
    """What a slab's findings must be, counted row by row."""
    due = {(b, p, o): 0 for b, p, start, end, gaps in spans for o in range(start, end)}
    gaps = {(b, p, o) for b, p, _, _, many in spans for low, high in many for o in range(low, high)}
    landed = {b for b, *_ in spans}
    excess: dict[int, int] = {}
    strays: dict[int, int] = {}
    for row in (row for rows in files for row in rows):
        if row[0] not in landed:
            strays[row[0]] = strays.get(row[0], 0) + 1
        elif row not in due or row in gaps or due[row]:
            excess[row[1]] = excess.get(row[1], 0) + 1
        else:
            due[row] += 1
    absent: dict[tuple[int, int], int] = {}
    for (b, p, o), rows in due.items():
        if not rows and (b, p, o) not in gaps:
            absent[b, p] = absent.get((b, p), 0) + 1
    return {"missing": absent, "excess": excess, "strays": strays}


def test_every_offset_is_counted_as_a_model_counts_it(tmp_path, monkeypatch, rng):
    """Rows in any order, over files, row batches and bytes: missing, doubled, outside, in a gap, of no batch."""
    monkeypatch.setattr(contents, "COORDINATE_ROWS", 5)
    for turn in range(40):
        spans, ends = [], {0: rng.randrange(40), 1: 0}
        for batch in range(1, rng.randrange(2, 5)):
            for partition in ends:
                start = 0 if rng.random() < 0.1 else ends[partition]  # the topic was recreated
                ends[partition] = end = start + rng.randrange(30)
                low = rng.randrange(start, end + 1)
                gaps = [[low, rng.randrange(low, end + 1)]] if rng.random() < 0.5 else []
                spans.append([batch, partition, start, end, gaps])
        rows = [(b, p, o) for b, p, s, e, gaps in spans for o in range(s, e) if not any(x <= o < y for x, y in gaps)]
        rows = [row for row in rows if rng.random() > 0.1]
        rows += rng.choices(rows, k=rng.randrange(3)) if rows else []
        rows += [(rng.randrange(6), rng.randrange(3), rng.randrange(120)) for _ in range(rng.randrange(4))]
        rng.shuffle(rows)
        files = [rows[at::3] for at in range(3)]
        uris = [[write(tmp_path / f"f{turn}-{n}", many), None] for n, many in enumerate(files)]
        told, found = deep(spans, uris)
        expected = model(spans, files)
        assert not any("error" in line for line in told)
        assert {(b, p): n for b, p, n, _ in found["missing"]} == expected["missing"]
        assert {p: n for p, n, _, _ in found["excess"]} == expected["excess"]
        assert {s[0]: s[1] for s in found["strays"]} == expected["strays"]
        assert found["rows"] == len(rows)


def test_what_is_wrong_is_named(tmp_path):
    """Once in a file, twice in a file, in two files, a gap, beyond the range; each with offset and file."""
    one = write(tmp_path / "one", [(1, 0, 5), (1, 0, 6), (1, 0, 6), (1, 1, 7)])
    other = write(tmp_path / "other", [(1, 0, 5), (1, 0, 8), (7, 3, 2), (1, 1, 40)])
    _, found = deep([[1, 0, 5, 10, [[8, 9]]], [1, 1, 7, 9, []]], [[one, None], [other, None]])
    assert found["missing"] == [[1, 0, 2, [[7, 8], [9, 10]]], [1, 1, 1, [[8, 9]]]]
    assert found["excess"] == [[0, 3, [[5, 7], [8, 9]], [one, other]], [1, 1, [[40, 41]], [other]]]
    assert found["strays"] == [[7, 1, 3, 2, other]]


def test_a_file_that_does_not_say_its_batch_is_told_it(tmp_path):
    dirty = write(tmp_path / "dirty", [(0, 0, 5)], ())
    told, found = deep([[4, 0, 5, 6, []]], [[dirty, 4], [dirty, None]])
    assert [line["coordinates"] for line in told] == [{"0": [1, 5, 5]}, None]
    assert found == {"rows": 1, "missing": [], "excess": [], "strays": []}


def test_rows_of_other_slabs_are_not_this_ones(tmp_path):
    mixed = write(tmp_path / "mixed", [(b, 0, b) for b in range(1, 6)])
    _, found = deep([[2, 0, 2, 3, []], [3, 0, 3, 4, []]], [[mixed, None]], (2, 3, 2))
    assert found == {"rows": 2, "missing": [], "excess": [], "strays": []}


def test_holes_are_shown_in_part_and_counted_in_full(tmp_path):
    every_other = write(tmp_path / "f", [(1, 0, o) for o in range(0, 4000, 2)])
    _, found = deep([[1, 0, 0, 4000, []]], [[every_other, None]], (0, 9, 1))
    (missing,) = found["missing"]
    assert missing[:3] == [1, 0, 2000]
    assert missing[3][:3] == [[1, 2], [3, 4], [5, 6]]
    assert len(missing[3]) == 4


def test_one_files_trouble_does_not_hide_the_others(tmp_path):
    (tmp_path / "cut").write_bytes(b"PAR1")
    pq.write_table(pa.table({"a": [DAY_ONE]}), tmp_path / "foreign")
    uris = [f"file://{tmp_path}/{name}" for name in ("absent", "cut", "foreign")]
    told = ask([*uris, write(tmp_path / "good", [(1, 0, 1)])])
    assert [("error" in t) for t in told] == [True, True, True, False]
    assert "does not say" in told[2]["error"]
