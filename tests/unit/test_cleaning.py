"""Cleaning against the whole product: what may go goes, what somebody may need stays, whatever happens meanwhile."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hooks import Died, Hook, Once, die
from tests.unit.test_audit import in_process
from tests.world import HOUR, T0, World, record, window
from tidegate.core.errors import CatalogueError, StorageAhead, StorageError
from tidegate.core.pipeline import Cleaning, Column
from tidegate.workflow import archive, ingest, reconcile, replay
from tidegate.workflow.audit import audit
from tidegate.workflow.cleaning import Cleaned, clean
from tidegate.workflow.context import Context

DAY = 24 * HOUR


class Kept:
    """Worlds as they were at some moment, again and again in the same folder: locations are absolute."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._kept, self._last = folder, {}, None

    def world(self, story: Callable[[World], None]) -> World:
        place = self._folder / "world"
        if self._last is not None:
            self._last.close()
        shutil.rmtree(place, ignore_errors=True)
        before = self._folder / story.__name__
        if not before.exists():
            place.mkdir()
            made = World(place)
            story(made)
            made.close()
            shutil.copytree(place, before)
            state = (made.kafka, made.catalogue, made.clock, made.pipeline)
            self._kept[before] = tuple(copy.deepcopy(s) for s in state)
            shutil.rmtree(place)
        shutil.copytree(before, place)
        made = World(place)
        shutil.copy(before / "ledger.db", made.database)
        made.kafka, made.catalogue, made.clock, made.pipeline = (copy.deepcopy(s) for s in self._kept[before])
        self._last = made
        return made


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("cleaning"))


@pytest.fixture
def world(kept: Kept) -> Iterator[World]:
    made = kept.world(first_life)
    yield made
    made.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def work(world: World, *parts: str) -> list[str]:
    """Names in a folder of the work directory."""
    folder = world.folder.joinpath("lake/readings/_tidegate", *parts)
    return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []


def hour_files(world: World, hour: int) -> list[str]:
    folder = world.folder / f"lake/readings/date=2013-01-05/hour={hour:02}"
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def days_later(world: World, days: float, **options: Any) -> Cleaned:
    world.clock.advance(int(days * DAY))
    found = clean(world.context(), **options)
    world.close()
    return found


def other_columns(world: World, source: str) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", f"$.{source}")))


def keep_for(world: World, **ttl: int | None) -> None:
    world.change_spec(clean=replace(Cleaning(), **ttl))


def first_life(world: World) -> None:
    """Batches 1 and 2 have landed, hours 0 and 1 are published; batch 2 brought a late row, batch 1 a dirty one."""
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.produce(record("late", 0.7), record("b1", 1.9), record("c1", 2.5))
    world.produce(record("f0", 5.0), partition=1)
    world.ingest("r2")
    world.archive(1)


def audited(world: World) -> list[str]:
    ctx = world.context()
    problems = [str(p) for p in audit(ctx, ctx.ledger.reads, in_process).problems]
    world.close()
    return problems


def readers(world: World) -> tuple:
    return world.by_window(), world.table("__late"), world.table("__dirty")


# ---------------------------------------------------------------- what goes


def test_a_landed_batch_goes_once_its_rows_are_in_the_tables(world: World) -> None:
    assert days_later(world, 8).lines() == ["cleaned: 2 plans"]
    world.archive(2)
    world.produce(record("f1", 5.1))
    world.ingest("r3")
    before = readers(world)
    found = days_later(world, 0)
    assert [(i.kind, i.path.rsplit("/", 1)[1]) for i in found.deleted] == [("landed", "1")]
    assert (work(world, "landed"), work(world, "hwm")) == (["2", "3"], ["1", "2", "3", "published"])
    assert world.context().ledger.cleaning.batches("readings", [1, 2])[1].cleaned_ms == world.clock.now_ms()
    assert (readers(world), audited(world)) == (before, [])
    assert days_later(world, 0).lines() == []


