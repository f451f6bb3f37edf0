"""A pipeline's table in Iceberg (`core.target.port.Target`): a generation of a window is one commit (C1 to C8).

Files are referenced where they lie; nothing is renamed into the table, and no path is ever used again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from pyiceberg.manifest import DataFile

from tidegate.core.base.errors import Alarm, CatalogueError, StorageAhead
from tidegate.core.base.instants import iso
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.base.renames import Seen, held_against
from tidegate.core.base.wording import many
from tidegate.core.files.receipt import DATA, FileEntry
from tidegate.core.mirror.jobs import Daily
from tidegate.core.spec.pipeline import Fields
from tidegate.core.target.paths import CERTIFICATE, Layout, is_uri, join
from tidegate.core.target.port import Fence, Shown, Token, Unit, Verified
from tidegate.core.window.cut import window_id
from tidegate.core.window.states import BuiltGeneration, Moved, WindowKey
from tidegate.targets.iceberg import live, snapshot
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.complete import claim
from tidegate.targets.iceberg.definition import Definition
from tidegate.targets.iceberg.files import below, data_files, held, part_of, shown
from tidegate.targets.iceberg.in_catalogue import InCatalogue
from tidegate.targets.iceberg.live import Look, newest_token, part_in, places_of, summary_of, unit_of
from tidegate.targets.iceberg.rules import Do, decide
from tidegate.targets.iceberg.tags import tag_of
from tidegate.workflow.base import bounds
from tidegate.workflow.base.listing import present
from tidegate.workflow.base.renames import MovedOn, incomplete, manifest_of, move_directory

OTHERS = "files that Tidegate has not written"
_LYING_IN = ", whose files are those of "


class IcebergTable(InCatalogue):
    """Implements `core.target.port.Target` on a catalogue."""

    unit = Unit.WINDOW
    created_by = "the next publication"
    marks: tuple[str, ...] = ()
    daily: Daily | None = None
    reuses_home = False

    @property
    def definition(self) -> Definition:
        return Definition(self.site.pipeline, DATA)

    @property
    def layout(self) -> Layout:
        """Its paths."""
        return Layout.of(self.site.pipeline)

    def session(self) -> AbstractContextManager[None]:
        """Connections are not kept."""
        return nullcontext()

    def series(self) -> AbstractContextManager[None]:
        """Every publication loads the table anew (C1)."""
        return nullcontext()

    def beside(self, location: str) -> dict[str, int]:
        """None: the table names its files."""
        return {}

    # ------------------------------------------------------------ the table

    def fields(self) -> Fields:
        """(kind of files, path, id) of its columns. Raises CatalogueError."""
        return self.definition.fields(self._load())

    def refresh(self) -> None:
        """Other engines ask the catalogue: none has to be told."""

    def answers(self) -> bool:
        """Whether the catalogue answers at all."""
        return self.catalogue.answers()

    # ------------------------------------------------------------ places

    def values(self, key: WindowKey) -> PartitionValues:
        """The window's start, as windows are named."""
        return ((self.definition.parts[0].name, window_id(key.start_ms)),)

    def home(self, key: WindowKey) -> None:
        """No generation has a place that another can take."""
        return None

    def place(self, generation: BuiltGeneration) -> str:
        """Return a directory that is the generation's alone."""
        if generation.location is not None:
            return generation.location
        if self.layout.in_place:
            return generation.directory
        return self.layout.generation(generation.window.start_ms, generation.number, generation.epoch)

    # ------------------------------------------------------------ what readers see

    def publish(self, fence: Fence, location: str) -> Moved | None:
        """Bring the directory to its place, then commit. Raises Alarm, MovedOn, LostComparison, StorageAhead."""
        generation = fence.generation
        assert isinstance(generation, BuiltGeneration)
        self._bring(fence, generation, location)
        self._commit(fence, location)
        return None

    def _bring(self, fence: Fence, generation: BuiltGeneration, location: str) -> None:
        name = f"window-{generation.directory.rsplit('/', 1)[1]}"
        wanted = manifest_of(generation.files) | self._certificate(generation, location)
        quarantine = self.layout.quarantine(name)
        try:
            if generation.directory == location:
                return  # nothing moves
            move_directory(self.site.storage, generation.directory, location, wanted, fence.still_mine, quarantine)
        except Alarm as e:
            fence.block(str(e))
            raise

    def _certificate(self, generation: BuiltGeneration, location: str) -> dict[str, int]:
        """It is part of what must arrive: without it an empty hour would match anything."""
        for directory in (generation.directory, location):
            for f in self.site.storage.list_files(directory) or []:
                if f.path == CERTIFICATE:
                    return {CERTIFICATE: f.bytes}
        return {CERTIFICATE: -1}  # matches nothing

    def _commit(self, fence: Fence, location: str) -> list[str]:
        """Commit until readers meet the generation; returns what was changed, in words."""
        return self._in_rounds(lambda: self._round(fence, location))

    def _round(self, fence: Fence, location: str) -> list[str]:
        loaded = self._load()
        seen = self._look(loaded, fence.generation.window)
        wanted = self._wanted(fence, loaded, location, seen)
        if isinstance(fence.generation, BuiltGeneration):
            fence.show(location)  # R12; a ledger that lost commits may have forgotten it of one that stands
        if not wanted:
            return []
        self._refuse_if_gone(fence, location)
        if not fence.still_mine():
            raise MovedOn
        fence.refuse_if_ahead()  # C8: tokens expire, records do not
        self._replace(fence, loaded, seen, location)
        return [f"committed {many(len(fence.generation.files), 'file')}"]

    def _refuse_if_gone(self, fence: Fence, location: str) -> None:
        """Where files are named where they lie, no rename notices that one is gone: a ledger that lost commits may have
        taken the generation back, had its files cleaned, and forgotten it. Asked after the load and before the ledger.

        Raises MovedOn, Alarm."""
        generation, storage = fence.generation, self.site.storage
        if not self.layout.in_place and not any(is_uri(f.path) for f in generation.files):
            return
        manifest = manifest_of(generation.files)
        if isinstance(generation, BuiltGeneration):
            manifest |= self._certificate(generation, location)
        if held_against(manifest, present(storage, location, manifest).items()) is Seen.MATCHES:
            return
        if not fence.still_mine():  # R10: before any alarm
            raise MovedOn
        alarm = incomplete(storage, location, manifest)
        fence.block(str(alarm))
        raise alarm

    def _wanted(self, fence: Fence, loaded: Loaded, location: str, seen: Look) -> bool:
        """Whether a commit is needed. Raises StorageAhead, CatalogueError, and MovedOn before either (R10)."""
        generation = fence.generation
        mine, newest = Token.of(generation), newest_token(loaded.metadata, generation.window.start_ms)
        # a generation in force may be brought back, even if others wrote the files that are there
        first = generation.number == 1 and isinstance(generation, BuiltGeneration)
        foreign = first and not all(self._is_ours(f) for f in seen.files)
        compared = held(self.definition, seen, below(location, generation.files))
        todo = decide(mine, newest, compared, foreign)
        if todo in (Do.STOP, Do.REFUSE) and not fence.still_mine():
            raise MovedOn
        at = f"{self.name} {iso(generation.window.start_ms)}"
        if todo is Do.STOP:
            assert newest is not None
            raise StorageAhead(
                f"{at}: the table shows generation {newest.generation} (epoch {newest.epoch}), the ledger is at "
                f"generation {mine.generation} (epoch {mine.epoch})"
            )
        if todo is Do.REFUSE:
            raise CatalogueError(
                f"{at}: {many(len(seen.files), 'file')} stand for the window that Tidegate has not published, the "
                f"first is {seen.files[0].file_path}",
                advice=f"find out who wrote them; delete these rows (DELETE FROM {self.name} WHERE _window = TIMESTAMP "
                f"'{iso(generation.window.start_ms)}'), or give the pipeline another table; then clear the task",
            )
        return todo is Do.COMMIT

    def _is_ours(self, file: DataFile) -> bool:
        """Whether it lies where a generation's files do, by its name alone."""
        if self.layout.in_place:
            return self.layout.attempt_of(file.file_path) is not None
        return file.file_path.startswith(f"{self.layout.generations()}/")

    def _replace(self, fence: Fence, loaded: Loaded, seen: Look, location: str) -> None:
        generation = fence.generation
        token, rows = Token.of(generation), sum(f.rows for f in generation.files)
        complete = claim(self.site.pipeline.windows, loaded, fence)
        known = {join(location, path): of for path, of in bounds.read(self.site.storage, location).items()}
        added = data_files(self.definition, loaded.metadata, below(location, generation.files), known)
        said = summary_of(token, rows, location) | complete.said
        changed = snapshot.replaced(loaded.metadata, loaded.io, seen, added, said, tag_of(token))
        self.catalogue.commit(loaded, (), complete.updates(changed))

    def mend(self, fence: Fence) -> Verified:
        """Hold the generation against its manifest: its files in storage, and what the table shows of the window."""
        generation = fence.generation
        assert generation.location is not None
        manifest = manifest_of(generation.files)
        listing = present(self.site.storage, generation.location, manifest)
        lost = tuple(sorted(path for path, size in manifest.items() if listing.get(path) != size))
        self.prepare()
        return Verified(() if lost else tuple(self._commit(fence, generation.location)), lost)

    def standing(self, key: WindowKey) -> list[str]:
        """Return the directories of the window's live files."""
        seen = self._look(self._load(), key)
        return sorted({f.file_path.rsplit("/", 1)[0] for f in seen.files})

    def agrees(self, expected: str, shown: str) -> bool:
        """C9: of files that others have made from ours, only the number of rows is known; and once its token has
        expired, of a generation that has an earlier one's files, only where these lie."""
        what, _, rows = expected.partition(" (")
        return shown in {f"{one} ({rows}" for one in (*what.split(_LYING_IN), OTHERS)}

    def expected(self, key: WindowKey, files: tuple[FileEntry, ...], location: str) -> Shown:
        """Return the rows of each part of the window, and their generation."""
        name = location.rsplit("/", 1)[-1]

        def what(file: FileEntry) -> str:
            lies_in = self._lies_in(join(location, file.path)) or name
            return name if lies_in == name else f"{name}{_LYING_IN}{lies_in}"

        return shown(self.definition, ((part_of(self.definition, f), what(f), f.rows) for f in files))

    def shown(self) -> Shown:
        """Return the rows of each part of the table, and their generation; rows in files that others wrote, as a
        compaction does (C9), count for the window's newest publication."""
        loaded = self._as_made()
        seen = live.look(loaded.metadata, loaded.io, None)
        newest = places_of(loaded.metadata)

        def what(file: DataFile) -> str:
            return newest.get(unit_of(loaded.metadata, file) // 1000) or self._lies_in(file.file_path) or OTHERS

        return shown(self.definition, ((part_in(f), what(f) + seen.note(f), f.record_count) for f in seen.files))

    def _lies_in(self, uri: str) -> str | None:
        """The name of the generation whose own directory the file is in, if it is in one."""
        found = self.layout.generation_of(uri)
        return None if found is None else found[0].rsplit("/", 1)[1]

    def _look(self, loaded: Loaded, key: WindowKey) -> Look:
        return live.look(loaded.metadata, loaded.io, {key.start_ms * 1000})
