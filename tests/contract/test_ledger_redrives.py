"""Redrives in the ledger, on SQLite and PostgreSQL: a batch's dirty rows have one owner, taken in one transaction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.ledgers import (  # noqa: F401 (fixtures)
    NAME,
    landed,
    ledger,
    now,
    open_ledger,
    plan,
    planned,
    url,
)
from tidegate.core.base.errors import LostComparison
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.batch.states import REDRIVE, DirtySource, Plan, PlannedBatch, SealedBatch
from tidegate.core.dirty.redrive import ASK_LASTS_MS, DirtyBatch
from tidegate.core.files.balance import Balance
from tidegate.core.files.receipt import FileEntry, PartitionRows, RangeResult, Receipt
from tidegate.ledger import SqlLedger

SOURCES = (DirtySource(1, 0, 2, 1, 4),)


def dirty_file(path: str, rows: int, low: int, high: int) -> FileEntry:
    return FileEntry(
        path=path,
        kind="dirty",
        window_ms=None,
        values=(),
        rows=rows,
        bytes=9,
        min_event_ms=None,
        max_event_ms=None,
        checksum=5,
        partitions=(PartitionRows(0, rows, low, high),),
    )


def dirty_batch(ledger: SqlLedger, batch_id: int = 1, start: int = 0) -> None:  # noqa: F811
    """LANDED, 3 data and 2 dirty rows of 5 offsets; the dirty ones at `start` + 1 and + 4."""
    writing = ledger.batches.take(planned(ledger, batch_id, start, start + 5), "n1")
    result = RangeResult(
        range=writing.plan.ranges[0],
        read=5,
        data=3,
        late=0,
        dirty=2,
        filtered=0,
        dropped=0,
        gaps=(),
        min_event_ms=10,
        max_event_ms=20,
    )
    data = FileEntry(
        path="data/x",
        kind="data",
        window_ms=0,
        values=(),
        rows=3,
        bytes=9,
        min_event_ms=10,
        max_event_ms=20,
        checksum=7,
        partitions=(PartitionRows(0, 3, start, start + 3),),
    )
    files = (data, dirty_file("dirty/a", 1, start + 1, start + 1), dirty_file("dirty/b", 1, start + 4, start + 4))
    p = writing.plan
    receipt = Receipt(
        attempt="a",
        batch_id=p.batch_id,
        epoch=writing.epoch,
        nonce=writing.nonce,
        topic="t",
        topic_id="id-1",
        spec_version=1,
        rules_version=1,
        ranges=(result,),
        files=files,
    )
    ledger.batches.land(ledger.batches.seal(writing, receipt))
    for flag in ("moved", "registered"):
        ledger.batches.mark_side(NAME, batch_id, flag)


def redrive_plan(batch_id: int = 2, sources: tuple[DirtySource, ...] = SOURCES) -> Plan:
    return replace(plan(batch_id), partitions=(), kind=REDRIVE, sources=sources)


def insert(ledger: SqlLedger, batch_id: int = 2, sources: tuple[DirtySource, ...] = SOURCES) -> PlannedBatch:  # noqa: F811
    wanted = redrive_plan(batch_id, sources)
    ledger.batches.insert_plan(wanted, ledger.batches.planning_view(NAME).version, f"redrive {batch_id}")
    return PlannedBatch(wanted)


def sealed(ledger: SqlLedger, batch: PlannedBatch) -> SealedBatch:  # noqa: F811
    """One row is data now, one still dirty."""
    writing = ledger.batches.take(batch, "n2")
    result = RangeResult(
        range=batch.plan.ranges[0],
        read=2,
        data=1,
        late=0,
        dirty=1,
        filtered=0,
        dropped=0,
        gaps=(Interval(2, 4),),
        min_event_ms=30,
        max_event_ms=30,
    )
    data = FileEntry(
        path="data/y",
        kind="data",
        window_ms=0,
        values=(),
        rows=1,
        bytes=9,
        min_event_ms=30,
        max_event_ms=30,
        checksum=7,
        partitions=(PartitionRows(0, 1, 1, 1),),
    )
    p = batch.plan
    files = (data, dirty_file("dirty/c", 1, 4, 4))
    receipt = Receipt(
        attempt="b",
        batch_id=p.batch_id,
        epoch=writing.epoch,
        nonce=writing.nonce,
        topic="t",
        topic_id="id-1",
        spec_version=1,
        rules_version=1,
        ranges=(result,),
        files=files,
    )
    return ledger.batches.seal(writing, receipt)


def test_a_plan_comes_back_as_it_was(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    batch = insert(ledger)
    assert ledger.batches.open(NAME) == batch
    assert batch.plan.ranges == (OffsetRange("t", 0, 1, 5),)
    assert batch.plan.records == 2
    assert ledger.batches.bound(NAME, "redrive 2") == 2


def test_what_can_be_redriven(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    landed(ledger, 2, 5, 10)  # without dirty rows
    assert ledger.redrives.dirty_batches(NAME) == [DirtyBatch(1, "t", "id-1", True, SOURCES)]


def test_landing_takes_the_rows_over(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    one = sealed(ledger, insert(ledger))
    assert ledger.redrives.duties(NAME) == []
    assert [b.batch_id for b in ledger.redrives.dirty_batches(NAME)] == [1]
    ledger.batches.land(one)
    assert ledger.redrives.duties(NAME) == [(1, 2)]
    assert [(b.batch_id, b.settled) for b in ledger.redrives.dirty_batches(NAME)] == [(2, False)]
    nothing = dict.fromkeys(("late", "filtered", "dropped", "rerouted"), 0)
    assert ledger.redrives.counts(NAME, 2) == {"data": 1, "dirty": 1} | nothing
    ledger.redrives.cleared(NAME, 1)
    ledger.redrives.cleared(NAME, 1)
    assert ledger.redrives.duties(NAME) == []
    (page,) = ledger.reads.batch_pages(NAME, 1, 2)
    first, second = page.batches
    assert (first.kind, first.redriven_by, first.set_aside) == ("ingest", 2, True)
    assert (second.kind, second.sources, second.redriven_by, second.ends) == ("redrive", (1,), None, {})


def test_nothing_else_moves(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    before, facts = ledger.batches.planning_view(NAME), ledger.windows.facts(NAME)
    ledger.batches.land(sealed(ledger, insert(ledger)))
    after = ledger.batches.planning_view(NAME)
    assert (after.planned_ends, after.facts, after.accepted_topic_id) == ({0: 5, 1: 0}, before.facts, "id-1")
    assert ledger.windows.facts(NAME) == facts
    survey = ledger.reads.survey([NAME], 0)[NAME]
    assert survey.progress.ends == {0: 5, 1: 0}
    assert survey.totals.balance == Balance(offsets=5, read=5, data=4, dirty=1)
    assert [i for i, _ in ledger.reads.landed(NAME)] == [1]


def test_an_audits_slab_holds_few_rows_of_redrives(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    ledger.batches.land(sealed(ledger, insert(ledger)))
    landed(ledger, 3, 5, 10)
    assert [(s.first, s.last, s.offsets) for s in ledger.reads.slabs(NAME, 2_048)][:2] == [(0, 1, 5), (2, 2, 2_048)]
    assert {type(s.offsets) for s in ledger.reads.slabs(NAME, 2_048)} == {int}, "they are handed on as JSON"


def test_rows_have_one_owner(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    ledger.batches.land(sealed(ledger, insert(ledger)))
    with pytest.raises(LostComparison, match="dirty rows of batch 1"):
        insert(ledger, 3)
    assert ledger.batches.open(NAME) is None
    assert ledger.batches.planning_view(NAME).next_batch_id == 3


def test_only_landed_batches_are_sources(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    for wrong in (DirtySource(7, 0, 1, 0, 0), DirtySource(2, 0, 1, 0, 0)):
        with pytest.raises(LostComparison, match=f"batch {wrong.batch_id}"):
            insert(ledger, 2, (*SOURCES, wrong))


def test_one_open_batch_of_any_kind(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    insert(ledger)
    with pytest.raises(LostComparison):
        planned(ledger, 3, 5, 9)


def test_of_an_abandoned_redrive_the_rows_are_free(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    writing = ledger.batches.take(insert(ledger), "n2")
    ledger.batches.abandon(writing, "in vain")
    assert [b.batch_id for b in ledger.redrives.dirty_batches(NAME)] == [1]
    ledger.batches.land(sealed(ledger, insert(ledger, 3)))
    assert ledger.redrives.duties(NAME) == [(1, 3)]


def test_an_older_topics_rows_leave_the_accepted_one_alone(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    ledger.pipelines.accept_topic(NAME, "id-1", "id-2", "on purpose")
    insert(ledger)
    view = ledger.batches.planning_view(NAME)
    assert (view.accepted_topic_id, view.planned_ends) == ("id-2", {})


def test_a_withdrawn_redrive_leaves_nothing(ledger: SqlLedger) -> None:  # noqa: F811
    dirty_batch(ledger)
    gone = insert(ledger)
    ledger.recovery.withdraw(gone, "storage has another one")
    assert ledger.batches.open(NAME) is None
    ledger.batches.insert_plan(gone.plan, ledger.batches.planning_view(NAME).version, "another run")
    ledger.batches.land(sealed(ledger, gone))
    assert ledger.redrives.duties(NAME) == [(1, 2)]


def test_a_recreated_topics_offsets_are_looked_up_in_their_own_life(ledger: SqlLedger) -> None:  # noqa: F811
    """The ids of a redrive lie among those of another topic: it is no batch of that one."""
    dirty_batch(ledger)
    ledger.batches.land(sealed(ledger, insert(ledger)))
    found = ledger.reads.offsets(NAME, [(0, 1), (0, 0), (0, 4), (0, 2)])
    assert found is not None
    lives = [facts.lives[0] for facts in found]
    assert [life.batch.batch_id for life in lives if life.batch] == [2, 1, 2, 1]
    assert [[e.batch.batch_id for e in life.earlier] for life in lives] == [[1], [], [1], []]


def test_whose_turn_is_next(ledger: SqlLedger, now: list[int]) -> None:  # noqa: F811
    asks = ledger.redrives
    assert asks.asked(NAME) is None
    mine = asks.ask(NAME, None)
    assert asks.asked(NAME) == mine
    assert mine.until_ms == mine.asked_ms + ASK_LASTS_MS
    now[0] += ASK_LASTS_MS - 1
    longer = asks.ask(NAME, mine)
    assert (longer.id, longer.asked_ms, longer.until_ms) == (mine.id, mine.asked_ms, now[0] + ASK_LASTS_MS)
    with pytest.raises(LostComparison):
        asks.ask(NAME, mine)
    now[0] += 1
    assert asks.asked(NAME) == longer
    other = asks.ask(NAME, None)
    assert asks.asked(NAME) == longer, "the oldest"
    asks.withdraw(NAME, mine)
    assert asks.asked(NAME) == longer, "not the one that was read"
    asks.withdraw(NAME, longer)
    assert asks.asked(NAME) == other
    now[0] = other.until_ms
    assert asks.asked(NAME) is None, "lapsed"
    with pytest.raises(LostComparison):
        asks.ask(NAME, other)


def test_who_is_in_the_way(ledger: SqlLedger) -> None:  # noqa: F811
    assert ledger.redrives.in_the_way(NAME) is None
    batch = planned(ledger, 1, 0, 5)
    ledger.batches.bind(NAME, "flights.ingest/r9", 1)
    found = ledger.redrives.in_the_way(NAME)
    assert found is not None
    assert (found.batch_id, found.state, found.epoch, found.blocked) == (1, "PLANNED", 0, "")
    assert "flights.ingest/r9" in found.runs
    writing = ledger.batches.take(batch, "n1")
    ledger.batches.block(writing, "landed/1 differs\nin two lines")
    found = ledger.redrives.in_the_way(NAME)
    assert found is not None
    assert (found.state, found.epoch, found.blocked) == ("WRITING", 1, "landed/1 differs")
