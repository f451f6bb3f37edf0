"""The triggerer's one place for all waits for windows: one look at the ledger for all of them, at intervals.

A hub belongs to one event loop. It lives as long as there are waits. A tick is two SQL
statements in a thread (`core.window.waits.WaitLedger`); nothing is written or kept that a restart would miss.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from threading import Lock
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidegate.airflow.threads import in_background, in_thread
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.instants import iso
from tidegate.core.window.states import WindowKey
from tidegate.core.window.waits import Answer, Look, Wait, WaitLedger, WindowRef, settled, union
from tidegate.core.window.watermark import TopicFacts

log = logging.getLogger(__name__)

LOOK_UP_S = 600.0
"""Seconds between look-ups of the ledger's connection, which may change."""
SILENCE_S = 30.0
"""Seconds that a wait goes on after its deadline while the ledger hangs."""
GRACE_MS = 120_000
"""Milliseconds after its deadline at which a deferral without a triggerer ends."""
CLOSEST_S = 1.0
"""Seconds between two ticks for deadlines, at least."""


def hub() -> Hub:
    loop = asyncio.get_running_loop()
    for old in [one for one in _hubs if one.is_closed()]:
        del _hubs[old]
    if loop not in _hubs:
        _hubs[loop] = Hub(loop)
    return _hubs[loop]


async def outcome(
    make: Callable[[], Wait],
    deadline_ms: int,
    poll_s: float,
    say: Callable[[str], None],
    done: str,
    afterwards: Callable[[Answer], Awaitable[Answer]],
) -> dict[str, str]:
    """Payload of a trigger's one event: `outcome` is `done`, late or failed; `text` is for people."""
    try:
        answer = await hub().wait(make, deadline_ms, poll_s, say)
        if answer.done:
            answer = await afterwards(answer)
    except TidegateError as e:
        return {"outcome": "failed", "text": str(e)}
    return {"outcome": done if answer.done else "late", "text": answer.text}


