"""The clock that the control plane goes by."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """UTC ms."""
        ...
