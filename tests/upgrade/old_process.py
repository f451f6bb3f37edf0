"""What an earlier release does in a process of its own, in the folder of a world that a test has made.

    PYTHONPATH=<old checkout>/plugins:<old checkout> python tests/upgrade/old_process.py <folder> <step> [argument]

It opens its ledger first, which is when the revision is looked at, says `ready`, and waits for a line; then it takes
the step, and says how that ended and what the catalogue has then, in one JSON document.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(folder: Path, step: str, argument: str) -> None:
    from tests import world as worlds

    sys.path.insert(0, str(Path(__file__).parent))
    import scene

    given = json.loads((folder / "old.json").read_text())
    world = _world(worlds, folder)
    for part in given["produced"]:
        scene.produce(world, worlds.record, part)
    if step != "replay":  # with the columns as they were at first: content that the window has not now
        scene.other_sites(world)
    _catalogue(world, given["catalogue"])
    try:
        ctx = world.context()
    except Exception as e:
        print(json.dumps({"error": type(e).__name__, "said": str(e)}), flush=True)
        return
    ctx.ledger.pipelines.row("readings")
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        told = _step(worlds, world, ctx, step, argument)
    except Exception as e:
        print(json.dumps({"error": type(e).__name__, "said": str(e)}), flush=True)
        return
    tables = {name: table.partitions for name, table in world.catalogue._tables.items()}
    shown = {name: [[list(v), where] for v, where in found.items()] for name, found in tables.items()}
    print(json.dumps({"error": None, "said": told, "catalogue": shown}), flush=True)


def _world(worlds: Any, folder: Path) -> Any:
    """On the ledger and the files that are there."""
    content = (folder / "ledger.db").read_bytes()
    world = worlds.World(folder)
    (folder / "ledger.db").write_bytes(content)
    return world


def _catalogue(world: Any, shown: dict[str, Any]) -> None:
    from tidegate.core.tables import data_table, dirty_table, late_table

    for table in (data_table(world.pipeline), late_table(world.pipeline), dirty_table(world.pipeline)):
        world.catalogue.ensure_table(table)
    for name, partitions in shown.items():
        places = {tuple(tuple(pair) for pair in values): where for values, where in partitions}
        world.catalogue.add_partitions(name, places)


def _step(worlds: Any, world: Any, ctx: Any, step: str, argument: str) -> str:
    from tidegate.workflow import archive, ingest, replay

    if step == "adopt":
        from tidegate.workflow import adoption

        adoption.adopt(ctx, adoption.survey(ctx), argument)
        return "adopted"
    if step in ("plan", "write", "land"):
        return str(getattr(ingest, step)(ctx, argument))
    key = worlds.window(int(argument))
    published = (archive.publish if step == "publish" else replay.replay)(ctx, key)
    return f"generation {published.generation}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], [*sys.argv, ""][3])
