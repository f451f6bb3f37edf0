"""Every changing call of a mirror by days that is copied fails in every way, or is overtaken by another whole task: in
the end each day is what the source had.

`make test` takes one of each method that other lives do not meet, and half of its ways, by the run's seed;
`TIDEGATE_FAULTS=all` takes all."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.audit.audits import in_process
from tests.copies.days import CopiedDays
from tests.crash.cases import OVERTAKINGS, unhealed
from tests.crash.faults import KINDS, Call, Faults
from tests.crash.scenario import Step, Task, calm, happen, run_tasks
from tests.mirror.days import day
from tests.world import World
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

OF_DAYS = frozenset({"copies.begin", "copies.cut", "copies.attempt", "copies.accept", "copies.whole"})


def _of(world: World) -> CopiedDays:
    assert isinstance(world, CopiedDays)
    return world


def _begins(world: World) -> None:
    source = _of(world).source_table
    source.rows = {key: f"old {key}" for key in range(1, 7)}
    source.set(3, "first event")
    _of(world).until(1.5)


def _differs(world: World) -> None:
    """What no event tells, and a second day."""
    source = _of(world).source_table
    source.lose(4)
    source.sneak(5, "sneaked")
    source.set(6, None)
    _of(world).deliver()
    _of(world).again()


def _goes_on(world: World) -> None:
    _of(world).until(2.5)


READ = Task("read", lambda world: _of(world).read())
PUBLISHED = [
    Task(f"publish {n}", partial(lambda n, world: archive.publish(world.context(), day(n)), n)) for n in (0, 1)
]
STEPS = (
    Step("a first copy", _begins, (READ,)),
    Step("the first day", lambda world: None, (PUBLISHED[0],)),
    Step("a second copy", _differs, (READ,)),
    Step(
        "the day that takes it, and the first one again",
        _goes_on,
        (PUBLISHED[1], Task("replay", lambda world: replay.replay(world.context(), day(0)))),
    ),
)
FIRST = {1: "old 1", 2: "old 2", 3: "first event", 4: "old 4", 5: "old 5", 6: "old 6"}
SECOND = {1: "old 1", 2: "old 2", 3: "first event", 5: "sneaked"}
WANTED: tuple[tuple[Any, Any], ...] = ((None, None), (FIRST, None), (FIRST, None), (FIRST, SECOND))


@dataclass
class Life:
    """The world before each step's tasks; paths are absolute, so its own folder is used again."""

    folder: Path
    calls: list[list[Call]]
    before: list[tuple[Any, ...]]

    def world(self, step: int, faults: Faults) -> CopiedDays:
        here = self.folder / "world"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        world = CopiedDays(here, wrap=faults.wrap)
        shutil.rmtree(here)
        shutil.copytree(self.folder / f"before-{step}", here)
        state = copy.deepcopy(self.before[step])
        world.kafka, world.catalogue, world.clock, world.registered, world.source_table, world.sent, world.runs = state
        return world


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """The fault-free life."""
    folder = tmp_path_factory.mktemp("copied-days")
    with mock.patch.object(os, "fsync"):
        faults, made = Faults(), Life(folder, [], [])
        (folder / "world").mkdir()
        world = CopiedDays(folder / "world", wrap=faults.wrap)
        for number, step in enumerate(STEPS):
            happen(world, step)
            world.close()
            shutil.copytree(world.folder, folder / f"before-{number}")
            state = (world.kafka, world.catalogue, world.clock, world.registered)
            made.before.append(copy.deepcopy((*state, world.source_table, world.sent, world.runs)))
            start = len(faults.calls)
            run_tasks(world, step, faults)
            made.calls.append(faults.calls[start:])
            assert _wrong(world, number) is None
        yield made


def test_the_life_meets_every_changing_call_of_a_copy(life: Life) -> None:
    assert {call.method for calls in life.calls for call in calls} >= OF_DAYS


@pytest.mark.parametrize("kind", [*KINDS, *OVERTAKINGS])
def test_any_fault_heals(life: Life, kind: str) -> None:
    assert unhealed(life.calls, kind, partial(_lived, life), _counts) == []


def _counts(call: Call) -> bool:
    """Whether other lives meet no such call; all of them with TIDEGATE_FAULTS=all."""
    own = call.method == "copies.whole" or any(word in call.site for word in (".day", "_day.json"))
    return own or os.environ.get("TIDEGATE_FAULTS") == "all"


def _wrong(world: CopiedDays, step: int) -> str | None:
    seen = tuple(world.told(n) for n in (0, 1))
    if seen != WANTED[step]:
        return f"days show {seen}, should be {WANTED[step]}"
    with calm(world):
        ctx = world.context()
        problems = audit(ctx, ctx.ledger.reads, in_process).problems
    return "; ".join(map(str, problems)) or None


def _lived(life: Life, step: int, at: int, kind: str) -> str | None:
    faults = Faults.one(at, kind)
    with mock.patch.object(os, "fsync"):
        world = life.world(step, faults)
        try:
            run_tasks(world, STEPS[step], faults)
            if faults.fired != [life.calls[step][at].site]:
                return f"the fault did not fire, but {faults.fired}"
            if step in (0, 2):
                with calm(world):
                    world.read()  # its schedule comes again
            return _wrong(world, step) or _goes_on_as_ever(world, step)
        except Exception as e:
            return f"{type(e).__name__}: {e}; said: {world.said[-6:]}"
        finally:
            faults.arrive()
            world.close()


def _goes_on_as_ever(world: CopiedDays, step: int) -> str | None:
    """What the next day takes of what was read."""
    if step != 0:
        return None
    with calm(world):
        world.publish(0)
    return _wrong(world, 1)
