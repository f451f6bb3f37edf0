"""A batch that was given up by a ledger that lost commits, though it has landed (R11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.audit.audits import in_process
from tests.ledger_loss import adopt
from tests.restore.histories import first_records, goes_on, waiting
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import StillClosing, StorageAhead
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore import adoption


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def given_up(world: World, run: str = "r1", meanwhile: Callable[[], object] = lambda: None) -> None:
    """A ledger that has forgotten all but the plan of the batch, and gives it up before anything looks at storage.

    `meanwhile`: what happens after the plan, and is not forgotten."""
    ingest.plan(world.context(), run)
    meanwhile()
    world.close()
    planned = world.database.read_bytes()
    ingest.write(world.context(), run)
    ingest.land(world.context(), run)
    world.close()
    world.database.write_bytes(planned)
    ledger = world.context().ledger
    batch = ledger.batches.open("readings")
    assert batch is not None
    ledger.batches.abandon(batch, "a person was too fast")
    world.close()


def test_a_batch_that_was_given_up_comes_back_as_it_has_landed(world: World) -> None:
    first_records(world)
    given_up(world)
    ctx = world.context()
    ctx.ledger.totals.advance("readings")
    assert ctx.ledger.batches.planning_view("readings").planned_ends == {0: 4, 1: 2}
    with pytest.raises(StorageAhead, match=r"(?s)batch 1 is ABANDONED in the ledger.*repair readings --adopt --why"):
        ingest.plan(world.context(), "r2")
    assert adopt(world) == ["withdrawn: batch 1 as the ledger had it (ABANDONED)", "adopted: batch 1 (6 rows)"]
    assert adoption.survey(world.context()).nothing
    everything_goes_on(world)


def everything_goes_on(world: World) -> None:
    goes_on(world)
    table = world.table() + world.table("__dirty") + waiting(world)
    ends = {p: o.high_watermark for p, o in world.kafka.look(TOPIC).partitions.items()}
    assert sorted(table) == [(p, o) for p, end in sorted(ends.items()) for o in range(end)]
    ctx = world.context()
    ctx.ledger.totals.advance("readings")
    report = audit(ctx, ctx.ledger.reads, in_process)
    assert (report.problems, report.balanced) == ((), True)


@pytest.mark.parametrize("state", ["OPEN", "CLOSING"])
def test_no_hour_closes_without_the_rows_of_a_batch_that_was_given_up_but_has_landed(world: World, state: str) -> None:
    first_records(world)
    world.ingest("r1")
    world.produce(record("late", 0.7), record("later", 4.2))

    def closing() -> None:
        with pytest.raises(StillClosing):
            world.archive(0)

    given_up(world, "r2", closing if state == "CLOSING" else lambda: None)
    for _ in range(2):
        with pytest.raises(StorageAhead, match="batch 2 is ABANDONED in the ledger"):
            world.archive(0)
        world.close()
    assert world.context().ledger.windows.get("readings", window(0)).state == state
    assert adopt(world)[0] == "withdrawn: batch 2 as the ledger had it (ABANDONED)"
    everything_goes_on(world)
    assert (0, 4) in world.table(), "it came in time"


def test_a_batch_that_was_given_up_for_good_is_left_as_it_is(world: World) -> None:
    first_records(world)
    ingest.plan(world.context(), "r1")
    reconcile.abandon(world.context(), 1, "it is of no use", force=True)
    assert adoption.survey(world.context()).nothing
    world.produce(record("next", 4.2))
    assert world.ingest("r2") == 2


def test_a_batch_that_is_given_up_during_an_adoption_is_taken_by_the_next(world: World) -> None:
    first_records(world)
    ingest.plan(world.context(), "r1")
    planned = world.database.read_bytes()
    world.ingest("r1")
    world.database.write_bytes(planned)
    ctx = world.context()
    found = adoption.survey(ctx)
    batch = ctx.ledger.batches.open("readings")
    assert batch is not None
    ctx.ledger.batches.abandon(batch, "meanwhile")
    with pytest.raises(StorageAhead, match=r"(?s)given up in the ledger.*run the same command again"):
        adoption.adopt(ctx, found, "why")
    assert adopt(world)[-1] == "adopted: batch 1 (6 rows)"
    everything_goes_on(world)


def test_an_adoption_that_dies_after_the_withdrawal_goes_on(world: World) -> None:
    first_records(world)
    given_up(world)
    ctx = world.context()
    found = adoption.survey(ctx)
    assert found.withdraw is not None
    ctx.ledger.recovery.withdraw(found.withdraw, "why")
    world.close()
    assert adopt(world) == ["adopted: batch 1 (6 rows)"]
    everything_goes_on(world)
