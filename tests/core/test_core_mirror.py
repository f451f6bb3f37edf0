"""The rules of keyed tables: their order, the fate of events, the next range, the sums."""

from __future__ import annotations

import itertools
import random
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.base.errors import Alarm, StorageAhead
from tidegate.core.base.instants import DAY_MS
from tidegate.core.mirror import purge
from tidegate.core.mirror.applies import APPLIED, REFUSED, Apply, Horizon, Tried, parse_apply, refused_again
from tidegate.core.mirror.balance import Totals, after, imbalance, receipt_errors
from tidegate.core.mirror.commits import Cut, Merge, Purge, Tell, next_commit
from tidegate.core.mirror.copied import Complete
from tidegate.core.mirror.counts import Counts, add_up
from tidegate.core.mirror.jobs import (
    START,
    ApplyReceipt,
    BaseFile,
    Bucket,
    BucketDone,
    EventFile,
    MirrorFile,
)
from tidegate.core.mirror.next_merge import BatchRange, follows, next_range
from tidegate.core.mirror.order import Fates, Version, contradict, fates, goes_back, is_below, newer, same
from tidegate.core.target.prefix import Prefix

# ---------------------------------------------------------------- M2


def version(commit: int, row: int = 0, n: int = 0, deleted: bool = False, digest: int = 5) -> Version:
    return Version(commit, row, n, deleted, 0 if deleted else digest)


IN_ORDER = [
    version(1, 9, 9),
    version(2, 0, 0, digest=9),
    version(2, 0, 1),
    version(2, 1, 0, deleted=True),
    version(2, 1, 0, digest=1),
    version(2, 1, 0, digest=2),
    version(2, 1, 1),
    version(3),
]


def test_the_order_is_total() -> None:
    """Position, then what is no delete, then the content: of two that differ exactly one is newer."""
    for (i, one), (j, other) in itertools.product(enumerate(IN_ORDER), repeat=2):
        assert newer(one, other) == (i > j)
        assert same(one, other) == (i == j)


def test_two_upserts_at_one_position_contradict_each_other() -> None:
    found = [(i, j) for (i, a), (j, b) in itertools.combinations(enumerate(IN_ORDER), 2) if contradict(a, b)]
    assert found == [(4, 5)], "a delete beside an upsert is no conflict"


@pytest.mark.parametrize(
    ("beaten", "later", "at_ms", "back"),
    [(True, True, 11, True), (True, True, 10, False), (True, False, 11, False), (False, True, 11, False)],
)
def test_news_that_an_older_event_beats_are_of_another_log(beaten: bool, later: bool, at_ms: int, back: bool) -> None:
    """M8: a repeat has its old time; what lags in another lane has not come later."""
    assert goes_back(beaten, later, at_ms, 10) is back
    assert goes_back(beaten, later, at_ms, 0) is False, "nothing had a time"


def test_below_a_purge_is_below_its_whole_position() -> None:
    found = [bool(is_below(v, (2, 1, 0))) for v in IN_ORDER]
    assert found == [True, True, True, False, False, False, False, False]
    assert not any(is_below(v, START) for v in IN_ORDER)


@pytest.mark.parametrize(
    ("event", "table", "winner", "fate"),
    [
        (2, None, 2, "inserted"),
        (2, None, 3, "superseded"),
        (0, None, 0, "below_purge"),
        (0, None, 2, "superseded"),  # the newer one makes a row of the key
        (2, 1, 2, "changed"),
        (2, 1, 3, "superseded"),
        (2, 2, 2, "same"),
        (2, 2, 3, "same"),
        (2, 3, 2, "stale"),
        (0, 0, 0, "same"),  # its key has a row: the purge does not matter
        (0, 1, 0, "stale"),
        (1, 0, 1, "changed"),
    ],
)
def test_the_fate_of_an_event(event: int, table: int | None, winner: int, fate: str) -> None:
    versions = [version(10), version(15), version(20), version(30)]
    standing = versions[table or 0]
    found = fates(versions[event], standing, table is not None, versions[winner], event == winner, (20, 0, 0))
    assert [name for name, truth in found._asdict().items() if truth] == [fate]
    assert found.stands == (fate in ("inserted", "changed"))


def test_a_repeat_in_one_merge_is_the_same() -> None:
    one = version(20)
    assert fates(one, one, False, one, True, START).inserted
    assert fates(one, one, False, one, False, START).same


