"""How far a long work is: a line every few seconds, and how long the rest will take at the rate measured so far."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.core.base.instants import span
from tidegate.core.base.wording import many, size
from tidegate.core.look.views import Weight

EVERY_S = 5.0


class Pace:
    """Says how far a long work is, every EVERY_S seconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._last = say, time.monotonic()

    def say(self, words: Callable[[], str]) -> None:
        if time.monotonic() - self._last >= EVERY_S:
            self._last = time.monotonic()
            self._say(words())


class Meter:
    """Files that are looked into, of `due` in all. `seen` is told of each."""

    def __init__(self, say: Callable[[str], None], due: Weight, seen: Callable[[], None] | None = None) -> None:
        self._say, self._due, self._seen = say, due, seen
        self._files = self._bytes = self._rows = 0
        self._pace: Pace | None = None
        self._began = 0.0

    def read(self, size_bytes: int, rows: int) -> None:
        """The clock starts with the first file: the reader takes a moment to start."""
        if self._pace is None:
            self._pace, self._began = Pace(self._say), time.monotonic()
        self._files += 1
        self._bytes += size_bytes
        self._rows += rows
        if self._seen is not None:
            self._seen()
        self._pace.say(self._words)

    def _words(self) -> str:
        due, took = self._due, time.monotonic() - self._began
        words = f"read {self._files:,} of {many(max(due.files, self._files), 'file')}, {size(self._bytes)} of "
        words += f"{size(max(due.bytes, self._bytes))}, {many(self._rows, 'row')}"
        left = due.bytes - self._bytes
        if took <= 0 or self._bytes <= 0 or left <= 0:
            return words
        rate = self._bytes / took
        return f"{words}; {size(round(rate))}/s: about {span(round(left / rate * 1000))} left"
