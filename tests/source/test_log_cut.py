"""A log that was cut below what was planned (an unclean leader election): noticed however far it has grown since,
remembered until a person decides, and gone on from by a rewind or a recorded loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import look
from tests.look.row_readers import InProcessRows
from tests.world import TOPIC, World, record
from tidegate.core.base.errors import BatchRefused, DataLoss, LogCut, ReplayRefused
from tidegate.core.batch.states import Loss
from tidegate.core.look.fate import LOST, NOT_READ, PUBLISHED
from tidegate.core.source.log_cut import REASON
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.batch import ingest
from tidegate.workflow.look.where import where
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore import adoption
from tidegate.workflow.source import log_cut


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def ten_are_read(world: World) -> None:
    """Batch 1: offsets [0, 10) of partition 0, one of partition 1."""
    world.produce(*[record(f"a{i}", 0.1) for i in range(10)])
    world.produce(record("b", 0.1), partition=1)
    world.ingest("r1")


def cut_and_grown(world: World) -> None:
    """Offsets 6 to 9 are other records now, and the log is longer than before."""
    world.kafka.truncate(TOPIC, 0, 6)
    world.produce(*[record(f"new{i}", 0.5) for i in range(8)])


def plan_of(world: World, batch_id: int | None):
    assert batch_id is not None
    return world.context().ledger.batches.get("readings", batch_id).plan


def start(world: World, batch_id: int | None) -> int:
    return plan_of(world, batch_id).partitions[0].start


def decide(world: World, skip: bool) -> None:
    ctx = world.context()
    (cut,) = log_cut.survey(ctx)
    log_cut.settle(ctx, cut, skip, "compared with the producers")
    world.close()


def closes_the_hour(world: World) -> None:
    world.produce(record("z", 3.0))
    world.produce(record("z", 3.0), partition=1)
    world.ingest("closing")


def fates(world: World, offset: int) -> list[tuple[str, int | None]]:
    ctx = world.context()
    return [(f.kind, f.batch_id) for f in where(ctx, ctx.ledger.reads, InProcessRows(), 0, offset).fates]


def notes(world: World, offset: int) -> str:
    ctx = world.context()
    return " ".join(where(ctx, ctx.ledger.reads, InProcessRows(), 0, offset).notes)


def blocks(world: World) -> list[str]:
    return [b.subject for b in world.context().ledger.pipelines.blocks("readings")]


# ---------------------------------------------------------------- noticed, remembered


def test_a_cut_is_remembered_however_far_the_log_grows(world: World) -> None:
    ten_are_read(world)
    world.kafka.truncate(TOPIC, 0, 6)
    with pytest.raises(LogCut, match=r"partition 0: the log was cut at offset 6 .*planned up to 10, by batch 1"):
        world.ingest("r2")
    world.produce(*[record(f"new{i}", 0.5) for i in range(8)])
    with pytest.raises(LogCut, match="tidegate source rewind readings"):
        world.ingest("r3")
    assert blocks(world) == ["partition 0"]
    assert "from there on are not read" in notes(world, 7)
    assert "not read" not in notes(world, 5)


def test_a_cut_that_nobody_saw_is_known_by_the_leader(world: World) -> None:
    ten_are_read(world)
    cut_and_grown(world)
    with pytest.raises(LogCut, match="cut at offset 6 "):
        ingest.plan(world.context(), "r2")
    assert blocks(world) == ["partition 0"]


def test_a_new_leader_alone_is_no_cut(world: World) -> None:
    ten_are_read(world)
    world.kafka.elect(TOPIC, 0)
    world.produce(record("c", 0.2))
    assert start(world, world.ingest("r2")) == 10
    world.kafka.elect(TOPIC, 0)
    assert world.ingest("r3") is None
    assert blocks(world) == []


def test_the_broker_is_asked_only_where_the_leader_is_another(world: World) -> None:
    ten_are_read(world)
    asked = []
    real = world.kafka.cuts
    world.kafka.cuts = lambda topic, ends: asked.append(ends) or real(topic, ends)
    world.produce(record("c", 0.2))
    world.ingest("r2")
    assert asked == []
    world.kafka.elect(TOPIC, 1)
    world.produce(record("d", 0.2))
    world.ingest("r3")
    assert asked == [{1: (1, 0)}]


def test_without_leader_epochs_a_log_that_ends_too_early_is_remembered(world: World) -> None:
    """Of a batch that a release before planned."""
    ten_are_read(world)
    ctx = world.context()
    with ctx.ledger.store.begin() as c:
        c.exec_driver_sql("UPDATE batch_partitions SET leader_epoch = NULL")
    world.kafka.truncate(TOPIC, 0, 6)
    with pytest.raises(LogCut, match="cut at offset 6 "):
        world.ingest("r2")
    world.produce(*[record(f"new{i}", 0.5) for i in range(8)])
    decide(world, skip=False)
    assert start(world, world.ingest("r3")) == 6


def test_a_broker_that_does_not_know_its_end_yet_is_asked_again(world: World) -> None:
    ten_are_read(world)
    real = world.kafka.look
    early = lambda topic: replace(  # noqa: E731
        real(topic),
        partitions={p: replace(o, high_watermark=min(o.high_watermark, 8)) for p, o in real(topic).partitions.items()},
    )
    world.kafka.look = early
    with pytest.raises(DataLoss, match="the next offset is 10, but the log ends at 8") as refused:
        world.ingest("r2")
    assert not isinstance(refused.value, LogCut)
    world.kafka.look = real
    assert blocks(world) == []
    assert world.ingest("r3") is None


# ---------------------------------------------------------------- decided


def test_a_rewind_reads_what_took_the_freed_offsets(world: World) -> None:
    ten_are_read(world)
    cut_and_grown(world)
    with pytest.raises(LogCut):
        world.ingest("r2")
    decide(world, skip=False)
    assert blocks(world) == []
    assert [kind for kind, _ in fates(world, 7)] == [NOT_READ, "waiting"], "of the new record, and of the old"
    assert start(world, world.ingest("r3")) == 6
    closes_the_hour(world)
    assert world.archive(0).rows == 11 + 8
    assert fates(world, 7) == [(PUBLISHED, 2), (PUBLISHED, 1)]
    assert "another record has taken the offset since" in notes(world, 7)
    assert fates(world, 3) == [(PUBLISHED, 1)]
    assert fates(world, 12) == [(PUBLISHED, 2)]
    report = look(world)
    assert (report.problems, report.totals.lost) == ((), 0)
    assert world.ingest("again") is None, "the group's mark of before the rewind is no other ledger's"


def test_a_skip_goes_on_at_the_planned_end_and_records_the_loss(world: World) -> None:
    ten_are_read(world)
    world.kafka.truncate(TOPIC, 0, 6)
    with pytest.raises(LogCut):
        world.ingest("r2")
    ctx = world.context()
    (cut,) = log_cut.survey(ctx)
    with pytest.raises(Exception, match="ends at 6, below the planned end 10: there is nothing to skip"):
        log_cut.settle(ctx, cut, True, "x")
    world.produce(*[record(f"new{i}", 0.5) for i in range(8)])
    decide(world, skip=True)
    batch = world.ingest("r3")
    assert (start(world, batch), plan_of(world, batch).losses) == (10, (Loss(0, 6, 10, REASON),))
    closes_the_hour(world)
    assert world.archive(0).rows == 11 + 4
    assert fates(world, 7) == [(LOST, 2), (PUBLISHED, 1)]
    report = look(world)
    assert (report.problems, report.totals.lost) == ((), 4)


def test_a_second_cut_before_the_next_plan_is_noticed_too(world: World) -> None:
    ten_are_read(world)
    cut_and_grown(world)
    with pytest.raises(LogCut):
        world.ingest("r2")
    decide(world, skip=False)
    world.kafka.truncate(TOPIC, 0, 3)
    world.produce(*[record(f"newer{i}", 0.5) for i in range(9)])
    with pytest.raises(LogCut, match="cut at offset 3 .*planned up to 6"):
        world.ingest("r3")
    decide(world, skip=False)
    assert start(world, world.ingest("r4")) == 3
    closes_the_hour(world)
    world.archive(0)
    assert look(world).problems == ()
    assert [batch for _, batch in fates(world, 4)] == [2, 1]


def test_a_decision_meets_only_the_cut_that_was_seen(world: World) -> None:
    ten_are_read(world)
    cut_and_grown(world)
    ctx = world.context()
    (cut,) = log_cut.survey(ctx)
    version = ctx.ledger.pipelines.row("readings").version
    log_cut.settle(ctx, cut, False, "x")
    assert ctx.ledger.pipelines.row("readings").version == version + 1
    with pytest.raises(Exception, match="somebody else has moved on"):
        log_cut.settle(ctx, cut, True, "y")


# ---------------------------------------------------------------- while a batch is open, replays, recovery


def test_a_batch_whose_log_is_cut_while_it_is_read_is_not_sealed(world: World) -> None:
    world.produce(*[record(f"a{i}", 0.1) for i in range(10)])
    ingest.plan(world.context(), "r1")
    cut_and_grown(world)
    with pytest.raises(BatchRefused, match="cut at offset 6 .*after batch 1 was planned up to 10.*\n.*--reread 1"):
        ingest.write(world.context(), "r1")
    reconcile.reread(world.context(), 1, "the log was cut")
    assert world.ingest("r2") == 1
    closes_the_hour(world)
    assert world.archive(0).rows == 6 + 8
    assert look(world).problems == ()


@pytest.mark.parametrize("noticed", [True, False])
def test_a_replay_takes_no_record_that_has_taken_a_freed_offset(world: World, noticed: bool) -> None:
    ten_are_read(world)
    closes_the_hour(world)
    world.archive(0)
    world.kafka.truncate(TOPIC, 0, 6)
    world.produce(*[record(f"new{i}", 0.1, value=99) for i in range(8)])
    if noticed:
        with pytest.raises(LogCut):
            world.ingest("r2")
        decide(world, skip=False)
        world.ingest("r3")
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    with pytest.raises(ReplayRefused, match=r"offsets \[6, 10\) belong to other records since the log was cut at 6"):
        world.replay(0)


def test_a_ledger_that_lost_a_rewind_takes_it_back_with_the_batch(world: World) -> None:
    ten_are_read(world)
    before = world.database.read_bytes()
    cut_and_grown(world)
    with pytest.raises(LogCut):
        world.ingest("r2")
    decide(world, skip=False)
    world.ingest("r3")
    world.close()
    world.database.write_bytes(before)
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "failover")
    assert start(world, 2) == 6
    closes_the_hour(world)
    assert world.archive(0).rows == 11 + 8
    assert look(world).problems == ()