NUMBERS = st.integers(0, 2)
VERSIONS = st.builds(version, NUMBERS, NUMBERS, NUMBERS, st.booleans(), NUMBERS)


@given(st.lists(st.tuples(VERSIONS, VERSIONS, st.booleans(), VERSIONS, st.booleans()), min_size=1), NUMBERS)
def test_columns_are_decided_as_single_events_are(rows: list[Any], below: int) -> None:
    """And each event has exactly one fate."""

    def column(versions: tuple[Version, ...]) -> Version:
        kinds = (np.int64, np.int64, np.int64, np.bool_, np.uint64)
        return Version(*(np.array(c, k) for c, k in zip(zip(*versions, strict=True), kinds, strict=True)))

    event, table, has_row, winner, wins = zip(*rows, strict=True)
    position = (below, 1, 0)
    found = fates(column(event), column(table), np.array(has_row), column(winner), np.array(wins), position)
    single = [fates(*row, position) for row in rows]
    assert [tuple(bool(x) for x in one) for one in single] == [
        tuple(bool(m[i]) for m in found) for i in range(len(rows))
    ]
    assert all(sum(map(bool, one)) == 1 for one in single)


def test_fates_and_counts_have_the_same_names() -> None:
    assert Fates._fields == tuple(f.name for f in fields(Counts))
    assert add_up([Counts(inserted=1, stale=2), Counts(stale=3)]) == Counts(inserted=1, stale=5)
    assert Counts(inserted=1, changed=2, superseded=3, stale=4, same=5, below_purge=6).events == 21


# ---------------------------------------------------------------- M3


def asked(upto: int, landed: dict[int, int], open_batch: int | None = None, **more: Any) -> BatchRange | None:
    return next_range("orders", upto, landed, max(landed, default=more.pop("newest", 0)), open_batch, **more)


def test_a_merge_takes_all_that_has_landed() -> None:
    assert asked(0, {}) is None
    assert asked(0, {1: 5, 2: 0, 3: 7}, open_batch=4) == BatchRange(1, 3)
    assert asked(2, {3: 7}) == BatchRange(3, 3)
    assert asked(3, {}, newest=3) is None
    assert 2 in BatchRange(1, 3)
    assert 4 not in BatchRange(1, 3)


def test_the_next_commit_is_a_cut_then_a_merge_then_a_purge_then_what_is_told() -> None:
    batches = BatchRange(3, 4)
    unasked = partial(pytest.fail, "it is asked for while there is other work")
    assert next_commit(batches, 3, unasked) == next_commit(None, 3, unasked) == Cut(3)
    assert next_commit(batches, None, unasked) == Merge(batches)
    assert next_commit(None, None, lambda: Purge(2)) == Purge(2)
    told = Complete((7, 0), 1_000)
    assert next_commit(None, None, lambda: Purge(2), None, unasked) == Purge(2)
    assert next_commit(None, None, lambda: None, None, lambda: told) == Tell(told)
    assert next_commit(None, None, None, None, lambda: None) is None
    assert next_commit(None, None, lambda: None) is None
    assert next_commit(None, None, None) is None


def test_a_merge_has_at_most_so_many_rows_and_at_least_one_batch() -> None:
    rows = {1: 50, 2: 0, 3: 50, 4: 1, 5: 500}
    assert asked(0, rows, most_rows=100) == BatchRange(1, 3)
    assert asked(0, rows, most_rows=10) == BatchRange(1, 1)
    assert asked(4, {5: 500}, most_rows=10) == BatchRange(5, 5)


def test_a_table_ahead_of_the_ledger_stops() -> None:
    with pytest.raises(StorageAhead, match=r"batches 1 to 7, but the ledger's newest landed one is 6, and batch 7 is"):
        asked(7, {}, open_batch=7, newest=6)
    with pytest.raises(StorageAhead, match="the ledger knows of no landed batch"):
        asked(1, {})


def test_a_hole_is_refused() -> None:
    with pytest.raises(Alarm, match="the ledger does not know of batches 3, 4"):
        asked(2, {5: 1})
    with pytest.raises(Alarm, match=r"batches 3, 4, 5, 6, 7 \.\.\."):
        asked(2, {9: 1})
    with pytest.raises(Alarm, match="batch 3 has not landed, but batch 4 behind it has"):
        asked(2, {3: 1, 4: 1}, open_batch=3)
    with pytest.raises(Alarm, match="batch 3"):
        asked(2, {}, newest=3)


