"""Tasks that together let in too many values read all of it once more: the second reading is what counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.engine import job
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.job import run_plan
from spark_jobs.engine.task import Task, TaskResult
from tests.engine_fixtures import FakeReader, Record, all_rows, attempt_path, event, job_plan, pipeline, records
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.files.receipt import DATA, DIRTY, Receipt
from tidegate.core.source import unreadable
from tidegate.core.source.records import Chunk
from tidegate.core.target.paths import RECEIPT
from tidegate.storage import LocalStorage


def test_what_compaction_took_between_the_readings_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, readings, run = _two_tasks(tmp_path, monkeypatch)
    first = {p: records([event(site=f"{p}{i % 3}") for i in range(9)] + [b"not json"]) for p in (0, 1)}
    second = {p: [r for r in rows if r[0] not in (4, 9)] for p, rows in first.items()}
    receipt = run([first, second])
    assert readings == [0, 0, 1, 1]
    assert [(r.read, r.data, r.dirty, r.gaps) for r in receipt.ranges] == [
        (8, 8, 0, (Interval(4, 5), Interval(9, 10)))
    ] * 2
    assert receipt.samples == ()
    files = {attempt_path(plan) / f.path for f in receipt.files}
    assert {p for p in attempt_path(plan).rglob("*") if p.is_file() and p.name.startswith("part-")} == files
    assert not (attempt_path(plan) / DIRTY).exists()
    seen = Counter((r["_partition"], r["_offset"]) for r in all_rows(plan, receipt, DATA))
    assert seen == Counter((p, o) for p in (0, 1) for o in range(9) if o != 4)
    assert sum(o.rows for o in receipt.overflow) == sum(f.rows for f in receipt.files if "overflow" in str(f.values))


def test_what_cannot_be_read_again_leaves_no_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _, run = _two_tasks(tmp_path, monkeypatch)
    first = {p: records([event(site=f"{p}{i % 3}") for i in range(10)]) for p in (0, 1)}
    with pytest.raises(JobError, match="retention"):
        run([first, None])
    assert not (attempt_path(plan) / RECEIPT).exists()


Topic = dict[int, list[Record]]


def _two_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[ReadPlan, list[int], Callable[[Sequence[Topic | None]], Receipt]]:
    """A plan of two tasks, the number of the reading by each task as it runs, and what runs it: a topic for each
    reading, None for one that is gone."""
    pack = job.pack
    monkeypatch.setattr(job, "pack", lambda ranges, n: pack(ranges, n, smallest=1))
    spec = pipeline(tmp_path)
    plan = job_plan(replace(spec, sink=replace(spec.sink, max_partitions=3)), [(p, 0, 10) for p in (0, 1)])
    readings: list[int] = []
    topics: list[Topic | None] = []

    class Now(FakeReader):
        def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
            topic = topics[readings[-1]]
            if topic is None:
                raise unreadable.gone(wanted, wanted.start, "retention")
            return FakeReader(topic).read(wanted)

    def run_tasks(one: Callable[..., TaskResult], tasks: Sequence[Task]) -> list[TaskResult]:
        number, found = len(set(readings)), []
        for task in tasks:
            readings.append(number)
            found.append(one(task, 0))
        return found

    def run(wanted: Sequence[Topic | None]) -> Receipt:
        topics[:] = wanted
        return run_plan(plan, LocalStorage(), run_tasks, lambda _: Now({}), tasks=2)

    return plan, readings, run
