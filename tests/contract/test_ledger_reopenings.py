"""Late rows that generations take up, in the ledger, on SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.ledgers import NAME, WINDOW, built, ledger, now, open_ledger, planned, url
from tests.contract.test_ledger_recovery import record_of
from tidegate.core.base.errors import LostComparison
from tidegate.core.base.offsets import Interval
from tidegate.core.files.landed import OwedSpan
from tidegate.core.files.receipt import FileEntry, PartitionRows, RangeResult, Receipt
from tidegate.core.late.reopen import LateBatch, LateWindow, Unfinished
from tidegate.core.window.states import BuiltGeneration, PublishedGeneration
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures
FIRST, LATE_ROWS = OwedSpan(1, 0, 4, 0, 3), OwedSpan(2, 0, 2, 5, 8)


def late_batch(ledger: SqlLedger, batch_id: int = 2, start: int = 5, settled: bool = True) -> None:
    """LANDED, two late rows for the window, at `start` and `start` + 3."""
    writing = ledger.batches.take(planned(ledger, batch_id, start, start + 5), "n1")
    gaps = (Interval(start + 1, start + 3), Interval(start + 4, start + 5))
    result = RangeResult(
        range=writing.plan.ranges[0],
        read=2,
        data=0,
        late=2,
        dirty=0,
        filtered=0,
        dropped=0,
        gaps=gaps,
        min_event_ms=10,
        max_event_ms=20,
    )
    parts = (PartitionRows(0, 2, start, start + 3),)
    late = FileEntry(
        path="late/x/part-0",
        kind="late",
        window_ms=0,
        values=(),
        rows=2,
        bytes=9,
        min_event_ms=10,
        max_event_ms=20,
        checksum=7,
        partitions=parts,
    )
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
        files=(late,),
    )
    ledger.batches.land(ledger.batches.seal(writing, receipt))
    for flag in ("moved", "registered") if settled else ():
        ledger.batches.mark_side(NAME, batch_id, flag)


def published(ledger: SqlLedger, generation: BuiltGeneration, number: int = 1) -> PublishedGeneration:
    place = f"file:///lake/{number}"
    return ledger.windows.publish(ledger.windows.begin_swap(generation, place), place, "cert")


def begun(ledger: SqlLedger, current: int, kind: str = "reopen") -> BuiltGeneration:
    number = ledger.windows.begin_generation(NAME, WINDOW, current, kind, "a test")
    taken = ledger.windows.take(NAME, WINDOW, number, "n")
    files = (replace(ledger.batches.manifest_files(NAME, 1)[0], rows=6, path=f"g{number}"),)
    return ledger.windows.built(taken, f"file:///assembled/{number}", files)


def waiting(ledger: SqlLedger) -> list[tuple[int, ...]]:
    return [tuple(b.batch_id for b in w.batches) for w in ledger.reopenings.candidates(NAME)]


def test_what_waits(ledger: SqlLedger, now: list[int]) -> None:
    published(ledger, built(ledger))
    assert ledger.reopenings.candidates(NAME) == []
    now[0] = 5_000
    late_batch(ledger)
    late_batch(ledger, 3, 10, settled=False)
    batches = (LateBatch(2, 2, 5_000, True), LateBatch(3, 2, 5_000, False))
    assert ledger.reopenings.candidates(NAME) == [
        LateWindow(start_ms=0, batches=batches, current=1, reopened=0, working=False)
    ]
    assert ledger.reopenings.candidates(NAME, 0) == ledger.reopenings.candidates(NAME)
    assert ledger.reopenings.candidates(NAME, 7) == []
    assert len(ledger.reopenings.candidates(NAME, since_ms=0)) == 1
    assert ledger.reopenings.candidates(NAME, since_ms=1) == []
    ledger.windows.block(NAME, WINDOW, "an alarm")
    (found,) = ledger.reopenings.candidates(NAME)
    assert found.blocked == "an alarm"


def test_a_window_that_nobody_has_published(ledger: SqlLedger) -> None:
    late_batch(ledger, 1, 0)
    (found,) = ledger.reopenings.candidates(NAME)
    assert (found.current, found.rows, found.working) == (None, 2, False)


def test_ownership_moves_with_the_publication(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    generation = begun(ledger, 1)
    assert (generation.batches, generation.late) == ((1, 2), (2,))
    assert ledger.windows.generation(NAME, WINDOW, 2) == generation
    (before,) = ledger.reopenings.candidates(NAME)
    assert (before.working, before.reopened, ledger.reopenings.duties(NAME)) == (True, 1, [])
    one = published(ledger, generation, 2)
    assert one.late == (2,)
    assert ledger.windows.generation(NAME, WINDOW, 2) == one
    assert ledger.reopenings.candidates(NAME) == []
    assert ledger.reopenings.duties(NAME) == [(0, 2, 2)]
    assert ledger.windows.owed(NAME, WINDOW, one.batches, one.late) == [FIRST, LATE_ROWS]
    assert ledger.windows.owed(NAME, WINDOW, one.batches) == [FIRST]


def test_what_has_begun_and_is_not_in_force(ledger: SqlLedger, now: list[int]) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    now[0] = 2_000_000
    ledger.windows.begin_generation(NAME, WINDOW, 1, "reopen")
    assert ledger.reopenings.unfinished(NAME) == [Unfinished(0, 2, "BUILDING", 2_000_000)]
    now[0] = 3_000_000
    taken = ledger.windows.take(NAME, WINDOW, 2, "n")
    assert ledger.reopenings.unfinished(NAME) == [Unfinished(0, 2, "BUILDING", 3_000_000)]
    ledger.windows.block(NAME, WINDOW, "an alarm")
    assert ledger.reopenings.unfinished(NAME) == []
    ledger.windows.discard(taken, "a test")
    published(ledger, begun(ledger, 1, "replay"), 3)
    assert ledger.reopenings.unfinished(NAME) == []


def test_the_duty_is_done_once_and_carried_on(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    published(ledger, begun(ledger, 1), 2)
    for _ in range(2):
        ledger.reopenings.cleared(NAME, 0, 2, 2)
    assert ledger.reopenings.duties(NAME) == []
    whats = [e.what for e in ledger.reads.events(NAME, 100)]
    assert whats.count("late files set aside") == 1
    replayed = published(ledger, begun(ledger, 2, "replay"), 3)
    assert replayed.late == (2,)
    assert ledger.reopenings.duties(NAME) == []


def test_a_replay_before_the_duty_is_done_takes_it_over(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    published(ledger, begun(ledger, 1), 2)
    published(ledger, begun(ledger, 2, "replay"), 3)
    assert ledger.reopenings.duties(NAME) == [(0, 3, 2)]


def test_a_replay_takes_nothing_up(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    assert begun(ledger, 1, "replay").late == ()
    assert waiting(ledger) == [(2,)]


def test_only_what_is_in_the_late_table_is_taken_up(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger, settled=False)
    with pytest.raises(LostComparison, match="no late rows"):
        ledger.windows.begin_generation(NAME, WINDOW, 1, "reopen")
    late_batch(ledger, 3, 10)
    assert begun(ledger, 1).late == (3,)
    assert ledger.windows.get(NAME, WINDOW).newest == 2


def test_a_refused_one_leaves_the_rows_where_they_are(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    ledger.windows.discard(begun(ledger, 1), "refused")
    (found,) = ledger.reopenings.candidates(NAME)
    assert (found.reopened, found.refused, found.working) == (0, 1, False)
    published(ledger, begun(ledger, 1), 3)
    late_batch(ledger, 3, 10)
    (found,) = ledger.reopenings.candidates(NAME)
    assert (found.current, found.reopened, found.refused) == (3, 1, 0)


def test_a_second_reopening_holds_the_rows_of_the_first(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    published(ledger, begun(ledger, 1), 2)
    late_batch(ledger, 3, 10)
    assert waiting(ledger) == [(3,)]
    assert published(ledger, begun(ledger, 2), 3).late == (2, 3)
    assert waiting(ledger) == []


def test_a_record_brings_it_back(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    record = record_of(begun(ledger, 1), late=(2,))
    ledger.recovery.restore(record, "CURRENT", "lost")
    assert ledger.windows.generation(NAME, WINDOW, 2).late == (2,)
    assert ledger.reopenings.duties(NAME) == [(0, 2, 2)]


def test_a_record_of_other_batches_does_not(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    record = record_of(begun(ledger, 1))  # as if batch 2 had brought data
    with pytest.raises(LostComparison, match="by the ledger rows came from"):
        ledger.recovery.restore(record, "CURRENT", "lost")


def test_views_say_what_was_taken_up(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    published(ledger, begun(ledger, 1), 2)
    spine = ledger.reads.spine(NAME)
    assert spine is not None
    assert [(g.number, g.batches, g.late, g.set_aside) for g in spine.generations] == [
        (1, (1, 1), (), ()), (2, (1, 2), (2,), ()),
    ]  # fmt: skip
    assert spine.unmoved == 1, "the duty"
    ledger.reopenings.cleared(NAME, 0, 2, 2)
    (page,) = ledger.reads.window_pages(NAME)
    assert [(g.batches, g.late, g.set_aside) for g in page.generations] == [((1,), (), ()), ((1, 2), (2,), (2,))]
    told = ledger.reads.window(NAME, WINDOW).generations
    assert [(g.late, g.set_aside) for g in told] == [((), ()), ((2,), (2,))]


def late_now(ledger: SqlLedger) -> int:
    return ledger.reads.survey([NAME], 0)[NAME].late_now


def test_late_rows_that_wait_go_down_with_a_reopening_and_come_back_with_it(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    assert late_now(ledger) == 0
    late_batch(ledger)
    assert late_now(ledger) == 2
    generation = begun(ledger, 1)
    assert late_now(ledger) == 2, "nothing is taken up before it is in force"
    published(ledger, generation, 2)
    assert late_now(ledger) == 0
    late_batch(ledger, 3, 10)
    assert late_now(ledger) == 2
    published(ledger, begun(ledger, 2, "replay"), 3)
    assert late_now(ledger) == 2, "a replay carries on what was taken up, and takes up nothing more"
    refused = begun(ledger, 3)
    ledger.windows.discard(refused, "refused")
    assert late_now(ledger) == 2
