"""Redrives by arithmetic alone: what they take up, what their plan and receipt must be, who owns a row afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import PIPELINE, T0

from tidegate.core.audit.coverage import Allowance, Findings, Missing, check_coverage, twin_of
from tidegate.core.audit.problems import RESTORE, Redrives
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.batch.rules_version import LEAVING_RULES, rules_for, rules_of_redrive
from tidegate.core.batch.states import INGEST, REDRIVE, DirtySource, PartitionPlan, Plan, spans
from tidegate.core.dirty import redrive
from tidegate.core.dirty.redrive import Cause, DirtyBatch, Example, choose
from tidegate.core.files.balance import Balance
from tidegate.core.files.receipt import DirtySample, FileEntry, PartitionRows, RangeResult, Receipt
from tidegate.core.look.views import BatchRow, RangeRow
from tidegate.core.spec.pipeline import Column, Format
from tidegate.core.spec.source import Site
from tidegate.core.window.lateness import Floor


def source(batch_id: int, partition: int = 0, rows: int = 2, low: int = 5, high: int = 9) -> DirtySource:
    return DirtySource(batch_id, partition, rows, low, high)


def dirty(batch_id: int, rows: int = 2, topic: str = "t", topic_id: str = "id") -> DirtyBatch:
    return DirtyBatch(batch_id, topic, topic_id, True, (source(batch_id, rows=rows),))


PLAN = Plan(
    pipeline="flights",
    batch_id=7,
    revision=1,
    spec_version=1,
    rules_version=1,
    topic="t",
    topic_id="id",
    clock_ms=T0,
    floor=Floor(0, ()),
    partitions=(),
    kind=REDRIVE,
    sources=(source(1, 0, 2, 5, 9), source(1, 1, 1, 3, 3), source(4, 0, 3, 2, 7)),
)


def result(partition: int, start: int, end: int, **counts: int) -> RangeResult:
    told = dict.fromkeys(("data", "late", "dirty", "filtered", "dropped"), 0) | counts
    return RangeResult(range=OffsetRange("t", partition, start, end), read=sum(told.values()), **told, gaps=(),
                       min_event_ms=None, max_event_ms=None)  # fmt: skip


def receipt(*ranges: RangeResult, samples: tuple[DirtySample, ...] = ()) -> Receipt:
    return Receipt(
        attempt="a",
        batch_id=7,
        epoch=1,
        nonce="n",
        topic="t",
        topic_id="id",
        spec_version=1,
        rules_version=1,
        ranges=ranges,
        files=(),
        samples=samples,
    )


# ---------------------------------------------------------------- plans


def test_a_redrives_ranges_reach_over_its_sources() -> None:
    assert PLAN.ranges == (OffsetRange("t", 0, 2, 10), OffsetRange("t", 1, 3, 4))
    assert PLAN.records == 6
    assert PLAN.is_redrive
    assert spans("x", ()) == ()
    assert redrive.source_batches(PLAN) == (1, 4)


def test_any_other_plan_is_what_it_was() -> None:
    plan = replace(
        PLAN,
        kind=INGEST,
        sources=(),
        partitions=(PartitionPlan(partition=0, start=3, end=8, log_start=0, last_stable_offset=8, high_watermark=8),),
    )
    assert (plan.ranges, plan.records, plan.is_redrive) == ((OffsetRange("t", 0, 3, 8),), 5, False)
    assert (
        Plan(
            pipeline="flights",
            batch_id=7,
            revision=1,
            spec_version=1,
            rules_version=1,
            topic="t",
            topic_id="id",
            clock_ms=T0,
            floor=Floor(0, ()),
            partitions=(),
        ).kind
        == "ingest"
    )


def test_rows_of_files_add_up_by_partition() -> None:
    parts = (PartitionRows(1, 2, 4, 9), PartitionRows(0, 1, 7, 7), PartitionRows(1, 3, 2, 5), PartitionRows(0, 1, 9, 9))
    assert redrive.add_up(3, parts) == (DirtySource(3, 0, 2, 7, 9), DirtySource(3, 1, 5, 2, 9))
    assert redrive.add_up(3, ()) == ()


# ---------------------------------------------------------------- what is taken up


def test_all_that_is_dirty_oldest_first() -> None:
    found = choose([dirty(4), dirty(1), dirty(9)])
    assert [b.batch_id for b in found.chosen] == [1, 4, 9]
    assert found.left == ()
    assert found.sources == (source(1), source(4), source(9))
    assert choose([]) == redrive.Choice(())


def test_what_was_asked_for() -> None:
    assert [b.batch_id for b in choose([dirty(1), dirty(4), dirty(9)], [9, 1]).chosen] == [1, 9]
    assert choose([dirty(1)], []).chosen == ()
    assert [b.batch_id for b in choose([dirty(1), dirty(4), dirty(9)], None, 9).chosen] == [1, 4]


def test_one_redrive_is_bounded() -> None:
    found = choose([dirty(1, 5), dirty(2, 5), dirty(3, 1), dirty(4, 1)], most=10)
    assert ([b.batch_id for b in found.chosen], found.left) == ([1, 2], (3, 4))
    assert [b.batch_id for b in choose([dirty(1, 50), dirty(2)], most=10).chosen] == [1], "one batch at least"
    many = choose([dirty(i) for i in range(1, redrive.MOST_BATCHES + 3)])
    assert (len(many.chosen), len(many.left)) == (redrive.MOST_BATCHES, 2)


@pytest.mark.parametrize("other", [dirty(2, topic_id="old"), dirty(2, topic="other")])
def test_rows_of_one_topic_id_at_a_time(other: DirtyBatch) -> None:
    found = choose([dirty(1), other, dirty(3)])
    assert ([b.batch_id for b in found.chosen], found.left) == ([1, 3], (2,))


# ---------------------------------------------------------------- receipts


def test_every_row_of_the_sources_was_read() -> None:
    right = receipt(result(0, 2, 10, data=4, dirty=1), result(1, 3, 4, late=1))
    assert redrive.errors(PLAN, right) == []
    wrong = receipt(result(0, 2, 10, data=4), result(2, 3, 4, late=1))
    assert redrive.errors(PLAN, wrong) == [
        "partition 0: 4 rows read, its sources hold 5",
        "partition 1: 0 rows read, its sources hold 1",
        "partition 2: 1 row read, its sources hold 0",
    ]


def test_in_vain_is_what_makes_no_row_readable() -> None:
    sample = DirtySample(0, 5, "no number", "price", "x")
    assert redrive.in_vain(receipt(result(0, 0, 9, dirty=4, late=1), samples=(sample,))) is None
    assert redrive.in_vain(receipt(result(0, 0, 9, dirty=4, filtered=1))) is None
    none = receipt(result(0, 0, 9, dirty=4), result(1, 0, 9, dirty=1), samples=(sample,))
    assert redrive.in_vain(none) == (
        "none of the 5 dirty rows became readable, for example partition 0 offset 5: price: no number"
    )
    bare = replace(none, samples=(replace(sample, field=""),))
    assert str(redrive.in_vain(bare)).endswith("offset 5: record: no number")
    assert redrive.in_vain(replace(none, samples=())) == "none of the 5 dirty rows became readable"


def test_the_outcome_in_words() -> None:
    assert redrive.outcome(receipt(result(0, 0, 9, data=1200, dirty=1))) == "1,200 data, 0 late, 1 still dirty"
    told = redrive.outcome(receipt(result(0, 0, 9, late=2, filtered=3, dropped=4), result(1, 0, 9, late=1)))
    assert told == "0 data, 3 late, 0 still dirty, 3 filtered, 4 dropped"
    told = redrive.outcome(receipt(result(0, 0, 9, data=1200, rerouted=1100)))
    assert told == "1,200 data (1,100 of them rerouted), 0 late, 0 still dirty"


def test_a_redrives_rows_are_what_is_no_gap() -> None:
    mine = redrive.coordinates(OffsetRange("t", 0, 3, 10), (Interval(4, 6), Interval(8, 9)))
    assert mine == (Interval(3, 4), Interval(6, 8), Interval(9, 10))


@pytest.mark.parametrize("path", ["$.headers", "$['headers']", '$["headers"]'])
def test_headers_are_not_kept(path: str) -> None:
    columns = (Column(name="k", type="binary", path="$.key"), Column(name="h", type="string", path=path))
    raw = replace(PIPELINE, format=Format(type="raw"), columns=columns)
    assert redrive.of_headers(raw) == "h"
    assert redrive.of_headers(replace(raw, columns=columns[:1])) is None
    assert redrive.of_headers(replace(raw, format=Format())) is None, "a field of that name"


# ---------------------------------------------------------------- what to mend


def test_causes_of_many_batches_become_one() -> None:
    def example(n: int) -> Example:
        return Example(n, 0, n, "x")

    found = redrive.together(
        [
            Cause("a", "odd", 1, (3,), (example(1), example(2))),
            Cause("b", "odd", 5, (1,), (example(3),)),
            Cause("a", "odd", 7, (1, 2), (example(4), example(5))),
            Cause("a", "even", 5, (1,)),
        ]
    )
    assert found == [
        Cause("a", "odd", 8, (1, 2, 3), (example(1), example(2), example(4))),
        Cause("a", "even", 5, (1,)),
        Cause("b", "odd", 5, (1,), (example(3),)),
    ]
    assert len(redrive.together(found, 1)[0].examples) == 1


# ---------------------------------------------------------------- the audit


def row(batch_id: int, *ranges: RangeRow, **more: object) -> BatchRow:
    made = BatchRow(
        batch_id=batch_id,
        state="LANDED",
        epoch=1,
        nonce="n",
        revision=1,
        spec_version=1,
        topic="t",
        topic_id="id",
        clock_ms=T0,
        records=0,
        manifest_digest=None,
        side_moved=True,
        side_registered=True,
        refused=None,
        blocked=None,
        planned_ms=T0,
        sealed_ms=T0,
        landed_ms=T0,
        ranges=ranges,
    )
    return replace(made, **more)


def span(partition: int, offsets: int, **counts: int) -> RangeRow:
    return RangeRow(OffsetRange("t", partition, 0, offsets), Balance(offsets=offsets, **counts))


DIRTY = FileEntry(
    path="dirty/a",
    kind="dirty",
    window_ms=None,
    values=(),
    rows=3,
    bytes=9,
    min_event_ms=None,
    max_event_ms=None,
    checksum=1,
    partitions=(PartitionRows(0, 2, 1, 4), PartitionRows(1, 1, 0, 0)),
)
LATE = FileEntry(
    path="late/a",
    kind="late",
    window_ms=T0,
    values=(),
    rows=1,
    bytes=9,
    min_event_ms=T0,
    max_event_ms=T0,
    checksum=1,
    partitions=(PartitionRows(0, 1, 5, 5),),
)
FIRST = row(1, span(0, 9, read=8, gaps=1, data=6, dirty=2), span(1, 4, read=4, data=3, dirty=1), redriven_by=2)
SECOND = row(2, span(0, 4, read=2, gaps=2, data=1, dirty=1), span(1, 1, read=1, data=1), kind=REDRIVE, sources=(1,))


def books(*batches: BatchRow, landed: bool = True) -> Redrives:
    made = Redrives(lambda batch_id: landed)
    for b in batches:
        made.batch(b, (DIRTY, LATE) if b.batch_id == 1 else ())
    return made


def told(made: Redrives) -> list[str]:
    found = list(made.problems())
    assert all(p.advice == RESTORE for p in found)
    return [f"{p.subject}: {p.what}" for p in found]


def test_each_row_counts_once() -> None:
    made = books(FIRST, SECOND)
    assert told(made) == []
    total = Balance()
    for b in (FIRST, SECOND):
        for r in b.ranges:
            total += made.own(b, r)
    assert total == Balance(offsets=13, read=12, gaps=1, data=11, dirty=1)
    assert total.holds


def test_what_a_redrive_took_after_the_audit_began_is_still_the_batchs() -> None:
    made = books(FIRST, landed=False)
    assert told(made) == []
    assert made.own(FIRST, FIRST.ranges[0]) == FIRST.ranges[0].balance
    unsealed = RangeRow(OffsetRange("t", 0, 3, 7), None)
    assert made.own(FIRST, unsealed) == Balance(offsets=4)


def test_who_took_what_must_fit() -> None:
    less = replace(SECOND, ranges=(span(0, 4, read=1, gaps=3, data=1), SECOND.ranges[1]))
    assert told(books(FIRST, less)) == ["batch 2: partition 0: 1 row redriven, its sources hold 2"]
    more = replace(SECOND, ranges=(*SECOND.ranges, span(5, 4, read=1, gaps=3, data=1)))
    assert told(books(FIRST, more)) == ["batch 2: partition 5: 1 row redriven, its sources hold 0"]
    bare = replace(SECOND, ranges=(RangeRow(OffsetRange("t", 0, 0, 4), None), SECOND.ranges[1]))
    assert told(books(FIRST, bare)) == ["batch 2: partition 0: 0 rows redriven, its sources hold 2"]


def test_a_redrive_of_several_batches_and_files_has_all_their_rows() -> None:
    third = replace(FIRST, batch_id=3, redriven_by=5)
    fifth = row(5, span(0, 9, read=6, gaps=3, data=6), span(1, 2, read=3, data=3), kind=REDRIVE, sources=(1, 3))

    def made(last: BatchRow) -> Redrives:
        found = Redrives(lambda batch_id: True)
        found.batch(replace(FIRST, redriven_by=5), (DIRTY, LATE, replace(DIRTY, path="dirty/b")))
        found.batch(third, (DIRTY,))
        found.batch(last, ())
        return found

    assert told(made(fifth)) == []
    less = replace(fifth, ranges=(span(0, 9, read=5, gaps=4, data=5), fifth.ranges[1]))
    assert told(made(less)) == ["batch 5: partition 0: 5 rows redriven, its sources hold 6"]


def test_owners_and_sources_must_name_each_other() -> None:
    free = told(books(replace(FIRST, redriven_by=None), SECOND))
    assert free[0] == "batch 2: it took up the dirty rows of batch 1, which are not its own"
    other = told(books(FIRST, replace(SECOND, sources=(9,))))
    assert other[:2] == [
        "batch 1: its dirty rows belong to batch 2, which took others",
        "batch 2: it took up the dirty rows of batch 9, which are not its own",
    ]
    itself = told(books(replace(FIRST, redriven_by=1), landed=False))
    assert itself == ["batch 1: its dirty rows belong to batch 1, which took others"]


def test_a_redrives_rows_are_those_of_its_sources() -> None:
    found = Findings(missing=(Missing(twin_of(7), 3, 2, (Interval(4, 6),)), Missing(9, 3, 1, (Interval(1, 2),))))
    first, second = check_coverage(found, Allowance())
    assert first.subject == "batch 7"
    assert first.what.startswith("partition 3: 2 of its offsets are in no dirty file that it was made of, 0 may be: [4")
    assert second.subject == "partition 3"
    assert second.what.startswith("offsets read, but in no file: 1, where 0 may be: ")
    allowed = Allowance()
    allowed.spans[twin_of(7), 3] = 2
    assert [p.subject for p in check_coverage(replace(found, missing=found.missing[:1]), allowed)] == []


def test_rows_of_one_redrive_hide_no_other_partitions() -> None:
    found = Findings(missing=(Missing(twin_of(7), 3, 2, (Interval(4, 6),)), Missing(9, 4, 1, (Interval(1, 2),))))
    first, second = check_coverage(found, Allowance())
    assert (first.subject, second.subject) == ("batch 7", "partition 4")
    assert "`tidegate where`" in first.advice


def test_rows_that_claim_a_batch_that_no_ledger_has_are_no_redrives() -> None:
    (one,) = check_coverage(Findings(missing=(Missing(0, 3, 2, (Interval(4, 6),)),)), Allowance())
    assert (one.subject, one.what.endswith("of batch 0")) == ("partition 3", True)


def test_reasons_that_differ_in_a_value_are_one_cause():
    at = "event time 2085-07-14T00:00Z is 72.5 years beyond the ingest clock + future_skew"
    other = "event time 2044-01-01T12:00:01.5-05:00 is 31.0 years beyond the ingest clock + future_skew"
    causes = [
        Cause("at", at, 2, (1,)),
        Cause("at", other, 1, (2,)),
        Cause("value", "expected an integer, got 'a'", 1, (1,), varies=True),
        Cause("value", "expected an integer, got 'b'", 1, (1,)),
        Cause("value", "expected a number, got 'b'", 1, (1,)),
    ]
    assert redrive.together(causes) == [
        Cause("at", at, 3, (1, 2), varies=True),
        Cause("value", "expected an integer, got 'a'", 2, (1,), varies=True),
        Cause("value", "expected a number, got 'b'", 1, (1,)),
    ]


def test_copies_behind_a_mark_stay_dirty_unless_they_are_asked_for() -> None:
    """F3; where the YAML names no other site they are records."""
    sites = (Site(name="a", conn_id="k"), Site(name="b", conn_id="l"))
    two = replace(PIPELINE, source=replace(PIPELINE.source, sites=sites))
    assert rules_of_redrive(two, copies=False) == LEAVING_RULES
    assert rules_of_redrive(two, copies=True) == rules_of_redrive(PIPELINE, copies=False) == rules_for(two)
