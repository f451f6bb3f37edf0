"""`swap: directory`: the next generation takes the hour's own directory; late requests, deaths and readers (R4)."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.calls import LOOKS, Calls
from tests.fakes.storage import MemoryStorage
from tests.hooks import Died
from tests.world import World, make_pipeline, record, window
from tidegate.adapters.storage.local import LocalStorage
from tidegate.core.compatibility import incompatible
from tidegate.core.errors import Alarm, CatalogueUnsure, PathExists, TidegateError
from tidegate.core.layout import join
from tidegate.core.receipt import DATA, FileEntry, PartitionRows
from tidegate.core.recovery import Seen
from tidegate.core.swap import Do, Hour, decide
from tidegate.core.window import BuildingGeneration, BuiltGeneration, PublishedGeneration
from tidegate.workflow import assembly, publication, verification
from tidegate.workflow.context import REQUEST_TTL_MS
from tidegate.workflow.moves import MovedOn

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
                FileEntry(path, DATA, KEY.start_ms, (("site", value),), 1, len(content), 0, 0, number, (part,))
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


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Generation 1 is published, generation 2 is built."""
    folder = tmp_path_factory.mktemp("swap")
    life = Life(folder)
    life.first_generation()
    life.build(2)
    return Kept.of(life, folder)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path)
    made.first_generation()
    yield made
    made.world.close()


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


# ---------------------------------------------------------------- the rule


@pytest.mark.parametrize("built", Seen)
@pytest.mark.parametrize("taken", [None, False, True])
@pytest.mark.parametrize("hour", Hour)
def test_the_table_of_steps(built: Seen, taken: bool | None, hour: Hour) -> None:
    do = decide(built, taken, hour)
    if hour is Hour.NEW:
        assert do is Do.DONE
    elif hour is Hour.DAMAGED or built is not Seen.MATCHES:
        assert do.is_alarm, "nothing moves before the new generation is seen whole"
    elif hour is Hour.ABSENT:
        assert do is (Do.RESERVE if taken is False else Do.PLACE), "placed only when the retired place is taken"
    else:
        assert do is (Do.RETIRE if taken is False else Do.ALARM_FOREIGN)


# ---------------------------------------------------------------- the happy path


def test_the_hour_is_the_new_generation_and_the_old_one_lies_where_the_ledger_says(kept: Kept) -> None:
    life = kept.again()
    reader = life.calls.watch = Reader(life)
    two_swaps(life)
    life.calls.watch = lambda: None
    assert_three_is_published(life)
    assert set(reader.seen) == {1, 2, 3}
    assert reader.absent


def test_locations_in_the_catalogue_do_not_change(kept: Kept) -> None:
    life = kept.again()
    before = life.world.catalogue.partitions("lake.readings")
    life.publish(2)
    after = life.world.catalogue.partitions("lake.readings")
    both = set(before) & set(after)
    assert {dict(v)["site"] for v in both} == {"b"}
    assert {dict(v)["site"] for v in after} == {"b", "c"}
    assert {v: before[v] for v in both} == {v: after[v] for v in both}


# ---------------------------------------------------------------- late requests and deaths


def changing(calls: list[str]) -> list[int]:
    """Numbers of the calls that change something: a death at a look is one before the next of them."""
    return [n for n, method in enumerate(calls) if method not in LOOKS]


def pairs(calls: list[str]) -> list[tuple[int, int]]:
    """(a changing call that gets no answer, any later call before which it is executed)."""
    return [(late, until) for late in changing(calls) for until in range(late + 1, len(calls) + 4)]


def test_r4_a_request_that_is_executed_at_any_later_moment_does_no_harm(kept: Kept, rng: random.Random) -> None:
    reference = kept.again()
    two_swaps(reference)
    cases = pairs(reference.calls.made)
    assert {"rename_no_replace", "make_dirs", "write_new"} <= {reference.calls.made[late] for late, _ in cases}
    for late, until in rng.sample(cases, 40):
        life = kept.again(late=late, until=until)
        life.calls.watch = Reader(life)
        try:
            two_swaps(life)
            life.calls.watch = lambda: None
            assert_three_is_published(life)
        except AssertionError as e:
            method = reference.calls.made[late]
            raise AssertionError(f"call {late} ({method}) executed before call {until}: {e}") from e


def test_a_death_at_any_call_heals(kept: Kept) -> None:
    reference = kept.again()
    two_swaps(reference)
    for dies in changing(reference.calls.made):
        life = kept.again(dies=dies)
        life.calls.watch = Reader(life)
        two_swaps(life)
        life.calls.watch = lambda: None
        assert_three_is_published(life)


