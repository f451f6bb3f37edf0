"""Rows of small places wait on the local disk: each file has one row group, and the rows that it would have had."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from engine_fixtures import DAY_ONE, HOUR, attempt_path, event, job_plan, pipeline, records, rows_of, serving

from spark_jobs.engine import gather, spill, together
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.job import run_plan
from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.storage import LocalStorage

ROWS = 240


def topic() -> dict:
    """One value with many rows, one with many now and then, rare ones; rows that are late or dirty, another hour."""
    sites = ["b" if i // 15 % 3 == 1 else "aab"[i % 3] if i % 5 else f"s{i % 7}" for i in range(ROWS)]
    values = [event(DAY_ONE + i, site=site, count=i) for i, site in enumerate(sites)]
    values[11] = values[200] = b"no JSON"
    values[60] = event(DAY_ONE - HOUR * 30, site="a", count=60)
    values[61] = event(DAY_ONE + HOUR, site="a", count=61)
    return {0: records(values[: ROWS // 2]), 1: records(values[ROWS // 2 :])}


def written(folder):
    """Rows of each file in their order, its manifest entry, and the row groups of data files."""
    plan = job_plan(pipeline(folder), [(0, 0, ROWS // 2), (1, 0, ROWS // 2)])
    receipt = run_plan(plan, LocalStorage(), open_reader=serving(topic(), size=5))
    groups = [pq.read_metadata(attempt_path(plan) / f.path).num_row_groups for f in receipt.files if f.kind == DATA]
    places = [(f.kind, f.window_ms, f.values) for f in receipt.files]
    assert {kind for kind, _, _ in places} == {DATA, LATE, DIRTY}
    assert len(set(places)) == len(places)
    content = {place: rows_of(plan, f) for place, f in zip(places, receipt.files, strict=True)}
    entries = {place: replace(f, path="", bytes=0) for place, f in zip(places, receipt.files, strict=True)}
    return content, entries, groups


@pytest.fixture
def often(monkeypatch):
    """Small flushes, in which a value with six rows is not a small one."""
    monkeypatch.setattr(together, "ENOUGH_RECORDS", 1)
    monkeypatch.setattr(gather, "BUFFER_ROWS", 15)
    monkeypatch.setattr(gather, "ENOUGH_ROWS", 6)


def test_rows_and_their_order_are_those_of_one_flush(tmp_path, often, monkeypatch):
    many = written(tmp_path / "many")
    monkeypatch.undo()
    one = written(tmp_path / "one")
    assert many[:2] == one[:2]


@pytest.mark.parametrize("bound", ["GROUP_BYTES", "RESIDENT_BYTES"])
def test_bounds_change_nothing_but_row_groups(tmp_path, often, monkeypatch, bound):
    before = written(tmp_path / "before")
    monkeypatch.setattr(spill, bound, 1)
    after = written(tmp_path / "after")
    assert after[:2] == before[:2]
    assert (sum(after[2]) > sum(before[2])) == (bound == "GROUP_BYTES")


def test_all_is_written_when_much_lies_on_the_disk(tmp_path, often, monkeypatch):
    before = written(tmp_path / "before")
    monkeypatch.setattr(gather, "SPILLED_BYTES", 1)
    after = written(tmp_path / "after")
    assert after[:2] == before[:2]
    assert sum(after[2]) > sum(before[2])


def test_without_room_on_the_disk_rows_go_to_the_files_at_once(tmp_path, often, monkeypatch, capsys):
    before = written(tmp_path / "before")
    assert "local disk" not in capsys.readouterr().err
    real, calls = spill.Spill.write, []

    def full(self, rows, parts):
        calls.append(1)
        if len(calls) > 3:
            raise OSError(28, "No space left on device")
        real(self, rows, parts)

    monkeypatch.setattr(spill.Spill, "write", full)
    after = written(tmp_path / "after")
    assert len(calls) == 4
    assert after[:2] == before[:2]
    assert sum(after[2]) > sum(before[2])
    assert "no room on the local disk" in capsys.readouterr().err


def test_small_partitions_get_one_row_group(tmp_path, often, monkeypatch):
    monkeypatch.setattr(gather, "ENOUGH_ROWS", 100)
    groups = written(tmp_path / "spilled")[2]
    assert set(groups) == {1}
    monkeypatch.setattr(gather, "ENOUGH_ROWS", 0)
    assert sum(written(tmp_path / "direct")[2]) > 3 * len(groups)


def test_runs_lie_in_sparks_directory_and_nothing_is_left(tmp_path, often, monkeypatch):
    local = tmp_path / "local"
    local.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/gone,{local},/")
    assert spill.folder() == str(local)
    used = []
    monkeypatch.setattr(
        spill.mmap, "mmap", lambda fd, *a, **k: used.append(os.readlink(f"/proc/self/fd/{fd}")) or fail()
    )
    with pytest.raises(JobError, match="spoilt on purpose"):
        written(tmp_path)
    assert used[0].startswith(f"{local}/")
    assert list(local.iterdir()) == []


def fail():
    raise ValueError("spoilt on purpose")