def test_a_merge_begins_right_above_the_table() -> None:
    assert follows(2, 3, 3)
    assert follows(0, 1, 9)
    assert not follows(2, 2, 3)
    assert not follows(2, 4, 4)
    assert follows(2, 3, 2), "upkeep merges no batch"
    assert not follows(2, 3, 1)
    assert not follows(2, 2, 1)


def test_upkeep_is_an_empty_range_that_names_say() -> None:
    none, some = BatchRange.upkeep(4), BatchRange(5, 5)
    assert (none, none.merges, some.merges) == (BatchRange(5, 4), False, True)
    assert not any(n in none for n in range(9))
    mine = Apply(pipeline="p", first=none.first, last=none.last, epoch=7, nonce="ab")
    assert parse_apply("p", mine.name) == mine
    assert (mine.merges, mine.subject) == (False, "upkeep at 4")
    refused = Tried(apply=mine, state=REFUSED, began_ms=1, why="a file is gone")
    assert refused_again(refused, 5) is None, "a merge of batch 5 has not met it"


# ---------------------------------------------------------------- M5, M6


NOW = purge.Standing(now_ms=100 * DAY_MS, keep_ms=10 * DAY_MS, rows=1_000, tombstones=10)
READ = Horizon(read_ms=90 * DAY_MS, settled=3)


@pytest.mark.parametrize(
    ("horizon", "why"),
    [
        (READ, None),
        (replace(READ, read_ms=90 * DAY_MS - 1), "no merged batch has read the whole topic within the last 10.0 days"),
        (replace(READ, read_ms=None), "no merged batch has read"),
        (replace(READ, settled=None), "no batch with events had landed 20.0 days ago"),
        (replace(READ, left_out=True), "wait for a redrive"),
    ],
)
def test_m6_a_purge_needs_a_promise_that_reaches_as_far(horizon: Horizon, why: str | None) -> None:
    found = purge.refusal(NOW, horizon)
    assert (found is None) == (why is None)
    assert (why or "") in (found or "")
    assert purge.settled_ms(NOW) == 80 * DAY_MS


def test_m6_what_is_promised_is_at_or_above_the_marker(rng: random.Random) -> None:
    """A source that keeps its promise to the edge: whenever a purge is allowed, no event that is not merged is below
    the newest position that was readable at `settled_ms`."""
    keep, allowed = 5, 0
    for _ in range(400):
        log: list[tuple[int, int]] = []  # (readable at, position)
        for at in range(40):
            floor = max((p for when, p in log if when < at - keep), default=0)
            log += [(at, rng.randint(floor, floor + 6)) for _ in range(rng.randint(0, 2))]
        now, read = 30, rng.randint(10, 30)
        standing = purge.Standing(now_ms=now, keep_ms=keep, rows=0, tombstones=1)
        settled = [p for when, p in log if when < purge.settled_ms(standing)]
        horizon = Horizon(read_ms=read, settled=1 if settled else None)
        if purge.refusal(standing, horizon) is None:
            allowed += 1
            assert all(p >= max(settled) for when, p in log if when > read)
    assert allowed > 50


def test_m5_a_marker_never_goes_back() -> None:
    assert purge.marker((5, 0, 0), (4, 9, 9)) == purge.marker((4, 9, 9), (5, 0, 0)) == (5, 0, 0)


def test_a_purge_is_done_once_a_day_and_where_it_is_worth_it() -> None:
    assert not purge.idle(NOW)
    assert purge.idle(replace(NOW, tombstones=9))
    assert purge.idle(replace(NOW, tombstones=0, rows=0))
    assert not purge.idle(replace(NOW, tombstones=1, rows=0))
    done = Tried(
        apply=Apply(pipeline="p", first=2, last=1, epoch=1, nonce="a"), state=APPLIED, began_ms=0, done_ms=99 * DAY_MS
    )
    assert not purge.idle(replace(NOW, last=done))
    assert purge.idle(replace(NOW, last=replace(done, done_ms=99 * DAY_MS + 1)))


# ---------------------------------------------------------------- sums

