"""A kind of table in memory, without Hive's ways: a window is a pointer that turns at once, known by its token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from tidegate.core.base.errors import Alarm, CatalogueError, CatalogueUnsure
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.files.receipt import FileEntry
from tidegate.core.spec.pipeline import Fields
from tidegate.core.target.paths import Layout, join
from tidegate.core.target.port import BATCH, Batches, Fence, Holds, Settled, Shown, Site, Token, Unit, Verified
from tidegate.core.window.states import BuiltGeneration, Moved, WindowKey
from tidegate.workflow.base.renames import manifest_of, move_directory


@dataclass
class FakeTargets:
    """Implements `core.target.port.Targets`; `commit` is the one request that changes what readers see."""

    windows: dict[int, tuple[Token, str]] = field(default_factory=dict)
    sides: dict[str, Shown] = field(default_factory=lambda: {"late": {}, "dirty": {}})

    def data(self, site: Site) -> FakeTarget:
        return FakeTarget(site, self)

    def side(self, site: Site, kind: str) -> FakeSide:
        return FakeSide(site, self, kind)

    def commit(self, token: Token, place: str) -> None:
        """Refuses an older token: a request that comes late changes nothing."""
        there = self.windows.get(token.unit)
        if there is not None and (there[0].generation, there[0].epoch) > (token.generation, token.epoch):
            raise CatalogueError(f"generation {there[0].generation} is there already")
        self.windows[token.unit] = token, place

    def show(self, kind: str, shown: Shown) -> None:
        self.sides[kind] |= shown

    def hide(self, kind: str, gone: Shown) -> None:
        for values in gone:
            self.sides[kind].pop(values, None)


class FakeTarget:
    """Implements `core.target.port.Target`."""

    unit = Unit.WINDOW
    marks = ()
    daily = None

    def beside(self, location: str) -> dict[str, int]:
        return {}

    def __init__(self, site: Site, catalogue: FakeTargets) -> None:
        self.site, self.catalogue = site, catalogue

    @property
    def name(self) -> str:
        return self.site.pipeline.sink.table

    def session(self) -> AbstractContextManager[None]:
        return nullcontext()

    def series(self) -> AbstractContextManager[None]:
        return nullcontext()

    def prepare(self) -> None: ...

    def fields(self) -> Fields:
        return ()

    def refresh(self) -> None: ...

    def agrees(self, expected: str, shown: str) -> bool:
        return expected == shown

    def sweep(self, settled: Settled) -> list[str]:
        return []

    def leftovers(self, now_ms: int) -> list[str]:
        return []

    def answers(self) -> bool:
        return True

    def values(self, key: WindowKey) -> PartitionValues:
        return (("window", str(key.start_ms)),)

    def home(self, key: WindowKey) -> None:
        return None

    reuses_home = False

    def place(self, generation: BuiltGeneration) -> str:
        if generation.location is not None:
            return generation.location
        layout = Layout.of(self.site.pipeline)
        return layout.generation(generation.window.start_ms, generation.number, generation.epoch)

    def publish(self, fence: Fence, location: str) -> Moved | None:
        generation = fence.generation
        assert isinstance(generation, BuiltGeneration)
        wanted = manifest_of(generation.files)
        quarantine = Layout.of(self.site.pipeline).quarantine(f"window-{generation.window.start_ms}")
        try:
            move_directory(self.site.storage, generation.directory, location, wanted, fence.still_mine, quarantine)
        except Alarm as e:
            fence.block(str(e))
            raise
        fence.show(location)
        self._turn(fence, location)
        return None

    def _turn(self, fence: Fence, location: str) -> list[str]:
        token = Token.of(fence.generation)
        if self.catalogue.windows.get(token.unit) == (token, location):
            return []
        call = fence.declare(location)
        try:
            self.catalogue.commit(token, location)
        except CatalogueUnsure:
            raise
        except CatalogueError:
            fence.answer(call)
            raise
        fence.answer(call)
        return [f"the window is at {location}"]

    def standing(self, key: WindowKey) -> list[str]:
        there = self.catalogue.windows.get(key.start_ms)
        return [] if there is None else [there[1]]

    def mend(self, fence: Fence) -> Verified:
        location = fence.generation.location or ""
        listing = {f.path: f.bytes for f in self.site.storage.list_files(location) or []}
        lost = tuple(p for p, size in manifest_of(fence.generation.files).items() if listing.get(p) != size)
        return Verified(tuple(self._turn(fence, location)), lost)

    def expected(self, key: WindowKey, files: tuple[FileEntry, ...], location: str) -> Shown:
        return {self.values(key): location}

    def shown(self) -> Shown:
        return {(("window", str(start)),): place for start, (_, place) in self.catalogue.windows.items()}


class FakeSide:
    """Implements `core.target.port.SideTarget`."""

    unit = Unit.BATCH
    remedy = "show it again"

    def __init__(self, site: Site, catalogue: FakeTargets, kind: str) -> None:
        self.site, self.catalogue, self.kind = site, catalogue, kind

    @property
    def name(self) -> str:
        return f"{self.site.pipeline.sink.table}__{self.kind}"

    def prepare(self) -> None: ...

    def fields(self) -> Fields:
        return ()

    def publish(self, batches: Batches, holds: Holds) -> None:
        self.catalogue.show(self.kind, self.expected(batches))

    def retire(self, batches: Batches, holds: Holds) -> None:
        self.catalogue.hide(self.kind, self.expected(batches))

    def agrees(self, expected: str, shown: str) -> bool:
        return expected == shown

    def sweep(self, settled: Settled) -> list[str]:
        return []

    def leftovers(self, now_ms: int) -> list[str]:
        return []

    def expected(self, batches: Batches) -> Shown:
        return dict(self._parts(batches))

    def _parts(self, batches: Batches) -> Iterator[tuple[PartitionValues, str]]:
        layout = Layout.of(self.site.pipeline)
        for batch_id, files in batches.items():
            for f in files:
                folder = f.path.removeprefix(f"{self.kind}/").rpartition("/")[0]
                values = ((BATCH, str(batch_id)), ("folder", folder))
                yield values, join(layout.side(batch_id, self.kind), folder)

    def shown(self) -> Shown:
        return dict(self.catalogue.sides[self.kind])
