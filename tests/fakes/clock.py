"""A clock that stands still until it is moved."""

from __future__ import annotations


class FakeClock:
    """Implements `core.base.clock.Clock`; UTC ms."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        self._now_ms += ms
