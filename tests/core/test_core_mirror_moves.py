"""How tries to merge move, what a table said before, other numbers of buckets, and what readers of changes take."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tidegate.core.base.errors import Alarm, NotReady, SpecError, StorageAhead
from tidegate.core.base.transition import NO_ROW
from tidegate.core.mirror import transitions as moves
from tidegate.core.mirror.applies import OPEN, OVERTAKEN, REFUSED, Apply, Landed, Told, Tried, refused_again, taken_back
from tidegate.core.mirror.balance import Totals, after, imbalance
from tidegate.core.mirror.changes import batch_of, between
from tidegate.core.mirror.counts import Counts
from tidegate.core.mirror.jobs import (
    ApplyReceipt,
    BaseFile,
    Bucket,
    BucketDone,
    EventFile,
    MirrorFile,
    position_of,
    spelled,
)
from tidegate.core.mirror.next_merge import BatchRange, next_range
from tidegate.core.mirror.order import goes_back
from tidegate.core.mirror.recut import errors, lumps, refusal

# ---------------------------------------------------------------- tries

APPLY = Apply(pipeline="p", first=3, last=5, epoch=7, nonce="ab")
ROW = {"pipeline": "p", "epoch": 7}


def test_a_try_begins_beside_others() -> None:
    made = moves.begin(APPLY)
    assert (made.transition, made.states, made.row, made.after) == (moves.BEGIN, (NO_ROW,), ROW, APPLY)
    assert made.sets == {"first_batch": 3, "last_batch": 5, "nonce": "ab", "snapshot": None, "copied": None}
    assert (made.detail, made.subject, made.what) == ({"epoch": 7}, "apply 3-5", "3-5.7-ab")
    person = moves.begin(APPLY, "two contents", base="s1")
    assert person.detail == {"epoch": 7, "takes conflicts": "two contents"}
    assert person.sets["snapshot"] == "s1"


def test_the_table_decides_whose_merge_it_is() -> None:
    """Also of a try that its own task has given up."""
    made = moves.applied(APPLY, "s2")
    assert (made.transition, made.states, made.as_read) == (moves.APPLY, (OPEN, OVERTAKEN), {"nonce": "ab"})
    assert (made.sets, made.detail, made.row) == ({"snapshot": "s2"}, {"epoch": 7, "snapshot": "s2"}, ROW)
    assert made.what == "applying 3-5.7-ab"


def test_a_try_is_overtaken_or_refused_while_it_is_open() -> None:
    over, no = moves.overtaken(APPLY), moves.refuse(APPLY, "odd")
    assert (over.transition, over.states, over.row, over.as_read) == (moves.OVERTAKE, (OPEN,), ROW, {})
    assert over.subject == "apply 3-5"
    assert (no.transition, no.states, no.as_read) == (moves.REFUSE, (OPEN,), {"nonce": "ab"})
    assert (no.sets, no.detail, no.row) == ({"why": "odd"}, {"epoch": 7, "why": "odd"}, ROW)
    assert no.what == "refusing 3-5.7-ab"


def test_the_same_batches_are_refused_for_the_same_reason() -> None:
    """Until a person says otherwise; upkeep stops no merge."""
    refused = Tried(apply=APPLY, state=REFUSED, began_ms=0, why="odd")
    assert refused_again(refused, 3) == "odd"
    assert refused_again(None, 3) is refused_again(refused, 4) is None
    assert refused_again(replace(refused, state=OPEN), 3) is None
    assert refused_again(replace(refused, apply=replace(APPLY, first=6)), 6) is None


def test_a_table_that_holds_less_than_it_did_was_taken_back() -> None:
    told = Told(upto=5)
    assert [taken_back(told, Told(upto=n)) for n in (4, 5, 6)] == [True, False, False]
    assert not taken_back(None, Told())


def test_the_copy_holds_all_that_the_table_says() -> None:
    class Snapshot:
        def __getattr__(self, name: str) -> object:
            return {"upto": 9, "rows": 3, "attempt": "a"}.get(name, name)

    made = Told.by(Snapshot())  # type: ignore[arg-type]
    assert (made.upto, made.rows, made.attempt, made.snapshot) == (9, 3, "a", "snapshot")


def test_positions_are_read_as_they_are_spelled() -> None:
    assert position_of(spelled((5, 0, 12))) == (5, 0, 12)
    for odd in ("5,0", "5,0,1,2", "a,b,c"):
        with pytest.raises(ValueError, match=r"unpack|invalid literal"):
            position_of(odd)


# ---------------------------------------------------------------- what readers of changes take


def test_a_token_is_the_last_batch_that_was_read() -> None:
    assert [batch_of(t) for t in (None, 7, " 7 ", "0")] == [0, 7, 7, 0]
    for odd in ("-1", "x", ""):
        with pytest.raises(ValueError, match="is no token of changes"):
            batch_of(odd)


LANDED = Landed(rows={4: 1, 5: 0, 6: 2}, newest=6, open_batch=None)


def test_changes_are_read_batch_by_batch_up_to_what_has_landed() -> None:
    assert between("p", 3, None, LANDED) == BatchRange(4, 6)
    assert between("p", 3, 4, LANDED) == BatchRange(4, 4)
    assert between("p", 6, None, LANDED) is None
    assert between("p", 4, 4, LANDED) is None


def test_changes_that_are_not_there_yet_or_never_will_be() -> None:
    with pytest.raises(SpecError, match="the token names batch 7, but the newest that has landed is 6") as ahead:
        between("p", 7, None, LANDED)
    assert "repair --adopt" in ahead.value.advice
    with pytest.raises(NotReady, match="batch 7 has not landed yet, the newest is 6") as early:
        between("p", 3, 7, LANDED)
    assert early.value.advice
    with pytest.raises(SpecError, match="batch 3 is before the token's, 4") as back:
        between("p", 4, 3, LANDED)
    assert back.value.advice
    for hole, missing in (({5: 0, 6: 2}, 4), ({4: 1, 5: 0}, 6)):
        with pytest.raises(Alarm, match=f"does not know of batch {missing}"):
            between("p", 3, None, replace(LANDED, rows=hole))


# ---------------------------------------------------------------- another number of buckets


def test_whole_buckets_are_split_or_joined() -> None:
    assert refusal(8, 4) is refusal(4, 8) is refusal(8, 8) is refusal(6, 18) is None
    said = refusal(6, 4)
    assert said is not None
    assert "the table has 6 buckets" in said
    assert ": 1, 2, 3, 6, 12, 24, 48, 96, ...; not 4" in said


@dataclass(frozen=True)
class Plan:
    buckets: int
    cut_before: int
    base: tuple[Bucket, ...] = ()
    events: tuple[EventFile, ...] = ()
    whole: bool = False


def bucket(number: int, *rows: int) -> Bucket:
    return Bucket(number, tuple(BaseFile(f"b{number}", n, 9) for n in rows))


def cut(number: int, rows: int, tombstones: int = 0, **more: object) -> BucketDone:
    file = MirrorFile(path=f"n{number}", bytes=9, rows=rows, tombstones=tombstones)
    made = BucketDone(
        number=number, changed=True, counts=Counts(), files=(file,), rows_before=rows, tombstones_before=tombstones
    )
    return replace(made, **more)  # type: ignore[arg-type]


def told(plan: Plan, *done: BucketDone, listing: dict[str, int] | None = None) -> list[str]:
    return errors(plan, ApplyReceipt(attempt="a", events=(), buckets=done), listing)


SPLIT = Plan(buckets=4, cut_before=2, base=(bucket(0, 3, 4), bucket(1, 5)))


def test_a_bucket_keeps_its_rows_when_it_is_split() -> None:
    good = (cut(0, 6, 2), cut(2, 1), cut(1, 5), cut(3, 0))
    assert told(SPLIT, *good) == []
    assert told(SPLIT, *good, listing={f"n{n}": 9 for n in range(4)}) == []
    assert told(SPLIT, *good, listing={}) == [f"n{n}: 9 bytes, in its directory None" for n in (0, 2, 1, 3)]
    assert lumps(SPLIT) == lumps(Plan(buckets=2, cut_before=4)) == 2


def test_buckets_that_are_joined_keep_theirs() -> None:
    joined = Plan(buckets=2, cut_before=4, base=(bucket(0, 1), bucket(2, 2), bucket(3, 4)))
    assert told(joined, cut(0, 3), cut(1, 4)) == []
    assert told(joined, cut(0, 4), cut(1, 3)) == ["buckets 0 modulo 2: 4 rows, before it was cut 3"]


@pytest.mark.parametrize(
    ("done", "words"),
    [
        ([cut(0, 7), cut(1, 4)], ["buckets 1 modulo 2: 4 rows, before it was cut 5"]),
        ([cut(0, 7), cut(1, 5), cut(4, 0)], ["bucket 4 is not one of 0 to 3"]),
        ([cut(0, 7), cut(1, 5), cut(3, 0), cut(3, 0)], ["bucket 3 is listed twice"]),
        ([cut(0, 7), cut(1, 5, rows_before=4)], ["bucket 1: 5 rows in its new files, 4 were cut"]),
        ([cut(0, 7), cut(1, 5, tombstones_before=1)], ["bucket 1: 5 rows in its new files, 5 were cut"]),
        ([cut(0, 7), cut(1, 5, changed=False)], ["bucket 1: 5 rows in its new files, 5 were cut"]),
        ([cut(0, 7), cut(1, 5, counts=Counts(stale=1))], ["bucket 1: 5 rows in its new files, 5 were cut"]),
    ],
)
def test_a_receipt_of_cut_buckets_that_cannot_be_right(done: list[BucketDone], words: list[str]) -> None:
    assert told(SPLIT, *done) == words


def test_a_plan_that_does_not_cut_is_held_by_the_balance_of_merges() -> None:
    plan = Plan(buckets=2, cut_before=0, base=(bucket(0, 3),), events=(EventFile(1, "e", 2),))
    good = BucketDone(0, True, Counts(inserted=2), (MirrorFile("n0", 9, 5, 0),), 3)
    receipt = ApplyReceipt(attempt="a", events=((1, 2),), buckets=(good,))
    assert errors(plan, receipt, {"n0": 9}) == []
    assert errors(plan, receipt, {"n0": 8}) == ["n0: 9 bytes, in its directory 8"]
    assert errors(replace(plan, events=()), receipt) != []
    assert errors(replace(plan, base=()), receipt) != []
    left = replace(plan, base=(bucket(0, 3), bucket(1, 1)))
    assert errors(left, receipt) == []
    assert errors(replace(left, whole=True), receipt) != []


# ---------------------------------------------------------------- ends of ranges, sums of upkeep


def test_a_range_holds_both_of_its_ends() -> None:
    assert [n in BatchRange(2, 4) for n in range(1, 6)] == [False, True, True, True, False]


def test_a_hole_names_at_most_five_batches() -> None:
    for rows, words in (
        ({4: 1}, r"the ledger does not know of batch 3\n"),
        ({8: 1}, r"of batches 3, 4, 5, 6, 7\n"),
        ({9: 1}, r"of batches 3, 4, 5, 6, 7 \.\.\.\n"),
    ):
        with pytest.raises(Alarm, match=words):
            next_range("orders", 2, rows, max(rows))
    with pytest.raises(Alarm, match="^orders: batch 3 has not landed, but batch 3 "):
        next_range("orders", 2, {3: 1}, 3, open_batch=3)
    with pytest.raises(StorageAhead, match="^orders: the table holds batches 1 to 3"):
        next_range("orders", 3, {}, 2)


def test_rows_of_copies_are_no_events() -> None:
    """Batch 0 is a window's, or several batches'; below it is a chunk of a copy."""
    receipt = ApplyReceipt(attempt="a", events=((-7, 100), (0, 3), (1, 4)), buckets=())
    assert after(Totals(), receipt).events == 7


def test_a_sweep_takes_rows_and_tombstones() -> None:
    file = MirrorFile("n0", 9, 4, 1)
    done = BucketDone(0, True, Counts(), (file,), rows_before=9, tombstones_before=3, purged=2, swept=3)
    found = after(Totals(rows=6, tombstones=3, inserted=9), ApplyReceipt(attempt="a", events=(), buckets=(done,)))
    assert found == Totals(rows=3, tombstones=1, inserted=9, purged=5)
    assert imbalance(found) is None


def test_m8_the_first_known_time_is_a_time() -> None:
    assert goes_back(True, True, 2, 1)
    assert not goes_back(True, True, 2, 0)
