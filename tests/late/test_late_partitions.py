"""Partitions that came after the first batch, and topics that were recreated, are read from offset 0: what retention
took of them before the first look is a loss, by `on_data_loss`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import look
from tests.look.row_readers import InProcessRows
from tests.world import TOPIC, World, record
from tidegate.core.base.errors import DataLoss
from tidegate.core.batch.states import Loss
from tidegate.core.look.fate import BEFORE_START, LOST, PUBLISHED
from tidegate.workflow.batch import ingest
from tidegate.workflow.look.where import where
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore import reset


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def plan_of(world: World, batch_id: int | None):
    assert batch_id is not None
    return world.context().ledger.batches.get("readings", batch_id).plan


def starts(world: World, batch_id: int | None) -> dict[int, int]:
    return {p.partition: p.start for p in plan_of(world, batch_id).partitions}


def recording(world: World) -> None:
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))


def fates(world: World, partition: int, offset: int) -> list[tuple[str, str]]:
    ctx = world.context()
    return [(f.kind, f.words) for f in where(ctx, ctx.ledger.reads, InProcessRows(), partition, offset).fates]


def test_what_retention_took_of_a_partition_that_came_later_is_a_loss(world: World) -> None:
    world.produce(record("a", 0.1))
    world.produce(record("b", 0.1), partition=1)
    world.ingest("r1")
    world.kafka.add_partitions(TOPIC, 3)
    world.produce(*[record(f"n{i}", 0.2) for i in range(100)], partition=2)
    world.kafka.trim(TOPIC, 2, 60)
    ((kind, words),) = fates(world, 2, 10)
    assert (kind, "retention has passed it before it was read: the log begins at 60" in words) == (LOST, True)
    with pytest.raises(DataLoss, match=r"partition 2: offsets \[0, 60\) are gone .*60 records at most"):
        world.ingest("r2")
    recording(world)
    batch = world.ingest("r2")
    assert plan_of(world, batch).losses == (Loss(2, 0, 60, "retention"),)
    assert starts(world, batch) == {0: 1, 1: 1, 2: 60}
    world.produce(record("x", 3.0))
    world.produce(record("y", 3.0), partition=1)
    world.produce(record("z", 3.0), partition=2)
    world.ingest("r3")
    assert world.archive(0).rows == 42
    assert fates(world, 2, 10)[0][1].startswith("lost to retention: offsets [0, 60) were gone when batch 2 was planned")
    assert [kind for kind, _ in fates(world, 2, 60)] == [PUBLISHED]
    report = look(world)
    assert (report.problems, report.totals.lost) == ((), 60)
    assert report.produced is not None
    assert report.produced.offsets == report.totals.balance.offsets + 60


def test_what_retention_took_of_an_accepted_topic_is_a_loss_that_reset_shows_first(world: World) -> None:
    world.produce(record("a", 0.1))
    world.ingest("r1")
    world.kafka.create(TOPIC, 2)
    world.produce(*[record(f"n{i}", 0.2) for i in range(100)])
    world.kafka.trim(TOPIC, 0, 60)
    found = reset.survey(world.context())
    assert isinstance(found, reset.Recreated)
    assert found.gone == {0: 60}
    reset.accept(world.context(), found, "on purpose")
    assert ("retention has passed it" in fates(world, 0, 10)[0][1]) is True
    with pytest.raises(DataLoss, match=r"offsets \[0, 60\) are gone"):
        world.ingest("r2")
    recording(world)
    assert plan_of(world, world.ingest("r2")).losses == (Loss(0, 0, 60, "retention"),)
    assert look(world).problems == ()


def test_the_first_batch_begins_where_the_spec_says_and_loses_nothing(world: World) -> None:
    world.produce(*[record(f"n{i}", 0.2) for i in range(10)])
    world.kafka.trim(TOPIC, 0, 4)
    assert starts(world, world.ingest("r1")) == {0: 4, 1: 0}
    assert fates(world, 0, 1)[0][0] == BEFORE_START


@pytest.mark.parametrize("start", ["latest", 1_357_700_000_000])
def test_a_partition_that_comes_later_is_read_whole_whatever_the_start(world: World, start: str | int) -> None:
    world.change_spec(source=replace(world.pipeline.source, start=start))
    world.produce(record("a", 0.1))
    world.ingest("r1")
    world.kafka.add_partitions(TOPIC, 3)
    world.produce(record("b", 0.1), record("c", 0.1), partition=2)
    assert starts(world, world.ingest("r2"))[2] == 0


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_first_batch_that_is_forgotten_is_planned_from_the_same_offsets(world: World, start: str) -> None:
    world.change_spec(source=replace(world.pipeline.source, start=start))
    world.produce(*[record(f"n{i}", 0.2) for i in range(10)])
    world.kafka.trim(TOPIC, 0, 4)
    assert ingest.plan(world.context(), "r1") == 1
    first = starts(world, 1)
    reconcile.reread(world.context(), 1, "its files are lost")
    world.produce(*[record(f"m{i}", 0.2) for i in range(10)])
    assert starts(world, world.ingest("r2")) == first
