"""Where waits stand in a triggerer: one look for all, off the loop, whatever becomes of the ledger or one of them."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pytest

from tidegate.airflow import hub as hubs
from tidegate.airflow.hub import hub
from tidegate.core.base.errors import LedgerError, WrongRevision
from tidegate.core.window.waits import Answer, Look, Standing, Wait, WindowRef
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

SOON_S = 20.0


@dataclass
class FakeLedger:
    """`closed` are the windows that have closed; `answers` are raised or called, one for each look."""

    closed: set[WindowRef] = field(default_factory=set)
    facts: dict[str, TopicFacts] = field(default_factory=dict)
    answers: list[Any] = field(default_factory=list)
    looks: list[tuple[set[str], set[WindowRef]]] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    ended: int = 0
    threads: set[threading.Thread] = field(default_factory=set)

    def look(self, pipelines: Any, windows: Any) -> Look:
        self.threads.add(threading.current_thread())
        self.looks.append((set(pipelines), set(windows)))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer()
        return Look(self.facts, {ref: Standing("CLOSED", None) for ref in self.closed if ref in windows})

    def close(self) -> None:
        self.ended += 1


@dataclass(frozen=True)
class StateWait:
    """Until the window has closed; counts how often it had to decide."""

    pipeline: str
    start_ms: int
    decided: list[int] = field(default_factory=list, compare=False)

    def refs(self) -> tuple[WindowRef, ...]:
        return ((self.pipeline, self.start_ms),)

    def decide(self, look: Look, now_ms: int) -> tuple[Answer, Wait]:
        self.decided.append(now_ms)
        done = self.refs()[0] in look.standings
        return Answer(done, f"{self.pipeline} {self.start_ms}: {'ready' if done else 'blocked'}"), self


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLedger]:
    made = FakeLedger()
    monkeypatch.setattr(hubs, "ledger_url", lambda: "one")
    monkeypatch.setattr(hubs, "open_ledger", lambda url: made.opened.append(url) or made)
    yield made
    assert hubs._hubs == {}, "a hub is left without anybody waiting"
    gone = time.monotonic() + SOON_S
    while made.ended < len(made.opened) or any(t.is_alive() for t in made.threads):
        assert time.monotonic() < gone, "a ledger or a thread is left"
        time.sleep(0.001)


def in_s(seconds: float) -> int:
    return int((time.time() + seconds) * 1000)


async def waiting(wait: Wait, said: list[str], deadline_ms: int = 0, poll_s: float = 0.01) -> Answer:
    return await hub().wait(lambda: wait, deadline_ms or in_s(60), poll_s, said.append)


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(main(), SOON_S))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_all_that_wait_are_asked_for_in_one_look(ledger: FakeLedger) -> None:
    waits = [StateWait(f"p{i % 5}", i) for i in range(50)]

    async def main() -> list[Answer]:
        all_of_them = asyncio.gather(*(waiting(wait, []) for wait in waits))
        await until(lambda: len(ledger.looks) > 2)
        ledger.closed = {wait.refs()[0] for wait in waits}
        return await all_of_them

    assert all(answer.done for answer in run(main))
    assert ledger.opened == ["one"]
    pipelines, windows = ledger.looks[1]
    assert (len(pipelines), len(windows)) == (5, 50)
    assert threading.main_thread() not in ledger.threads


def test_each_ends_by_itself_and_is_not_asked_for_again(ledger: FakeLedger) -> None:
    async def main() -> None:
        first, second = (asyncio.ensure_future(waiting(StateWait("p", i), [])) for i in (1, 2))
        await until(lambda: len(ledger.looks) > 1)
        ledger.closed.add(("p", 1))
        assert (await first).done
        seen = len(ledger.looks)
        await until(lambda: len(ledger.looks) > seen + 1)
        assert ledger.looks[-1] == ({"p"}, {("p", 2)})
        assert not second.done()
        ledger.closed.add(("p", 2))
        await second

    run(main)


def test_what_has_not_changed_is_not_decided_again(ledger: FakeLedger) -> None:
    wait = StateWait("p", 1)
    ledger.facts = {"p": TopicFacts(1, 5, ())}

    async def main() -> None:
        task = asyncio.ensure_future(waiting(wait, []))
        await until(lambda: len(ledger.looks) > 5)
        assert len(wait.decided) == 1
        ledger.facts = {"p": TopicFacts(2, 5, ())}
        await until(lambda: len(wait.decided) == 2)
        ledger.closed.add(("p", 1))
        await task

    run(main)


def test_a_plan_whose_clock_is_ahead_is_judged_at_every_tick(ledger: FakeLedger) -> None:
    """What stands in for its drained partitions grows with our clock, though nothing lands."""
    wait = StateWait("p", 1)
    ledger.facts = {
        "p": TopicFacts(1, in_s(600), (PartitionFacts(partition=0, max_event_ms=1, drained=True, advanced_ms=1),))
    }

    async def main() -> None:
        task = asyncio.ensure_future(waiting(wait, []))
        await until(lambda: len(wait.decided) > 3)
        ledger.closed.add(("p", 1))
        await task

    run(main)


def test_an_outage_is_said_once_and_waited_out(ledger: FakeLedger) -> None:
    said: list[str] = []
    away = LedgerError("the ledger does not answer")
    ledger.answers = [None, away, away, away, WrongRevision("schema 0005"), None]

    async def main() -> Answer:
        task = asyncio.ensure_future(waiting(StateWait("p", 1), said))
        await until(lambda: len(ledger.looks) > 7)
        ledger.closed.add(("p", 1))
        return await task

    assert run(main).done
    assert [line.split("no answer since")[0] for line in said] == [
        "p 1: blocked",
        "p 1: blocked; ",
        "p 1: blocked; ",
        "p 1: blocked",
        "p 1: ready",
    ]
    assert "the ledger does not answer" in said[1]
    assert "schema 0005" in said[2]


def test_a_defect_in_the_look_ends_no_wait(ledger: FakeLedger, caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    ledger.answers = [ZeroDivisionError("oh"), None]
    ledger.closed.add(("p", 1))
    with caplog.at_level(logging.ERROR, hubs.__name__):
        assert run(lambda: waiting(StateWait("p", 1), said)).done
    assert "ZeroDivisionError" in said[0]
    assert "a look at the ledger failed" in caplog.text


def test_one_wait_that_cannot_be_made_or_judged_fails_alone(ledger: FakeLedger) -> None:
    class Broken(StateWait):
        def decide(self, look: Look, now_ms: int) -> tuple[Answer, Wait]:
            raise KeyError("judged")

    def cannot() -> Wait:
        raise ValueError("made")

    ledger.closed.add(("p", 1))

    async def main() -> list[Any]:
        return await asyncio.gather(
            hub().wait(cannot, in_s(60), 0.01, print),
            waiting(Broken("p", 2), []),
            waiting(StateWait("p", 1), []),
            return_exceptions=True,
        )

    made, judged, good = run(main)
    assert isinstance(made, ValueError)
    assert isinstance(judged, KeyError)
    assert good.done


def test_at_the_deadline_there_is_a_last_look_and_its_reason(ledger: FakeLedger) -> None:
    """Though the interval is a minute: an answer that old would be worth little."""

    async def main() -> Answer:
        return await waiting(StateWait("p", 1), [], deadline_ms=in_s(0.8), poll_s=60)  # ticks are a second apart

    began = time.monotonic()
    assert run(main) == Answer(False, "p 1: blocked")
    assert 0.75 < time.monotonic() - began < SOON_S
    assert len(ledger.looks) == 2


@pytest.mark.parametrize("closed", [True, False])
def test_a_wait_whose_deadline_is_long_past_gets_its_look_all_the_same(ledger: FakeLedger, closed: bool) -> None:
    """No triggerer ran for an hour; the hub that it finds is busy with others."""
    if closed:
        ledger.closed.add(("p", 1))

    async def main() -> Answer:
        other = asyncio.ensure_future(waiting(StateWait("p", 2), [], poll_s=600))
        await until(lambda: len(ledger.looks) == 1)
        answer = await waiting(StateWait("p", 1), [], deadline_ms=in_s(-3600), poll_s=600)
        other.cancel()
        return answer

    assert run(main) == Answer(closed, "p 1: ready" if closed else "p 1: blocked")


def test_who_comes_when_all_others_have_heard_that_their_time_is_up_is_looked_for(ledger: FakeLedger) -> None:
    """After a look at which every deadline has passed, and before those who heard of it have left."""
    ledger.closed.add(("p", 2))

    async def main() -> list[Answer]:
        late = asyncio.ensure_future(waiting(StateWait("p", 1), [], deadline_ms=in_s(-1)))
        await asyncio.sleep(0)
        (waiter,) = hub()._waiters
        while not waiter._news.is_set():
            await asyncio.sleep(0)
        return [await waiting(StateWait("p", 2), []), await late]

    assert [answer.done for answer in run(main)] == [True, False]


def test_a_ledger_that_hangs_holds_neither_the_loop_nor_a_deadline(
    ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "SILENCE_S", 0.1)
    release = threading.Event()
    ledger.answers = [None, lambda: release.wait(SOON_S)]

    async def main() -> tuple[Answer, int]:
        rounds = 0
        task = asyncio.ensure_future(waiting(StateWait("p", 1), [], deadline_ms=in_s(0.1)))
        while not task.done():
            rounds += len(ledger.looks) == 2  # the one that hangs
            await asyncio.sleep(0.001)
        return task.result(), rounds

    answer, rounds = run(main)
    assert answer == Answer(False, "p 1: blocked")
    assert rounds > 2
    assert ledger.ended == 0  # it is closed by whoever uses it last
    release.set()


def test_nothing_on_the_loop_waits_for_the_ledger(ledger: FakeLedger, caplog: pytest.LogCaptureFixture) -> None:
    """500 waits whose ledger hangs, with asyncio's own check for slow callbacks: another trigger goes on ticking.

    The ledger goes on once that trigger has ticked, or after `SOON_S`: a loop that waits for it stands that long."""
    release, rounds = threading.Event(), 0
    ledger.answers = [None, None, lambda: release.wait(SOON_S)]

    async def main() -> None:
        nonlocal rounds
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        loop.slow_callback_duration = 0.75 * SOON_S  # the machine may be busy: it has stood still for 7 s
        tasks = [asyncio.ensure_future(waiting(StateWait("p", i), [])) for i in range(500)]
        await until(lambda: len(ledger.looks) == 3)
        while rounds < 100:
            rounds += 1
            await asyncio.sleep(0.001)
        release.set()
        ledger.closed = {("p", i) for i in range(500)}
        await asyncio.gather(*tasks)

    with caplog.at_level(logging.WARNING, "asyncio"):
        run(main)
    assert [r.getMessage() for r in caplog.records if " took " in r.getMessage()] == []
