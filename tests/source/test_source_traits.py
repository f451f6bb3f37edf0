"""Rules ask a source's traits: what each one changes, on a source that lacks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import look
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import BatchRefused, LogCut, LostComparison, ReplayRefused, SourceError
from tidegate.core.source.loss_forecast import NEVER
from tidegate.core.source.port import ALL
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.batch import ingest
from tidegate.workflow.look.status import loss_of, status
from tidegate.workflow.replay import replay
from tidegate.workflow.restore import reset

PLAIN = replace(ALL, identity=False, transactions=False, remembers=False)
"""A queue without ids and marks, such as RocketMQ's."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def without_epochs(world: World) -> None:
    """Lanes that tell no leader epoch."""
    real = world.kafka.look

    def look_at(topic: str) -> Any:
        state = real(topic)
        return replace(state, partitions={p: replace(o, leader_epoch=None) for p, o in state.partitions.items()})

    world.kafka.look = look_at  # type: ignore[method-assign]


def published(world: World) -> None:
    for partition in (0, 1):
        world.produce(record("a", 0.1), record("next", 1.1), record("far", 9.0), partition=partition)
    world.ingest("r1")
    world.archive(0)


def other_columns(world: World) -> None:
    id_, site, *_ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))


def test_a_whole_life_without_ids_and_marks(world: World) -> None:
    world.kafka.traits = PLAIN
    without_epochs(world)
    published(world)
    other_columns(world)
    ctx = world.context()
    assert replay.replay(ctx, window(0)).generation == 2
    assert world.kafka.groups == {}, "nothing is to be remembered"
    assert look(world).problems == ()
    assert ctx.ledger.pipelines.row("readings").accepted_topic_id == TOPIC  # type: ignore[union-attr]
    assert not isinstance(reset.survey(world.context()), reset.Recreated)


def test_without_marks_storage_is_the_only_witness_of_lost_commits(world: World) -> None:
    """`remembers`: with it the group is asked before every plan."""

    def asked(*_: object) -> dict[int, int]:
        raise AssertionError("the source remembers nothing")

    world.kafka.traits = PLAIN
    world.kafka.remembered = asked  # type: ignore[method-assign]
    world.kafka.remember = asked  # type: ignore[method-assign, assignment]
    published(world)
    world.produce(record("b", 0.2))
    assert world.ingest("r2") == 2
    world.kafka.traits = replace(PLAIN, remembers=True)
    with pytest.raises(AssertionError, match="remembers nothing"):
        world.ingest("r3")


def test_without_ids_an_end_below_ours_is_refused_when_it_is_planned(world: World) -> None:
    """`identity`: a recreated log that has grown past the planned end can't be seen; one that is shorter can."""
    world.kafka.traits = PLAIN
    without_epochs(world)
    published(world)
    world.kafka.create(TOPIC, 2)
    world.produce(record("new", 2.0))
    with pytest.raises(LogCut, match="partition 0: the log was cut at offset 1 .* planned up to 3"):
        world.ingest("r2")


def test_without_ids_an_end_below_ours_is_refused_when_the_batch_is_sealed(world: World) -> None:
    world.kafka.traits = PLAIN
    without_epochs(world)
    world.produce(*[record(f"a{i}", 0.1) for i in range(5)])
    ctx = world.context()
    ingest.plan(ctx, "r1")
    run = world.launcher.run  # type: ignore[union-attr]

    def recreated_meanwhile(path: str) -> None:
        run(path)
        world.kafka.create(TOPIC, 2)
        world.produce(record("new", 0.1))

    ctx.launcher.run = recreated_meanwhile  # type: ignore[method-assign]
    with pytest.raises(BatchRefused, match="cut at offset 1 .* after batch 1 was planned up to 5"):
        ingest.write(ctx, "r1")