def test_a_late_request_cannot_take_what_replaced_a_deleted_hour(kept: Kept) -> None:
    """The old generation's rename is on its way, somebody deletes the hour: its place is taken before the new comes."""
    reference = kept.again()
    reference.publish(2)
    life = kept.again(late=reference.calls.made.index("rename_no_replace"), until=-1)

    def somebody_deletes_it() -> None:
        if life.calls.owed is not None and life.by_path() == whole(1):
            life.storage.delete(life.hour)

    life.calls.watch = somebody_deletes_it
    life.publish(2)
    assert life.calls.owed is not None
    with pytest.raises(PathExists):
        life.calls.owed()
    assert life.by_path() == life.by_catalogue() == whole(2)


def test_a_generation_that_was_given_up_moves_nothing(kept: Kept) -> None:
    """Its zombie read BUILT, before a newer replay was asked for."""
    life = kept.again()
    ctx = life.world.context()
    built = ctx.ledger.windows.generation("readings", KEY, 2)
    life.world.context().ledger.windows.discard(built, "a newer replay was asked for")  # type: ignore[arg-type]
    with pytest.raises(MovedOn):
        publication.publish(ctx, built)  # type: ignore[arg-type]
    assert life.by_path() == life.by_catalogue() == whole(1)


def test_without_r4_a_late_request_hides_the_hour(kept: Kept) -> None:
    """What the rule is for: a cleaner that removes the retired place frees a name that a request may still want."""
    for cleaned, hidden in ((True, True), (False, False)):
        life = kept.again()
        two_swaps(life)
        retired = life.world.context().ledger.windows.generation("readings", KEY, 2).location
        life.storage.delete(retired)
        if not cleaned:
            life.storage.make_dirs(retired)  # what the rule asks for: the content goes, the name stays taken
        try:
            life.storage.rename_no_replace(life.hour, retired)  # the request of the swap to generation 3, late
        except TidegateError:
            pass
        assert (life.by_path() is None) == hidden


def test_a_late_drop_of_one_generation_cannot_hide_rows_of_the_next(kept: Kept) -> None:
    """R8: both generations have the same location, so intents are told apart by the generation."""
    life = kept.again()
    owed: list[Callable[[], None]] = []
    catalogue = life.world.catalogue
    drop = catalogue.drop_partitions

    def unanswered(table: str, values: list) -> None:
        owed.append(lambda: drop(table, values))
        raise CatalogueUnsure("no answer")

    catalogue.drop_partitions = unanswered  # type: ignore[method-assign]
    ctx = life.world.context()
    with pytest.raises(CatalogueUnsure):
        publication.publish(ctx, ctx.ledger.windows.generation("readings", KEY, 2))  # type: ignore[arg-type]
    catalogue.drop_partitions = drop  # type: ignore[method-assign]
    ctx = life.world.context()
    publication.publish(ctx, ctx.ledger.windows.generation("readings", KEY, 2))  # type: ignore[arg-type]
    life.build(3)
    ctx = life.world.context()
    three = ctx.ledger.windows.generation("readings", KEY, 3)
    with pytest.raises(CatalogueUnsure, match="no answer"):
        publication.publish(ctx, three)  # type: ignore[arg-type]
    assert life.by_path() == whole(2), "nothing moves while the old DROP may still come"
    owed[0]()
    life.world.clock.advance(REQUEST_TTL_MS + 1)
    life.publish(3)
    assert_three_is_published(life)


# ---------------------------------------------------------------- foreign hands, healing, other modes


def test_an_hour_that_was_deleted_heals(life: Life) -> None:
    life.storage.delete(life.hour)
    life.build(2)
    life.publish(2)
    assert life.by_path() == life.by_catalogue() == whole(2)
    ctx = life.world.context()
    old = ctx.ledger.windows.generation("readings", KEY, 1)
    assert life.storage.list_files(old.location) == [], "its name is taken all the same"


def test_an_hour_with_a_lost_file_heals(life: Life) -> None:
    lost = next(f.path for f in life.storage.list_files(life.hour) or [] if f.path.endswith(".parquet"))
    life.storage.delete(join(life.hour, lost))
    life.build(2)
    life.publish(2)
    assert life.by_path() == life.by_catalogue() == whole(2)


def test_what_the_ledger_does_not_know_is_not_touched(life: Life) -> None:
    life.build(2)
    ctx = life.world.context()
    generation = ctx.ledger.windows.generation("readings", KEY, 2)
    life.storage.make_dirs(ctx.layout.generation(KEY.start_ms, 1, 1))  # its retired place is taken by somebody
    with pytest.raises(Alarm, match="does not know"):
        publication.publish(ctx, generation)  # type: ignore[arg-type]
    assert life.by_path() == whole(1)
    assert life.blocked() is not None


