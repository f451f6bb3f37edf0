"""An hour whose generations take each other's directory, what its readers see, and what must hold at the end."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.calls import LOOKS, Calls
from tests.fakes.storage import MemoryStorage
from tests.hooks import Died
from tests.world import World, make_pipeline, record, window
from tidegate.core.base.errors import TidegateError
from tidegate.core.files.receipt import DATA, FileEntry, PartitionRows
from tidegate.core.target.paths import join
from tidegate.core.window.states import BuildingGeneration, BuiltGeneration, PublishedGeneration
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.generation import assembly
from tidegate.workflow.publish import publication

KEY = window(0)
TRIES = 6
VALUES = {1: ("a", "b"), 2: ("b", "c"), 3: ("a", "c")}


class Life:
    """A pipeline whose hour 0 is published by the real protocol; later generations are made of files of one line."""

    def __init__(self, folder: Path, swap: str = "directory") -> None:
        self.storage = MemoryStorage()
        self.calls = Calls(self.storage, on=False)
        pipeline = make_pipeline(f"file://{folder}/lake/readings")
        pipeline = replace(pipeline, archive=replace(pipeline.archive, swap=swap))
        self.world = World(folder, pipeline, lambda name, port: self.calls if name == "storage" else port)

    def first_generation(self) -> None:
        self.world.produce(record("a0", 0.1), record("b0", 0.5, "b"), record("later", 2.5))
        self.world.produce(record("x", 2.5), partition=1)
        self.world.ingest("r1")
        self.world.archive(0)

    @property
    def hour(self) -> str:
        return f"{self.world.location}/date=2013-01-05/hour=00"

    def build(self, number: int, values: tuple[str, ...] | None = None) -> BuiltGeneration:
        """Generation `number` BUILT, with one file for each of `values` of the dynamic partition."""
        ctx = self.world.context()
        windows = ctx.ledger.windows
        assert windows.begin_generation(ctx.name, KEY, windows.get(ctx.name, KEY).newest, "heal") == number
        taken = windows.take(ctx.name, KEY, number, "n")
        entries, sources = [], {}
        for value in VALUES[number] if values is None else values:
            content = f"generation {number}".encode()
            path = f"site={value}/g{number}.parquet"
            source = join(ctx.layout.attempts(), f"job-{number}", path)
            self.storage.write_new(source, content)
            part = PartitionRows(0, 1, 0, 0)
            entries.append(
                FileEntry(
                    path=path,
                    kind=DATA,
                    window_ms=KEY.start_ms,
                    values=(("site", value),),
                    rows=1,
                    bytes=len(content),
                    min_event_ms=0,
                    max_event_ms=0,
                    checksum=number,
                    partitions=(part,),
                )
            )
            sources[path] = (source,)
        return assembly.collect(ctx, taken, entries, sources)

    def publish(self, number: int) -> PublishedGeneration:
        """As a scheduler does: tries until it is done, each later than any request of the one before can live."""
        failed: list[str] = []
        for _ in range(TRIES):
            ctx = self.world.context()
            try:
                generation = ctx.ledger.windows.generation(ctx.name, KEY, number)
                if isinstance(generation, PublishedGeneration):
                    return generation
                assert not isinstance(generation, BuildingGeneration)
                return publication.publish(ctx, generation)
            except (MovedOn, Died) as e:
                failed.append(type(e).__name__)
            except TidegateError as e:
                if not e.retry:
                    raise AssertionError(f"a human would be needed: {e}") from e
                failed.append(str(e))
            self.world.close()
            self.world.clock.advance(REQUEST_TTL_MS + 1)
        raise AssertionError(f"generation {number} is not published after {TRIES} tries: {failed}")

    # ------------------------------------------------------------ what readers see

    def by_path(self) -> dict[str, str] | None:
        """Partition folder -> content of its data files, of the table's own directory; None while it is absent."""
        return self._read(self.hour)

    def by_catalogue(self) -> dict[str, str]:
        found = {}
        for values, place in self.world.catalogue.partitions(
            "lake.readings", (("date", "2013-01-05"), ("hour", "00"))
        ).items():
            for text in (self._read(place) or {}).values():
                found[f"site={dict(values)['site']}"] = text
        return found

    def certified(self) -> int:
        """Number of the generation in the hour, by its certificate."""
        return json.loads(self.storage.read(f"{self.hour}/_certificate.json"))["generation"]

    def _read(self, directory: str) -> dict[str, str] | None:
        listing = self.storage.list_files(directory)
        if listing is None:
            return None
        found = {}
        for f in listing:
            if not f.path.rsplit("/", 1)[-1].startswith("_"):
                content = self.storage.read(join(directory, f.path))
                found[f.path.rpartition("/")[0]] = "generation 1" if content[:4] == b"PAR1" else content.decode()
        return found

    def blocked(self) -> str | None:
        ledger = self.world.context().ledger
        found = ledger.reads.window("readings", KEY).window
        self.world.close()
        return found and found.blocked


