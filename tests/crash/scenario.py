"""A life of a pipeline in steps whose tasks can be run again until they are done, and what can be seen after each."""

from __future__ import annotations

import copy
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash import lakehouse
from tests.crash.faults import Faults, ProcessGone
from tests.crash.kept import KEPT
from tests.world import HOUR, T0, World
from tidegate.core.base.errors import TidegateError
from tidegate.core.files.receipt import DIRTY, LATE
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.maintain import reconcile

TRIES = 7
SOON_MS = 150_000
"""Between two tries while a request may still be on its way: several tries fit into a request's life."""


@dataclass(frozen=True)
class Task:
    """What a scheduler runs. `refusal`: errors that a person is asked for, each time by `operator`; without one, the
    refusal is the task's right end."""

    name: str
    run: Callable[[World], object]
    refusal: tuple[type[TidegateError], ...] = ()
    operator: Task | None = None

    def __call__(self, world: World) -> object:
        return self.run(world)


@dataclass(frozen=True)
class Step:
    """`happens` is the world's doing and never fails; `tasks` are ours, each tried until it is done."""

    name: str
    happens: Callable[[World], None]
    tasks: tuple[Task, ...]


MAINTAIN = Task("maintain", lambda world: reconcile.maintain(world.context()))
"""The maintenance DAG comes by after each step: what may wait (side files into their tables) is done by then."""


@contextmanager
def calm(world: World) -> Iterator[World]:
    """What happens to the world is no site."""
    wrap, world.wrap = world.wrap, lambda name, port: port
    try:
        yield world
    finally:
        world.close()
        world.wrap = wrap


def run_step(world: World, step: Step, faults: Faults | None = None) -> None:
    """Let the step happen, then run its tasks."""
    happen(world, step)
    run_tasks(world, step, faults or Faults())


def happen(world: World, step: Step) -> None:
    with calm(world):
        step.happens(world)


def run_tasks(world: World, step: Step, faults: Faults, *, until_gone: bool = False) -> None:
    """As a scheduler does: a task that failed or was killed is tried again later (or not: `until_gone`).

    A request that hangs arrives once the first try after it is over, or with the step's end."""
    for task in (*step.tasks, MAINTAIN):
        rival = _Rival(world, step, task)
        faults.rival = rival.take_over
        _until_done(world, step.name, task, faults, until_gone)
        assert rival.wrong == [], rival.wrong
        if rival.again:  # its scheduler tries again too
            with calm(world):
                _until_done(world, step.name, task, Faults(), until_gone)
    faults.arrive()


class _Rival:
    """Another process that takes the same task at once, or cleans; it has one try in the middle of the first one's."""

    def __init__(self, world: World, step: Step, task: Task) -> None:
        self._world, self._task = world, task
        self._refusal = tuple(refusal for each in step.tasks for refusal in each.refusal)
        self.again, self.wrong = False, list[str]()

    def take_over(self, kind: str) -> None:
        with calm(self._world):
            task = self._task
            if kind.startswith("cleaned"):
                self._world.clock.advance(40 * 86_400_000)
                task = MAINTAIN
            try:
                task(self._world)
            except TidegateError as e:
                self.again = kind.startswith("overtaken")
                if not e.retry and not isinstance(e, self._refusal):
                    self.wrong.append(f"the other one would need a human: {e}")
            except Exception as e:
                self.wrong.append(f"{type(e).__name__}: {e}")


def _until_done(world: World, where: str, task: Task, faults: Faults, until_gone: bool) -> None:
    failed: list[str] = []
    for _ in range(TRIES):
        recovering = faults.in_flight
        try:
            task(world)
            return
        except ProcessGone:
            if until_gone:
                raise
            failed.append("gone")
        except TidegateError as e:
            if isinstance(e, task.refusal):
                if task.operator is None:
                    return
                world.close()
                _until_done(world, where, task.operator, faults, until_gone)
            elif not e.retry:
                raise AssertionError(f"{where}, {task.name}: a human would be needed: {e}") from e
            failed.append(f"{type(e).__name__}: {e}")
        finally:
            world.close()
            if recovering:
                faults.arrive()
        # a request may still be on its way, or the next try comes later than any can live
        world.clock.advance(SOON_MS if faults.in_flight or recovering else REQUEST_TTL_MS + 1)
    raise AssertionError(f"{where}, {task.name}: not done after {TRIES} tries: {failed}")