def test_the_newest_batch_stays_even_if_all_its_rows_are_published(fresh: World) -> None:
    fresh.produce(record("a", 0.1), record("z", 5.0))
    fresh.produce(record("y", 5.0), partition=1)
    fresh.ingest("r1")
    for hour in range(4):
        fresh.archive(hour)
    fresh.produce(record("late", 0.2))
    fresh.ingest("r2")
    days_later(fresh, 40)
    assert work(fresh, "landed") == ["1", "2"], "hour 5 owes, batch 2 is the newest"
    fresh.produce(record("later", 7.5), record("far", 9))
    fresh.produce(record("far", 9), partition=1)
    fresh.ingest("r3")
    for hour in range(4, 6):
        fresh.archive(hour)
    days_later(fresh, 40)
    assert work(fresh, "landed") == ["3"]


def test_nothing_goes_before_its_time_and_null_keeps_for_ever(world: World) -> None:
    world.archive(2)
    world.replay(0)
    world.produce(record("g", 5.1))
    world.ingest("r3")
    before = world.files()
    assert days_later(world, 0.9).deleted == ()
    keep_for(world, attempts_ms=None, landed_ms=None, generations_ms=None, quarantine_ms=None)
    assert days_later(world, 400).deleted == ()
    assert world.files() == before


def test_retired_generations_go_but_the_newest_are_kept_and_names_are_not_freed(world: World) -> None:
    for source in ("other", "value"):
        other_columns(world, source)
        world.replay(0)
    assert days_later(world, 0.9).deleted == (), "a query may still read it"
    before = readers(world)
    days_later(world, 0.2)
    assert hour_files(world, 0) == []
    assert (world.folder / "lake/readings/date=2013-01-05/hour=00").is_dir()
    names = [n for n in work(world, "generations") if n.startswith("20130105T00")]
    assert names == ["20130105T000000Z.2.1", "20130105T000000Z.3.1"]
    assert "site=a" in work(world, "generations", names[0]), "keep_generations: 2 keeps the one before"
    other_columns(world, "third")
    world.replay(0)
    days_later(world, 2)
    assert work(world, "generations", names[0]) == [], "an empty directory stays: the name is not freed (R4)"
    assert audited(world) == []
    assert before[1:] == readers(world)[1:]
    row = next(g for g in view(world, 0).generations if g.number == 1)
    assert (row.state, row.location) == ("RETIRED", f"{world.location}/date=2013-01-05/hour=00")


def view(world: World, hour: int):
    found = world.context().ledger.reads.window("readings", window(hour))
    world.close()
    return found


def test_with_directory_swaps_the_table_stays_and_retired_places_stay_taken(world: World) -> None:
    world.change_spec(archive=replace(world.pipeline.archive, swap="directory", keep_generations=1))
    for source in ("other", "value"):
        other_columns(world, source)
        world.replay(0)
    before = readers(world)
    hour = hour_files(world, 0)
    found = days_later(world, 2)
    assert found.kept == ()
    retired = [n for n in work(world, "generations") if n.startswith("20130105T00")]
    assert [n.split(".")[1] for n in retired] == ["1", "2"]
    assert [work(world, "generations", n) for n in retired] == [[], []]
    assert (readers(world), hour_files(world, 0), audited(world)) == (before, hour, [])
    other_columns(world, "other")
    assert world.replay(0).generation == 4
    assert (readers(world)[0], audited(world)) == (before[0], [])


def test_a_retired_generation_stays_in_the_table_if_another_may_come_there(world: World) -> None:
    """Published beside it by pointer, then the spec changed to directory swaps: the hour's name is taken again."""
    other_columns(world, "other")
    world.replay(0)
    world.change_spec(archive=replace(world.pipeline.archive, swap="directory", keep_generations=1))
    before = hour_files(world, 0)
    found = days_later(world, 2)
    assert "generations" not in {i.kind for i in found.deleted}
    assert found.kept == (), "nothing is wrong with it"
    assert hour_files(world, 0) == before != []