def whole(number: int) -> dict[str, str]:
    return {f"site={v}": f"generation {number}" for v in VALUES[number]}


@dataclass
class Kept:
    """A life to go back to."""

    life: Life
    folder: Path
    generation: dict[int, BuiltGeneration]

    @classmethod
    def of(cls, life: Life, folder: Path) -> Kept:
        life.world.close()
        shutil.copy(life.world.database, folder / "kept.db")
        return cls(life, folder, {})

    def again(self, **faults: Any) -> Life:
        life = Life.__new__(Life)
        life.storage = MemoryStorage()
        life.storage._root = copy.deepcopy(self.life.storage._root)
        life.calls = Calls(life.storage, **faults)
        world = self.life.world
        life.world = World(world.folder, world.pipeline, lambda name, port: life.calls if name == "storage" else port)
        life.world.catalogue = copy.deepcopy(world.catalogue)
        life.world.clock = copy.deepcopy(world.clock)
        shutil.copy(self.folder / "kept.db", life.world.database)
        return life


def two_swaps(life: Life) -> None:
    """Generation 2 is published, then 3 is built and published."""
    life.publish(2)
    life.calls.on = False
    life.build(3)
    life.calls.on = True
    life.publish(3)
    life.world.close()


class Reader:
    """Looks by path and by catalogue: one generation, whole by path, or an absent hour; never an older one again."""

    def __init__(self, life: Life) -> None:
        self._life, self.seen, self.absent = life, [1], 0

    def __call__(self) -> None:
        found = self._life.by_path()
        if found is None:
            self.absent += 1
        else:
            texts = set(found.values())
            assert len(texts) == 1, f"a mix by path: {found}"
            number = int(texts.pop().split()[1])
            assert found == whole(number), f"not whole: {found}"
            assert number >= self.seen[-1], f"generation {number} came back after {self.seen}"
            self.seen.append(number)
        shown = self._life.by_catalogue()
        assert len(set(shown.values())) <= 1, f"a mix by catalogue: {shown}"


def assert_three_is_published(life: Life) -> None:
    assert life.by_path() == life.by_catalogue() == whole(3)
    assert life.storage.exists(f"{life.hour}/_SUCCESS")
    assert life.blocked() is None
    ctx = life.world.context()
    lie = {n: ctx.ledger.windows.generation(ctx.name, KEY, n) for n in (1, 2, 3)}
    assert [lie[n].state for n in (1, 2, 3)] == ["RETIRED", "RETIRED", "CURRENT"]
    assert lie[3].location == life.hour
    for n in (1, 2):
        assert life._read(lie[n].location) == whole(n), f"generation {n} does not lie where the ledger says"
    life.world.close()


def changing(calls: list[str]) -> list[int]:
    """Numbers of the calls that change something: a death at a look is one before the next of them."""
    return [n for n, method in enumerate(calls) if method not in LOOKS]