class HubTrigger(BaseTrigger):
    """Waits at the hub for something about the windows from `start_ms` to `end_ms`, or until `deadline_ms` (UTC) has
    come.

    It holds nothing outside itself, so a triggerer may stop and another go on; it owns nothing, so there is no cleanup.
    """

    done = "ready"

    def __init__(self, pipeline: str, start_ms: int, end_ms: int, deadline_ms: int, poll_s: float) -> None:
        super().__init__()
        self.pipeline, self.window = pipeline, WindowKey(start_ms, end_ms)
        self.deadline_ms, self.poll_s = deadline_ms, poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class and arguments, from which a triggerer makes it again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "pipeline": self.pipeline,
            "start_ms": self.window.start_ms,
            "end_ms": self.window.end_ms,
            "deadline_ms": self.deadline_ms,
            "poll_s": self.poll_s,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, see `outcome`."""
        told = outcome(self.wait, self.deadline_ms, self.poll_s, self.log.info, self.done, self.afterwards)
        yield TriggerEvent(await told)

    def wait(self) -> Wait:
        """The question to the ledger."""
        raise NotImplementedError

    async def afterwards(self, answer: Answer) -> Answer:
        """Wait for more once the ledger has answered, without blocking the loop."""
        return answer


class Hub:
    """`wait` is all that others call; everything but `_look` runs on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ledger = _Ledger()
        self._waiters: list[Waiter] = []
        self._sooner = asyncio.Event()
        self._next_at = 0.0  # loop time of the next tick
        # no trigger's context: what a tick logs belongs to none of them
        self._task = loop.create_task(self._tick(), name="tidegate-hub", context=Context())

    async def wait(
        self, make: Callable[[], Wait], deadline_ms: int, poll_s: float, say: Callable[[str], None]
    ) -> Answer:
        """Wait until it is done, or a look at or after `deadline_ms` (UTC) has found that it is not.

        `make` is called once, in the tick's thread. `say` gets each new text, on the loop. The ledger's own failures
        are said and waited out. Raises what `make` or the wait's decision raises."""
        waiter = Waiter(make, deadline_ms, poll_s)
        self._join(waiter)
        try:
            said = ""
            while True:
                heard = await waiter.heard(SILENCE_S)
                if waiter.error is not None:
                    raise waiter.error
                text = waiter.text()
                if text and text != said:
                    say(text)
                    said = text
                if waiter.answer is not None and waiter.answer.done:
                    return waiter.answer
                if not heard or waiter.looked_ms >= deadline_ms:
                    return Answer(False, text or "the ledger has not answered since this wait began")
        finally:
            self._leave(waiter)

    def _join(self, waiter: Waiter) -> None:
        self._waiters.append(waiter)
        if min(self._loop.time() + waiter.poll_s, self._at(waiter.deadline_ms)) < self._next_at:
            self._sooner.set()

    def _leave(self, waiter: Waiter) -> None:
        self._waiters.remove(waiter)
        if not self._waiters:
            self._task.cancel()
            if _hubs.get(self._loop) is self:
                del _hubs[self._loop]
            in_background(self._ledger.close, "tidegate-hub-close")

    # ------------------------------------------------------------ ticking

    async def _tick(self) -> None:
        while True:
            began = self._loop.time()
            try:
                await self._look_for_all()
                while await self._too_early(began):
                    pass
            except Exception:  # our own defect must not leave all waits hanging
                log.exception("a tick failed")
                await asyncio.sleep(CLOSEST_S)

    async def _look_for_all(self) -> None:
        waiters, now = list(self._waiters), _now_ms()
        try:
            outcomes = await in_thread(lambda: self._look(waiters, now), "tidegate-hub")
        except TidegateError as e:
            # also errors that no retry cures, such as a missing connection: that is the ledger's trouble, no window's
            outcomes = [str(e)] * len(waiters)
        except Exception as e:
            log.exception("a look at the ledger failed")
            outcomes = [f"the look at the ledger failed: {type(e).__name__}: {e}"] * len(waiters)
        for waiter, outcome in zip(waiters, outcomes, strict=True):
            waiter.tell(outcome, now)

    def _look(self, waiters: list[Waiter], now_ms: int) -> list[Outcome]:
        """Look for all waiters, in a thread; one waiter's error is its own."""
        waits = [wait for waiter in waiters if (wait := waiter.prepare()) is not None]
        look = self._ledger.look(*union(waits)) if waits else Look({}, {})
        return [waiter.judge(look, now_ms) for waiter in waiters]

    async def _too_early(self, began: float) -> bool:
        """Sleep until the next tick; True when a new waiter wants it sooner."""
        self._sooner.clear()
        self._next_at = self._due(began)
        try:
            async with asyncio.timeout_at(self._next_at):
                await self._sooner.wait()
        except TimeoutError:
            return False
        return True

    def _due(self, began: float) -> float:
        """Time of the next tick: the waiters' shortest interval, or a deadline, so that the last look is a fresh
        one."""
        interval = min((waiter.poll_s for waiter in self._waiters), default=CLOSEST_S)
        deadlines = (self._at(w.deadline_ms) + 0.01 for w in self._waiters if w.looked_ms < w.deadline_ms)
        return max(min([began + interval, *deadlines]), began + min(CLOSEST_S, interval))

    def _at(self, instant_ms: int) -> float:
        return self._loop.time() + (instant_ms - _now_ms()) / 1000


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


# ---------------------------------------------------------------- one who waits

Outcome = Answer | Exception | str | None
"""Outcome of a tick for one waiter: a new answer, its own error, the ledger's trouble, or nothing new."""


@dataclass(frozen=True)
class _Seen:
    """Facts behind the newest answer."""

    facts: TopicFacts | None
    standings: list[object]
    lasting: bool


