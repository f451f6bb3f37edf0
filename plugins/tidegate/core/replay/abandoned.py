"""Replays and rollbacks that have begun and not ended: which one somebody may still be at, and which is given up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tidegate.core.replay.rollback import ROLLBACK
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import BUILDING, QUIET_MS, REPLAY, REREAD, GenerationKind, GenerationState, WindowKey

OF_REPLAYS = (REPLAY, REREAD, ROLLBACK)
"""Kinds of the generations that are made so."""
GIVEN_UP_MS = 24 * 3_600_000
"""So long after the last try began, a replay that is still being built is given up, if no run can go on with it."""
BEGUN = ("generation begun", "assembling")
"""Events that say when somebody began a generation, or began to build it once more."""

AtWork = Callable[[Sequence[WindowKey]], Collection[int]]
"""Which of these windows (starts, UTC ms) a scheduler's run may still be at, or come to."""


@dataclass(frozen=True)
class Unfinished:
    """A generation beside the one in force that a replay or a rollback began. `began_ms`: when somebody last began to
    build it, None if no task has."""

    window_ms: int
    number: int
    kind: GenerationKind
    state: GenerationState
    began_ms: int | None = None

    def at_work(self, now_ms: int) -> bool:
        """Whether somebody may be at it still."""
        return self.began_ms is not None and now_ms - self.began_ms < QUIET_MS


def is_given_up(one: Unfinished, touched_ms: int | None, now_ms: int) -> bool:
    """Whether a replay is abandoned, by its age alone.

    What is built may lie where readers look; and a rollback could not be begun again once late rows have been taken up.
    Without an event its age is unknown."""
    if of_kind(one.kind).restores or one.state != BUILDING or touched_ms is None:
        return False
    return now_ms - max(touched_ms, one.began_ms or touched_ms) >= GIVEN_UP_MS