def test_a_discarded_generation_goes_with_its_attempt(world: World) -> None:
    assert world.replay(0).note == "unchanged"
    assert work(world, "publish") == ["20130105T000000Z.2.1"]
    found = days_later(world, 1.1)
    assert sorted({i.kind for i in found.deleted}) == ["attempts", "plans", "publish"]
    assert (work(world, "publish"), work(world, "tmp"), work(world, "plans")) == ([], [], [])
    facts = world.context().ledger.cleaning.generations("readings", [(T0, 2)])[T0, 2]
    assert (facts.state, facts.cleaned_ms is not None) == ("DISCARDED", True)
    assert world.replay(0).note == "unchanged"


def test_protocol_goes_on_after_cleaning(world: World) -> None:
    other_columns(world, "other")
    world.replay(0)
    days_later(world, 40)
    assert world.replay(0).note == "unchanged"
    assert world.replay(1).generation == 2
    lost = world.folder / "lake/readings/_tidegate/generations/20130105T000000Z.2.1"
    shutil.rmtree(lost)
    assert world.archive(0).generation == 4
    world.archive(2)
    days_later(world, 40)
    assert readers(world)[0] == {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 5)], "02": [(0, 6), (1, 0)]}
    assert audited(world) == []


def test_a_side_staging_directory_goes_once_its_files_are_in_their_table(world: World) -> None:
    folder = world.folder / "lake/readings/_tidegate/side/2.late/date=2013-01-05"
    folder.mkdir(parents=True)  # what a task that was overtaken leaves
    (folder.parent.parent / "9.late").mkdir()
    found = days_later(world, 0)
    assert work(world, "side") == ["9.late"]
    assert [(k.path.rsplit("/", 1)[1], k.why) for k in found.kept] == [
        ("9.late", "the ledger has no such batch: it may have lost a commit")
    ]


# ---------------------------------------------------------------- what stays


def dying(world: World, **before: Callable[..., object]) -> Context:
    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, before)  # type: ignore[assignment]
    return ctx


def attempt_dies(world: World, run: str) -> None:
    """The job writes its files and no receipt, then the task's process is gone."""

    def no_receipt(path: str, _: bytes) -> None:
        if path.endswith("_receipt.json"):
            die()

    plain = world.wrap
    world.wrap = lambda name, port: Hook(port, {"write_new": no_receipt}) if name == "storage" else port
    with pytest.raises(Died):
        ingest.write(world.context(), run)
    world.wrap = plain
    world.close()


def test_a_live_attempt_stays_at_any_age_and_an_overtaken_one_goes_after_its_time(fresh: World) -> None:
    fresh.produce(record("a", 0.1))
    ingest.plan(fresh.context(), "r1")
    attempt_dies(fresh, "r1")
    first = work(fresh, "tmp")
    assert days_later(fresh, 400).deleted == ()
    attempt_dies(fresh, "r1")
    assert days_later(fresh, 0.5).deleted == (), "it was overtaken half a day ago"
    assert [i.why for i in days_later(fresh, 0.6).deleted] == ["batch 1 is overtaken by epoch 2"] * 2
    assert len(work(fresh, "tmp")) == 1
    assert not set(first) & set(work(fresh, "tmp"))
    ingest.write(fresh.context(), "r1")
    ingest.land(fresh.context(), "r1")
    days_later(fresh, 40)
    assert (work(fresh, "tmp"), work(fresh, "plans"), work(fresh, "landed")) == ([], [], ["1"])


def test_a_ledger_that_forgets_between_the_look_and_the_deletion_keeps_the_attempt(fresh: World) -> None:
    """A database that fails over right then: what it says at the last moment decides."""
    fresh.produce(record("a", 0.1))
    ingest.plan(fresh.context(), "r1")
    attempt_dies(fresh, "r1")
    attempt_dies(fresh, "r1")
    fresh.clock.advance(2 * DAY)
    ctx = fresh.context()

    def forget() -> None:
        with ctx.ledger.store.begin() as c:
            c.exec_driver_sql("UPDATE batches SET epoch = 1")

    ctx.ledger.cleaning = Hook(ctx.ledger.cleaning, {"batches": Once(forget, at=2)})
    assert clean(ctx).deleted == ()
    assert len(work(fresh, "tmp")) == len(work(fresh, "plans")) == 2


