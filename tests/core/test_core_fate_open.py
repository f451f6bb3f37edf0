"""The fate of records that no batch has landed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import PIPELINE, T0
from test_core_fate import AROUND, BATCH, LIFE, TOPIC, P, decide

from tidegate.core.look import fate
from tidegate.core.look.fate import fate_of
from tidegate.core.look.sighting import (
    OffsetFacts,
    Search,
)
from tidegate.core.look.views import LossRow
from tidegate.core.source.port import Lane

# ---------------------------------------------------------------- not in a batch

BARE = replace(LIFE, batch=None)
WAIT = "nothing if flights.ingest is running; see: tidegate status flights"
END = "end or abort the producer's transaction"


@pytest.mark.parametrize(
    ("offset", "kind", "says", "behind", "step"),
    [
        (9, fate.BEFORE_START, "offset 10 (source.start: earliest)", None, ""),
        (10, fate.MISSING, "a hole here", None, "tidegate audit flights"),
        (29, fate.MISSING, "a hole here", None, "tidegate audit flights"),
        (30, fate.NOT_READ, "0 behind (planned up to 30)", 0, WAIT),
        (39, fate.NOT_READ, "9 behind", 9, WAIT),
        (40, fate.NOT_READ, "an open transaction holds everything from 40 on", 10, END),
        (49, fate.NOT_READ, "an open transaction", 19, END),
        (50, fate.NO_RECORD, "partition 3 ends at 50", None, ""),
    ],
)
def test_offsets_of_no_batch(offset: int, kind: str, says: str, behind: int | None, step: str) -> None:
    answer = decide(BARE, offset=offset)
    assert (answer.kind, answer.behind, answer.topic_id, answer.next_step) == (kind, behind, "id", step)
    assert says in answer.words
    assert (answer.batch_id, answer.attempt) == (None, None)


def test_an_uncommitted_reader_does_not_wait_for_transactions() -> None:
    plain = replace(PIPELINE, source=replace(PIPELINE.source, isolation="read_uncommitted"))
    assert "15 behind" in decide(BARE, offset=45, around=replace(AROUND, now=plain)).words


@pytest.mark.parametrize(("policy", "step"), [("record", "records the loss"), ("fail", "the next plan stops")])
def test_retention_was_faster(policy: str, step: str) -> None:
    spec = replace(PIPELINE, source=replace(PIPELINE.source, on_data_loss=policy))
    around = replace(AROUND, now=spec, topic=replace(TOPIC, partitions={P: Lane(36, 40, 50)}))
    answer = decide(BARE, offset=35, around=around)
    assert (answer.kind, answer.reason) == (fate.LOST, "retention")
    assert answer.words == "retention has passed it before it was read: the log begins at 36 now"
    assert step in answer.next_step
    assert decide(BARE, offset=36, around=around).kind == fate.NOT_READ


def test_what_kafka_does_not_answer_or_does_not_have() -> None:
    silent = decide(BARE, offset=33, around=replace(AROUND, topic=None, silence="no broker"))
    assert (silent.kind, silent.behind) == (fate.UNDECIDED, 3)
    assert silent.words.endswith("no broker")
    gone = decide(BARE, offset=33, around=replace(AROUND, topic=replace(TOPIC, partitions={})))
    assert (gone.kind, gone.words) == (fate.NO_RECORD, "no such record yet: partition 3 ends at 0")


def test_a_recreated_topic() -> None:
    old = decide(replace(BARE, accepted=False), offset=33)
    assert (old.kind, old.next_step) == (fate.NEVER_READ, "")
    assert old.words == "never read: topic id was read up to 30, then it was recreated"
    unaccepted = decide(BARE, offset=33, around=replace(AROUND, topic=replace(TOPIC, topic_id="new")))
    assert (unaccepted.kind, unaccepted.next_step) == (fate.NEVER_READ, "tidegate source reset flights --why '...'")
    assert unaccepted.words == "never read: reading had come to 30 when the topic was recreated (it is new now)"


@pytest.mark.parametrize("known", [{"first_offset": None}, {"planned_end": None}])
def test_a_partition_that_no_batch_has(known: dict[str, None]) -> None:
    fresh = replace(BARE, **known)
    assert decide(fresh, offset=7).behind == 7, "from its beginning on"
    gone = decide(fresh, offset=4)
    assert (gone.kind, gone.words.endswith("the log begins at 5 now")) == (fate.LOST, True)
    alone = fate_of(OffsetFacts(P, 7, ()), fresh, Search(), AROUND)
    assert alone.behind == 2, "before the first batch, from the log's start on"
    silent = decide(fresh, around=replace(AROUND, topic=None, silence="no broker"))
    assert (silent.kind, silent.words.endswith("could not be asked: no broker")) == (fate.UNDECIDED, True)
    other = decide(fresh, around=replace(AROUND, topic=replace(TOPIC, topic_id="new")))
    assert (other.kind, other.words) == (fate.NO_PARTITION, "topic flights has no partition 3")
    assert decide(fresh, around=replace(AROUND, topic=replace(TOPIC, partitions={}))).kind == fate.NO_PARTITION


def test_recorded_losses() -> None:
    loss = LossRow(6, P, 20, 26, "retention")
    answer = decide(replace(BARE, loss=loss, loss_planned_ms=T0 + 999))
    assert (answer.kind, answer.batch_id, answer.planned_ms, answer.reason) == (fate.LOST, 6, T0 + 999, "retention")
    assert "offsets [20, 26) were gone when batch 6 was planned at 2013-01-05T00:00Z" in answer.words
    assert decide(replace(BARE, loss=loss)).words.endswith("was planned")


# ---------------------------------------------------------------- batches that have not landed


def test_abandoned() -> None:
    life = replace(LIFE, batch=replace(BATCH, state="ABANDONED", epoch=0), abandoned="by hand", ended_ms=T0)
    answer = decide(life)
    assert (answer.kind, answer.batch_id, answer.attempt) == (fate.ABANDONED, 7, None)
    assert answer.words == "never read: batch 7 was abandoned at 2013-01-05T00:00Z: by hand"
    assert "abandoned: by hand" in decide(replace(life, ended_ms=None)).words


@pytest.mark.parametrize(
    ("change", "says", "step"),
    [
        ({"state": "PLANNED"}, "PLANNED, no task", "flights.ingest"),
        ({"state": "WRITING"}, "WRITING, attempt 2 is at work", "flights.ingest"),
        ({"state": "SEALED"}, "SEALED, attempt 2 is complete", "flights.ingest"),
        ({"state": "WRITING", "refused": "too dirty\nmore"}, "attempt 2 was refused: too dirty", "fix the spec"),
        ({"state": "WRITING", "blocked": " odd\nmore", "refused": "x"}, "an alarm: odd", "tidegate repair flights"),
    ],
)
def test_open_batches(change: dict[str, str], says: str, step: str) -> None:
    answer = decide(replace(LIFE, batch=replace(BATCH, **change)))
    assert (answer.kind, answer.batch_id, answer.planned_ms) == (fate.OPEN, 7, T0 + 1500)
    assert answer.words.startswith("in open batch 7, planned 2013-01-05T00:00:01Z")
    assert says in answer.words
    assert "more" not in answer.words
    assert step in answer.next_step
    assert bool(answer.reason) == (len(change) > 1)


TOO_DIRTY = "batch 7: 5 of 9 records are dirty, over dirty.max_count 1"


@pytest.mark.parametrize(("kind", "offered"), [("dirty_limit", True), ("job", False), (None, False)])
def test_only_a_batch_that_was_too_dirty_can_be_let_land_as_it_is(kind: str | None, offered: bool) -> None:
    answer = decide(replace(LIFE, batch=replace(BATCH, state="WRITING", refused=TOO_DIRTY, refused_kind=kind)))
    assert answer.next_step.startswith("fix the spec, then clear the write task")
    assert ("tidegate repair flights --release 7" in answer.next_step) == offered


def test_a_released_batch_says_by_whom_until_it_is_written() -> None:
    released = replace(BATCH, state="WRITING", released="ann: known to be odd\nmore")
    answer = decide(replace(LIFE, batch=released))
    assert answer.kind == fate.OPEN
    assert answer.words.startswith("in open batch 7, planned 2013-01-05T00:00:01Z: ")
    assert answer.words.endswith("released by ann: known to be odd")
    assert "clear the write task" in answer.next_step
    sealed = decide(replace(LIFE, batch=replace(released, state="SEALED")))
    assert sealed.words.endswith("SEALED, attempt 2 is complete and lands next")
    again = decide(replace(LIFE, batch=replace(released, refused=TOO_DIRTY)))
    assert f"refused: {TOO_DIRTY}" in again.words


def test_an_alarm_without_words_is_an_alarm() -> None:
    answer = decide(replace(LIFE, batch=replace(BATCH, state="SEALED", blocked=" \n ")))
    assert answer.words.endswith("blocked by an alarm: ")
