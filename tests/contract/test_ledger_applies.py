"""Merges in the ledger: tries by epoch, compare-and-set, the copy of what a table says (M4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.ledgers import NAME, landed, ledger, now, open_ledger, planned, url
from tests.world import make_pipeline
from tidegate.core.base.errors import LostComparison
from tidegate.core.mirror.applies import APPLIED, OVERTAKEN, REFUSED, Horizon, Landed, Told
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

FIRST = Told(upto=2, snapshot="11", attempt="1-2.1-aa", rows=2, tombstones=1, events=3, inserted=3)
FIRST_OUT = replace(FIRST, below_purge=2)
SECOND = replace(FIRST, upto=3, snapshot="12", attempt="3-3.2-bb", rows=3, events=4, inserted=4)


def state(ledger: SqlLedger) -> str:
    newest = ledger.applies.newest(NAME)
    assert newest is not None
    return newest.state


def test_tries_are_numbered_and_stand_beside_each_other(ledger: SqlLedger) -> None:
    assert ledger.applies.newest(NAME) is None
    first = ledger.applies.begin(NAME, 1, 2, "aa")
    second = ledger.applies.begin(NAME, 1, 3, "bb")
    assert (first.name, second.name) == ("1-2.1-aa", "1-3.2-bb")
    assert ledger.applies.holds(first)
    assert ledger.applies.holds(second)
    assert ledger.applies.begin("another", 1, 1, "aa").epoch == 1
    assert not ledger.applies.holds(replace(first, nonce="zz"))
    assert not ledger.applies.holds(replace(first, epoch=9))


def test_m4_the_copy_follows_the_table(ledger: SqlLedger) -> None:
    """By the name of its attempt the table says which try has made it so; the others are overtaken."""
    first, beside = ledger.applies.begin(NAME, 1, 2, "aa"), ledger.applies.begin(NAME, 1, 2, "bb")
    later = ledger.applies.begin(NAME, 3, 4, "cc")
    assert ledger.applies.told(NAME) is None
    ledger.applies.stands(NAME, None, FIRST)
    assert ledger.applies.told(NAME) == FIRST
    assert [ledger.applies.holds(one) for one in (first, beside, later)] == [False, False, True]
    assert _events(ledger, "apply 1-2") == ["apply begun", "apply begun", "applied"]
    ledger.applies.stands(NAME, FIRST, FIRST)  # again
    assert _events(ledger, "apply 1-2") == ["apply begun", "apply begun", "applied"]


def test_the_copy_is_compared(ledger: SqlLedger) -> None:
    ledger.applies.stands(NAME, None, FIRST)
    for old in (None, replace(FIRST, rows=7), replace(FIRST, snapshot=None)):
        with pytest.raises(LostComparison):
            ledger.applies.stands(NAME, old, SECOND)
    ledger.applies.stands(NAME, FIRST, SECOND)
    assert ledger.applies.told(NAME) == SECOND


def test_m4_back_never_without_a_word(ledger: SqlLedger) -> None:
    ledger.applies.stands(NAME, None, SECOND)
    ledger.applies.stands(NAME, SECOND, FIRST)
    assert ledger.applies.told(NAME) == FIRST
    assert _events(ledger, "mirror") == ["mirror taken back"]


def test_a_table_without_a_snapshot_is_copied_too(ledger: SqlLedger) -> None:
    ledger.applies.stands(NAME, None, Told())
    ledger.applies.stands(NAME, Told(), FIRST)
    assert ledger.applies.told(NAME) == FIRST


def test_a_try_that_was_overtaken_and_stands_all_the_same_is_applied(ledger: SqlLedger) -> None:
    first = ledger.applies.begin(NAME, 1, 2, "aa")
    ledger.applies.stands(NAME, None, replace(FIRST, attempt="1-2.7-zz"))
    assert state(ledger) == OVERTAKEN
    ledger.applies.applied(first, "11")
    assert state(ledger) == APPLIED
    ledger.applies.applied(first, "11")
    ledger.applies.applied(replace(first, epoch=5), "11")  # the ledger has forgotten it
    assert _events(ledger, "apply 1-2") == ["apply begun", "applied"]


def test_a_refused_try(ledger: SqlLedger) -> None:
    first = ledger.applies.begin(NAME, 1, 2, "aa")
    ledger.applies.refuse(first, "two contents")
    newest = ledger.applies.newest(NAME)
    assert newest is not None
    assert (newest.state, newest.why, newest.apply) == (REFUSED, "two contents", first)
    assert newest.done_ms is not None
    with pytest.raises(LostComparison):
        ledger.applies.refuse(first, "again")
    second = ledger.applies.begin(NAME, 1, 2, "bb")
    ledger.applies.stands(NAME, None, FIRST)
    with pytest.raises(LostComparison):
        ledger.applies.refuse(second, "too late")


def test_upkeep_moves_no_batch_and_stands_beside_merges(ledger: SqlLedger) -> None:
    assert ledger.applies.begin(NAME, 1, 2, "aa").name == FIRST.attempt
    died = ledger.applies.begin(NAME, 3, 2, "dd")
    assert ledger.applies.upkeep(NAME) is None, "it has not come to an end"
    ledger.applies.stands(NAME, None, FIRST)
    assert ledger.applies.holds(died), "the table holds batches 1 to 2, which is what it works on"
    done = ledger.applies.begin(NAME, 3, 2, "bb")
    purged = replace(FIRST, snapshot="12", attempt=done.name, tombstones=0, purged=1, purged_below=(7, 1, 0))
    ledger.applies.stands(NAME, FIRST, purged)
    assert not ledger.applies.holds(died), "it has read the table before that one has committed"
    found = ledger.applies.upkeep(NAME)
    assert found is not None
    assert (found.apply, found.state) == (done, APPLIED)
    assert ledger.applies.told(NAME) == purged
    given_up = ledger.applies.begin(NAME, 3, 2, "ee")
    ledger.applies.overtaken(given_up)
    ledger.applies.overtaken(done)  # it is over: nothing changes
    assert (state(ledger), ledger.applies.upkeep(NAME)) == (OVERTAKEN, found)
    later = ledger.applies.begin(NAME, 3, 2, "cc")
    ledger.applies.stands(NAME, purged, replace(purged, upto=3, attempt="3-3.1-zz"))
    assert not ledger.applies.holds(later)


def test_upkeep_that_was_begun_on_another_snapshot_is_overtaken_by_the_next_look(ledger: SqlLedger) -> None:
    """Its begin arrives after the commit of the try that was made instead, so that no later epoch tells."""
    ledger.applies.begin(NAME, 1, 2, "aa")
    ledger.applies.stands(NAME, None, FIRST)
    done = ledger.applies.begin(NAME, 3, 2, "bb", base="11")
    late = ledger.applies.begin(NAME, 3, 2, "cc", base="11")
    ledger.applies.stands(NAME, FIRST, FIRST)
    assert ledger.applies.holds(done)
    assert ledger.applies.holds(late), "any of them may commit"
    purged = replace(FIRST, snapshot="12", attempt=done.name)
    ledger.applies.stands(NAME, FIRST, purged)
    assert not ledger.applies.holds(late)
    assert state(ledger) == OVERTAKEN
    live, old = ledger.applies.begin(NAME, 3, 2, "dd", base="12"), ledger.applies.begin(NAME, 3, 2, "ee")
    ledger.applies.stands(NAME, purged, purged)
    assert ledger.applies.holds(live)
    assert ledger.applies.holds(old), "an earlier release says no snapshot: it waits for the next commit"
    ledger.applies.applied(live, "13")
    ledger.applies.stands(NAME, purged, replace(purged, snapshot="14", attempt="3-2.9-zz"))
    assert not ledger.applies.holds(old)


def test_the_snapshot_of_a_merge_is_that_which_it_made(ledger: SqlLedger) -> None:
    """A merge for batches that the table lacks goes on beside any commit that does not bring them."""
    ledger.applies.begin(NAME, 1, 2, "aa")
    ledger.applies.stands(NAME, None, FIRST)
    merge = ledger.applies.begin(NAME, 3, 3, "bb")
    ledger.applies.stands(NAME, FIRST, replace(FIRST, snapshot="12", attempt="3-2.9-zz"))
    assert ledger.applies.holds(merge)


def test_events_that_a_purge_keeps_out_are_an_event(ledger: SqlLedger) -> None:
    ledger.applies.stands(NAME, None, replace(FIRST, below_purge=2, kept_out=("id=1",)))
    ledger.applies.stands(NAME, FIRST_OUT, replace(SECOND, below_purge=2))
    ledger.applies.stands(NAME, replace(SECOND, below_purge=2), replace(SECOND, snapshot="13", below_purge=5))
    found = [m.detail for m in ledger.cleaning.history(NAME, "mirror")]
    assert found == [
        {"events": 2, "in all": 2, "samples": ["id=1"]},
        {"events": 3, "in all": 5, "samples": []},
    ]


def test_what_batches_say_of_events_to_come(ledger: SqlLedger) -> None:
    assert ledger.applies.horizon(NAME, 9, 2**62) == Horizon()
    landed(ledger)
    found = ledger.applies.horizon(NAME, 1, 2**62)
    assert found.settled == 1
    assert ledger.applies.horizon(NAME, 0, 2**62) == Horizon()
    assert ledger.applies.horizon(NAME, 1, 0).settled is None
    assert ledger.applies.horizon("another", 1, 2**62) == Horizon()


def test_two_that_look_at_once(open_ledger: Callable[[], SqlLedger]) -> None:
    one, other = open_ledger(), open_ledger()
    one.applies.stands(NAME, None, FIRST)
    with pytest.raises(LostComparison):
        other.applies.stands(NAME, None, FIRST)


def test_what_has_landed_above_the_table(ledger: SqlLedger) -> None:
    assert ledger.applies.landed(NAME, 0) == Landed(rows={}, newest=0, open_batch=None)
    landed(ledger)
    rows = ledger.applies.landed(NAME, 0).rows[1]
    assert rows > 0
    ledger.batches.abandon(planned(ledger, 2, 5, 9), "lost")
    planned(ledger, 3, 9, 12)
    assert ledger.applies.landed(NAME, 0) == Landed(rows={1: rows, 2: 0}, newest=2, open_batch=3)
    assert ledger.applies.landed(NAME, 1) == Landed(rows={2: 0}, newest=2, open_batch=3)
    assert [ledger.applies.rows(NAME, n) for n in (0, 1, 2)] == [0, rows, rows]
    assert ledger.applies.rows("another", 9) == 0


def _events(ledger: SqlLedger, subject: str) -> list[str]:
    return [m.what for m in ledger.cleaning.history(NAME, subject)]


def test_since_when_batches_land_and_when_the_newest_spec_came(ledger: SqlLedger, now: list[int]) -> None:
    assert ledger.reads.merging([NAME])[NAME].spec_ms is None
    first = now[0]
    landed(ledger)
    now[0] += 1000
    landed(ledger, 2, 5, 9)
    merging = ledger.reads.merging([NAME])[NAME]
    assert (merging.spec_ms, merging.first_ms, merging.newest) == (first, first, 2)
    ledger.pipelines.register(make_pipeline("file:///lake/t"), "another fingerprint")
    assert ledger.reads.merging([NAME])[NAME].spec_ms == first + 1000


def test_a_commit_of_a_copy_is_no_upkeep_that_puts_off_a_purge(ledger: SqlLedger) -> None:
    purge = ledger.applies.begin(NAME, 3, 2, "aa", base="11")
    ledger.applies.applied(purge, "12")
    copied = ledger.applies.begin(NAME, 3, 2, "bb", base="12", copied=1)
    ledger.applies.applied(copied, "13")
    newest = ledger.applies.upkeep(NAME)
    assert newest is not None
    assert newest.apply == purge