def test_an_abandoned_batchs_attempts_go(fresh: World) -> None:
    fresh.produce(record("a", 0.1))
    ingest.plan(fresh.context(), "r1")
    attempt_dies(fresh, "r1")
    reconcile.abandon(fresh.context(), 1, "given up")
    assert days_later(fresh, 0.9).deleted == ()
    days_later(fresh, 0.2)
    assert (work(fresh, "tmp"), work(fresh, "plans")) == ([], [])


def test_what_the_ledger_does_not_know_is_never_touched(world: World) -> None:
    root = world.folder / "lake/readings/_tidegate"
    strange = [
        "tmp/7.1-abcd", "tmp/20130105T000000Z.9.1-abcd", "tmp/mine", "plans/7.1-abcd.json", "plans/notes.txt",
        "landed/backup", "landed/01", "publish/20130105T000000Z.9.1", "publish/20130105T000000Z.1.8", "publish/x",
        "generations/20130105T000000Z.9.1", "generations/x", "side/7.late", "side/x", "quarantine/batch-7.1-abcd",
        "quarantine/window-20130105T000000Z.9.1", "quarantine/x",
    ]  # fmt: skip
    for path in strange:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("somebody's")
    found = days_later(world, 400)
    assert {k.path.removeprefix(f"{world.location}/_tidegate/") for k in found.kept} == set(strange)
    assert all((root / path).exists() for path in strange)
    assert {i.kind for i in found.deleted} == {"plans"}


def test_a_ledger_that_lost_commits_proves_nothing(world: World) -> None:
    attempt = world.folder / "lake/readings/_tidegate/tmp/1.1-dead"
    attempt.mkdir(parents=True)
    (world.folder / "lake/readings/_tidegate/hwm/3").write_bytes(b"")
    with pytest.raises(StorageAhead, match="next batch is 3"):
        days_later(world, 400)
    assert attempt.is_dir()


def test_a_file_of_the_manifest_or_of_somebody_else_keeps_a_landed_directory(world: World) -> None:
    world.archive(2)
    world.produce(record("g", 5.1))
    world.ingest("r3")
    landed = world.folder / "lake/readings/_tidegate/landed/1"
    (landed / "notes.txt").write_text("mine")
    assert [k.why for k in days_later(world, 8).kept] == ["notes.txt is not ours"]
    (landed / "notes.txt").unlink()
    entry = world.context().ledger.batches.manifest_files("readings", 1, "data")[0]
    (landed / entry.path).write_text("again")
    assert [k.why for k in days_later(world, 8).kept] == [
        f"{entry.path} of its manifest is still there, or there again"
    ]
    (landed / entry.path).rename(landed / entry.path.replace("part-", "duplicate-"))  # a task that ran twice
    days_later(world, 8)
    assert work(world, "landed") == ["2", "3"]


def test_a_batch_without_its_high_water_mark_keeps_its_directory(world: World) -> None:
    world.archive(2)
    world.produce(record("g", 5.1))
    world.ingest("r3")
    (world.folder / "lake/readings/_tidegate/hwm/1").unlink()
    assert "high-water mark is gone" in days_later(world, 8).kept[0].why
    assert work(world, "landed") == ["1", "2", "3"]


def test_a_foreign_file_in_a_retired_directory_stays(world: World) -> None:
    other_columns(world, "other")
    world.replay(0)
    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))
    mine = world.folder / "lake/readings/date=2013-01-05/hour=00/site=a/mine.parquet"
    mine.write_text("mine")
    found = days_later(world, 2)
    assert hour_files(world, 0) == ["site=a/mine.parquet"]
    assert [k.why for k in found.kept] == ["not a file of ours: it stays; find out whose it is"]


@pytest.mark.parametrize("how", ["catalogue", "content"])
def test_a_retired_place_that_is_in_use_stays(world: World, how: str) -> None:
    """R4: before a retired generation is deleted, its place is compared with the manifest in force."""
    other_columns(world, "other")
    world.replay(0)
    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))
    hour = f"{world.location}/date=2013-01-05/hour=00"
    if how == "catalogue":
        values = next(v for v in world.partitions("lake.readings") if dict(v)["hour"] == "00")
        world.catalogue.set_location("lake.readings", values, f"{hour}/site=a")
        why = f"the catalogue has a partition at {hour}/site=a"
    else:
        made = "site=a/g2.1-part-00000-0-0000.parquet"
        new = world.folder / "lake/readings/_tidegate/generations/20130105T000000Z.2.1" / made
        shutil.copy(new, world.folder / "lake/readings/date=2013-01-05/hour=00" / made)
        why = f"{made} of the generation in force lies here"
    before = hour_files(world, 0)
    assert [k.why for k in days_later(world, 40).kept] == [why]
    assert hour_files(world, 0) == before


