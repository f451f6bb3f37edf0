"""Every changing call of a day's life (published, replayed with later days, rolled back) fails in every way, or is
overtaken by another whole try or by a cleaner: in the end readers of each day see what they should, and the audit
finds nothing.

`make test` takes some cases by the run's seed; `TIDEGATE_FAULTS=all` takes all.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.audit.audits import in_process
from tests.crash.faults import KINDS, OVERTAKEN, Call, Faults
from tests.crash.scenario import Step, Task, calm, happen, run_tasks
from tests.mirror.days import YAML, DailyWorld, by_days, day, event
from tests.world import World
from tidegate.core.base.errors import TidegateError
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay, rollback

ALL = os.environ.get("TIDEGATE_FAULTS") == "all"
OTHERS = 6
"""Cases beside one of each way, in `make test`."""


def _land(world: World) -> None:
    assert isinstance(world, DailyWorld)
    world.land(event(1, "a", 10, 0.1), event(2, "b", 11, 0.2), event(3, "c", 12, 0.3))
    world.land(event(1, "a2", 20, 1.1), event(3, None, 21, 1.2), event(4, "d", 22, 1.5), event(9, "z", 99, 5.5))


def _other_columns(world: World) -> None:
    world.pipeline = by_days(world.folder, YAML.replace("name: word,", "name: word, from: $._source.file,"))


def _published(n: int) -> Task:
    return Task(f"publish {n}", lambda world: archive.publish(world.context(), day(n)))


def _replayed(n: int) -> Task:
    return Task(f"replay {n}", lambda world: replay.replay(world.context(), day(n)))


STEPS = (
    Step("a first day", _land, (_published(0),)),
    Step("a second day, and one without events", lambda world: None, (_published(1), _published(2))),
    Step("a day is replayed, then the one after it", _other_columns, (_replayed(0), _replayed(1))),
    Step(
        "a day is rolled back",
        lambda world: None,
        (Task("roll back", lambda world: rollback.rollback(world.context(), day(0), 1, "a test")),),
    ),
)
FILE = "binlog.000001"
FIRST, SECOND = {1: "a", 2: "b", 3: "c"}, {1: "a2", 2: "b", 4: "d"}
WANTED: tuple[list[Any], ...] = (
    [FIRST, None, None],
    [FIRST, SECOND, SECOND],
    [dict.fromkeys(FIRST, FILE), dict.fromkeys(SECOND, FILE), SECOND],
    [FIRST, dict.fromkeys(SECOND, FILE), SECOND],
)


@dataclass
class Life:
    """The world before each step's tasks; paths are absolute, so its own folder is used again."""

    folder: Path
    calls: list[list[Call]]
    before: list[tuple[Any, ...]]

    def world(self, step: int, faults: Faults) -> DailyWorld:
        here = self.folder / "world"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        world = DailyWorld(here, wrap=faults.wrap)
        shutil.rmtree(here)
        shutil.copytree(self.folder / f"before-{step}", here)
        world.kafka, world.catalogue, world.clock, world.pipeline, world.registered = copy.deepcopy(self.before[step])
        return world


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The fault-free life."""
    folder = tmp_path_factory.mktemp("days")
    with mock.patch.object(os, "fsync"):
        faults, life = Faults(), Life(folder, [], [])
        (folder / "world").mkdir()
        world = DailyWorld(folder / "world", wrap=faults.wrap)
        for number, step in enumerate(STEPS):
            happen(world, step)
            world.close()
            shutil.copytree(world.folder, folder / f"before-{number}")
            state = (world.kafka, world.catalogue, world.clock, world.pipeline, world.registered)
            life.before.append(copy.deepcopy(state))
            start = len(faults.calls)
            run_tasks(world, step, faults)
            life.calls.append(faults.calls[start:])
            assert _wrong(world, number) is None
        yield life


def _wrong(world: DailyWorld, step: int) -> str | None:
    """What readers see that they should not, and what the audit says."""
    seen = [world.rows(n) for n in range(3)]
    if seen != WANTED[step]:
        return f"days show {seen}, should be {WANTED[step]}"
    for n, rows in enumerate(seen):
        if rows is not None and set(world.gone(n)) != ({3} if n else set()):
            return f"day {n} has tombstones {world.gone(n)}"
    with calm(world):
        ctx = world.context()
        problems = audit(ctx, ctx.ledger.reads, in_process).problems  # type: ignore[attr-defined]
    return "; ".join(map(str, problems)) or None


def _cases(life: Life) -> list[tuple[int, int, str]]:
    every = [
        (step, at, kind)
        for step, calls in enumerate(life.calls)
        for at, call in enumerate(calls)
        for kind in (*call.kinds(), *OVERTAKEN)
    ]
    if ALL:
        return every
    rng = random.Random(f"{os.environ['TIDEGATE_TEST_SEED']}:days")
    mine = [case for case in every if _is_of_days(life.calls[case[0]][case[1]])]
    return [rng.choice([c for c in mine if c[2] == kind]) for kind in (*KINDS, *OVERTAKEN)] + rng.sample(every, OTHERS)


def _is_of_days(call: Call) -> bool:
    """Whether other pipelines have no such call."""
    return any(word in call.site for word in (".day", "_day.json", "/rows", "/tombstones"))


def test_faults_heal(life: Life) -> None:
    failed = []
    for step, at, kind in _cases(life):
        wrong = _lived(life, step, at, kind)
        if wrong is not None:
            failed.append(f"{STEPS[step].name}, {life.calls[step][at].site}, {kind}: {wrong}")
    assert failed == []


def _lived(life: Life, step: int, at: int, kind: str) -> str | None:
    faults = Faults.one(at, kind)
    with mock.patch.object(os, "fsync"):
        world = life.world(step, faults)
        try:
            run_tasks(world, STEPS[step], faults)
            if faults.fired != [life.calls[step][at].site]:
                return f"the fault did not fire, but {faults.fired}"
            return _wrong(world, step)
        except (TidegateError, AssertionError) as e:
            return f"{type(e).__name__}: {e}; said: {world.said[-6:]}"
        finally:
            faults.arrive()
            world.close()
