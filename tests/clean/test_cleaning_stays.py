"""What cleaning leaves where it is, because somebody may need it or nobody knows it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.clean.cleanings import DAY, Kept, attempt_dies, days_later, first_life, hour_files, other_columns, work
from tests.hooks import Hook, Once, catalogue_of, use_catalogue
from tests.world import World, record, window
from tidegate.core.base.errors import CatalogueError, StorageAhead, StorageError
from tidegate.workflow.batch import ingest
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.maintain import reconcile


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
    reconcile.abandon(fresh.context(), 1, "given up", force=True)
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
    assert [k.why for k in found.kept] == ["not a file of Tidegate: it stays; find out whose it is"]


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
    use_catalogue(ctx, Hook(catalogue_of(ctx), {"partitions": away}))
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
