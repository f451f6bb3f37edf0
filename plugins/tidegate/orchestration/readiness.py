"""One place in a triggerer that asks the ledger whether windows are ready, off the event loop.

Every waiting window asks here, so that a later version can answer all that wait with one query; its callers need not
change.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from tidegate.core.pipeline import Pipeline
from tidegate.core.watermark import Certificate
from tidegate.core.window import WindowKey

if TYPE_CHECKING:
    from tidegate.core.ledger import Ledger

THREADS = 4
LEDGER_LIFE_S = 600.0


class Readiness:
    """Answers with a certificate. Keeps one ledger for a while, so that a changed connection is noticed."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-ready")
        self._lock = Lock()
        self._ledger: Ledger | None = None
        self._made_at = 0.0

    async def ask(self, pipeline: Pipeline, window: WindowKey) -> Certificate:
        """Whether the window is ready. Raises TidegateError."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._ask, pipeline, window)

    def _ask(self, pipeline: Pipeline, window: WindowKey) -> Certificate:
        from tidegate.wiring import readiness_context
        from tidegate.workflow import archive

        return archive.ready(readiness_context(pipeline, self._current_ledger()), window)

    def _current_ledger(self) -> Ledger:
        from tidegate.orchestration.connections import airflow_connection
        from tidegate.wiring import open_ledger

        with self._lock:
            if self._ledger is None or time.monotonic() - self._made_at > LEDGER_LIFE_S:
                # the old one is dropped, not closed: a thread may be using it; its pool goes with the last reference
                self._ledger = open_ledger("airflow triggerer", airflow_connection)
                self._made_at = time.monotonic()
            return self._ledger


def readiness() -> Readiness:
    """This process's own: threads and database connections survive no fork."""
    return _of_process(os.getpid())


@functools.lru_cache(maxsize=1)
def _of_process(pid: int) -> Readiness:
    return Readiness()
