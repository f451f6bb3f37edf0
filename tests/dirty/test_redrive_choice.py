"""Which dirty rows are redriven, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import balanced
from tests.dirty.redrives import first_batch, mend, odd, once, redriven
from tests.world import T0, TOPIC, World, make_pipeline, record
from tidegate.core.base.errors import SpecError, StepMissing
from tidegate.core.batch.states import AbandonedBatch
from tidegate.core.spec.pipeline import RAW_HEADERS, Column, DirtyLimits, EventTime
from tidegate.workflow.dirty import redrive


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


# ---------------------------------------------------------------- what is refused


def test_in_vain_it_is_given_up_and_nothing_moves(world: World) -> None:
    first_batch(world)
    found = redriven(world)
    assert found is not None
    assert found.refused.startswith("redrive 2: none of the 4 dirty rows became readable, for example partition 0")
    assert "given up" in found.words
    assert world.table("__dirty") == [(0, 1), (0, 2), (0, 4), (1, 1)]
    once(world)
    balanced(world)
    mend(world)
    again = redriven(world, "redrive 2")
    assert again is not None
    assert (again.batch_id, again.data) == (3, 3)
    world.produce(record("e0", 4.0))
    assert world.ingest("r2") == 4
    once(world)
    balanced(world)


def test_a_given_up_redrive_does_not_stop_the_run_that_finds_it(world: World) -> None:
    first_batch(world)
    redrive.plan(world.context(), "redrive 1")
    world.produce(record("e0", 4.0))
    world.ingest("r2")
    ctx = world.context()
    assert isinstance(ctx.ledger.batches.get("readings", 2), AbandonedBatch)
    assert world.ingest("r3") == 3
    once(world)
    balanced(world)


def test_limits_do_not_hold_for_rows_that_were_dirty_before(world: World) -> None:
    first_batch(world)
    mend(world)
    world.change_spec(dirty=DirtyLimits(0, 0.0))
    found = redriven(world)
    assert found is not None
    assert found.data == 3


def test_without_kafkas_columns_it_is_refused_by_name(tmp_path: Path) -> None:
    world = World(tmp_path, replace(make_pipeline(f"file://{tmp_path}/lake/readings"), kafka_columns=False))
    world.produce(record("a0", 0.1), odd("a1", 0.2))
    world.ingest("r1")
    mend(world)
    for step in (lambda: redrive.plan(world.context(), "redrive 1"), lambda: redrive.preview(world.context())):
        with pytest.raises(SpecError, match=r"(?s)kafka_columns: false.*redriven.*what to do"):
            step()
    world.close()


def test_nothing_dirty_is_nothing_to_do(world: World) -> None:
    world.produce(record("a0", 0.1))
    world.ingest("r1")
    assert redriven(world) is None
    assert world.context().ledger.batches.open("readings") is None


def test_a_batch_without_dirty_rows_is_named(world: World) -> None:
    first_batch(world)
    mend(world)
    with pytest.raises(StepMissing, match="batch 7 has no dirty rows"):
        redrive.plan(world.context(), "redrive 1", [7])
    redriven(world)
    with pytest.raises(StepMissing, match="batch 1 has no dirty rows of its own"):
        redrive.plan(world.context(), "redrive 2", [1])


def test_an_unknown_field_gives_it_up(world: World) -> None:
    world.produce(record("a0", 0.1), odd("a1", 0.2) | {"more": 1})
    world.ingest("r1")
    mend(world)
    world.change_spec(format=replace(world.pipeline.format, unknown_fields="fail"))
    found = redriven(world)
    assert found is not None
    assert "unknown field" in found.refused
    once(world)


# ---------------------------------------------------------------- a topic that was recreated


def test_rows_of_an_older_topic_are_redriven_apart(world: World) -> None:
    first_batch(world)
    old = world.kafka.look(TOPIC).topic_id
    world.kafka.create(TOPIC, 2)
    new = world.kafka.look(TOPIC).topic_id
    world.context().ledger.pipelines.accept_topic("readings", old, new, "on purpose")
    world.produce(record("n0", 4.0), odd("n1", 4.1), odd("n2", 4.2))
    world.ingest("r2")
    mend(world)
    first = redriven(world, below=3)
    second = redriven(world, "redrive 2", below=3)
    assert first == redrive.Redriven(batch_id=3, sources=(1,), rows=4, data=3, dirty=1)
    assert second == redrive.Redriven(batch_id=4, sources=(2,), rows=2, data=2)
    assert redriven(world, "redrive 3", below=3) is None
    view = world.context().ledger.batches.planning_view("readings")
    assert (view.accepted_topic_id, view.planned_ends) == (new, {0: 3, 1: 0})
    balanced(world)
    world.produce(record("n3", 4.3))
    world.ingest("r3")
    balanced(world)


def test_preview_changes_nothing(world: World) -> None:
    first_batch(world)
    choice = redrive.preview(world.context())
    assert [(b.batch_id, b.count) for b in choice.chosen] == [(1, 4)]
    assert world.context().ledger.batches.open("readings") is None


def test_rows_of_a_column_that_dirty_rows_do_not_keep_are_refused(tmp_path: Path) -> None:
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    raw = replace(
        spec,
        format=replace(spec.format, type="raw"),
        columns=(
            Column(name="text", type="string", path="$.value"),
            Column(name="headers", type=RAW_HEADERS, path="$.headers"),
        ),
        event_time=EventTime(None),
        partition_by=("date", "hour"),
    )
    world = World(tmp_path, raw)
    world.kafka.append(TOPIC, 0, b"\xff", timestamp_ms=T0 + 5)
    world.ingest("r1")
    with pytest.raises(SpecError, match="without Kafka's headers, so the column headers"):
        redrive.plan(world.context(), "redrive 1")
    world.change_spec(columns=(Column(name="bytes", type="binary", path="$.value"),))
    assert redriven(world) == redrive.Redriven(batch_id=2, sources=(1,), rows=1, data=1)
    balanced(world)
    world.close()
