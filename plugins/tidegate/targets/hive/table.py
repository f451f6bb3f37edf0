"""A pipeline's table in Hive (`core.target.port.Target`): partitions that point into a generation's directory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tidegate.core.base.errors import Alarm, CatalogueError, CatalogueMismatch, TidegateError
from tidegate.core.files.receipt import FileEntry
from tidegate.core.mirror.jobs import Daily
from tidegate.core.target.paths import CERTIFICATE, SUCCESS, join
from tidegate.core.target.port import Fence, Shown, Site, Unit, Verified
from tidegate.core.window.states import BuiltGeneration, Moved, WindowKey
from tidegate.targets.hive import partitions
from tidegate.targets.hive.places import Places, Plain
from tidegate.targets.hive.ports import Catalogue, TableDef
from tidegate.targets.hive.success_marker import write_success
from tidegate.targets.hive.swap import swap_in
from tidegate.targets.hive.tables import data_table
from tidegate.workflow.base.places import strays
from tidegate.workflow.base.renames import manifest_of, move_directory

COMPARED_S = 60.0
"""So long a table that was right is not compared again while many windows are published."""


class HiveTable(Plain, Places):
    """Implements `core.target.port.Target` on a catalogue."""

    unit = Unit.WINDOW
    marks: tuple[str, ...] = (SUCCESS,)
    daily: Daily | None = None

    def session(self) -> AbstractContextManager[None]:
        """Inside, a call may use the connection of the one before."""
        return self.catalogue.keeping_sessions()

    @contextmanager
    def series(self) -> Iterator[None]:
        """A session in which a table that was right a moment ago is not compared again."""
        every = self.catalogue
        with every.keeping_sessions():
            self.catalogue = _ComparedOnce(every)
            try:
                yield
            finally:
                self.catalogue = every

    # ------------------------------------------------------------ the table

    def prepare(self) -> None:
        """Create the table, or give it the pipeline's columns. Raises CatalogueError."""
        bring_up(self.catalogue, data_table(self.site.pipeline), self.site)

    def refresh(self) -> None:
        """`archive.on_publish`: the window is published whether or not other engines answer."""
        for statement in self.site.pipeline.archive.on_publish:
            try:
                self.catalogue.execute(statement)
                self.site.say(f"on_publish: {statement}")
            except CatalogueError as e:
                self.site.say(f"WARNING: on_publish failed, the window is published all the same: {statement}: {e}")

    def answers(self) -> bool:
        """Whether the endpoint answers at all."""
        try:
            self.catalogue.execute("SHOW DATABASES")
        except TidegateError:
            return False
        return True

    # ------------------------------------------------------------ what readers see

    def publish(self, fence: Fence, location: str) -> Moved | None:
        """One rename into place (or two: R4), the catalogue by intents, read back, `_SUCCESS`."""
        generation, moved = _built(fence), None
        if generation.number > 1 and location == self.home(generation.window):
            moved = swap_in(self, fence, location)
        else:
            if _show_before_move(self, generation, location):
                fence.show(location)
            _move_into_place(self, fence, location)
            fence.show(location)
        partitions.align(self, fence, location)
        write_success(self, generation.window, generation.number, location)
        return moved

    def mend(self, fence: Fence) -> Verified:
        """Hold the generation against its manifest: files, `_SUCCESS`, catalogue.

        Nothing is changed where nothing is wrong: names, times and digests of an intact window stay."""
        generation, storage = fence.generation, self.site.storage
        location = generation.location
        assert location is not None
        listing = {f.path: f.bytes for f in storage.list_files(location) or []}
        manifest = manifest_of(generation.files) | self.beside(location)
        lost = tuple(sorted(path for path, size in manifest.items() if listing.get(path) != size))
        mended: list[str] = []
        if not lost and storage.exists(location) and SUCCESS not in listing:
            write_success(self, generation.window, generation.number, location)
            mended.append("_SUCCESS")
        if not storage.exists(location):
            lost = lost or (location,)
        told = all(size >= 0 for size in manifest.values())  # else nobody can say which files are its own
        for path in strays(listing, manifest) if told else ():
            self.site.say(
                f"WARNING: readers see {join(location, path)}, which is in no manifest; find out who wrote it"
            )
        self.prepare()
        mended += partitions.align(self, fence, location)
        return Verified(tuple(mended), lost)

    def beside(self, location: str) -> dict[str, int]:
        """None: what is not in the manifest is not a generation's. Path -> bytes; -1 of a file that should name others
        and is missing or unreadable."""
        return {}

    def standing(self, key: WindowKey) -> list[str]:
        """Locations of the window's partitions."""
        return list(self.catalogue.partitions(self.name, self.values(key)).values())

    def expected(self, key: WindowKey, files: tuple[FileEntry, ...], location: str) -> Shown:
        """R2: exactly the manifest's partitions."""
        return partitions.wanted(self, key, files, location)

    def shown(self) -> Shown:
        """Every partition of the table. Raises CatalogueMismatch for a table that a publication would refuse."""
        return partitions.shown(self.catalogue, data_table(self.site.pipeline))


def bring_up(catalogue: Catalogue, table: TableDef, site: Site) -> None:
    """The table is there, and has the columns of `table`. Raises CatalogueError.

    No intent is needed: what is added is added once, and a request that arrives late finds it done."""
    try:
        catalogue.ensure_table(table)
    except CatalogueMismatch:
        for line in catalogue.evolve_table(table):
            site.say(f"{table.name}: {line}")
        catalogue.ensure_table(table)


def _built(fence: Fence) -> BuiltGeneration:
    assert isinstance(fence.generation, BuiltGeneration)
    return fence.generation


def _show_before_move(table: Places, generation: BuiltGeneration, location: str) -> bool:
    """R12: readers by path look into the table's own directory, so SWAPPING commits before anything moves there."""
    return location == table.home(generation.window)


def _move_into_place(table: Places, fence: Fence, location: str) -> None:
    generation = _built(fence)
    name = f"window-{generation.directory.rsplit('/', 1)[1]}"
    try:
        move_directory(
            table.site.storage,
            generation.directory,
            location,
            _must_arrive(table, generation, location),
            fence.still_mine,
            table.layout.quarantine(name),
        )
    except Alarm as e:
        fence.block(str(e))
        raise


def _must_arrive(table: Places, generation: BuiltGeneration, location: str) -> dict[str, int]:
    """The certificate is part of it: without it an empty hour would match anything."""
    return manifest_of(generation.files) | _certificate_bytes(table, generation, location)


def _certificate_bytes(table: Places, generation: BuiltGeneration, location: str) -> dict[str, int]:
    for directory in (generation.directory, location):
        listing = table.site.storage.list_files(directory) or []
        found = {f.path: f.bytes for f in listing if f.path == CERTIFICATE}
        if found:
            return found
    return {CERTIFICATE: -1}  # matches nothing


class _ComparedOnce:
    """The catalogue, which compares a table that was right a moment ago no second time: a small window's cost is mostly
    sessions and statements of Hive's. Whoever alters the table in between is met by the next statement, as within one
    publication."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._right: tuple[TableDef, float] | None = None

    def ensure_table(self, table: TableDef) -> None:
        """Raises CatalogueError."""
        if self._right is not None and self._right[0] == table and time.monotonic() - self._right[1] < COMPARED_S:
            return
        self._right = None
        self._catalogue.ensure_table(table)
        self._right = table, time.monotonic()

    def add_partitions(self, table: str, locations: Shown) -> None:
        """Raises CatalogueError; then the table is compared again."""
        right, self._right = self._right, None
        self._catalogue.add_partitions(table, locations)
        self._right = right

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalogue, name)
