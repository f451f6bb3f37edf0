"""The same life with tables in Iceberg: a catalogue on SQLite in the world's folder, files by the world's storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table.snapshots import Snapshot

from tests.crash.kept import KEPT
from tests.fakes.objects import MemoryObjects
from tests.targets.iceberg.lab import Tables, through
from tests.world import T0, World
from tidegate.core.base.instants import iso
from tidegate.core.base.storage import can_rename
from tidegate.core.files.receipt import DATA
from tidegate.core.target.port import Targets
from tidegate.core.target.tables import table_name
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.complete import THROUGH
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

KIND = "iceberg"
IN_PLACE = "iceberg in place"
"""The same on a store where nothing moves."""
DATABASE = "catalogue.db"


def install(world: World) -> World:
    """From now on the world's tables are Iceberg's; where its location is an object store, so is its storage."""
    if not can_rename(world.pipeline.sink.location):
        world.store = MemoryObjects()
    if world.pipeline.sink.kind != KIND:
        sink = replace(world.pipeline.sink, kind=KIND, conn_id="lake")
        world.change_spec(sink=sink, archive=replace(world.pipeline.archive, on_publish=()))
    world.tables = _tables
    return world


def _tables(world: World) -> Targets:
    """Metadata and manifests are written by the world's storage, so each such file is a site."""
    files = world.wrap("storage", world.store)
    return Tables(world.wrap(KIND, _catalogue(world.folder, files)))


def _catalogue(folder: Path, storage: Any) -> SqlCatalogue:
    return through(_opened(f"sqlite:///{folder}/{DATABASE}"), storage)


@lru_cache(maxsize=4)
def _opened(url: str) -> SqlCatalogue:
    """Its statements are compiled once."""
    return SqlCatalogue(url, "tidegate", LocalStorage(), 10.0)


def contents(world: World) -> dict[str, list[tuple[Any, ...]]]:
    """Hour -> (Kafka partition, offset, value, site) of every row that a query returns, whatever file it lies in."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for file in live(world, DATA):
        hour = f"{(file.partition[0] // 1000 - T0) // 3_600_000:02d}"
        found.setdefault(hour, []).extend((*row, file.partition[1]) for row in KEPT.rows(world.store, file.file_path))
    return {hour: sorted(rows, key=str) for hour, rows in sorted(found.items())}


def side(world: World, kind: str) -> list[tuple[int, int]]:
    """Kafka coordinates of the rows of the late or the dirty table, sorted."""
    return sorted(at for file in live(world, kind) for at in KEPT.coordinates(world.store, file.file_path))


def a_file(world: World, hour: int, site: str) -> str:
    """URI of one that stands for the window."""
    start_us = (T0 + hour * 3_600_000) * 1000
    return min(f.file_path for f in live(world, DATA) if (f.partition[0], f.partition[1]) == (start_us, site))


def path_of(file: DataFile) -> Path:
    return Path(file.file_path.removeprefix("file://"))


def loaded(world: World, kind: str = DATA) -> Loaded | None:
    """One of its tables, by a catalogue of the reader's own."""
    return _catalogue(world.folder, world.store).load(table_name(world.pipeline, kind))


def live(world: World, kind: str = DATA) -> Iterator[DataFile]:
    """The files that readers of the newest snapshot read; found without the code that publishes."""
    found = loaded(world, kind)
    snapshot = None if found is None else found.metadata.current_snapshot()
    if found is not None and snapshot is not None:
        yield from _of(found, snapshot)


def _of(found: Loaded, snapshot: Snapshot) -> Iterator[DataFile]:
    for manifest in snapshot.manifests(found.io):
        assert manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(found.io, discard_deleted=True):
            entry.data_file.spec_id = manifest.partition_spec_id
            yield entry.data_file


def each_snapshot_shows_one_generation(world: World) -> dict[int, str]:
    """Of each window, never an older one after a newer; none vanishes, and none is claimed before it is shown. Start ->
    directory of the one that the last snapshot shows. Its files lie there, or, if it is a rollback, in an earlier
    one's."""
    found = loaded(world)
    assert found is not None
    shown: dict[int, str] = {}
    lies: dict[int, str] = {}
    claims: list[tuple[str, set[int]]] = []
    for snapshot in found.metadata.snapshots:
        now: dict[int, set[str]] = {}
        for file in _of(found, snapshot):
            now.setdefault(file.partition[0] // 1000, set()).add(file.file_path.rsplit("/", 2)[0])
        said = {} if snapshot.summary is None else snapshot.summary.additional_properties
        unit, mine = (int(said["tidegate.unit"]), said["tidegate.location"]) if "tidegate.unit" in said else (None, "")
        if unit is not None:
            before = shown.get(unit)
            assert before is None or before == mine or _number(mine) > _number(before), f"{mine} after {before}"
            shown[unit] = mine
        for start_ms, places in now.items():
            assert len(places) == 1, f"snapshot {snapshot.sequence_number} shows {places}"
            (place,) = places
            meant = _number(place) <= _number(mine) if start_ms == unit else place == lies.get(start_ms)
            if unit is None and not meant:  # by somebody else: a newer one than ever before, by where its files lie
                meant = start_ms not in shown or _number(place) > _number(shown[start_ms])
                shown[start_ms] = place
            assert meant, f"snapshot {snapshot.sequence_number}, of {mine}, shows files at {place}"
            lies[start_ms] = place
        assert shown.keys() == now.keys(), f"snapshot {snapshot.sequence_number}: {shown.keys() - now.keys()} vanished"
        if snapshot.summary is not None and (claim := snapshot.summary.additional_properties.get(THROUGH)):
            claims.append((claim, set(now)))
    for claim, there in claims:
        missing = {iso(start_ms) for start_ms in shown.keys() - there if iso(start_ms) < claim}
        assert not missing, f"complete through {claim}, without {missing}"
    return shown


def _number(place: str) -> int:
    """`.../20130105T000000Z.2.1` -> 2"""
    return int(place.rsplit(".", 2)[1])
