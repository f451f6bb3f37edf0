"""Counts messages that take the slow path: the row rules in Python instead of the C library or Arrow."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidegate.core.files.slow_path import REASONS, Slow


@dataclass
class Slowness:
    """`messages`: how many, by reason (core.slowpath.REASONS); `seconds`: CPU time that they took."""

    messages: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def count(self, reason: str, messages: int = 1) -> None:
        """A message is counted once: by the first reason that is found."""
        assert reason in REASONS, reason
        if messages:
            self.messages[reason] += messages

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time in here as the slow path. For a chunk, not for a message: looking at the clock costs too."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.seconds += time.thread_time() - began

    def add(self, other: Slowness) -> None:
        self.messages.update(other.messages)
        self.seconds += other.seconds

    @property
    def told(self) -> tuple[Slow, ...]:
        """For a receipt."""
        return tuple(sorted(Slow(reason, count) for reason, count in self.messages.items()))


def together(parts: Iterable[tuple[Slow, ...]]) -> tuple[Slow, ...]:
    """Those of several tasks."""
    found = Slowness()
    for one in (one for part in parts for one in part):
        found.count(one.reason, one.messages)
    return found.told