def test_an_incomplete_generation_never_replaces_one(life: Life) -> None:
    built = life.build(2)
    life.storage.delete(join(built.directory, built.files[0].path))
    with pytest.raises(Alarm, match="incomplete"):
        publication.publish(life.world.context(), built)
    assert life.by_path() == whole(1)


@pytest.mark.parametrize("first", ["pointer", "directory"])
def test_the_mode_may_change_at_any_call(tmp_path: Path, first: str, rng: random.Random) -> None:
    """A swap that has begun ends where it was to end; the next one goes by the new mode."""
    life = Life(tmp_path, first)
    life.first_generation()
    life.build(2)
    kept = Kept.of(life, tmp_path)
    reference = kept.again()
    reference.publish(2)
    other = "directory" if first == "pointer" else "pointer"
    changed = replace(life.world.pipeline, archive=replace(life.world.pipeline.archive, swap=other))
    assert incompatible(life.world.pipeline, changed) == []
    for dies in rng.sample(changing(reference.calls.made), 4):
        again = kept.again(dies=dies)
        ctx = again.world.context()
        generation = ctx.ledger.windows.generation("readings", KEY, 2)
        with pytest.raises(Died):
            publication.publish(ctx, generation)  # type: ignore[arg-type]
        for number, mode in ((2, other), (3, first), (4, other), (5, other)):
            again.world.change_spec(archive=replace(again.world.pipeline.archive, swap=mode))
            if number > 2:
                again.build(number, ("a", "c"))
            published = again.publish(number)
            assert again.by_catalogue() == again._read(published.location)
            assert (published.location == again.hour) == (again.by_path() == again.by_catalogue())
        assert again.blocked() is None


def test_clear_on_a_swapped_window_verifies_it(kept: Kept) -> None:
    life = kept.again()
    published = life.publish(2)
    assert verification.verify(life.world.context(), published) == verification.Verified((), ())
    life.storage.delete(f"{life.hour}/_SUCCESS")
    gone = [v for v in life.world.catalogue.partitions("lake.readings") if dict(v)["site"] == "c"]
    life.world.catalogue.drop_partitions("lake.readings", gone)
    found = verification.verify(life.world.context(), published)
    assert found.lost_files == ()
    assert len(found.mended) == 2
    assert life.by_path() == life.by_catalogue() == whole(2)


def test_an_empty_generation_replaces_rows_and_rows_replace_it(life: Life) -> None:
    """Two empty generations have the same (empty) manifest: only the certificate tells them apart."""
    for number, values in ((2, ()), (3, ()), (4, ("a", "c"))):
        life.build(number, values)
        life.publish(number)
        shown = {f"site={v}": f"generation {number}" for v in values}
        assert life.by_path() == life.by_catalogue() == shown
        assert life.certified() == number


# ---------------------------------------------------------------- readers on a real disk


class DiskReader(threading.Thread):
    """Lists all files, then reads them, again and again; an error of the filesystem is a try that failed."""

    def __init__(self, places: Callable[[], list[str]]) -> None:
        super().__init__(daemon=True)
        self._places, self.stop = places, threading.Event()
        self.seen: list[int] = []
        self.failed, self.mixes = 0, []  # type: int, list[set[str]]

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                listed = [Path(d, name) for place in self._places() for d, _, names in os.walk(place) for name in names]
                texts = {path.read_text() for path in listed if path.suffix == ".parquet"}
            except OSError:
                self.failed += 1
                continue
            if len(texts) > 1:
                self.mixes.append(texts)
            elif texts:
                self.seen.append(int(texts.pop().split()[1]))


def test_readers_who_list_and_then_read_never_meet_two_generations(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.storage = life.calls.storage = LocalStorage()  # type: ignore[assignment]
    life.first_generation()
    life.build(2)
    life.publish(2)
    life.world.close()
    hour = life.hour.removeprefix("file://")
    readers = [
        DiskReader(lambda: [hour]),
        DiskReader(lambda: [p.removeprefix("file://") for p in life.world.partitions("lake.readings").values()]),
    ]
    for reader in readers:
        reader.start()
    last = 8
    for number in range(3, last + 1):
        life.build(number, VALUES[number % 3 + 1])
        life.publish(number)
        life.world.close()
    for reader in readers:
        patience = 3000
        while (not reader.seen or reader.seen[-1] != last) and (patience := patience - 1):
            reader.join(0.01)
        reader.stop.set()
        reader.join()
    for reader in readers:
        assert reader.mixes == []
        assert reader.seen == sorted(reader.seen), "an older generation came back"
        assert len(set(reader.seen)) > 1
