"""Waits that end early in the triggerer: cancelled, stopped, in another loop, in a hurry, by a defect."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pytest

from tests.airflow.test_hub import SOON_S, FakeLedger, StateWait, ledger, run, until, waiting
from tidegate.airflow import hub as hubs
from tidegate.airflow.hub import Hub, hub

__all__ = ["ledger"]  # fixtures


def test_who_is_cancelled_leaves_and_the_others_go_on(ledger: FakeLedger) -> None:
    async def main() -> None:
        first, second = (asyncio.ensure_future(waiting(StateWait("p", i), [])) for i in (1, 2))
        await until(lambda: len(ledger.looks) > 1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        seen = len(ledger.looks)
        await until(lambda: len(ledger.looks) > seen + 1)
        assert ledger.looks[-1][1] == {("p", 2)}
        ledger.closed.add(("p", 2))
        assert (await second).done

    run(main)


def test_a_triggerer_that_stops_in_the_middle_leaves_nothing(ledger: FakeLedger) -> None:
    """The loop ends while a look is under way; the thread ends with the look, and closes what it used."""
    release, asked = threading.Event(), threading.Event()
    ledger.answers = [lambda: (asked.set(), release.wait(SOON_S))]

    async def main() -> None:
        asyncio.ensure_future(waiting(StateWait("p", 1), []))  # noqa: RUF006
        await until(asked.is_set)

    run(main)
    release.set()


def test_two_loops_share_nothing(ledger: FakeLedger) -> None:
    found: list[Hub] = []
    both = threading.Barrier(2, timeout=SOON_S)

    async def main() -> None:
        task = asyncio.ensure_future(waiting(StateWait("p", 1), []))
        await until(lambda: len(ledger.looks) > 0)
        found.append(hub())
        both.wait()
        ledger.closed.add(("p", 1))
        await task

    threads = [threading.Thread(target=run, args=(main,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is not found[1]
    assert len(ledger.opened) == 2


def test_a_changed_connection_is_followed(ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "LOOK_UP_S", 0.0)
    urls: list[Any] = ["one", "one", OSError("Airflow's database is away"), "two"]

    def url() -> str:
        found = urls.pop(0) if len(urls) > 1 else urls[0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(hubs, "ledger_url", url)

    async def main() -> None:
        task = asyncio.ensure_future(waiting(StateWait("p", 1), []))
        await until(lambda: len(ledger.looks) > 5)
        ledger.closed.add(("p", 1))
        await task

    run(main)
    assert ledger.opened == ["one", "two"]


def test_a_wait_in_a_hurry_is_not_held_up_by_a_slow_one(ledger: FakeLedger) -> None:
    async def main() -> None:
        slow = asyncio.ensure_future(waiting(StateWait("p", 1), [], poll_s=600))
        await until(lambda: len(ledger.looks) == 1)
        quick = asyncio.ensure_future(waiting(StateWait("p", 2), [], poll_s=0.01))
        ledger.closed |= {("p", 1), ("p", 2)}
        assert (await quick).done
        assert (await slow).done

    run(main)


def test_a_defect_between_two_looks_ends_no_wait(
    ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hubs, "CLOSEST_S", 0.01)
    failing: list[Exception] = [ZeroDivisionError("oh"), TypeError("no")]
    due = Hub._due

    def fail(self: Hub, began: float) -> float:
        if failing:
            raise failing.pop()
        return due(self, began)

    monkeypatch.setattr(Hub, "_due", fail)

    async def main() -> None:
        task = asyncio.ensure_future(waiting(StateWait("p", 1), []))
        await until(lambda: len(ledger.looks) > 4)
        ledger.closed.add(("p", 1))
        assert (await task).done

    with caplog.at_level(logging.ERROR, hubs.__name__):
        run(main)
    assert caplog.text.count("a tick failed") == 2
