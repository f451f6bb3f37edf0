"""What the ledger tells a cleaner, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.ledgers import NAME, WINDOW, built, landed, ledger, now, open_ledger, planned, url
from tidegate.core.clean.rules import BatchFacts, GenerationFacts
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

PLACE = "file:///lake/t/hour=00"


def published(ledger: SqlLedger, number: int = 1) -> None:
    """Generation 1 of the window, or the replay after it."""
    if number == 1:
        generation = built(ledger)
    else:
        ledger.windows.begin_generation(NAME, WINDOW, number - 1, "replay")
        taken = ledger.windows.take(NAME, WINDOW, number, "n")
        files = ledger.batches.manifest_files(NAME, 1)
        generation = ledger.windows.built(taken, f"file:///assembled/{number}", files)
    ledger.windows.publish(ledger.windows.begin_swap(generation), f"{PLACE}/{number}", "certificate")


def test_facts_of_batches_follow_their_states(ledger: SqlLedger, now: list[int]) -> None:
    assert ledger.cleaning.batches(NAME, [1]) == {}
    planned(ledger)
    assert ledger.cleaning.batches(NAME, [1, 2]) == {
        1: BatchFacts(
            batch_id=1, state="PLANNED", epoch=0, side_moved=False, landed_ms=None, cleaned_ms=None, newest=True
        )
    }


def test_a_batch_owes_its_windows_until_a_generation_made_of_it_is_in_force(ledger: SqlLedger, now: list[int]) -> None:
    generation = built(ledger)
    facts = BatchFacts(
        batch_id=1,
        state="LANDED",
        epoch=1,
        side_moved=True,
        landed_ms=now[0],
        cleaned_ms=None,
        newest=True,
        unpublished=(WINDOW.start_ms,),
    )
    assert ledger.cleaning.batches(NAME, [1])[1] == facts
    ledger.windows.publish(ledger.windows.begin_swap(generation), PLACE, "certificate")
    assert ledger.cleaning.batches(NAME, [1])[1] == replace(facts, unpublished=())
    landed(ledger, 2, 5, 10)  # a row of it in the same window, which generation 1 was not made of
    found = ledger.cleaning.batches(NAME, [1, 2])
    assert (found[1].newest, found[1].unpublished) == (False, ())
    assert (found[2].newest, found[2].unpublished) == (True, (WINDOW.start_ms,))


def test_a_batch_is_marked_once_and_only_when_landed(ledger: SqlLedger, now: list[int]) -> None:
    landed(ledger)
    planned(ledger, 2, 5, 10)
    assert ledger.cleaning.uncleaned_batches(NAME, 0, now[0], 10) == [1]
    assert ledger.cleaning.uncleaned_batches(NAME, 0, now[0] - 1, 10) == []
    assert ledger.cleaning.uncleaned_batches(NAME, 1, now[0], 10) == []
    for batch_id in (1, 2, 1):
        ledger.cleaning.batch_cleaned(NAME, batch_id)
        now[0] += 1
    found = ledger.cleaning.batches(NAME, [1, 2])
    assert (found[1].cleaned_ms, found[2].cleaned_ms) == (1_000_000, None)
    assert ledger.cleaning.uncleaned_batches(NAME, 0, now[0], 10) == []


def test_facts_of_generations(ledger: SqlLedger, now: list[int]) -> None:
    published(ledger)
    now[0] += 1
    published(ledger, 2)
    ledger.windows.begin_generation(NAME, WINDOW, 2, "replay")
    found = ledger.cleaning.generations(NAME, [(WINDOW.start_ms, n) for n in (1, 2, 3, 4)])
    assert sorted(number for _, number in found) == [1, 2, 3]
    first = GenerationFacts(
        window_ms=WINDOW.start_ms,
        number=1,
        state="RETIRED",
        epoch=1,
        kind="archive",
        location=f"{PLACE}/1",
        built_ms=now[0] - 1,
        retired_ms=now[0],
        cleaned_ms=None,
        current=2,
        newer_retired=0,
        doubts=(),
        blocked=False,
        working=True,
    )
    assert found[WINDOW.start_ms, 1] == first
    third = found[WINDOW.start_ms, 3]
    assert (third.state, third.working, third.built_ms) == ("BUILDING", False, None)
    ledger.windows.block(NAME, WINDOW, "alarm")
    assert ledger.cleaning.generations(NAME, [(WINDOW.start_ms, 1)])[WINDOW.start_ms, 1] == replace(first, blocked=True)


def test_unanswered_changes_are_doubts_until_their_deadline(ledger: SqlLedger, now: list[int]) -> None:
    published(ledger)
    current = ledger.windows.generation(NAME, WINDOW, 1)
    ledger.windows.declare_intent(current, f"{PLACE}/1", 100)
    key = (WINDOW.start_ms, 1)
    assert ledger.cleaning.generations(NAME, [key])[key].doubts == (f"{PLACE}/1",)
    now[0] += 100
    assert ledger.cleaning.generations(NAME, [key])[key].doubts == ()


def test_retired_and_discarded_ones_are_listed_until_they_are_marked(ledger: SqlLedger, now: list[int]) -> None:
    published(ledger)
    published(ledger, 2)
    ledger.windows.begin_generation(NAME, WINDOW, 2, "replay")
    ledger.windows.discard(ledger.windows.generation(NAME, WINDOW, 3), "refused")
    start = WINDOW.start_ms
    assert ledger.cleaning.uncleaned_generations(NAME, (-1, 0), 10) == [(start, 1), (start, 3)]
    assert ledger.cleaning.uncleaned_generations(NAME, (start, 1), 10) == [(start, 3)]
    assert ledger.cleaning.uncleaned_generations(NAME, (-1, 0), 1) == [(start, 1)]
    for number in (1, 2, 1):
        ledger.cleaning.generation_cleaned(NAME, start, number)
        now[0] += 1
    found = ledger.cleaning.generations(NAME, [(start, 1), (start, 2)])
    assert (found[start, 1].cleaned_ms, found[start, 2].cleaned_ms) == (1_000_000, None)
    assert ledger.cleaning.uncleaned_generations(NAME, (-1, 0), 10) == [(start, 3)]
    events = ledger.cleaning.history(NAME, "window 19700101T000000Z", ["cleaned", "discarded"])
    assert [(m.what, m.detail["generation"]) for m in events] == [("discarded", 3), ("cleaned", 1)]


@pytest.mark.parametrize("count", [0, 1, 450])
def test_many_are_asked_for_at_once(ledger: SqlLedger, count: int) -> None:
    landed(ledger)
    asked = range(1, count + 1)
    assert list(ledger.cleaning.batches(NAME, asked)) == [1][:count]
    assert ledger.cleaning.generations(NAME, [(i, 1) for i in asked]) == {}


def test_a_round_leaves_one_event(ledger: SqlLedger) -> None:
    ledger.cleaning.cleaned(NAME, {"plans": 2}, {"file:///x": "why"})
    (event,) = ledger.reads.events(NAME, 1)
    assert (event.what, event.detail) == ("cleaned", {"deleted": {"plans": 2}, "kept": {"file:///x": "why"}})