def test_without_ids_an_operator_begins_a_new_era(world: World) -> None:
    """The ledger gives the new log an id: nothing of the old one is taken for something of the new one."""
    world.kafka.traits = PLAIN
    without_epochs(world)
    published(world)
    world.kafka.create(TOPIC, 2)
    world.produce(record("new", 2.0))
    with pytest.raises(LogCut) as refused:
        world.ingest("r2")
    assert "tidegate source reset readings" not in str(refused.value.args[0])
    assert "`tidegate source reset readings` accepts the new one" in refused.value.advice
    ctx = world.context()
    found = reset.survey(ctx)
    assert isinstance(found, reset.Recreated)
    assert (found.old, found.topic.topic_id, found.offsets) == (TOPIC, f"{TOPIC}#2", 1)
    reset.accept(ctx, found, "created again")
    with pytest.raises(LostComparison):
        reset.accept(ctx, found, "by another operator at the same time")
    assert ctx.ledger.cuts.open("readings") == ()
    assert world.ingest("r2") == 2
    plan = ctx.ledger.batches.get("readings", 2).plan
    assert (plan.topic_id, [(r.partition, r.start, r.end) for r in plan.ranges]) == (f"{TOPIC}#2", [(0, 0, 1)])
    assert look(world).problems == ()
    reads: Any = ctx.ledger.reads
    told = status(ctx, reads, world.kafka.look(TOPIC))
    assert told.lag is not None
    assert told.lag.records == 0, "another look at the log is of the same era"
    assert [c for c in told.concerns if c.kind == "source_reset"] == []
    other_columns(world)
    with pytest.raises(ReplayRefused, match="readings was recreated: it has id readings#2 now"):
        replay.replay(world.context(), window(0))


def test_without_ids_an_operator_may_know_more_than_can_be_seen(world: World) -> None:
    """The new log has grown past the planned end. What was read of it as the old one's is read again."""
    world.kafka.traits = PLAIN
    without_epochs(world)
    published(world)
    world.kafka.create(TOPIC, 2)
    for partition in (0, 1):
        world.produce(*[record(f"new{i}", 2.0) for i in range(5)], partition=partition)
    assert not isinstance(reset.survey(world.context()), reset.Recreated)
    found = reset.survey(world.context(), told=True)
    assert isinstance(found, reset.Recreated)
    reset.accept(world.context(), found, "the producers' team says so")
    assert world.ingest("r2") == 2
    assert world.context().ledger.batches.get("readings", 2).plan.records == 10
    world.kafka.traits = ALL
    world.kafka.create(TOPIC, 2)
    named = reset.survey(world.context(), told=True)
    assert isinstance(named, reset.Recreated)
    assert named.topic.topic_id == world.kafka.look(TOPIC).topic_id, "an id of its own needs no era"


def test_a_log_with_an_id_is_told_by_it_alone(world: World) -> None:
    """The end of a log that a broker tells too early refuses no batch there: leader epochs say more."""
    published(world)
    state = world.kafka.look(TOPIC)
    assert state.is_another("another")
    assert not state.is_another(state.topic_id)
    assert not state.is_another(None)
    unnamed = replace(state, topic_id="readings", traits=PLAIN)
    assert unnamed.known_as("readings#2").topic_id == "readings#2", "what an operator said last"
    assert unnamed.known_as(None) == unnamed
    assert unnamed.known_as("another#2").is_another("another#2"), "of another name"
    assert state.known_as("another") == state
    assert [unnamed.next_era().topic_id, unnamed.next_era().next_era().topic_id] == ["readings#2", "readings#3"]


def test_a_log_whose_offsets_hold_several_records_is_refused_before_anything_is_read(world: World) -> None:
    """`dense`: rows, gaps and balances are told by their offsets."""
    world.kafka.traits = replace(ALL, dense=False)
    world.produce(record("a", 0.1))
    with pytest.raises(SourceError, match="an offset of topic readings may hold several records"):
        world.ingest("r1")
    assert world.context().ledger.batches.open("readings") is None


def test_a_log_that_forgets_nothing_has_no_time_to_loss(world: World) -> None:
    """`expires`."""
    world.kafka.create(TOPIC, 2, retention_ms=1)
    published(world)
    world.produce(record("waits", 2.0))
    now_ms = world.clock.now_ms()
    reads: Any = world.context().ledger.reads
    survey = reads.survey(["readings"], now_ms)["readings"]
    state = world.kafka.look(TOPIC)
    told = loss_of(world.pipeline, state, survey, now_ms)
    assert [f.state for f in told.partitions] != [NEVER, NEVER]
    told = loss_of(world.pipeline, replace(state, traits=replace(ALL, expires=False)), survey, now_ms)
    assert [f.state for f in told.partitions] == [NEVER, NEVER]
    assert told.at_pace_ms is None


def test_what_a_second_reading_may_change_is_taken_from_files_or_not_at_all(world: World) -> None:
    """`rereadable`: replay and heal read from the source only where it gives the same records again."""
    published(world)
    world.kafka.traits = replace(ALL, rereadable=False)
    world.change_spec(columns=world.pipeline.columns[:2])
    assert replay.replay(world.context(), window(0)).generation == 2
    (job,) = world.launcher.runs  # type: ignore[union-attr]
    assert job.copies
    assert job.bootstrap == {}, "the source was not read"
    other_columns(world)
    with pytest.raises(ReplayRefused, match="a second reading of readings may give other records"):
        replay.replay(world.context(), window(0))
