"""Windows that wait for another system's count after the watermark, in the triggerer.

Only pipelines with `completeness` come here, one window at a time and rarely: each asks the ledger once a minute at
most, where an operator's acceptance shows too, and the other system as often as its spec says. All of it happens in
threads, a few at a time, so that a slow system holds up its own windows and not the loop.
"""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tidegate.adapters.airflow_connections import airflow_connection
from tidegate.airflow.threads import in_thread
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.plain import loads
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.states import WindowKey
from tidegate.core.window.waits import Answer

if TYPE_CHECKING:
    from tidegate.core.completeness.port import Truth
    from tidegate.core.ledger import Ledger
    from tidegate.core.window.readiness import Certificate

LOOK_S = 60.0
AT_ONCE = 4
"""Most windows of one triggerer that ask at the same time."""
LEDGER_LIFE_S = 600.0
_SHORTEST_S = 0.05


async def until_let_through(
    pipeline: str, window: WindowKey, answer: Answer, deadline_ms: int, poll_s: float, say: Callable[[str], None]
) -> Answer:
    """`answer` for a pipeline (a compiled spec as JSON) that asks no other system; else the answer with its count taken
    into account, once that lets the window through or at `deadline_ms` (UTC)."""
    settings = json.loads(pipeline).get("completeness")
    if settings is None:
        return answer
    interval_s = max(poll_s, min(LOOK_S, settings["poll_ms"] / 1000))
    said = ""
    while True:
        certificate, text = await _look(pipeline, window)
        if text != said:
            say(text)
            said = text
        now = _now_ms()
        if certificate is not None and certificate.ready:
            return Answer(True, text, certificate)
        if now >= deadline_ms:
            return Answer(False, text, certificate)
        ends = [deadline_ms] if certificate is None else [deadline_ms, _until(certificate, now)]
        await asyncio.sleep(max(_SHORTEST_S, min(interval_s, *((end - now) / 1000 for end in ends))))


def _until(certificate: Certificate, now_ms: int) -> float:
    comparison = certificate.completeness
    held = None if comparison is None else comparison.until_ms
    return float("inf") if held is None or held <= now_ms else held


async def _look(pipeline: str, window: WindowKey) -> tuple[Certificate | None, str]:
    """The certificate, and what to say. There is no certificate while the ledger fails, even with an error that no
    retry cures, such as another release's schema: that is no window's fault."""
    try:
        async with _slots():
            certificate = await in_thread(lambda: look(pipeline, window), "tidegate-counts")
    except TidegateError as e:
        return None, str(e)
    return certificate, certificate.text()


def look(pipeline: str, window: WindowKey) -> Certificate:
    """The window's certificate, asked for in a thread. Raises TidegateError."""
    from tidegate.adapters.clock import SystemClock
    from tidegate.workflow.completeness import ask

    spec, other = parts(pipeline)
    return ask.look(spec, ledger(), other, SystemClock(), window)


@functools.lru_cache(maxsize=128)
def parts(pipeline: str) -> tuple[Pipeline, Truth | None]:
    """The pipeline and its other system, made once for each spec, so that hanging calls are counted."""
    from tidegate.completeness.connection import truth_of

    spec = loads(Pipeline, pipeline)
    return spec, truth_of(spec, airflow_connection)


_lock = Lock()
_ledgers: list[tuple[Ledger, float]] = []


def ledger() -> Ledger:
    """The process's own ledger, opened anew now and then to notice a changed connection. Raises TidegateError."""
    from tidegate.wiring import open_ledger

    with _lock:
        if not _ledgers or time.monotonic() - _ledgers[0][1] > LEDGER_LIFE_S:
            # the old one is dropped, not closed: a thread may be using it; its pool goes with the last reference
            _ledgers[:] = [(open_ledger("airflow triggerer", airflow_connection), time.monotonic())]
        return _ledgers[0][0]


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _slots() -> asyncio.Semaphore:
    return _of_loop.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
