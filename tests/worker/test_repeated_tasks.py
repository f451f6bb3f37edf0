"""Spark runs a task again: what its other attempts left or write too late is in no table, and is cleaned."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tests.world
from spark_jobs import rewrite
from spark_jobs.engine import job
from spark_jobs.engine.failures import JobError
from tests.clean.cleanings import audited, days_later, work
from tests.world import World, make_pipeline, record
from tidegate.core.spec.pipeline import Merge
from tidegate.workflow.batch import ingest


class Executors:
    """Each task is tried three times. The first attempt dies when its files are written; the second succeeds, and its
    result counts; the third was taken for lost, lives on, and writes when `wake` is called."""

    def __init__(self) -> None:
        self.attempts = 0
        self.asleep: list[Callable[[], Any]] = []

    def __call__(self, run: Callable[[Any, int], Any], tasks: Sequence[Any]) -> list[Any]:
        results = []
        for task in tasks:
            first, second, third = range(self.attempts, self.attempts + 3)
            self.attempts += 3
            run(task, first)
            results.append(run(task, second))
            self.asleep.append(functools.partial(run, task, third))
        return results

    def wake(self) -> None:
        asleep, self.asleep = self.asleep, []
        for attempt in asleep:
            with contextlib.suppress(JobError):  # what a merge reads has gone
                attempt()


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> Executors:
    made = Executors()
    monkeypatch.setattr(tests.world, "run_plan", functools.partial(job.run_plan, run_tasks=made))
    monkeypatch.setattr(tests.world.rewrite, "carry_out", functools.partial(rewrite.carry_out, run=made))
    return made


@pytest.fixture
def world(tmp_path: Path, executors: Executors) -> Iterator[World]:
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    made = World(tmp_path, replace(spec, archive=replace(spec.archive, merge=Merge(min_files=2, local_size=1))))
    yield made
    made.close()


def parts(world: World, batch: str) -> int:
    return len(list((world.folder / "lake/readings/_tidegate/landed" / batch).rglob("part-*")))


def test_other_attempts_of_tasks_reach_no_table_and_are_cleaned(world: World, executors: Executors) -> None:
    for number in range(2):
        world.produce(record(f"a{number}", 0.1), record(f"b{number}", 0.2, "b"), b"rubbish", record("later", 2.5))
        world.produce(record("later", 2.5), partition=1)
        run = f"r{number}"
        ingest.plan(world.context(), run)
        ingest.write(world.context(), run)
        if number:
            executors.wake()  # between the receipt and the rename
        ingest.land(world.context(), run)
        executors.wake()  # the first batch's: they make its directory in tmp/ anew, as on HDFS
    assert (parts(world, "1"), parts(world, "2")) == (7, 11), "three of each count; a fourth is in the dirty table"
    assert [name.split(".")[0] for name in work(world, "tmp")] == ["1"]
    world.archive(0)
    assert any("merging" in line for line in world.said)
    assert not any("WARNING" in line for line in world.said)
    executors.wake()
    world.produce(record("late", 0.3), record("far", 5.5))
    world.produce(record("far", 5.5), partition=1)
    world.ingest("r3")
    executors.wake()
    data = [(0, 0), (0, 1), (0, 4), (0, 5)]
    assert (world.by_window()["00"], world.table("__late"), world.table("__dirty")) == (
        data,
        [(0, 8)],
        [(0, 2), (0, 6)],
    )
    world.replay(0)
    executors.wake()
    for hour in range(1, 4):
        world.archive(hour)
        executors.wake()
    assert world.by_window()["00"] == data
    assert world.table() == sorted([*data, (0, 3), (0, 7), (1, 0), (1, 1)])
    assert audited(world) == []
    days_later(world, 40)
    assert (work(world, "landed"), work(world, "tmp")) == (["3"], [])
    assert audited(world) == []