@dataclass
class Snapshot:
    """`linked`: data files are shared by second names, for tests that never write into one that is there."""

    folder: Path
    linked: bool
    kafka: Any
    catalogue: Any
    clock: Any
    pipeline: Any
    events: Any
    registered: Any
    store: Any

    @classmethod
    def of(cls, world: World, folder: Path, linked: bool = False) -> Snapshot:
        world.close()
        _copy(world.folder, folder, linked)
        state = (world.kafka, world.catalogue, world.clock, world.pipeline, world.events, world.registered, world.store)
        return cls(folder, linked, *(copy.deepcopy(s) for s in state))

    def restore(self, folder: Path, faults: Faults) -> World:
        """The same world under another folder is another world: locations are absolute, so the folder is reused."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        world = World(folder, copy.deepcopy(self.pipeline), faults.wrap)
        if world.pipeline.sink.kind == lakehouse.KIND:
            lakehouse.install(world)
        shutil.rmtree(folder)
        _copy(self.folder, folder, self.linked)
        state = (self.kafka, self.catalogue, self.clock, self.events, self.registered, self.store)
        copies = (copy.deepcopy(s) for s in state)
        world.kafka, world.catalogue, world.clock, world.events, world.registered, world.store = copies
        return world

    def drop(self) -> None:
        shutil.rmtree(self.folder)


def _copy(source: Path, target: Path, linked: bool) -> None:
    def copied(old: str, new: str) -> None:
        if any(database in os.path.basename(old) for database in ("ledger.db", lakehouse.DATABASE)):
            shutil.copyfile(old, new)
        else:
            os.link(old, new)

    shutil.copytree(source, target, copy_function=copied if linked else shutil.copy2)


def state(world: World) -> dict[str, Any]:
    """All that a reader can see, and what the ledger says of every batch and window."""
    told = sqlite3.connect(world.database)
    try:
        batches = [row[0] for row in told.execute("select state from batches order by batch_id")]
        windows = dict(told.execute("select start_ms, state from windows order by start_ms").fetchall())
        current = dict(told.execute("select window_ms, number from generations where state = 'CURRENT'").fetchall())
        blocked = told.execute(
            "select blocked from batches where state <> 'ABANDONED' and blocked is not null"
            " union all select blocked from windows where blocked is not null"
        ).fetchall()
    finally:
        told.close()
    iceberg = world.pipeline.sink.kind == lakehouse.KIND
    return {
        "windows": lakehouse.contents(world) if iceberg else _contents(world, "lake.readings"),
        "late": lakehouse.side(world, LATE) if iceberg else world.table("__late"),
        "dirty": lakehouse.side(world, DIRTY) if iceberg else world.table("__dirty"),
        "batches": batches,
        "closed": {(start - T0) // HOUR: state for start, state in windows.items()},
        "published": {(start - T0) // HOUR: (start, number) in world.events for start, number in current.items()},
        "blocked": blocked,
        # without the generation's number: a replay that is tried again after its publication takes a number more
        "quarantined": sorted(n.partition(".")[0] for n in _quarantine(world)),
    }


def _quarantine(world: World) -> list[str]:
    return world.store.list_names(f"{world.pipeline.sink.workdir}/quarantine") or []


def _contents(world: World, table: str) -> dict[str, list[tuple[Any, ...]]]:
    """Hour -> (Kafka partition, offset, value, site) of every row that a query returns, whatever file it lies in."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for values, location in world.partitions(table).items():
        named = dict(values)
        folder = Path(location.removeprefix("file://"))
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(("_", "."))):
            rows = KEPT.rows(world.store, f"file://{path}")
            found.setdefault(str(named["hour"]), []).extend((*row, named["site"]) for row in rows)
    return {hour: sorted(rows, key=str) for hour, rows in sorted(found.items())}


def until_done(
    task: Callable[[], object], faults: Faults, tries: int, between: Callable[[], object] = lambda: None
) -> None:
    """Run a task until it comes to its end, as a scheduler does: what is in flight when a try begins arrives after it.
    `between`: what happens before the next try. Raises AssertionError where a person would be needed."""
    failed: list[str] = []
    for _ in range(tries):
        recovering = faults.in_flight
        try:
            task()
            return
        except ProcessGone:
            failed.append("gone")
        except TidegateError as e:
            if not e.retry:
                raise AssertionError(f"a human would be needed: {e}") from e
            failed.append(str(e))
        between()
        if recovering:
            faults.arrive()
    raise AssertionError(f"not done after {tries} tries: {failed}")
