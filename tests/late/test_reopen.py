"""Reopening a published window: late rows become part of its next generation, once, and leave the late table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.late.reopenings import BOTH, WORK, balanced, begun, once, reopened
from tests.look.row_readers import InProcessRows
from tests.world import World, record
from tidegate.core.base.errors import ReplayRefused
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.batch import landing
from tidegate.workflow.dirty import redrive
from tidegate.workflow.look.where import where


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = begun(World(tmp_path))
    yield made
    made.close()


# ---------------------------------------------------------------- what becomes of the rows


def test_late_rows_become_part_of_the_next_generation(world: World) -> None:
    published = reopened(world)
    assert (published.new, published.generation, published.rows) == (True, 2, 4)
    once(world, BOTH)
    sites = {dict(values)["site"] for values in world.partitions("lake.readings") if dict(values)["hour"] == "00"}
    assert sites == {"a", "b", "new"}


def test_nothing_is_new_when_no_row_waits(world: World) -> None:
    reopened(world)
    before = world.files()
    again = reopened(world)
    assert (again.new, again.generation, again.note) == (False, 2, "no late rows wait")
    assert world.files() == before


def test_kafka_is_not_asked(world: World) -> None:
    for partition in (0, 1):
        world.kafka.trim("readings", partition, 5)
    reopened(world)
    once(world, BOTH)


def test_the_late_files_are_kept_aside(world: World) -> None:
    reopened(world)
    (kept,) = (world.folder / WORK / "reopened").rglob("*.parquet")
    assert kept.parent.relative_to(world.folder / WORK) == Path("reopened/2/20130105T000000Z")
    assert list((world.folder / WORK / "late").rglob("*.parquet")) == []


def test_rows_that_come_after_it_wait_for_the_next_one(world: World) -> None:
    reopened(world)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    once(world, BOTH, [(0, 6)])
    assert reopened(world).generation == 3
    once(world, [*BOTH, (0, 6)])


def test_late_rows_of_several_batches_are_one_generation(world: World) -> None:
    world.produce(record("later", 0.9), record("of hour 2", 2.7))
    world.produce(record("other", 0.8), partition=1)
    world.ingest("r3")
    assert reopened(world).generation == 2
    once(world, [*BOTH, (0, 6), (1, 1)])


def test_late_rows_of_other_windows_stay(world: World) -> None:
    world.produce(record("up", 3.9))
    world.produce(record("up", 3.9), partition=1)
    world.ingest("r3")
    world.archive(1)
    world.produce(record("late 3", 0.4), record("late 4", 1.5))
    world.ingest("r4")
    reopened(world)
    once(world, [*BOTH, (0, 7)], [(0, 8)])
    reopened(world, 1)
    assert world.by_window()["01"] == [(0, 8)]
    once(world, [*BOTH, (0, 7)])


def test_a_window_that_was_published_empty(world: World) -> None:
    world.produce(record("up", 3.9))
    world.ingest("r3")
    assert world.archive(1).rows == 0
    world.produce(record("late 4", 1.5))
    world.ingest("r4")
    reopened(world, 1)
    assert world.by_window()["01"] == [(0, 7)]
    balanced(world)


# ---------------------------------------------------------------- afterwards


def test_a_replay_has_the_rows_too(world: World) -> None:
    reopened(world)
    assert world.replay(0).note == "unchanged"
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    replayed = world.replay(0)
    assert (replayed.new, replayed.generation, replayed.rows) == (True, 4, 4)
    once(world, BOTH)


def test_a_lost_file_is_rebuilt_with_them(world: World) -> None:
    location = reopened(world).location
    min(Path(location.removeprefix("file://")).rglob("*.parquet")).unlink()
    healed = world.archive(0)
    assert (healed.new, healed.rows) == (True, 4)
    once(world, BOTH)


def test_a_replay_takes_late_rows_that_retention_has_passed_from_the_files(world: World) -> None:
    number = reopened(world).generation
    world.kafka.trim("readings", 0, 4)
    assert (world.replay(0).new, world.replay(0).generation) == (False, number)
    once(world, BOTH)
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    with pytest.raises(ReplayRefused, match="retention; column value needs the records to be decoded again"):
        world.replay(0)
    once(world, BOTH)


def test_a_replay_before_it_leaves_the_late_rows_where_they_are(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    assert world.replay(0).rows == 2
    once(world, BOTH[:2], [(0, 3), (0, 4)])
    reopened(world)
    once(world, BOTH)


def test_late_rows_of_a_redrive(world: World) -> None:
    odd = {"value": "many", "other": 7}
    world.produce(record("odd", 0.4) | odd, record("odd too", 0.5, "b") | odd)
    world.ingest("r3")
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    redrive.plan(world.context(), "redrive 1")
    found = redrive.carry_out(world.context(), "redrive 1")
    assert (found.data, found.late) == (0, 2)
    assert late_now(world) == 4
    reopened(world)
    once(world, [*BOTH, (0, 6), (0, 7)])
    assert late_now(world) == 0
    assert world.replay(0).rows == 6
    once(world, [*BOTH, (0, 6), (0, 7)])
    assert late_now(world) == 0


def late_now(world: World) -> int:
    survey = world.context().ledger.reads.survey(["readings"], 0)["readings"]
    assert survey.totals.balance.late == 4, "what came late stays a term of the balance"
    return survey.late_now


def test_maintenance_says_what_it_does_with_late_rows(world: World) -> None:
    ctx = world.context()
    with sqlite3.connect(world.database) as c:
        c.execute("UPDATE batches SET side_registered = 0 WHERE batch_id = 2")
    assert landing.finish_side_duties(ctx) == ["batch 2: rows in their tables: 2 late"]
    reopened(world)
    with sqlite3.connect(world.database) as c:  # as a ledger that lost commits
        c.execute("UPDATE batches SET side_registered = 0 WHERE batch_id = 2")
    done = landing.finish_side_duties(world.context())
    assert done == ["batch 2: its late and dirty rows have all been taken up already"]


def test_where_says_that_it_came_late(world: World) -> None:
    ctx = world.context()
    (before,) = where(ctx, ctx.ledger.reads, InProcessRows(), 0, 3).fates  # type: ignore[attr-defined]
    assert before.kind == "late"
    reopened(world)
    ctx = world.context()
    (fate,) = where(ctx, ctx.ledger.reads, InProcessRows(), 0, 3).fates  # type: ignore[attr-defined]
    assert (fate.kind, fate.batch_id, fate.generation, fate.table) == ("published", 2, 2, "lake.readings")
    assert fate.words.startswith("came late: its window 2013-01-05T00:00Z was closing or closed when batch 2 was")
    assert "published in generation 2 (reopen) of 2013-01-05T00:00Z, since the window was reopened" in fate.words
    (other,) = where(ctx, ctx.ledger.reads, InProcessRows(), 0, 0).fates  # type: ignore[attr-defined]
    assert "late" not in other.words
