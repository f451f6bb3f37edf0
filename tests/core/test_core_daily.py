"""A day of a keyed table: what it is made of, what its files hold, and when another day has come below it."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.daily.day import (
    Day,
    DayFile,
    Ground,
    buckets_of,
    copied_of,
    flaw,
    made,
    outdated,
    purged_of,
    swept_of,
)
from tidegate.core.daily.purge import Purged, grown, settled
from tidegate.core.mirror.copied import RoundIn
from tidegate.core.mirror.counts import Counts
from tidegate.core.mirror.jobs import START, ApplyReceipt, BaseFile, Bucket, BucketDone, MirrorFile

DAY = 86_400_000
GROUND = Ground(window_ms=DAY, generation=3, epoch=2)
ROWS, GONE = DayFile("rows/a", 90, 5, 1), DayFile("tombstones/b", 10, 2, 0)
BEFORE = Day(base=GROUND, files=(ROWS, GONE), rows=5, tombstones=2, events=9, inserted=8, purged=1, newest_ms=70)
RECEIPT = ApplyReceipt(
    attempt="a",
    events=((1, 4),),
    newest_ms=60,
    buckets=(
        BucketDone(
            number=12,
            changed=True,
            counts=Counts(inserted=2, stale=2),
            files=(MirrorFile("very/deep/x", 30, 4, 0), MirrorFile("y", 20, 3, 3), MirrorFile("z", 10, 2, 1)),
            rows_before=7,
            tombstones_before=2,
        ),
    ),
)


def test_a_day_is_the_day_before_and_its_events() -> None:
    day, sources = made(BEFORE, GROUND, RECEIPT, "g7", "two contents")
    assert day == Day(
        base=GROUND,
        files=(
            DayFile("rows/g7-00012-x", 30, 4, 12),
            DayFile("tombstones/g7-00012-y", 20, 3, 12),
            DayFile("rows/g7-00012-z", 10, 2, 12),
        ),
        rows=5, tombstones=4, events=13, inserted=10, purged=1, newest_ms=70, conflicts="two contents",
    )  # fmt: skip
    assert sources == {
        "rows/g7-00012-x": "very/deep/x", "tombstones/g7-00012-y": "y", "rows/g7-00012-z": "z",
    }  # fmt: skip
    assert day.manifest == {"rows/g7-00012-x": 30, "tombstones/g7-00012-y": 20, "rows/g7-00012-z": 10}
    assert made(BEFORE, GROUND, replace(RECEIPT, newest_ms=80), "g7")[0].newest_ms == 80


def test_the_first_day_has_nothing_below_it() -> None:
    day, _ = made(None, None, replace(RECEIPT, newest_ms=-5, buckets=()), "g1")
    assert day == Day(base=None, files=(), events=4, newest_ms=0)
    assert made(None, None, RECEIPT, "g1")[0].newest_ms == 60


def test_days_after_one_that_took_a_copy_remember_it() -> None:
    """No event of before the copy makes a row in them, too (S5)."""
    copy = RoundIn(number=4, low=(7, 1, 0), top=(9, 0, 4))
    first, _ = made(None, None, RECEIPT, "g1")
    assert (first.taken, first.copied, first.swept_below) == (0, 0, START)
    taker, _ = made(first, GROUND, RECEIPT, "g2", copy=copy)
    assert (taker.taken, taker.copied, taker.swept_below) == (4, 4, (7, 1, 0))
    later, _ = made(taker, GROUND, RECEIPT, "g3")
    assert (later.taken, later.copied, later.swept_below) == (0, 4, (7, 1, 0))
    assert (copied_of(taker), swept_of(taker)) == (4, (7, 1, 0))
    assert (copied_of(None), swept_of(None)) == (0, START)


def test_days_after_a_purge_keep_out_what_it_kept_out() -> None:
    """The marker never goes back (M5), and all days count what it has kept out."""
    (bucket,) = RECEIPT.buckets
    kept_out = replace(bucket, counts=replace(bucket.counts, below_purge=3))
    first, _ = made(None, None, RECEIPT, "g1")
    assert (first.purged_below, first.below_purge, first.seen) == (START, 0, ())
    purger, _ = made(
        first, GROUND, replace(RECEIPT, buckets=(kept_out, kept_out)), "g2", purge=Purged((5, 0, 0), ((100, 7),))
    )
    assert (purger.purged_below, purger.below_purge, purger.seen) == ((5, 0, 0), 6, ((100, 7),))
    later, _ = made(purger, GROUND, replace(RECEIPT, buckets=(kept_out,)), "g3", purge=Purged((3, 0, 0)))
    assert (later.purged_below, later.below_purge) == ((5, 0, 0), 9)
    assert made(later, GROUND, RECEIPT, "g4", purge=Purged((6, 0, 0)))[0].purged_below == (6, 0, 0)
    assert (purged_of(purger), purged_of(None)) == ((5, 0, 0), START)


def test_a_merge_is_told_of_all_files_by_bucket() -> None:
    more = replace(BEFORE, files=(ROWS, GONE, DayFile("rows/c", 7, 1, 1)))
    assert buckets_of(more, "file:///g") == (
        Bucket(0, (BaseFile("file:///g/tombstones/b", 2, 10),)),
        Bucket(1, (BaseFile("file:///g/rows/a", 5, 90), BaseFile("file:///g/rows/c", 1, 7))),
    )


def test_the_files_hold_what_the_sums_say_and_the_sums_add_up() -> None:
    assert flaw(BEFORE) is None
    assert (ROWS.deleted, GONE.deleted) == (False, True)
    said = flaw(replace(BEFORE, rows=1500, inserted=1503))
    assert said == "its files hold 5 rows and 2 tombstones, its sums say 1,500 and 2"
    one = replace(BEFORE, files=(replace(ROWS, rows=1), replace(GONE, rows=1)))
    assert flaw(one) == "its files hold 1 row and 1 tombstone, its sums say 5 and 2"
    assert flaw(replace(BEFORE, files=(ROWS, replace(GONE, rows=1)))) is not None
    assert "but 9 were inserted" in str(flaw(replace(BEFORE, inserted=9)))


def test_a_day_is_outdated_once_another_generation_is_in_force_below_it() -> None:
    assert outdated(BEFORE, {DAY: 3}) is None
    assert outdated(BEFORE, {DAY: 4}) == "built on generation 3 of 1970-01-02T00:00Z, where 4 is in force"
    assert outdated(BEFORE, {0: 3}) == "built on generation 3 of 1970-01-02T00:00Z, where none is in force"
    assert outdated(replace(BEFORE, base=None), {}) is None


def test_what_has_been_read_by_when() -> None:
    seen = grown((), 100, (7, 0, 0), 0)
    seen = grown(seen, 200, None, 0)
    assert seen == ((100, 7), (200, 7))
    assert grown((), 100, None, 0) == ()
    seen = grown(seen, 300, (5, 9, 9), 0)
    assert seen[-1] == (300, 7), "a late event takes nothing back"
    assert (settled(seen, 99), settled(seen, 100), settled(seen, 250)) == (None, (7, 0, 0), (7, 0, 0))
    assert grown(seen, 400, (9, 0, 0), 250) == ((200, 7), (300, 7), (400, 9))
    assert grown(seen, 400, (9, 0, 0), 200) == ((200, 7), (300, 7), (400, 9))
    assert grown(seen, 400, (9, 0, 0), 199) == ((100, 7), (200, 7), (300, 7), (400, 9))
