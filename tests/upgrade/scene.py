"""A small life of a pipeline that both releases can live; 0.1.0 makes by it what the tests here take over.

    PYTHONPATH=<old checkout>/plugins:<old checkout> python tests/upgrade/scene.py <folder>

writes `ledger.sql` (the database, as SQL), `catalogue.json` (partitions) and `lake.tar.gz` (files). Paths are written
as `file://@FOLDER@`. Only what both releases have may be used here, and in `main` only names of 0.1.0.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
import tarfile
import tempfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

FOLDER = "@FOLDER@"


def produce(world: Any, record: Any, part: int) -> None:
    """The messages before a run: 1, 2 or 3."""
    if part == 1:
        rows = (record("a0", 0.1), record("a1", 0.3), record("b0", 0.5, "b"), record("c0", 1.2))
        world.produce(*(r | {"place": p} for r, p in zip(rows, ("a", "c", "c", "a"), strict=True)), b"not json")
        world.produce(record("later", 3.5), partition=1)
    if part == 2:
        world.produce(record("late", 0.2), record("fine", 2.6))
    if part == 3:
        world.produce(record("d0", 4.1), record("d1", 4.6, "b"))
        world.produce(record("d2", 5.5), partition=1)


def other_sites(world: Any) -> None:
    """Today's columns: site is another field."""
    columns = tuple(replace(c, path="$.place") if c.name == "site" else c for c in world.pipeline.columns)
    world.change_spec(columns=columns)


def live(world: Any, record: Any, plan: Any) -> None:
    """Two hours are published, one is rebuilt, a late row waits, a batch is planned."""
    produce(world, record, 1)
    world.ingest("r1")
    world.archive(0)
    world.archive(1)
    produce(world, record, 2)
    world.ingest("r2")
    other_sites(world)
    world.replay(0)
    produce(world, record, 3)
    plan(world.context(), "r3")
    world.close()


def dumped(database: Path, folder: str) -> str:
    with sqlite3.connect(database) as connection:
        return "\n".join(connection.iterdump()).replace(folder, FOLDER) + "\n"


def packed(folder: Path) -> bytes:
    content = BytesIO()
    with (
        gzip.GzipFile(fileobj=content, mode="wb", mtime=0) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w") as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                info = tarfile.TarInfo(str(path.relative_to(folder)))
                data = renamed(path.read_bytes(), str(folder.parent), FOLDER)
                info.size = len(data)
                tar.addfile(info, BytesIO(data))
    return content.getvalue()


def renamed(content: bytes, old: str, new: str) -> bytes:
    """Plain and compressed texts name their places; files of rows do not."""
    if content[:2] == b"\x1f\x8b":
        return gzip.compress(gzip.decompress(content).replace(old.encode(), new.encode()), mtime=0)
    return content if content[:4] == b"PAR1" else content.replace(old.encode(), new.encode())


def main(place: Path) -> None:
    from tests.world import World, record
    from tidegate.workflow import ingest

    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        world = World(folder)
        live(world, record, ingest.plan)
        place.mkdir(parents=True, exist_ok=True)
        (place / "ledger.sql").write_text(dumped(world.database, root))
        tables = {name: table.partitions for name, table in world.catalogue._tables.items()}
        shown = {name: [[list(v), where] for v, where in found.items()] for name, found in tables.items()}
        (place / "catalogue.json").write_text(json.dumps(shown).replace(root, FOLDER) + "\n")
        (place / "lake.tar.gz").write_bytes(packed(folder / "lake"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
