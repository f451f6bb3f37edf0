"""Cleaning against the whole product: what may go goes, and nothing else is the worse for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clean.cleanings import (
    Kept,
    audited,
    days_later,
    first_life,
    hour_files,
    keep_for,
    other_columns,
    readers,
    work,
)
from tests.world import T0, World, record, window


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
