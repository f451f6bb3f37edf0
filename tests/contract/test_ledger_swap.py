"""Swaps and intents of generations that share a directory, on SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.ledgers import NAME, WINDOW, built, ledger, now, open_ledger, url
from tidegate.core.base.errors import CatalogueUnsure, LostComparison
from tidegate.core.window.states import BuiltGeneration, Moved, PublishedGeneration
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

HOUR = "file:///lake/hour"


def first_published(ledger: SqlLedger) -> PublishedGeneration:
    return ledger.windows.publish(ledger.windows.begin_swap(built(ledger), HOUR), HOUR, "cert")


def second_built(ledger: SqlLedger) -> BuiltGeneration:
    first = first_published(ledger)
    taken = ledger.windows.take(NAME, WINDOW, ledger.windows.begin_generation(NAME, WINDOW, 1, "replay"), "n")
    return ledger.windows.built(taken, "file:///assembled/2", first.files)


def test_a_swap_pins_where_the_generation_goes(ledger: SqlLedger) -> None:
    second = second_built(ledger)
    assert second.location is None
    swapping = ledger.windows.begin_swap(second, HOUR)
    assert swapping == ledger.windows.generation(NAME, WINDOW, 2) == replace(second, state="SWAPPING", location=HOUR)


def test_the_generation_that_made_way_is_recorded_where_it_lies_with_the_publication(ledger: SqlLedger) -> None:
    swapping = ledger.windows.begin_swap(second_built(ledger), HOUR)
    published = ledger.windows.publish(swapping, HOUR, "cert", Moved(1, "file:///generations/w.1.1"))
    assert published == ledger.windows.generation(NAME, WINDOW, 2)
    first = ledger.windows.generation(NAME, WINDOW, 1)
    assert isinstance(first, PublishedGeneration)
    assert (first.state, first.location) == ("RETIRED", "file:///generations/w.1.1")


def test_what_made_way_must_have_been_there(ledger: SqlLedger) -> None:
    swapping = ledger.windows.begin_swap(second_built(ledger), "file:///beside")
    with pytest.raises(LostComparison):
        ledger.windows.publish(swapping, "file:///beside", "cert", Moved(1, "file:///generations/w.1.1"))
    window = ledger.windows.get(NAME, WINDOW)
    assert (window.current, window.newest) == (1, 2), "nothing was published"
    assert ledger.windows.generation(NAME, WINDOW, 1).location == HOUR  # type: ignore[union-attr]


def test_r8_intents_of_two_generations_at_one_location_contradict_each_other(ledger: SqlLedger, now: list[int]) -> None:
    first = first_published(ledger)
    ledger.windows.declare_intent(first, HOUR, ttl_ms=500)  # of a Clear, its answer never came
    taken = ledger.windows.take(NAME, WINDOW, ledger.windows.begin_generation(NAME, WINDOW, 1, "replay"), "n")
    swapping = ledger.windows.begin_swap(ledger.windows.built(taken, "file:///assembled/2", first.files), HOUR)
    with pytest.raises(CatalogueUnsure):
        ledger.windows.declare_intent(swapping, HOUR, ttl_ms=500)
    with pytest.raises(CatalogueUnsure):
        ledger.windows.publish(swapping, HOUR, "cert", Moved(1, "file:///generations/w.1.1"))
    now[0] += 500
    ledger.windows.declare_intent(swapping, HOUR, ttl_ms=500)
    ledger.windows.publish(swapping, HOUR, "cert", Moved(1, "file:///generations/w.1.1"))
