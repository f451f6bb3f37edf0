"""`swap: directory`: the next generation takes the hour's own directory; foreign hands, other modes and readers."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hooks import Died
from tests.publish.swaps import KEY, VALUES, Kept, Life, Reader, assert_three_is_published, changing, two_swaps, whole
from tidegate.core.base.errors import Alarm
from tidegate.core.base.renames import Seen
from tidegate.core.spec.compatibility import incompatible
from tidegate.core.target.paths import join
from tidegate.storage.local import LocalStorage
from tidegate.targets.hive.swap_steps import Do, Hour, decide
from tidegate.workflow.publish import publication, verification


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


def wait_for(readers: list[DiskReader], generation: int) -> None:
    """Until each of them has met it."""
    end = time.monotonic() + 120
    for reader in readers:
        while (not reader.seen or reader.seen[-1] != generation) and time.monotonic() < end:
            reader.join(0.01)


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
    wait_for(readers, 2)
    last = 8
    for number in range(3, last + 1):
        life.build(number, VALUES[number % 3 + 1])
        life.publish(number)
        life.world.close()
    wait_for(readers, last)
    for reader in readers:
        reader.stop.set()
        reader.join()
    for reader in readers:
        assert reader.mixes == []
        assert reader.seen == sorted(reader.seen), "an older generation came back"
        assert len(set(reader.seen)) > 1
