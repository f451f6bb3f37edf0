"""What an audit finds of deliveries, keyed tables, records in storage and rows that no run publishes; what stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.audit.delivered import delivered
from tidegate.core.audit.keyed import problems, problems_of_day
from tidegate.core.audit.problems import RESTORE, Problem, republish
from tidegate.core.audit.records import (
    DIFFERS,
    LOST,
    check_batch,
    check_generation,
    lost_batch,
    lost_generation,
    unreadable_batch,
    unreadable_generation,
)
from tidegate.core.audit.scope import ALL, Again, Part, is_moving, is_still, key, stands
from tidegate.core.audit.stranded import unpublishable
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.batch.states import Plan
from tidegate.core.deliver.port import Content
from tidegate.core.deliver.states import SENDING, STANDING, Delivered
from tidegate.core.files.balance import Balance
from tidegate.core.files.receipt import FileEntry, RangeResult, Receipt, content_digest, manifest_digest
from tidegate.core.look.views import (
    BatchRow,
    GenerationRow,
    Pinned,
    RangeRow,
    Spine,
    WindowPage,
    WindowRow,
    WindowTotal,
)
from tidegate.core.mirror.comparison import Compared, Sample
from tidegate.core.restore.record import BatchRecord, GenerationRecord
from tidegate.core.target.prefix import Prefix
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import BUILDING, BUILT, CURRENT, RETIRED, SWAPPING, WindowKey

ID = "20130105T000000Z"
FILE = FileEntry(
    path="data/a", kind="data", window_ms=T0, values=(), rows=13, bytes=9, min_event_ms=T0, max_event_ms=T0,
    checksum=7, partitions=(),
)  # fmt: skip
GENERATION = GenerationRow(
    window_ms=T0, number=2, state=CURRENT, epoch=1, nonce="n", kind="archive", directory="d", location="l", rows=1200,
    digest="x", built_ms=T0, published_ms=T0, retired_ms=None, batches=(1, 2), files=(FILE,), late=(2,),
)  # fmt: skip

# ---------------------------------------------------------------- deliveries

ROW = Delivered(
    pipeline="p", name="ch", window_ms=T0, generation=2, digest="x", state=STANDING, epoch=5, nonce="n", since_ms=0,
    stood=2, content=Content(rows=1200, checksum=1),
)  # fmt: skip


def of(*rows: Delivered) -> list[Problem]:
    return list(delivered(rows, [GENERATION]))


def test_what_stands_in_a_further_system_is_a_generation_of_the_window() -> None:
    assert of(ROW) == []
    unknown = Problem(f"window {ID}", "delivery ch, try 5: the window has no generation 3", RESTORE)
    assert of(replace(ROW, generation=3), ROW) == [unknown]
    (other,) = of(replace(ROW, window_ms=T0 + HOUR))
    assert other.subject == "window 20130105T010000Z"
    digest = Problem(f"window {ID}", "delivery ch, try 5: its digest is not that of generation 2", RESTORE)
    assert of(replace(ROW, digest="y")) == [digest]
    assert of(replace(ROW, generation=3), replace(ROW, digest="y")) == [unknown, digest], "each try is looked at"
    assert of(replace(ROW, state=SENDING), replace(ROW, digest="y")) == [digest]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (Content(rows=1, checksum=1), "1 row was read back there, generation 2 has 1,200"),
        (Content(rows=2, checksum=1), "2 rows were read back there, generation 2 has 1,200"),
        (None, "nothing was read back there, generation 2 has 1,200"),
    ],
)
def test_rows_that_were_read_back_are_the_generations(content: Content | None, words: str) -> None:
    (found, after) = of(replace(ROW, content=content), replace(ROW, digest="y"))
    assert found.what == f"delivery ch, try 5: {words}"
    assert f"tidegate deliver p {ID} --again --to ch" in found.advice
    assert (found.subject, after.advice) == (f"window {ID}", RESTORE)
    assert of(replace(ROW, content=content, state=SENDING)) == [], "it was not read back yet"
    (none,) = delivered([replace(ROW, content=Content(rows=1, checksum=1))], [replace(GENERATION, rows=None)])
    assert none.what.endswith("generation 2 has 0")


# ---------------------------------------------------------------- keyed tables

PREFIX = Prefix(upto=7, rows=1200, tombstones=1, purged_below=(5, 0, 1), below_purge=2)
LACKING = Sample("lacking", "id=1, n=2", "", "x=2")
GOOD = Compared(bucket=0, rows=1200, tombstones=1)


def in_table(*compared: Compared, whole: bool = True) -> list[Problem]:
    return problems("p", "lake.t", PREFIX, compared, whole)


def test_a_table_that_is_what_its_batches_make() -> None:
    assert in_table(GOOD) == []
    assert in_table(replace(GOOD, rows=1000), Compared(bucket=1, rows=200, kept_out=2)) == []
    assert in_table(replace(GOOD, rows=5), whole=False) == []


def test_its_summary_says_what_its_buckets_hold() -> None:
    for one, words in (
        (replace(GOOD, rows=1), "1 row and 1 tombstone, as"),
        (replace(GOOD, tombstones=2), "1,200 rows and 2 tombstones, as"),
    ):
        (found,) = in_table(one)
        assert found.subject == "catalogue"
        assert found.what.startswith(f"lake.t: its files hold {words}")
        assert found.what.endswith("its newest merge says 1,200 rows and 1 tombstone")
        assert found.advice


def test_keys_that_differ_are_counted_and_some_are_named() -> None:
    samples = (
        LACKING,
        Sample("surplus", "id=3", "x=1", ""),
        Sample("other", "id=4", "x=1", "x=2"),
        Sample("doubled", "id=5", "two rows", ""),
    )
    differ = (("lacking", 1200), ("surplus", 1), ("other", 1), ("doubled", 1))
    (found,) = in_table(replace(GOOD, bucket=3, differ=differ, samples=samples), replace(GOOD, rows=9))
    assert (found.subject, found.what) == (
        "bucket 3",
        "lake.t: not what batches 1 to 7 make: 1,200 keys lacking, 1 key without any event, 1 key with another version,"
        " 1 key with several rows: id=1, n=2 is not in the table, the batches make x=2; "
        "id=3 is in the table (x=1), no event of the batches says so; id=4 is x=1 in the table, the batches make x=2; "
        "id=5 is two rows in the table, the batches make nothing; and 1,199 more keys",
    )
    assert "`tidegate where p --key id=1 --key n=2` shows" in found.advice
    assert "`tidegate apply p` makes it anew" in found.advice
    (all_named,) = in_table(replace(GOOD, differ=(("lacking", 1),), samples=(LACKING,)))
    assert "more key" not in all_named.what


def test_a_bucket_that_cannot_be_compared() -> None:
    for one in (replace(GOOD, unread="gone"), replace(GOOD, unmade="gone")):
        (found,) = in_table(one)
        assert (found.subject, found.what) == ("bucket 0", "lake.t: it cannot be compared: gone")
        assert "tidegate apply p" in found.advice


def test_m5_no_more_keys_lack_a_row_than_events_were_kept_out() -> None:
    assert in_table(replace(GOOD, kept_out=1), Compared(bucket=1, kept_out=1)) == []
    (found,) = in_table(replace(GOOD, kept_out=2), Compared(bucket=1, kept_out=1), whole=False)
    assert (found.subject, found.what) == (
        "catalogue", "lake.t: 3 rows below its purge at 5,0,1 are not in it, but its merges have kept out 2 events",
    )  # fmt: skip
    assert "tidegate apply p" in found.advice


def test_a_day_of_a_table_by_days() -> None:
    differ = replace(GOOD, bucket=3, differ=(("lacking", 1),), samples=(LACKING,))
    unread = replace(GOOD, bucket=4, unread="gone")
    found, other = problems_of_day("p", T0, "file:///g", "the day before", [GOOD, differ, unread])
    assert found.subject == other.subject == f"window {ID}"
    assert found.what == (
        "bucket 3 is not what its events make of the day before: 1 key lacking: id=1, n=2 is not in the day, "
        "its events and the day before make x=2"
    )
    assert found.advice.startswith("`tidegate where p --key id=1 --key n=2`")
    assert "move rows/*-00003-* and tombstones/*-00003-* away from file:///g" in found.advice
    assert republish("p", T0) in other.advice
    assert other.advice.startswith("move rows/*-00004-*")
    assert other.what == "bucket 4 cannot be compared: gone"


def test_m5_no_more_keys_of_a_day_lack_a_row_than_its_purge_kept_out_events() -> None:
    lacking = (replace(GOOD, bucket=3, kept_out=1200), GOOD, replace(GOOD, bucket=4, kept_out=1))

    def found(kept_out: int, *compared: Compared) -> list[Problem]:
        return problems_of_day("p", T0, "file:///g", "the day before", compared, kept_out)

    assert found(1201, *lacking) == []
    (one,) = found(1200, *lacking)
    assert (one.subject, one.what) == (
        f"window {ID}", "1,201 rows below its purge are not in it, but 1,200 events were kept out",
    )  # fmt: skip
    assert one.advice.startswith("move rows/*-00003-* and tombstones/*-00003-*")
    assert "rows/*-00004-* and tombstones/*-00004-* away from file:///g" in one.advice
    assert republish("p", T0) in one.advice
    (single,) = found(0, replace(GOOD, kept_out=1))
    assert single.what == "1 row below its purge is not in it, but 0 events were kept out"
    (few,) = found(1, replace(GOOD, kept_out=2))
    assert few.what == "2 rows below its purge are not in it, but 1 event was kept out"
    assert len(problems_of_day("p", T0, "file:///g", "the day before", [replace(GOOD, kept_out=1)])) == 1


# ---------------------------------------------------------------- records in storage

PLAN = Plan(
    pipeline="p", batch_id=4, revision=1, spec_version=2, rules_version=3, topic="t", topic_id="id", clock_ms=9,
    floor=Floor(0, ()), partitions=(),
)  # fmt: skip
RESULT = RangeResult(
    range=OffsetRange("t", 0, 0, 10), read=9, data=6, late=1, dirty=1, filtered=1, dropped=0, gaps=(Interval(4, 5),),
    min_event_ms=T0, max_event_ms=T0,
)  # fmt: skip
RECEIPT = Receipt(
    attempt="a", batch_id=4, epoch=1, nonce="n", topic="t", topic_id="id", spec_version=2, rules_version=3,
    ranges=(RESULT,), files=(FILE,),
)  # fmt: skip
BALANCE = Balance(offsets=10, gaps=1, read=9, data=6, late=1, dirty=1, filtered=1)
BATCH = BatchRow(
    batch_id=4, state="LANDED", epoch=1, nonce="n", revision=1, spec_version=2, topic="t", topic_id="id", clock_ms=9,
    records=10, manifest_digest=manifest_digest((FILE,)), side_moved=True, side_registered=True, refused=None,
    blocked=None, planned_ms=0, sealed_ms=0, landed_ms=0,
    ranges=(RangeRow(OffsetRange("t", 0, 0, 10), BALANCE), RangeRow(OffsetRange("t", 1, 0, 0), None)),
)  # fmt: skip
RECORD = BatchRecord(replace(PLAN, spec_version=9), None, "f", RECEIPT, None)  # type: ignore[arg-type]
GIVEN_UP, ABANDONED = replace(RECORD, manifest=None), replace(BATCH, state="ABANDONED")


def of_batch(batch: BatchRow = BATCH, record: BatchRecord = RECORD, pinned: Pinned | None = Pinned(PLAN, "f")) -> list:
    found = list(check_batch(batch, pinned, record, "hwm/4"))
    assert all((p.subject, p.advice) == ("batch 4", DIFFERS) for p in found)
    return [p.what for p in found]


def test_a_record_says_what_the_ledger_says() -> None:
    """But for the number of the spec, which each ledger gives itself."""
    assert of_batch() == of_batch(ABANDONED, GIVEN_UP) == []


def test_a_batch_landed_by_both_or_by_neither() -> None:
    assert of_batch(record=GIVEN_UP) == ["LANDED in the ledger, but by hwm/4 it was given up"]
    assert of_batch(ABANDONED) == ["ABANDONED in the ledger, but by hwm/4 it has landed"]
    assert of_batch(pinned=None) == ["the ledger's rows of its plan cannot be read"]


@pytest.mark.parametrize(
    ("batch", "pinned", "words"),
    [
        (replace(BATCH, nonce="m"), Pinned(PLAN, "f"), "attempt"),
        (replace(BATCH, manifest_digest="other"), Pinned(PLAN, "f"), "files"),
        (BATCH, Pinned(replace(PLAN, clock_ms=1, rules_version=2), "f"), "rules_version, clock"),
        (BATCH, Pinned(PLAN, "g"), "spec"),
        (replace(BATCH, nonce="m", ranges=()), Pinned(PLAN, "g"), "spec, attempt, counts"),
        *(
            (
                replace(BATCH, ranges=(RangeRow(OffsetRange("t", 0, 0, 10), replace(BALANCE, **{name: 99})),)),
                Pinned(PLAN, "f"),
                "counts",
            )
            for name in ("read", "data", "late", "dirty", "filtered", "dropped")
        ),
    ],
)
def test_what_differs_is_named(batch: BatchRow, pinned: Pinned, words: str) -> None:
    assert of_batch(batch, pinned=pinned) == [f"ledger and hwm/4 differ in: {words}"]
    if words.startswith("rules"):
        assert of_batch(ABANDONED, GIVEN_UP, pinned) == [f"ledger and hwm/4 differ in: {words}"]


def test_a_record_that_is_lost_or_cannot_be_read() -> None:
    assert lost_batch(4, "hwm/4") == Problem("batch 4", "its record hwm/4 is missing", LOST)
    assert unreadable_batch(4, "hwm/4", "odd") == Problem("batch 4", "its record hwm/4 cannot be read: odd", LOST)
    lost = Problem(f"window {ID}", "the record of generation 2 below hwm is missing", LOST)
    assert lost_generation(GENERATION, "hwm") == lost
    odd = Problem(f"window {ID}", "hwm/x, the record of generation 2, cannot be read: odd", LOST)
    assert unreadable_generation(GENERATION, "hwm/x", "odd") == odd


def test_a_generations_record() -> None:
    mine = replace(GENERATION, digest=content_digest((FILE,)), batches=(2, 1), late=(2,))
    record = GenerationRecord(
        pipeline="p", window=WindowKey(T0, T0 + HOUR), number=2, epoch=1, kind="archive", batches=(1, 2), directory="d",
        location="l", files=(FILE,), digest=mine.digest or "", late=(2,),
    )  # fmt: skip
    assert list(check_generation(mine, record, "hwm/x")) == []
    other = replace(
        record, window=WindowKey(0, HOUR), number=3, batches=(1,), late=(), files=(replace(FILE, rows=1),), digest="y"
    )
    assert list(check_generation(mine, other, "hwm/x")) == [
        Problem(
            f"window {ID}",
            "generation 2: ledger and hwm/x differ in: window, number, batches, late batches, files, digest",
            DIFFERS,
        )
    ]


# ---------------------------------------------------------------- which findings stand

SPINE = Spine(
    name="p", next_batch_id=9, topic_id="id", states={}, unlanded={}, unmoved=0, losses=(), windows={}, generations=(),
    newest_event=1,
)  # fmt: skip


def test_a_part_is_some_windows_and_a_share_of_their_files() -> None:
    hour = Part(Interval(T0, T0 + HOUR))
    assert [hour.holds(ms) for ms in (T0 - 1, T0, T0 + HOUR - 1, T0 + HOUR, None)] == [False, True, True, False, False]
    assert ALL.holds(None)
    assert ALL.draws("batch 1", "a")
    drawn = [path for path in map(str, range(1000)) if Part(share=0.3, seed=5).draws("batch 1", path)]
    assert 250 < len(drawn) < 350
    assert drawn == [path for path in map(str, range(1000)) if Part(share=0.3, seed=5).draws("batch 1", path)]
    assert drawn != [path for path in map(str, range(1000)) if Part(share=0.3, seed=6).draws("batch 1", path)]
    assert drawn != [path for path in map(str, range(1000)) if Part(share=0.3, seed=5).draws("batch 2", path)]


def test_what_a_part_does_not_say_is_noted() -> None:
    assert list(ALL.notes()) == []
    assert len(list(Part(Interval(0, 1)).notes())) == 1
    only, sample = Part(share=0.25).notes()
    assert "--sample 25:" in sample
    assert only == next(Part(Interval(0, 1)).notes())


def test_what_is_looked_at_once_more() -> None:
    found = [Problem(f"window {ID}", ""), Problem("batch 12", ""), Problem("batch tables", ""), Problem("balance", "")]
    assert Again.of(found, True) == Again(frozenset({12}), frozenset({T0}), True)
    assert Again.of([], False) == Again(frozenset(), frozenset(), False)


def test_two_looks_that_found_the_same() -> None:
    """Sums go on meanwhile; places, which are told in brackets, do not."""
    moving = "1,200 rows of [3, 5) below file:/a/b"
    for subject in ("balance", "ledger", "partition 3"):
        assert key(Problem(subject, moving)) == (subject, "* rows of [3, 5) below *")
    assert key(Problem("batch 3", moving)) == ("batch 3", moving)


def test_a_ledger_at_work_and_one_that_stands_still() -> None:
    states = {s: is_moving(replace(SPINE, generations=(replace(GENERATION, state=s),))) for s in (
        BUILDING, BUILT, SWAPPING, CURRENT, RETIRED,
    )}  # fmt: skip
    assert states == {BUILDING: True, BUILT: True, SWAPPING: True, CURRENT: False, RETIRED: False}
    moves = replace(SPINE, unmoved=1)
    assert is_moving(moves)
    assert is_still(SPINE, replace(SPINE))
    assert not is_still(SPINE, replace(SPINE, newest_event=2))
    assert not is_still(moves, moves)


def test_r10_a_finding_stands_if_the_ledger_says_the_same_at_both_ends() -> None:
    window = WindowRow(WindowKey(T0, T0 + HOUR), "CLOSED", 3, T0, None)
    before = replace(SPINE, windows={T0: window}, generations=(GENERATION, replace(GENERATION, window_ms=0)))
    other = replace(before, generations=(GENERATION,), next_batch_id=10)
    about = Problem(f"window {ID}", "odd")
    assert stands(about, before, other, {}, {}), "another window has changed"
    assert not stands(about, before, replace(before, windows={}), {}, {})
    assert not stands(about, before, replace(before, generations=(replace(GENERATION, number=3),)), {}, {})

    batch = Problem("batch 4", "odd")
    assert stands(batch, before, before, {4: BATCH}, {4: BATCH})
    assert not stands(batch, before, before, {4: BATCH}, {4: replace(BATCH, epoch=2)})
    assert stands(batch, before, before, {4: BATCH}, {})
    assert stands(batch, before, before, {}, {4: BATCH})
    assert stands(Problem("batch tables", "odd"), before, other, {}, {})
    assert stands(Problem("balance", "odd"), before, other, {}, {})


# ---------------------------------------------------------------- rows that no run publishes


def waits(page: WindowPage, spine: Spine = SPINE, published: Iterable[Interval] = ()) -> list[Problem]:
    return list(unpublishable("p", PIPELINE.windows, spine, page, published))


def test_landed_rows_that_no_run_will_publish() -> None:
    total = WindowTotal(window_ms=T0 + 1, batch_id=4, kind="data", partition=0, rows=1200, min_offset=0, max_offset=9)
    page = WindowPage(T0 + 1, None, (total, replace(total, kind="late"), replace(total, batch_id=9)), (), ())
    (found,) = waits(page)
    assert found.subject == "window 20130105T000000Z" or found.subject.startswith("window 20130105T000000")
    assert found.what.startswith("1,200 landed rows that no run will publish: the schedule has no such window")
    assert found.advice
    assert waits(replace(page, generations=(GENERATION,))) == []
    assert len(waits(replace(page, generations=(replace(GENERATION, state=RETIRED),)))) == 1
    assert waits(page, replace(SPINE, unlanded={4: "SEALED"})) == []
    assert waits(replace(page, totals=(replace(total, kind="late"),))) == [], "late rows are published elsewhere"
    there = replace(page, window_ms=T0)
    assert waits(there) == []
    (said,) = waits(there, published=[Interval(T0, T0 + 1)])
    assert "p.archive -s" in said.advice
    assert "it counts as published" in said.what
