"""A batch that was refused as too dirty lands as it is, once, because a person said so."""

from __future__ import annotations

import pytest

from tests.cli.test_cli_commands import Tide, the_json, tide, world
from tests.world import TOPIC, World, record
from tidegate.core.base.errors import BatchRefused, LostComparison, StepMissing
from tidegate.core.spec.pipeline import Column, DirtyLimits
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile

__all__ = ["tide", "world"]  # fixtures


def too_dirty(world: World, run: str = "readings.ingest/r2") -> int:
    """The open batch: five records, two of them dirty, none allowed."""
    world.change_spec(dirty=DirtyLimits(0, None))
    world.produce(record("e", 3.6), b"\xff", record("f", 3.7), b'{"id": 1}', record("g", 3.8))
    batch = ingest.plan(world.context(), run)
    assert batch is not None
    with pytest.raises(BatchRefused, match=f"--release {batch} --why"):
        ingest.write(world.context(), run)
    world.close()
    return batch


def jobs_of_a_write(world: World, run: str = "readings.ingest/r2") -> int:
    ctx = world.context()
    ingest.write(ctx, run)
    assert world.launcher is not None
    return len(world.launcher.runs)


def test_a_released_batch_lands_with_all_its_dirty_rows_and_nothing_is_read_again(world: World) -> None:
    batch, before = too_dirty(world), world.table("__dirty")
    ctx = world.context()
    reconcile.release(ctx, batch, reconcile.releasable(ctx, batch), "the producer of today")
    assert jobs_of_a_write(world) == 0
    ingest.land(world.context(), "readings.ingest/r2")
    assert len(world.table("__dirty")) == len(before) + 2
    landed = world.context().ledger.reads.batch_pages("readings", batch, batch)
    assert next(landed).batches[0].released == "test: the producer of today"
    assert "it lands all the same, released by test: the producer of today" in "\n".join(world.said)


def test_a_release_is_of_one_batch_only(world: World) -> None:
    batch = too_dirty(world)
    ctx = world.context()
    reconcile.release(ctx, batch, reconcile.releasable(ctx, batch), "why")
    world.ingest("readings.ingest/r2")
    assert too_dirty(world, "readings.ingest/r3") == batch + 1


def test_a_release_outlives_the_attempt_that_was_refused(world: World) -> None:
    """Its files are lost: the next try reads the same offsets with the same spec, and lands them."""
    batch = too_dirty(world)
    ctx = world.context()
    reconcile.release(ctx, batch, reconcile.releasable(ctx, batch), "why")
    ctx.storage.delete(ctx.layout.attempt(batch, 1, ctx.ledger.batches.open("readings").nonce))  # type: ignore[union-attr]
    assert jobs_of_a_write(world) == 1
    assert world.ingest("readings.ingest/r2") == batch


def test_another_spec_does_not_take_the_place_of_what_was_released(world: World) -> None:
    """What the person saw is what lands: a spec that came since waits for the next batch."""
    batch = too_dirty(world)
    ctx = world.context()
    reconcile.release(ctx, batch, reconcile.releasable(ctx, batch), "why")
    pinned = ctx.spec_version
    world.change_spec(columns=(*world.pipeline.columns[:2], Column(name="value", type="int", path="$.other")))
    world.ingest("readings.ingest/r2")
    row = next(world.context().ledger.reads.batch_pages("readings", batch, batch)).batches[0]
    assert (row.state, row.spec_version) == ("LANDED", pinned)


def test_what_else_is_wrong_stays_refused(world: World) -> None:
    batch = too_dirty(world)
    ctx = world.context()
    reconcile.release(ctx, batch, reconcile.releasable(ctx, batch), "why")
    world.kafka.create(TOPIC, 2)
    with pytest.raises(Exception, match="has id"):
        ingest.write(world.context(), "readings.ingest/r2")
    assert world.context().ledger.batches.open("readings").state == "WRITING"  # type: ignore[union-attr]


def test_only_the_open_batch_with_too_many_dirty_rows_can_be_released(world: World) -> None:
    with pytest.raises(StepMissing, match="batch 1 is not the open one"):
        reconcile.releasable(world.context(), 1)
    world.produce(record("e", 3.6))
    ingest.plan(world.context(), "r2")
    with pytest.raises(StepMissing, match="batch 2 was not refused"):
        reconcile.releasable(world.context(), 2)
    world.kafka.trim(TOPIC, 0, 5)
    with pytest.raises(BatchRefused, match="data loss"):
        ingest.write(world.context(), "r2")
    with pytest.raises(StepMissing, match="not refused for its dirty records, but: attempt .*data loss"):
        reconcile.releasable(world.context(), 2)


def test_two_people_release_it_once(world: World) -> None:
    batch = too_dirty(world)
    ctx = world.context()
    seen = reconcile.releasable(ctx, batch)
    reconcile.release(ctx, batch, seen, "one")
    with pytest.raises(StepMissing, match="has been released by test: one"):
        reconcile.release(ctx, batch, seen, "two")
    with pytest.raises(LostComparison):
        ctx.ledger.repairs.release("readings", batch, seen, "two")
    assert [e.what for e in ctx.ledger.reads.events("readings", 9)].count("released") == 1


def test_the_command_shows_what_it_releases_and_the_next_run_lands_it(tide: Tide, world: World) -> None:
    batch = str(too_dirty(world))
    assert f"--release {batch}" in tide("status", "readings", "--no-kafka").output.replace("\n", " ")
    assert tide("repair", "readings", "--release", batch).exit_code == 2
    assert tide("repair", "readings", "--release", batch, "--why", "x", input="n\n").exit_code == 1
    result = tide("repair", "readings", "--release", batch, "--why", "known", input="y\n")
    assert result.exit_code == 0, result.output
    assert "batch 2: 2 of 5 records are dirty, over dirty.max_count 0" in result.output
    assert "will go into lake.readings__dirty" in result.output
    event = the_json(tide("events", "readings", "-n", "1", "--json"))["events"][0]
    assert (event["what"], event["detail"]["why"]) == ("released", "known")
    told = the_json(tide("status", "readings", "--no-kafka", "--json"))["pipelines"][0]
    assert told["open_batch"]["released"].endswith(": known")
    assert "released by tidegate command" in tide("status", "readings", "--no-kafka").output.replace("\n", " ")
    result = tide("repair", "readings", "--release", batch, "--why", "again", "--yes")
    assert (result.exit_code, "has been released by tidegate command" in result.output) == (1, True)
    world.ingest("readings.ingest/r2")
    audited = the_json(tide("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["read"]) == ([], 11)
