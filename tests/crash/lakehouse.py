"""The same life with tables in Iceberg: a catalogue on SQLite in the world's folder, files by the world's storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyiceberg.manifest import DataFile

from tests.crash.kept import KEPT
from tests.targets.iceberg.lab import Tables
from tests.world import T0, World
from tidegate.core.files.receipt import DATA
from tidegate.core.target.port import Targets
from tidegate.core.target.tables import table_name
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.live import look
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

KIND = "iceberg"
DATABASE = "catalogue.db"


def install(world: World) -> World:
    """From now on the world's tables are Iceberg's."""
    if world.pipeline.sink.kind != KIND:
        sink = replace(world.pipeline.sink, kind=KIND, conn_id="lake")
        world.change_spec(sink=sink, archive=replace(world.pipeline.archive, on_publish=()))
    world.tables = _tables
    return world


def _tables(world: World) -> Targets:
    """Metadata and manifests are written by the world's storage, so each such file is a site."""
    files = world.wrap("storage", LocalStorage())
    return Tables(world.wrap(KIND, _catalogue(world.folder, files)))


def _catalogue(folder: Path, storage: Any) -> SqlCatalogue:
    made = _opened(f"sqlite:///{folder}/{DATABASE}")
    found = SqlCatalogue.__new__(SqlCatalogue)
    found.__dict__.update(made.__dict__)
    found._io = type(made._io)(storage)
    return found


@lru_cache(maxsize=4)
def _opened(url: str) -> SqlCatalogue:
    """Its statements are compiled once."""
    return SqlCatalogue(url, "tidegate", LocalStorage(), 10.0)


def contents(world: World) -> dict[str, list[tuple[Any, ...]]]:
    """Hour -> (Kafka partition, offset, value, site) of every row that a query returns, whatever file it lies in."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for file in _live(world, DATA):
        hour = f"{(file.partition[0] // 1000 - T0) // 3_600_000:02d}"
        found.setdefault(hour, []).extend((*row, file.partition[1]) for row in KEPT.rows(path_of(file)))
    return {hour: sorted(rows, key=str) for hour, rows in sorted(found.items())}


def side(world: World, kind: str) -> list[tuple[int, int]]:
    """Kafka coordinates of the rows of the late or the dirty table, sorted."""
    return sorted(at for file in _live(world, kind) for at in KEPT.coordinates(path_of(file)))


def a_file(world: World, hour: int, site: str) -> Path:
    """One that stands for the window."""
    start_us = (T0 + hour * 3_600_000) * 1000
    found = [path_of(f) for f in _live(world, DATA) if (f.partition[0], f.partition[1]) == (start_us, site)]
    return min(found)


def path_of(file: DataFile) -> Path:
    return Path(file.file_path.removeprefix("file://"))


def _live(world: World, kind: str) -> Iterator[DataFile]:
    loaded = _catalogue(world.folder, LocalStorage()).load(table_name(world.pipeline, kind))
    if loaded is not None:
        yield from look(loaded.metadata, loaded.io, lambda unit: True).files
