"""A world that 0.1.0 has left behind (`old_life.py`), taken over by this code: after it has died in the middle of a
step the ledger is migrated, this code ends the step, and what can be seen is what 0.1.0 would have come to."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.crash.faults import Faults
from tests.crash.life import STEPS
from tests.crash.matrix import problems
from tests.crash.scenario import MAINTAIN, Step, run_tasks, state
from tests.fakes.catalogue import FakeCatalogue
from tests.fakes.kafka import FakeKafka
from tests.world import World
from tidegate.core.base.plain import from_plain
from tidegate.core.spec.pipeline import Pipeline
from tidegate.ledger.migrate import migrate
from tidegate.targets.hive.ports import TableDef


class Life:
    """What `old_life.py` wrote into `place`."""

    def __init__(self, place: Path) -> None:
        told = json.loads((place / "life.json").read_text())
        self._place, self._folder = place, Path(told["folder"])
        self.after: list[dict[str, Any]] = told["after"]
        self.cases = range(told["cases"])
        mine = [[step.name, [task.name for task in step.tasks]] for step in STEPS]
        assert mine == told["steps"], "the life has other steps than 0.1.0's: keep those, add yours elsewhere"

    def told(self, case: int) -> dict[str, Any]:
        return json.loads((self._place / f"cases/{case}/told.json").read_text())  # type: ignore[no-any-return]

    def ledger(self, case: int) -> sqlite3.Connection:
        """As 0.1.0 has left it."""
        return sqlite3.connect(f"file:{self._place}/cases/{case}/world/ledger.db?mode=ro", uri=True)

    def restored(self, case: int) -> World:
        """The world as it was left; its ledger is not migrated yet."""
        told = self.told(case)
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        world = World(self._folder, from_plain(Pipeline, told["pipeline"]))
        shutil.rmtree(self._folder)
        shutil.copytree(self._place / f"cases/{case}/world", self._folder)
        world.kafka, world.catalogue = _kafka(told), _catalogue(told)
        world.clock.advance(told["now_ms"] - world.clock.now_ms())
        world.events = [(start, number) for start, number in told["events"]]
        world.registered = set(told["registered"])
        return world

    def failure(self, case: int) -> str | None:
        """What is wrong once this code has ended the step that 0.1.0 died in."""
        told = self.told(case)
        world, where = self.restored(case), f"{STEPS[told['step']].name}, {told['kind']}: {told['site']}"
        try:
            migrate(f"sqlite:///{world.database}")
            run_tasks(world, _rest(STEPS[told["step"]], told["task"]), Faults())
            wrong = self.differences(world, told["step"])
        except Exception as e:
            wrong = [f"{type(e).__name__}: {e}", *world.said[-6:]]
        finally:
            world.close()
        return f"{where}: {wrong}" if wrong else None

    def differences(self, world: World, step: int) -> list[str]:
        """From what 0.1.0 shows after the step; and the deep audit's problems."""
        found, wanted = json.loads(json.dumps(state(world))), dict(self.after[step])
        wanted["quarantined"] = [name.partition(".")[0] for name in wanted["quarantined"]]  # as `state` tells them
        return [f"{k}: {found[k]}, should be {wanted[k]}" for k in wanted if found[k] != wanted[k]] + problems(world)


def _kafka(told: dict[str, Any]) -> FakeKafka:
    kafka = FakeKafka()
    for name, topic in told["topics"].items():
        kafka.create(name, len(topic["logs"]))
        kafka._topics[name].topic_id = topic["id"]
        for number, log in enumerate(topic["logs"]):
            mine = kafka._topics[name].logs[number]
            for offset, timestamp_ms, value in log["records"]:
                mine.end = offset
                mine.append(timestamp_ms, None, base64.b64decode(value))
            mine.start, mine.kept_from, mine.end = log["start"], log["kept_from"], log["end"]
            mine.leaders = [(epoch, start) for epoch, start in log["leaders"]]
    kafka._created = told["created"]
    kafka.groups = {(group, topic): dict(map(tuple, offsets)) for group, topic, offsets in told["groups"]}
    kafka._marks = {(group, topic, partition): mark for group, topic, partition, mark in told["marks"]}
    return kafka


def _catalogue(told: dict[str, Any]) -> FakeCatalogue:
    catalogue = FakeCatalogue()
    for name, table in told["tables"].items():
        catalogue.ensure_table(from_plain(TableDef, table["definition"]))
        places = {tuple(map(tuple, values)): place for values, place in table["partitions"]}
        catalogue._tables[name].partitions = places
    return catalogue


def _rest(step: Step, died: str) -> Step:
    """From the task on that was under way: a task of the step, the operator of one, or maintenance."""
    for at, task in enumerate(step.tasks):
        if died == task.name:
            return replace(step, tasks=step.tasks[at:])
        if task.operator is not None and died == task.operator.name:
            return replace(step, tasks=(task.operator, *step.tasks[at:]))
    assert died == MAINTAIN.name, died
    return replace(step, tasks=())