class Waiter:
    """`answer`, `trouble`, `error` and `looked_ms` belong to the loop, the rest to the tick's thread."""

    def __init__(self, make: Callable[[], Wait], deadline_ms: int, poll_s: float) -> None:
        self.deadline_ms, self.poll_s = deadline_ms, poll_s
        self._began_ms = _now_ms()
        self.answer: Answer | None = None
        self.error: Exception | None = None
        self.looked_ms = 0
        self._trouble, self._trouble_since = "", 0
        self._news = asyncio.Event()
        self._make = make
        self._wait: Wait | None = None
        self._made: Exception | None = None
        self._refs: tuple[WindowRef, ...] = ()
        self._seen: _Seen | None = None

    # ------------------------------------------------------------ on the loop

    async def heard(self, silence_s: float) -> bool:
        """True after news; False when there has been none for `silence_s` after the deadline, or after the beginning of
        a wait that begins later than that, as where no triggerer ran."""
        end_ms = max(self.deadline_ms, self._began_ms)
        try:
            async with asyncio.timeout((end_ms - _now_ms()) / 1000 + silence_s):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def tell(self, outcome: Outcome, looked_ms: int) -> None:
        """Wake the waiter if there is news, or the deadline has come."""
        self.looked_ms = looked_ms
        changed = bool(self._trouble)
        if isinstance(outcome, str):
            changed = outcome != self._trouble
            self._trouble_since = self._trouble_since if self._trouble else looked_ms
            self._trouble = outcome
        else:
            self._trouble = ""
            if isinstance(outcome, Answer):
                self.answer, changed = outcome, True
            elif outcome is not None:
                self.error, changed = outcome, True
        if changed or looked_ms >= self.deadline_ms:
            self._news.set()

    def text(self) -> str:
        """The newest answer, and why there is no newer one."""
        known = self.answer.text if self.answer else ""
        if not self._trouble:
            return known
        return f"{known}{'; ' if known else ''}no answer since {iso(self._trouble_since)}: {self._trouble}"

    # ------------------------------------------------------------ in the tick's thread

    def prepare(self) -> Wait | None:
        """The wait, made at the first call; None if that fails."""
        if self._wait is None and self._made is None:
            try:
                self._go_on_with(self._make())
            except Exception as e:
                self._made = e
        return self._wait

    def judge(self, look: Look, now_ms: int) -> Outcome:
        """The answer by this look; None where the ledger says the same as before."""
        if self._wait is None:
            return self._made
        facts = look.facts.get(self._wait.pipeline)
        standings: list[object] = [look.standings.get(ref) for ref in self._refs]
        seen = self._seen
        if seen is not None and seen.lasting and facts is seen.facts and standings == seen.standings:
            return None
        try:
            answer, wait = self._wait.decide(look, now_ms)
        except Exception as e:
            return e
        self._seen = _Seen(facts, standings, settled(facts, now_ms))
        if wait != self._wait:
            self._go_on_with(wait)
        return answer

    def _go_on_with(self, wait: Wait) -> None:
        self._wait, self._refs, self._seen = wait, wait.refs(), None


# ---------------------------------------------------------------- its ledger


class _Ledger:
    """Connection of one hub, used by one thread at a time; opened at the first look."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ledger: WaitLedger | None = None
        self._url, self._looked_up = "", 0.0

    def look(self, pipelines: set[str], windows: set[WindowRef]) -> Look:
        """The ledger's facts for these waits. Raises TidegateError."""
        with self._lock:
            return self._current().look(pipelines, windows)

    def close(self) -> None:
        """Close it, after a look that is under way."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.close()
                self._ledger = None

    def _current(self) -> WaitLedger:
        if self._ledger is None:
            self._open(ledger_url())
        elif time.monotonic() - self._looked_up > LOOK_UP_S:
            self._follow()
        assert self._ledger is not None
        return self._ledger

    def _open(self, url: str) -> None:
        self._ledger, self._url, self._looked_up = open_ledger(url), url, time.monotonic()

    def _follow(self) -> None:
        """Look the connection up again; it stays while Airflow's own database is away."""
        self._looked_up = time.monotonic()
        try:
            url = ledger_url()
        except Exception as e:
            log.warning("the ledger's connection could not be looked up again: %s", e)
            return
        if url != self._url and self._ledger is not None:
            self._ledger.close()
            self._open(url)


def ledger_url() -> str:
    """The ledger's address, by Airflow's connection. Raises TidegateError."""
    from tidegate.adapters.airflow_connections import airflow_connection
    from tidegate.wiring import ledger_address

    return ledger_address(airflow_connection)


def open_ledger(url: str) -> WaitLedger:
    """The waits' ledger, which connects at the first look."""
    from tidegate.wiring import open_waits

    return open_waits(url)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
