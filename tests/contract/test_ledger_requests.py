"""What people ask for on the board is noted once, on both databases."""

from __future__ import annotations

import threading

import pytest

from tests.contract.ledgers import url
from tests.contract.test_ledger_board import ABOUT, MADE, NOW, OTHER, TOKEN, WELL, WHAT, empty
from tidegate.core.base.errors import LedgerError
from tidegate.ledger import SqlLedger, requests
from tidegate.ledger.requests import SqlRequests

__all__ = ["empty", "url"]  # fixtures


@pytest.fixture
def registered(empty: SqlLedger) -> SqlLedger:
    for one in MADE[:2]:
        empty.pipelines.register(one, "f" * 64)
    return empty


def test_a_request_is_noted_once_for_a_token(registered: SqlLedger) -> None:
    asked = SqlRequests(registered.store)
    detail = {"why": "<b>it</b> \u202e", "conf": {"window": "x"}}
    assert asked.find(WELL.name, WHAT, ABOUT, TOKEN) is None
    first = asked.ask(WELL.name, WHAT, ABOUT, TOKEN, detail)
    assert asked.ask(WELL.name, WHAT, ABOUT, TOKEN, detail | {"why": "another"}) == first
    assert asked.find(WELL.name, WHAT, ABOUT, TOKEN) == first
    others = {
        asked.ask(*one, detail)
        for one in (
            (WELL.name, WHAT, ABOUT, OTHER),
            (WELL.name, "reopen asked", ABOUT, TOKEN),
            (WELL.name, WHAT, f"{ABOUT}x", TOKEN),
            (MADE[1].name, WHAT, ABOUT, TOKEN),
        )
    }
    assert len(others | {first}) == 5
    event = asked.event(WELL.name, first)
    assert event is not None
    assert (event.actor, event.what, event.subject, event.at_ms) == ("board, nina", WHAT, ABOUT, NOW)
    assert event.detail == {**detail, "token": TOKEN}
    assert asked.event(MADE[1].name, first) is None, "it is another pipeline's"
    assert asked.event(WELL.name, 2**63 - 1) is None


def test_a_request_of_a_pipeline_that_is_not_there_is_refused(registered: SqlLedger) -> None:
    with pytest.raises(LedgerError, match="nobody is not in the ledger"):
        SqlRequests(registered.store).ask("nobody", WHAT, ABOUT, TOKEN, {})
    assert registered.reads.event_page("nobody", 1, None, None) == []


def test_clicks_at_one_instant_are_one_request(registered: SqlLedger, url: str) -> None:
    clicks, found, go = 4, list[int](), threading.Barrier(4)

    def click() -> None:
        mine = SqlLedger(url, "board, nina", lambda: NOW)
        go.wait(30)
        found.append(SqlRequests(mine.store).ask(WELL.name, WHAT, ABOUT, TOKEN, {}))
        mine.close()

    threads = [threading.Thread(target=click) for _ in range(clicks)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert (len(found), len(set(found))) == (clicks, 1)


def test_an_old_click_is_found_as_long_as_the_page_says(registered: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_LOOKED_AT", 3)
    asked = SqlRequests(registered.store)
    first, *_ = (asked.ask(WELL.name, WHAT, ABOUT, f"{n:016x}", {}) for n in range(3))
    assert asked.find(WELL.name, WHAT, ABOUT, "0" * 16) == first
    asked.ask(WELL.name, WHAT, ABOUT, "f" * 16, {})
    assert asked.find(WELL.name, WHAT, ABOUT, "0" * 16) is None
