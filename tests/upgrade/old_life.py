"""What 0.1.0 leaves behind when it dies: it lives the life of its own `tests/crash`, and is killed at many calls.

    PYTHONPATH=<old checkout>/plugins:<old checkout> python tests/upgrade/old_life.py <folder> <tier> <seed>

Only names of 0.1.0 may be used here. Written are `cases/<number>/{world,told.json}` and `life.json`: the steps, and
what can be seen after each if nothing fails.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

STATES = {
    "batches.insert_plan", "batches.take", "batches.seal", "batches.land", "windows.begin_close",
    "windows.begin_generation", "windows.built", "windows.begin_swap", "windows.publish", "rollbacks.begin",
    "launcher.run",
}  # fmt: skip
"""After each of these a batch, a window or a generation is in another state, or its files are there and no more."""
ALWAYS = {"first ingest", "archive", "replay with other columns", "heal", "reopening", "redrive", "rollback at once"}
"""Steps of which all those calls are taken."""
HELD_UP = {"batches.refuse", "batches.abandon", "batches.block", "windows.block"}
"""Taken of every step."""
GONE, HALF = "gone after", "half done, gone"


def main(place: Path, tier: str, seed: str) -> None:
    os.environ["TIDEGATE_TEST_SEED"] = seed
    import tidegate
    from tests.crash.faults import Faults, ProcessGone
    from tests.crash.life import STEPS
    from tests.crash.matrix import Reference, quick
    from tests.crash.scenario import Snapshot, Task, run_tasks

    assert Path(tidegate.__file__).is_relative_to(sys.path[1]), "this is not the old release"
    under_way: list[str] = []
    with (
        quick(),
        mock.patch.object(Task, "__call__", lambda task, world: under_way.append(task.name) or task.run(world)),
    ):
        (place / "life").mkdir()
        life = Reference(place / "life")
        cases = taken(life.calls, [step.name for step in STEPS], tier == "all")
        for number, (step, at, kind) in enumerate(cases):
            folder = place / f"cases/{number}"
            folder.mkdir(parents=True)
            faults = Faults.one(at, kind)
            world = life.restore(step, faults)
            try:
                run_tasks(world, STEPS[step], faults, until_gone=True)
            except ProcessGone:
                pass
            Snapshot.of(world, folder / "world", linked=True)
            site = life.calls[step][at].site
            assert faults.fired == [site], faults.fired
            died = {"step": step, "task": under_way[-1], "site": site, "kind": kind}
            (folder / "told.json").write_text(json.dumps(told(world) | died))
    steps = [[step.name, [task.name for task in step.tasks]] for step in STEPS]
    shown = {"folder": str(life.world_folder), "cases": len(cases), "steps": steps, "after": life.after}
    (place / "life.json").write_text(json.dumps(shown))


def taken(calls: list[list[Any]], names: list[str], every: bool) -> list[tuple[int, int, str]]:
    """(step, call, kind): all of them, or the changes of state of some steps."""
    found = [(step, at, GONE) for step, made in enumerate(calls) for at in range(len(made))]
    found += [(s, at, HALF) for s, made in enumerate(calls) for at, call in enumerate(made) if HALF in call.kinds()]
    if every:
        return found
    return [
        (step, at, kind)
        for step, at, kind in found
        if kind == GONE and calls[step][at].method in (STATES | HELD_UP if names[step] in ALWAYS else HELD_UP)
    ]


def told(world: Any) -> dict[str, Any]:
    """What is kept in memory here: the fakes, and the pipeline."""
    from tidegate.core.plain import to_plain

    topics = {
        name: {
            "id": topic.topic_id,
            "logs": [
                {
                    "records": [[r.offset, r.timestamp_ms, base64.b64encode(r.value).decode()] for r in log.records],
                    "start": log.start,
                    "kept_from": log.kept_from,
                    "end": log.end,
                    "leaders": log.leaders,
                }
                for _, log in sorted(topic.logs.items())
            ],
        }
        for name, topic in world.kafka._topics.items()
    }
    groups = [[*key, list(offsets.items())] for key, offsets in world.kafka.groups.items()]
    tables = {
        name: {"definition": to_plain(table.definition), "partitions": list(table.partitions.items())}
        for name, table in world.catalogue._tables.items()
    }
    return {
        "pipeline": to_plain(world.pipeline),
        "topics": topics,
        "groups": groups,
        "marks": [[*key, mark] for key, mark in world.kafka._marks.items()],
        "created": world.kafka._created,
        "tables": tables,
        "now_ms": world.clock.now_ms(),
        "events": world.events,
        "registered": sorted(world.registered),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
