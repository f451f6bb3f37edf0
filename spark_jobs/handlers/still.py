"""Ends a process that stands still: what it waits for may have no time-out, and its caller waits for it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LITTLE_S = 0.001
"""A thread that computes no more than this between two looks stands still."""
_LOOKS = 20
"""So many of them before a process is ended."""


def _end(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
    os._exit(1)  # a thread that hangs in a call cannot be ended otherwise


@contextmanager
def watched(limit_s: float, work: str, end: Callable[[str], None] = _end) -> Iterator[None]:
    """While it lasts, the calling thread's process is ended once that thread has computed nothing for `limit_s`
    seconds: who copies or sends rows computes, however slowly they go."""
    over, clock = threading.Event(), time.pthread_getcpuclockid(threading.get_ident())

    def look() -> None:
        looks, used = 0, time.clock_gettime(clock)
        while not over.wait(limit_s / _LOOKS):
            now = time.clock_gettime(clock)
            looks, used = (0 if now - used > _LITTLE_S else looks + 1), now
            if looks == _LOOKS:
                return end(f"{work} stood still for {limit_s:,.0f} s: given up")

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()  # the clock is that of a thread that may end