EVENTS = (EventFile(1, "a", 3), EventFile(1, "b", 1), EventFile(2, "c", 2), EventFile(3, "d", 0))
BASE = (Bucket(0, (BaseFile("x", 4, 1), BaseFile("y", 1, 1))), Bucket(1, (BaseFile("z", 9, 1),)))
CHANGED = BucketDone(
    0, True, Counts(inserted=2, changed=1, stale=1), (MirrorFile("p", 10, 5, 1), MirrorFile("q", 20, 2, 1)), 5, 1
)
RECEIPT = ApplyReceipt("1-3.1-x", ((1, 4), (2, 2)), (CHANGED, BucketDone(1, False, Counts(same=2), (), 9, 3)))
LISTING = {"p": 10, "q": 20, "_receipt.json": 5}


def changed(**values: Any) -> ApplyReceipt:
    return replace(RECEIPT, buckets=(replace(CHANGED, **values), RECEIPT.buckets[1]))


def test_a_right_receipt_has_no_errors() -> None:
    assert receipt_errors(EVENTS, BASE, RECEIPT, LISTING) == []
    assert receipt_errors(EVENTS, BASE, RECEIPT) == []


@pytest.mark.parametrize(
    ("receipt", "said"),
    [
        (replace(RECEIPT, events=((1, 4),)), "events by batch"),
        (replace(RECEIPT, events=((1, 3), (2, 3))), "events by batch"),
        (replace(RECEIPT, buckets=RECEIPT.buckets[:1]), "6 events read, but 4 have a fate"),
        (replace(RECEIPT, buckets=(*RECEIPT.buckets, RECEIPT.buckets[0])), "bucket 0 is listed twice"),
        (changed(rows_before=6), "bucket 0: 6 rows read, the table's files have 5"),
        (changed(files=CHANGED.files[:1]), "bucket 0: 5 rows in its new files, 5 before and 2 inserted"),
        (changed(counts=Counts(inserted=3, stale=1)), "3 inserted"),
        (changed(counts=Counts(same=4)), "bucket 0: changed, by counts"),
        (changed(changed=False), "bucket 0: unchanged, by counts"),
        (changed(changed=False, counts=Counts(same=4)), "bucket 0: 7 rows in its new files"),
        (changed(files=(replace(CHANGED.files[0], bytes=11), CHANGED.files[1])), "p: 11 bytes, in its directory 10"),
        (changed(files=(replace(CHANGED.files[0], path="o"), CHANGED.files[1])), "o: 10 bytes, in its directory None"),
    ],
)
def test_what_a_receipt_must_add_up_to(receipt: ApplyReceipt, said: str) -> None:
    assert said in " ".join(receipt_errors(EVENTS, BASE, receipt, LISTING))


def test_sums_go_on_from_merge_to_merge() -> None:
    before = Prefix(rows=10, tombstones=4, events=30, inserted=16, purged=2)
    assert imbalance(before) is None
    now = after(before, RECEIPT)
    assert now == Totals(rows=11, tombstones=5, events=36, inserted=18, purged=2)
    assert imbalance(now) is None


def test_a_purge_drops_tombstones_alone() -> None:
    """And counts them: a bucket whose rows it took instead does not add up."""
    gone = BucketDone(0, True, Counts(), (MirrorFile("p", 10, 3, 1),), 5, 3, 2)
    receipt = ApplyReceipt("4-3.1-x", (), (gone,), purged_below=(7, 0, 0))
    assert receipt_errors((), BASE, receipt, {"p": 10}) == []
    assert after(Prefix(rows=8, tombstones=6, inserted=16, purged=2), receipt) == Totals(
        rows=8, tombstones=4, inserted=16, purged=4
    )
    for wrong, said in (
        (replace(gone, files=(MirrorFile("p", 10, 3, 3),)), "2 of 3 tombstones purged, 3 left"),
        (replace(gone, files=(MirrorFile("p", 10, 2, 1),)), "2 rows in its new files, 5 before and 0 inserted, 2"),
        (replace(gone, changed=False, files=()), "unchanged, by counts"),
        (replace(gone, purged=0, files=(MirrorFile("p", 10, 5, 3),)), "changed, by counts"),
    ):
        assert said in " ".join(receipt_errors((), BASE, replace(receipt, buckets=(wrong,)), {"p": 10}))


def test_rows_that_nobody_purged_are_told() -> None:
    said = imbalance(Totals(rows=1, tombstones=0, events=9, inserted=3, purged=1))
    assert (
        said == "1 row, 0 tombstones and 1 purged are 2, but 3 were inserted: another writer has removed or added rows"
    )
