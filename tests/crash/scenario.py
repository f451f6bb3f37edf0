"""One life of a pipeline that meets every step of both protocols; its tasks can be run again until they are done."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash.faults import Faults, ProcessGone
from tests.world import World, record, window
from tidegate.core.errors import TidegateError
from tidegate.core.pipeline import Column
from tidegate.workflow import archive, ingest, reconcile, replay
from tidegate.workflow.context import REQUEST_TTL_MS, Published

TRIES = 6
Task = Callable[[World], object]


def _plan(run: str) -> Task:
    return lambda world: ingest.plan(world.context(), run)


def _write(run: str) -> Task:
    return lambda world: ingest.write(world.context(), run)


def _land(run: str) -> Task:
    return lambda world: ingest.land(world.context(), run)


def _ready(hour: int) -> Task:
    return lambda world: archive.ready(world.context(), window(hour))


def _publish(hour: int) -> Task:
    return lambda world: _announce(world, archive.publish(world.context(), window(hour)))


def _replay(hour: int) -> Task:
    return lambda world: _announce(world, replay.replay(world.context(), window(hour)))


def _announce(world: World, published: Published) -> None:
    """As the operators do: tell the world of what is new, then say so."""
    if published.new:
        world.events.append((published.window.start_ms, published.generation))
        archive.announced(world.context(), published)


def _maintain(world: World) -> None:
    """The maintenance DAG comes by: what may wait (side files into their tables) is done by now."""
    reconcile.maintain(world.context())


def _first_records(world: World) -> None:
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)


def _late_records(world: World) -> None:
    world.produce(record("late", 0.7), record("fine", 1.9))


def _other_columns(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other")))


def _lose_a_file(world: World) -> None:
    folder = world.folder / "lake/readings/date=2013-01-05/hour=01/site=a"
    min(folder.glob("*.parquet")).unlink()


@dataclass(frozen=True)
class Step:
    """`happens` is the world's doing and never fails; `tasks` are ours, each tried until it is done."""

    name: str
    happens: Callable[[World], None]
    tasks: tuple[Task, ...]


STEPS = (
    Step("first ingest", _first_records, (_plan("r1"), _write("r1"), _land("r1"))),
    Step("archive", lambda w: None, (_ready(0), _publish(0))),
    Step("ingest with late rows", _late_records, (_plan("r2"), _write("r2"), _land("r2"))),
    Step("archive of two batches", lambda w: None, (_publish(1),)),
    Step("replay with other columns", _other_columns, (_replay(0),)),
    Step("heal", _lose_a_file, (_publish(1),)),
    Step("unchanged replay", lambda w: None, (_replay(1),)),
)


def run_step(world: World, step: Step) -> None:
    """Run the step's tasks as a scheduler would: a failed or killed task is tried again later."""
    step.happens(world)
    for task in (*step.tasks, _maintain):
        failed: list[str] = []
        for _ in range(TRIES):
            try:
                task(world)
                break
            except ProcessGone:
                failed.append("gone")
            except TidegateError as e:
                if not e.retry:
                    raise AssertionError(f"{step.name}: a human would be needed: {e}") from e
                failed.append(f"{type(e).__name__}: {e}")
            finally:
                world.close()
            # the next try comes later than any request can live
            world.clock.advance(REQUEST_TTL_MS + 1)
        else:
            raise AssertionError(f"{step.name}: not done after {TRIES} tries: {failed}")


@dataclass
class Snapshot:
    folder: Path
    kafka: Any
    catalogue: Any
    clock: Any
    pipeline: Any
    events: Any

    @classmethod
    def of(cls, world: World, folder: Path) -> Snapshot:
        world.close()
        shutil.copytree(world.folder, folder)
        state = (world.kafka, world.catalogue, world.clock, world.pipeline, world.events)
        return cls(folder, *(copy.deepcopy(s) for s in state))

    def restore(self, folder: Path, faults: Faults) -> World:
        """The same world under another folder is another world: locations are absolute, so the folder is reused."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        world = World.__new__(World)
        World.__init__(world, folder, copy.deepcopy(self.pipeline), faults.wrap)
        shutil.copy(self.folder / "ledger.db", world.database)
        state = (self.kafka, self.catalogue, self.clock, self.events)
        world.kafka, world.catalogue, world.clock, world.events = (copy.deepcopy(s) for s in state)
        return world


def state(world: World) -> dict[str, Any]:
    """All that a reader can see, and what the ledger says of every batch and window."""
    ledger = world.context().ledger
    batches = [ledger.batches.get("readings", i).state for i in range(1, 3) if _exists(ledger, i)]
    windows = {h: ledger.windows.get("readings", window(h)) for h in range(4)}
    seen = {
        "windows": world.by_window(),
        "late": world.table("__late"),
        "dirty": world.table("__dirty"),
        "batches": batches,
        "announced": {h: (w.key.start_ms, w.current) in world.events for h, w in windows.items() if w.current},
        "states": {h: (w.state, w.current is not None) for h, w in windows.items()},
    }
    world.close()
    return seen


def _exists(ledger: Any, batch_id: int) -> bool:
    row = ledger.pipelines.row("readings")
    return row is not None and batch_id < row.next_batch_id