def test_an_unanswered_catalogue_change_keeps_retired_generations(world: World) -> None:
    other_columns(world, "other")
    world.replay(0)
    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))
    ctx = world.context()
    current = ctx.ledger.windows.generation("readings", window(0), 2)
    world.clock.advance(2 * DAY)
    ctx.ledger.windows.declare_intent(current, current.location, ctx.request_ttl_ms)
    before = hour_files(world, 0)
    assert "generations" not in {i.kind for i in days_later(world, 0).deleted}
    assert hour_files(world, 0) == before
    days_later(world, 0.5)
    assert hour_files(world, 0) == []


def test_a_catalogue_that_is_away_keeps_generations_and_nothing_else(world: World) -> None:
    world.replay(0)
    other_columns(world, "other")
    world.replay(0)
    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))

    def away(*_: Any) -> None:
        raise CatalogueError("connection refused")

    world.clock.advance(40 * DAY)
    ctx = world.context()
    ctx.catalogue = Hook(ctx.catalogue, {"partitions": away})  # type: ignore[assignment]
    kinds = {i.kind for i in clean(ctx).deleted}
    assert kinds == {"attempts", "plans", "publish"}
    assert hour_files(world, 0) != []
    assert any("the catalogue gives no answer: connection refused" in line for line in world.said)


def test_quarantine_goes_only_when_it_is_settled_and_old(world: World) -> None:
    kept = world.folder / "lake/readings/_tidegate/quarantine/batch-1.1-abcd"
    kept.mkdir(parents=True)
    (kept / "part").write_text("evidence")
    days_later(world, 40)
    assert kept.is_dir(), "hour 2 is not published: its batch is not settled"
    world.archive(2)
    ctx = world.context()
    ctx.ledger.store.now_ms = world.clock.now_ms
    with ctx.ledger.store.begin() as c:
        ctx.ledger.store.note(c, "readings", "blocked", "batch 1", {})
    days_later(world, 29)
    assert kept.is_dir()
    assert "quarantine" in {i.kind for i in days_later(world, 2).deleted}
    assert not kept.exists()


def test_refused_deletions_are_told_and_end_the_round(world: World) -> None:
    for source in ("other", "value"):
        other_columns(world, source)
        world.replay(0)
    world.clock.advance(40 * DAY)
    ctx = world.context()

    def refuse(path: str) -> None:
        raise StorageError(f"{path}: the filesystem is read-only")

    ctx.storage = Hook(ctx.storage, {"delete": refuse})  # type: ignore[assignment]
    found = clean(ctx)
    assert (found.deleted, len(found.kept)) == ((), 3)
    assert "the filesystem is read-only" in found.kept[0].why


# ---------------------------------------------------------------- whatever happens meanwhile


class Calls:
    """Counts every call of every port; at the n-th one something else happens, before or after it."""

    def __init__(self, at: int = -1, step: Callable[[], object] | None = None, after: bool = False) -> None:
        self.at, self.step, self.after, self.names = at, step, after, []

    def wrap(self, name: str, port: Any) -> Any:
        return _Counted(self, name, port)


class _Counted:
    def __init__(self, calls: Calls, name: str, port: Any) -> None:
        self._calls, self._name, self._port = calls, name, port

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._port, method)
        if not callable(real):
            return real

        def counted(*args: Any, **options: Any) -> Any:
            calls = self._calls
            calls.names.append(f"{self._name}.{method}")
            now = len(calls.names) - 1 == calls.at and calls.step is not None
            if now and not calls.after:
                calls.step()
            result = real(*args, **options)
            if now and calls.after:
                calls.step()
            return result

        return counted


