"""Worlds with something to clean, and what is left of them."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import in_process
from tests.hooks import Died, Hook, die
from tests.world import HOUR, World, record
from tidegate.core.spec.pipeline import Cleaning, Column
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.clean.duties import Cleaned, clean

DAY = 24 * HOUR


class Kept:
    """Worlds as they were at some moment, again and again in the same folder: locations are absolute."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._kept, self._last = folder, {}, None

    def world(self, story: Callable[[World], None]) -> World:
        place = self._folder / "world"
        if self._last is not None:
            self._last.close()
        shutil.rmtree(place, ignore_errors=True)
        before = self._folder / story.__name__
        if not before.exists():
            place.mkdir()
            made = World(place)
            story(made)
            made.close()
            shutil.copytree(place, before)
            state = (made.kafka, made.catalogue, made.clock, made.pipeline)
            self._kept[before] = tuple(copy.deepcopy(s) for s in state)
            shutil.rmtree(place)
        shutil.copytree(before, place)
        made = World(place)
        shutil.copy(before / "ledger.db", made.database)
        made.kafka, made.catalogue, made.clock, made.pipeline = (copy.deepcopy(s) for s in self._kept[before])
        self._last = made
        return made


def work(world: World, *parts: str) -> list[str]:
    """Names in a folder of the work directory."""
    folder = world.folder.joinpath("lake/readings/_tidegate", *parts)
    return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []


def hour_files(world: World, hour: int) -> list[str]:
    folder = world.folder / f"lake/readings/date=2013-01-05/hour={hour:02}"
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def days_later(world: World, days: float, **options: Any) -> Cleaned:
    world.clock.advance(int(days * DAY))
    found = clean(world.context(), **options)
    world.close()
    return found


def other_columns(world: World, source: str) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path=f"$.{source}")))


def keep_for(world: World, **ttl: int | None) -> None:
    world.change_spec(clean=replace(Cleaning(), **ttl))


def first_life(world: World) -> None:
    """Batches 1 and 2 have landed, hours 0 and 1 are published; batch 2 brought a late row, batch 1 a dirty one."""
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("late", 0.7), record("b1", 1.9), record("c1", 2.5))
    world.produce(record("f0", 5.0), partition=1)
    world.ingest("r2")
    world.archive(1)


def audited(world: World) -> list[str]:
    ctx = world.context()
    problems = [str(p) for p in audit(ctx, ctx.ledger.reads, in_process).problems]
    world.close()
    return problems


def readers(world: World) -> tuple:
    return world.by_window(), world.table("__late"), world.table("__dirty")


def dying(world: World, **before: Callable[..., object]) -> Context:
    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, before)  # type: ignore[assignment]
    return ctx


def attempt_dies(world: World, run: str) -> None:
    """The job writes its files and no receipt, then the task's process is gone."""

    def no_receipt(path: str, _: bytes) -> None:
        if path.endswith("_receipt.json"):
            die()

    plain = world.wrap
    world.wrap = lambda name, port: Hook(port, {"write_new": no_receipt}) if name == "storage" else port
    with pytest.raises(Died):
        ingest.write(world.context(), run)
    world.wrap = plain
    world.close()
