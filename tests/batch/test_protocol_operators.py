"""What operators meet: where reading begins, recreated topics, lost offsets, restored ledgers, unanswered changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hooks import Hook, catalogue_of, use_catalogue
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import BatchRefused, CatalogueUnsure, LostComparison, StepMissing, StorageAhead
from tidegate.core.batch.states import Plan
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def two_hours(world: World) -> None:
    """Rows for hours 0 to 2; the watermark (delay one hour) then stands at 02:30."""
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)


def start_at(world: World, start: str | int) -> None:
    world.change_spec(source=replace(world.pipeline.source, start=start))


def record_losses(world: World) -> None:
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))


def plan_of(world: World, batch_id: int | None) -> Plan:
    assert batch_id is not None
    return world.context().ledger.batches.get("readings", batch_id).plan


def recreate_topic(world: World) -> None:
    """And accept it; the ids of the fake count up."""
    world.kafka.create(TOPIC, 2)
    world.context().ledger.pipelines.accept_topic("readings", "id-1", "id-2", "on purpose")


# ---------------------------------------------------------------- where reading begins


def test_an_empty_topic_plans_nothing_at_first(world: World) -> None:
    assert world.ingest("r1") is None
    world.produce(record("a", 0.1))
    assert plan_of(world, world.ingest("r2")).records == 1


def test_latest_pins_where_it_begins_at_the_first_look(world: World) -> None:
    """Otherwise every look would begin at that moment's end and nothing would ever be read."""
    start_at(world, "latest")
    world.produce(record("old", 0.1))
    assert plan_of(world, world.ingest("r1")).records == 0
    for i in range(3):
        world.produce(record(f"new{i}", 0.2))
        assert plan_of(world, world.ingest(f"r{i + 2}")).records == 1


def test_a_start_time_after_every_record_pins_the_end_of_the_topic(world: World) -> None:
    start_at(world, 10)
    world.kafka.append(TOPIC, 0, b'{"id": "old", "at": 1357344000000}', timestamp_ms=5)
    assert plan_of(world, world.ingest("r1")).records == 0
    world.kafka.append(TOPIC, 0, b'{"id": "new", "at": 1357344000000}', timestamp_ms=15)
    assert [(r.start, r.end) for r in plan_of(world, world.ingest("r2")).ranges] == [(1, 2)]


@pytest.mark.parametrize("before", ["earliest", "latest"])
def test_an_accepted_new_topic_is_read_from_its_beginning_though_start_is_latest(world: World, before: str) -> None:
    """What was produced between the recreation and its acceptance belongs to the pipeline."""
    start_at(world, before)
    world.produce(record("old", 0.1))
    world.ingest("r1")
    start_at(world, "latest")
    recreate_topic(world)
    world.produce(record("first", 0.3), record("second", 0.4))
    assert [(r.start, r.end) for r in plan_of(world, world.ingest("r2")).ranges] == [(0, 2)]


# ---------------------------------------------------------------- losses


def test_the_same_offsets_may_be_lost_again_after_the_topic_was_recreated(world: World) -> None:
    record_losses(world)
    world.produce(record("a", 0.1), record("b", 0.1))
    world.ingest("r1")
    world.produce(*[record(str(i), 0.1) for i in range(4)])
    world.kafka.trim(TOPIC, 0, 4)
    world.ingest("r2")
    recreate_topic(world)
    world.produce(record("a", 0.1), record("b", 0.1))
    world.ingest("r3")
    world.produce(*[record(str(i), 0.1) for i in range(4)])
    world.kafka.trim(TOPIC, 0, 4)
    assert world.ingest("r4") == 4
    assert world.context().ledger.reads.survey(["readings"], 0)["readings"].lost == 4


def test_a_batch_that_retention_passed_is_abandoned_and_the_next_begins_after_it(world: World) -> None:
    two_hours(world)
    ingest.plan(world.context(), "r1")
    world.kafka.trim(TOPIC, 0, 2)
    with pytest.raises(BatchRefused, match=r"data loss.*\[0, 4\)"):
        ingest.write(world.context(), "r1")
    world.produce(record("next", 3.6))
    reconcile.abandon(world.context(), 1, "retention", force=True)
    ingest.write(world.context(), "r1")
    assert ingest.land(world.context(), "r1") is False, "the run that planned it ends well"
    assert [(r.start, r.end) for r in plan_of(world, world.ingest("r2")).ranges] == [(4, 5)]


def test_a_batch_that_has_its_rows_is_not_abandoned(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    with pytest.raises(StepMissing, match="LANDED"):
        reconcile.abandon(world.context(), 1, "why not", force=True)


# ---------------------------------------------------------------- restored ledgers


def test_a_ledger_restored_to_before_an_abandoned_batch_is_refused(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    yesterday = world.database.read_bytes()
    world.produce(record("x", 3.6))
    ingest.plan(world.context(), "r2")
    reconcile.abandon(world.context(), 2, "retention", force=True)
    world.close()
    world.database.write_bytes(yesterday)
    with pytest.raises(StorageAhead, match="next batch is 2"):
        world.ingest("r3")


def test_a_restored_ledger_is_refused_though_its_next_batch_never_reached_storage(world: World) -> None:
    """Batch 2 left nothing behind; batch 3, which the restored ledger has not heard of either, did."""
    two_hours(world)
    world.ingest("r1")
    yesterday = world.database.read_bytes()
    world.produce(record("x", 3.6))
    ingest.plan(world.context(), "r2")
    batches = world.context().ledger.batches
    batches.abandon(batches.get("readings", 2), "given up before anything was written")
    world.produce(record("y", 3.7))
    world.ingest("r3")
    world.database.write_bytes(yesterday)
    with pytest.raises(StorageAhead, match="next batch is 2"):
        world.ingest("r4")


# ---------------------------------------------------------------- unanswered changes


def test_a_task_that_stood_still_before_its_change_does_not_send_it(world: World) -> None:
    """Its intent is over by then: others may have swapped the window meanwhile (R8)."""
    two_hours(world)
    world.ingest("r1")
    asked: list[object] = []
    ctx = world.context()
    ctx.ledger.windows = Hook(  # type: ignore[misc]
        ctx.ledger.windows, after={"declare_intent": lambda *_: world.clock.advance(ctx.request_ttl_ms)}
    )
    use_catalogue(ctx, Hook(catalogue_of(ctx), before={"add_partitions": lambda *a: asked.append(a)}))
    with pytest.raises(LostComparison):
        archive.publish(ctx, window(0))
    assert asked == []
    assert world.archive(0).rows == 2


def test_a_change_counts_as_unanswered_until_it_can_no_longer_be_executed(world: World) -> None:
    two_hours(world)
    world.ingest("r1")

    def no_answer(*_: object) -> None:
        raise CatalogueUnsure("no answer")

    ctx = world.context()
    use_catalogue(ctx, Hook(world.catalogue, after={"add_partitions": no_answer}))
    with pytest.raises(CatalogueUnsure):
        archive.publish(ctx, window(0))
    assert unanswered(world) == (1, 1)
    world.clock.advance(ctx.request_ttl_ms - 1)
    assert unanswered(world) == (1, 1)
    world.clock.advance(1)
    assert unanswered(world) == (0, 0)


def unanswered(world: World) -> tuple[int, int]:
    """As `tidegate status` and `tidegate explain` are told."""
    reads = world.context().ledger.reads
    return reads.overviews(["readings"])["readings"].intents, len(reads.window("readings", window(0)).intents)