def with_calls(world: World, calls: Calls) -> Context:
    ctx = world.context()
    ledger = ctx.ledger
    for name in ("batches", "windows", "cleaning"):
        setattr(ledger, name, calls.wrap(name, getattr(ledger, name)))
    ctx.storage = calls.wrap("storage", ctx.storage)
    ctx.catalogue = calls.wrap("catalogue", ctx.catalogue)
    return ctx


def busy_life(world: World) -> None:
    """Everything is in the middle of something, and most of it is old."""
    first_life(world)
    world.archive(2)
    for source in ("other", "value", "value"):  # the last one changes nothing: discarded
        other_columns(world, source)
        world.replay(0)
    world.produce(record("d0", 3.2), record("d1", 3.3, "b"), record("g0", 7.0))
    world.produce(record("g1", 7.0), partition=1)
    world.ingest("r3")
    ctx = world.context()
    ctx.storage = Hook(ctx.storage, {"rename_no_replace": Once(die, at=2)})  # hour 3: half assembled
    with pytest.raises(Died):
        archive.publish(ctx, window(3))
    (world.folder / "lake/readings/_tidegate/generations").mkdir(exist_ok=True)
    next((world.folder / "lake/readings/date=2013-01-05/hour=02").rglob("*.parquet")).unlink()
    for _ in range(2):  # hour 2: its heal has died twice
        with pytest.raises(Died):
            archive.publish(dying(world, run=die), window(2))
    world.produce(record("h0", 7.5), record("late", 0.3))
    ingest.plan(world.context(), "r4")
    for _ in range(2):
        attempt_dies(world, "r4")
    world.clock.advance(40 * DAY)
    world.close()


def finish(world: World) -> None:
    """What is left to do, by other tasks."""
    ingest.write(world.context(), "r4")
    ingest.land(world.context(), "r4")
    archive.publish(world.context(), window(2))
    archive.publish(world.context(), window(3))
    replay.replay(world.context(), window(0))
    world.close()


def left(world: World) -> list[str]:
    """Every file and directory, but for what chance names."""
    root = world.folder / "lake"
    return sorted(str(p.relative_to(root)).rpartition("-")[0] or str(p) for p in root.rglob("*"))


def test_a_cleaner_that_dies_or_is_not_alone_ends_where_one_alone_ends(kept: Kept, rng: random.Random) -> None:
    calls, alone = Calls(), kept.world(busy_life)
    found = clean(with_calls(alone, calls))
    assert {i.kind for i in found.deleted} == {"attempts", "plans", "publish", "generations", "landed"}
    expected = (left(alone), readers(alone))
    first = {name: n for n, name in reversed(list(enumerate(calls.names)))}
    for site in sorted({*first.values(), *rng.sample(range(len(calls.names)), 8)}):
        how = rng.choice(["dies before", "dies after", "second"])
        world = kept.world(busy_life)
        step = (lambda w=world: clean(w.context())) if how == "second" else die
        where = f"call {site} ({calls.names[site]}), {how}"
        try:
            clean(with_calls(world, Calls(site, step, how == "dies after")))
            assert how == "second", where
        except Died:
            clean(world.context())
        assert (left(world), readers(world)) == expected, where


def test_a_cleaner_that_meets_other_tasks_takes_nothing_from_them(kept: Kept, rng: random.Random) -> None:
    """All other tasks run to their end between its look and its deletion, or anywhere else."""
    calls, plain = Calls(), kept.world(busy_life)
    clean(with_calls(plain, calls))
    deletions = [n for n, name in enumerate(calls.names) if name == "storage.delete"]
    plain = kept.world(busy_life)
    finish(plain)
    expected = readers(plain)
    for site in (rng.choice(deletions), rng.choice(deletions), rng.randrange(len(calls.names))):
        world = kept.world(busy_life)
        clean(with_calls(world, Calls(site, lambda w=world: finish(w))))
        assert (readers(world), audited(world)) == (expected, []), f"call {site} ({calls.names[site]})"
    world.clock.advance(40 * DAY)
    clean(world.context())
    assert (readers(world), audited(world)) == (expected, [])
