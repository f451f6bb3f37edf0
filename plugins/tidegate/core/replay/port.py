"""What the ledger says of replays that have been, and of those that have not ended."""

from __future__ import annotations

from typing import Protocol

from tidegate.core.replay.abandoned import Unfinished
from tidegate.core.window.states import WindowKey


class ReplayLedger(Protocol):
    def rebuilt_by(self, name: str, spec_version: int) -> dict[int, int]:
        """Windows (start, UTC ms) that a replay by this spec has rebuilt already, whether or not it found their content
        changed, each with its generation in force; without those of which a newer generation is at work."""
        ...

    def unfinished(self, name: str) -> list[Unfinished]:
        """Unfinished ones, by window."""
        ...

    def rehearsed(self, name: str, key: WindowKey | None, attempt: str) -> None:
        """An event: a dry run of a replay, or of a redrive (no window), begins to write the work directory of that
        name, which is never published."""
        ...
