"""Replays and rollbacks that meet what others began or changed: nothing is taken that was not looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hooks import Died, Hook, catalogue_of, die, use_catalogue
from tests.replay.test_rollback import NEW, OLD, begun, values
from tests.world import TOPIC, World, make_pipeline, record, window
from tidegate.core.base.errors import ReplayRefused
from tidegate.core.restore.record import GenerationRecord, pack, unpack
from tidegate.core.spec.pipeline import Column
from tidegate.ledger.migrate import migrate
from tidegate.workflow.late import reopen
from tidegate.workflow.replay import replay, rollback
from tidegate.workflow.restore import adoption


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = begun(World(tmp_path))
    yield made
    made.close()


def plain(folder: Path) -> World:
    spec = make_pipeline(f"file://{folder}/lake/readings")
    return World(folder, replace(spec, kafka_columns=False))


def path_of_value(world: World, path: str) -> None:
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, replace(value, path=path)))


def both(hour: float) -> dict[str, Any]:
    return record("x", hour, value=1) | {"other": 2}


def test_rows_without_offsets_are_judged_each_by_its_own_batch(tmp_path: Path) -> None:
    """A column that went elsewhere and came back: the batch in between has other values, though Kafka has it."""
    world = plain(tmp_path)
    value = world.pipeline.column("value")
    world.produce(both(0.1), record("far", 9.0))
    world.produce(record("far", 9.0), partition=1)
    world.ingest("r1")
    path_of_value(world, "$.other")
    world.produce(both(0.2), record("far", 9.0))
    world.ingest("r2")
    world.archive(0)
    path_of_value(world, value.path)
    world.kafka.trim(TOPIC, 0, 1)
    with pytest.raises(ReplayRefused, match="column value needs"):
        replay.replay(world.context(), window(0))
    world.close()


def test_rows_without_offsets_of_a_lost_file_are_refused_before_the_job(tmp_path: Path) -> None:
    world = plain(tmp_path)
    for batch in (1, 2):
        world.produce(both(0.1 * batch), record("far", 9.0))
        world.produce(record("far", 9.0), partition=1)
        world.ingest(f"r{batch}")
    found = world.archive(0)
    ctx = world.context()
    generation = ctx.ledger.windows.generation("readings", window(0), 1)
    (newer,) = [f for f in generation.files if f.partitions[0].min_offset >= 2]  # type: ignore[union-attr]
    Path(f"{found.location.removeprefix('file://')}/{newer.path}").unlink()
    world.kafka.trim(TOPIC, 0, 1)
    with pytest.raises(ReplayRefused, match="is not what its manifest says"):
        replay.replay(ctx, window(0))
    world.close()


def test_a_rollback_that_another_task_finishes_is_not_rolled_back(world: World) -> None:
    """Without a number it goes back to what was in force before: after the other task's publication, that is what it
    was to lead away from."""

    def cleared(*_: object) -> None:
        if not hasattr(world, "ran"):
            world.ran = True  # type: ignore[attr-defined]
            world.archive(0)

    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, before={"run": cleared})  # type: ignore[assignment]
    assert rollback.rollback(ctx, window(0), None, "the new columns were wrong").generation == 3
    assert values(world) == OLD


def test_a_range_does_not_skip_a_window_that_is_half_switched(world: World) -> None:
    """The generation in force is what a replay gives, but a rollback has died between two partitions."""
    ctx = world.context()
    use_catalogue(ctx, Hook(catalogue_of(ctx), after={"set_location": die}))
    with pytest.raises(Died):
        rollback.rollback(ctx, window(0), 1, "a test")
    assert values(world) not in (OLD, NEW)
    world.clock.advance(3_600_000)  # what it asked for last can no longer be executed
    (found,) = replay.replay_range(world.context(), [window(0)])
    assert found.well
    assert values(world) == NEW


def test_late_rows_are_taken_up_after_a_column_came(world: World) -> None:
    """No late rows have landed by the new columns: nobody has told the late table of them."""
    world.produce(record("late", 0.2) | {"place": "a", "other": 2})
    world.ingest("r2")
    world.change_spec(columns=(*world.pipeline.columns, Column(name="more", type="string", path="$.more")))
    assert reopen.reopen(world.context(), window(0)).rows == 4
    assert world.table("__late") == []


@pytest.mark.parametrize("late", [False, True])
def test_rows_decoded_by_a_spec_that_the_ledger_forgot_are_not_taken(tmp_path: Path, late: bool) -> None:
    """A column went elsewhere, the window was replayed, the column came back, and the ledger was restored to before."""
    world = World(tmp_path)
    value = world.pipeline.column("value")
    for partition in (0, 1):
        world.produce(both(0.1), record("far", 9.0), partition=partition)
    world.ingest("r1")
    world.archive(0)
    world.produce(both(0.2))
    world.ingest("r2")
    world.close()
    yesterday = world.database.read_bytes()
    path_of_value(world, "$.other")
    assert world.replay(0).generation == 2
    if late:
        reopen.reopen(world.context(), window(0))
    path_of_value(world, value.path)
    world.close()
    world.database.write_bytes(yesterday)
    world.registered.clear()
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the ledger was restored")
    for partition in (0, 1):
        world.kafka.trim(TOPIC, partition, 2)
    with pytest.raises(ReplayRefused, match="column value needs"):
        replay.replay(ctx, window(0))
    world.close()


def as_earlier_releases_recorded(world: World) -> None:
    """Records of generations did not say by whose columns their rows were decoded."""
    for path in world.folder.glob("lake/readings/_tidegate/hwm/published/*/*"):
        path.write_bytes(pack(replace(unpack(GenerationRecord, path.read_bytes()), decoders=())))


@pytest.mark.parametrize("then", ["nothing", "reopened", "rolled back to"])
def test_rows_whose_columns_an_old_record_does_not_name_are_not_taken(tmp_path: Path, then: str) -> None:
    """The only spec that the new ledger knows is today's, and it is not the one that decoded them."""
    world = World(tmp_path)
    value = world.pipeline.column("value")
    for partition in (0, 1):
        world.produce(both(0.1), record("far", 9.0), partition=partition)
    world.ingest("r1")
    world.archive(0)
    world.produce(both(0.2))
    world.ingest("r2")
    path_of_value(world, "$.other")
    assert world.replay(0).generation == 2
    path_of_value(world, value.path)
    world.close()
    as_earlier_releases_recorded(world)
    migrate(f"sqlite:///{emptied(world)}")
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the ledger was lost")
    if then == "reopened":
        reopen.reopen(ctx, window(0))
    elif then == "rolled back to":
        assert rollback.rollback(ctx, window(0), 1).generation == 3
        assert rollback.rollback(ctx, window(0), 2).generation == 4
    for partition in (0, 1):
        world.kafka.trim(TOPIC, partition, 2)
    with pytest.raises(ReplayRefused, match="the ledger does not say by which columns") as refused:
        replay.replay(ctx, window(0))
    assert "tidegate rollback" in refused.value.advice
    if then != "reopened":  # generation 1 holds the same batches' rows, and these name their columns
        rollback.rollback(ctx, window(0), 1)
        assert replay.replay(ctx, window(0)).note == "unchanged"
    world.close()


def emptied(world: World) -> Path:
    world.database.unlink()
    world.registered.clear()
    return world.database
