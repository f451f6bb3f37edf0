"""The catalogue's partitions of a window: what they must be (R2), and their changes, each under an intent (R8)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tidegate.core.base.errors import CatalogueError, CatalogueUnsure, LostComparison
from tidegate.core.base.instants import span
from tidegate.core.base.partition_values import PartitionValues, parse_partition_path, partition_path
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import FileEntry
from tidegate.core.target.paths import join
from tidegate.core.target.port import Intents, Shown
from tidegate.core.window.states import WindowKey
from tidegate.targets.hive.places import Places
from tidegate.targets.hive.ports import Catalogue, PartitionSwitch, TableDef

STANDSTILL = 10
"""A task that stood still for a tenth of that between intent and request sends nothing: a request lives nine tenths."""


def wanted(table: Places, key: WindowKey, files: tuple[FileEntry, ...], location: str) -> Shown:
    """What the catalogue must say of this window (R2): exactly the manifest's partitions.

    An hour without rows has a partition only when the table has no dynamic columns."""
    at = table.values(key)
    if not table.site.pipeline.dynamic_partitions:
        return {at: table.sent_to(location)}
    folders = {partition_path(f.values) for f in files}
    return {at + parse_partition_path(folder): join(location, folder) for folder in sorted(folders)}


def shown(catalogue: Catalogue, table: TableDef) -> Shown:
    """Every partition of the table; of one that reads its files otherwise, how. Raises CatalogueMismatch."""
    catalogue.check_table(table)
    locations, otherwise = catalogue.examine(table.name)
    return locations | {v: f"{locations[v]}, and reads otherwise than the table: {otherwise[v]}" for v in otherwise}


def align(table: Places, fence: Intents, location: str, want: Shown | None = None) -> list[str]:
    """Make the catalogue's partitions of the window equal to the manifest's; what was changed, in words.

    The caller has prepared the table. `want`: what the catalogue must say, if not what `wanted` does.

    New values appear at an empty directory first while others are still to be switched, so that the whole window
    turns partition by partition from old to new and never shows both; with a connection to the metastore it turns at
    once, vanished values to the empty directory with the others. What points into `location` itself shows nothing old:
    the new generation is there.

    A partition that reads its files otherwise than the table, which somebody made so, is dropped first: one that is
    added has what the table has."""
    at = table.values(fence.generation.window)
    if want is None:
        want = wanted(table, fence.generation.window, fence.generation.files, location)
    have, otherwise = table.catalogue.examine(table.name, at)
    changes = _Changes(table, fence, location)
    if otherwise:
        changes.drop(list(otherwise), otherwise)
        have = {v: place for v, place in have.items() if v not in otherwise}
    new = {v: place for v, place in want.items() if v not in have}
    moved = {v: place for v, place in want.items() if v in have and have[v] != place}
    gone = _vanished(have, want)
    empty = table.layout.empty()
    old = {v: empty for v in gone if not have[v].startswith(f"{location}/") and have[v] != empty}
    if new and (moved or old):
        table.site.storage.make_dirs(empty)
        changes.add({v: empty for v in new})
        moved |= new
    elif new:
        changes.add(new)
    if table.switch is not None and (moved or old):
        table.site.storage.make_dirs(empty)
        changes.switch_at_once(table.switch, moved | old)
    else:
        for values, place in moved.items():
            changes.switch(values, place)
    if gone:
        changes.drop(gone)
    if changes.made:
        _read_back(table, at, want)
    return changes.made


def _vanished(have: Shown, want: Shown) -> list[PartitionValues]:
    """R2: values that the catalogue has and the manifest does not."""
    return [v for v in have if v not in want]


def _read_back(table: Places, at: PartitionValues, want: Shown) -> None:
    """R2: what was set is what the catalogue says. Raises CatalogueError."""
    have, otherwise = table.catalogue.examine(table.name, at)
    if otherwise:
        first = next(iter(otherwise))
        raise CatalogueError(
            f"{table.name} {partition_path(first)} reads otherwise than the table: {otherwise[first]}",
            advice="the next try drops it and adds it again; if it stays, somebody else alters this table",
        )
    if have != want:
        raise CatalogueError(
            f"{table.name} {partition_path(at)}: the catalogue says "
            f"{many(len(have), 'partition')} after the change, "
            f"{len(want)} were set; first difference: {_first_difference(have, want)}",
            advice="the next try aligns it again; if it stays, somebody else alters this table",
        )


def _first_difference(have: Shown, want: Shown) -> str:
    for values in sorted(set(have) | set(want), key=str):
        if have.get(values) != want.get(values):
            return f"{partition_path(values)} is at {have.get(values)}, should be {want.get(values)}"
    return "none"


class _Changes:
    """Each statement under an intent of its own (R8): declared with the generation re-read, answered if definite."""

    def __init__(self, table: Places, fence: Intents, location: str) -> None:
        self._table, self._fence, self._location = table, fence, location
        self.made: list[str] = []

    def add(self, locations: Shown) -> None:
        self._fenced(lambda: self._table.catalogue.add_partitions(self._table.name, locations))
        self.made += [f"added partition {partition_path(v)}" for v in locations]

    def switch(self, values: PartitionValues, place: str) -> None:
        self._fenced(lambda: self._table.catalogue.set_location(self._table.name, values, place))
        self.made.append(f"partition {partition_path(values)} now at {place}")

    def switch_at_once(self, switch: PartitionSwitch, places: Shown) -> None:
        self._fenced(lambda: switch.switch_partitions(self._table.name, places))
        self.made += [f"partition {partition_path(v)} now at {place}" for v, place in places.items()]

    def drop(self, values: list[PartitionValues], why: Mapping[PartitionValues, str] | None = None) -> None:
        self._fenced(lambda: self._table.catalogue.drop_partitions(self._table.name, values))
        self.made += [f"dropped partition {partition_path(v)}{f': {why[v]}' if why else ''}" for v in values]

    def _fenced(self, change: Callable[[], None]) -> None:
        clock, ttl_ms = self._table.site.clock, self._table.site.request_ttl_ms
        asked_ms, began = clock.now_ms(), time.monotonic()
        call_id = self._fence.declare(self._location)
        # a clock that is put back must not hide it, nor one that stands still while the host sleeps
        stood_ms = max(clock.now_ms() - asked_ms, (time.monotonic() - began) * 1000)
        if stood_ms >= ttl_ms / STANDSTILL:
            # sent now, the request could outlive its intent: others would no longer wait for it
            raise LostComparison(f"{self._table.name}: this task stood still for {span(stood_ms)} before its request")
        try:
            change()
        except CatalogueUnsure:
            raise  # it may still be executed: the intent stays until its deadline
        except CatalogueError:
            self._fence.answer(call_id)
            raise
        self._fence.answer(call_id)
