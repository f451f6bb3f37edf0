"""Notices in the ledger, on SQLite and PostgreSQL: each change compares what was read."""

from __future__ import annotations

import pytest

from tests.contract.ledgers import (  # noqa: F401 (fixtures)
    NAME,
    built,
    ledger,
    now,
    open_ledger,
    planned,
    url,
)
from tidegate.core.base.errors import LostComparison
from tidegate.core.tell.notices import NEWS, AuditOutcome, Finding, Notice
from tidegate.ledger import SqlLedger

NEWS_OF = Finding(kind="schema_change", key="event/7", subject="spec 2", what="new: x int", advice="", once=True)


def only(ledger: SqlLedger) -> Notice:  # noqa: F811
    (found,) = ledger.notices.standing(NAME).values()
    return found


def test_a_condition_from_beginning_to_end(ledger, now) -> None:  # noqa: F811
    ledger.notices.note(NAME, Finding(kind="late_window", key="late_window", subject=NAME, what="late"))
    first = only(ledger)
    assert (first.first_ms, first.told_ms, first.ended_ms) == (now[0], None, None)
    now[0] += 5
    ledger.notices.note(NAME, first.finding)
    assert only(ledger) == first, "what holds already does not begin again"
    ledger.notices.told(NAME, first)
    told = only(ledger)
    assert told.told_ms == now[0]
    ledger.notices.ended(NAME, told)
    over = only(ledger)
    assert (over.ended_ms, over.closed_ms) == (now[0], None)
    ledger.notices.closed(NAME, over)
    assert ledger.notices.standing(NAME) == {}
    ledger.notices.note(NAME, first.finding)
    again = only(ledger)
    assert again.first_ms > first.first_ms, "another time has an id of its own"
    assert (again.told_ms, again.ended_ms, again.closed_ms) == (None, None, None)


def test_what_is_back_before_people_heard_of_its_end_goes_on(ledger) -> None:  # noqa: F811
    ledger.notices.note(NAME, NEWS_OF)
    ledger.notices.told(NAME, only(ledger))
    assert ledger.notices.standing(NAME) == {}, "an event has no end to wait for"
    ledger.notices.note(NAME, NEWS_OF)
    assert ledger.notices.standing(NAME) == {}, "and happens once"
    ledger.notices.note(NAME, Finding(kind="alarm", key="alarm/x", subject="x", what="odd"))
    ledger.notices.told(NAME, only(ledger))
    ledger.notices.ended(NAME, only(ledger))
    ledger.notices.note(NAME, Finding(kind="alarm", key="alarm/x", subject="x", what="odd again"))
    back = only(ledger)
    assert back.told_ms is not None
    assert (back.ended_ms, back.finding.what) == (None, "odd again")


def test_what_ends_untold_is_nobodys_news(ledger) -> None:  # noqa: F811
    ledger.notices.note(NAME, Finding(kind="alarm", key="alarm/x", subject="x", what="odd"))
    ledger.notices.ended(NAME, only(ledger))
    assert ledger.notices.standing(NAME) == {}


@pytest.mark.parametrize("change", ["told", "ended", "closed"])
def test_of_two_that_read_the_same_one_changes(ledger, open_ledger, now, change: str) -> None:  # noqa: F811
    ledger.notices.note(NAME, Finding(kind="alarm", key="alarm/x", subject="x", what="odd"))
    read = only(ledger)
    getattr(ledger.notices, change)(NAME, read)
    now[0] += 1
    with pytest.raises(LostComparison):
        getattr(open_ledger().notices, change)(NAME, read)


def test_what_is_closed_is_forgotten_and_nothing_else(ledger, now) -> None:  # noqa: F811
    ledger.notices.news(NAME, None, 3, [NEWS_OF])
    ledger.notices.told(NAME, only(ledger))
    ledger.notices.note(NAME, Finding(kind="alarm", key="alarm/x", subject="x", what="odd"))
    now[0] += 10
    ledger.notices.forget("another", now[0])
    ledger.notices.forget(NAME, now[0])
    assert list(ledger.notices.standing(NAME)) == ["alarm/x"]
    assert ledger.notices.read_upto(NAME) == 3
    ledger.notices.note(NAME, NEWS_OF)
    assert len(ledger.notices.standing(NAME)) == 2, "it had been forgotten"


def test_news_are_read_once(ledger, open_ledger) -> None:  # noqa: F811
    assert ledger.notices.read_upto(NAME) is None
    ledger.notices.news(NAME, None, 1, [])
    with pytest.raises(LostComparison):
        open_ledger().notices.news(NAME, None, 1, [])
    planned(ledger)
    newest = ledger.notices.newest_event(NAME)
    (event,) = ledger.notices.happenings(NAME, 1, NEWS, 10)
    assert (event.what, event.subject, event.detail["losses"]) == ("planned", "batch 1", [])
    ledger.notices.news(NAME, 1, newest, [NEWS_OF])
    with pytest.raises(LostComparison):
        ledger.notices.news(NAME, 1, newest, [Finding(kind="alarm", key="alarm/y", subject="y", what="odd")])
    assert list(ledger.notices.standing(NAME)) == ["event/7"], "what came too late has changed nothing"
    assert ledger.notices.happenings(NAME, newest, NEWS, 10) == []


def test_the_newest_audit(ledger, now) -> None:  # noqa: F811
    assert ledger.notices.audit(NAME) is None
    ledger.notices.audited(NAME, 2, "files are gone", "look", "daily")
    now[0] += 1
    ledger.notices.audited(NAME, 0, "", "", "daily")
    assert ledger.notices.audit(NAME) == AuditOutcome(now[0], 0)
    assert ledger.notices.audit("another") is None


def test_the_newest_windows_in_force(ledger) -> None:  # noqa: F811
    generation = built(ledger)
    assert ledger.notices.newest_windows(NAME, 5) == []
    swapping = ledger.windows.begin_swap(generation)
    published = ledger.windows.publish(swapping, "file:///lake/t/1", "c")
    assert ledger.notices.newest_windows(NAME, 5) == [published.window]
    assert ledger.notices.newest_windows(NAME, 0) == []


def failed(ledger: SqlLedger) -> list[tuple[str, str, str]]:  # noqa: F811
    (survey,) = ledger.reads.survey([NAME], 0).values()
    return [(one.task, one.what, one.advice) for one in survey.failed]


def test_a_task_that_has_failed_for_good_is_known_until_it_ends_well(ledger) -> None:  # noqa: F811
    planned(ledger)
    ledger.notices.task_works(NAME, "readings.copy copy")
    before = ledger.reads.newest_event(NAME)
    for task, what in (
        ("readings.copy copy", "down"),
        ("readings.maintain maintain", "odd"),
        ("readings.copy copy", "away"),
    ):
        for _ in range(2):
            ledger.notices.task_failed(NAME, task, what, "look")  # again, ten minutes later
    assert failed(ledger) == [("readings.maintain maintain", "odd", "look"), ("readings.copy copy", "away", "look")]
    for _ in range(2):
        ledger.notices.task_works(NAME, "readings.copy copy")
    assert failed(ledger) == [("readings.maintain maintain", "odd", "look")]
    assert len(ledger.reads.events(NAME, 100)) == before + 4, "what works already is not said"
