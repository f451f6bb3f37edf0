"""What the ledger says of replays that have been, and of those that were left; what a dry run leaves when it dies, and
when that may be deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.batch.states import REDRIVE
from tidegate.core.clean.rules import Moment, Verdict
from tidegate.core.late.reopen import QUIET_MS
from tidegate.core.replay.rollback import ROLLBACK
from tidegate.core.spec.pipeline import Cleaning
from tidegate.core.target.paths import DRY_RUN
from tidegate.core.window.cut import parse_window_id, window_id
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import BUILDING, REPLAY, GenerationKind, GenerationState, WindowKey

EVENT = "dry run"
OF_REPLAYS = (REPLAY, ROLLBACK)
"""Kinds of the generations that are made so."""
NO_WINDOW = -1
GIVEN_UP_MS = 24 * 3_600_000
"""So long after the last try began, a replay that is still being built is given up, if no run can go on with it."""
BEGUN = ("generation begun", "assembling")
"""Events that say when somebody began a generation, or began to build it once more."""

AtWork = Callable[[Sequence[WindowKey]], Collection[int]]
"""Which of these windows (starts, UTC ms) a scheduler's run may still be at, or come to."""


@dataclass(frozen=True, order=True)
class Rehearsal:
    """`<window>.dry-<run>.<nonce>` in `tmp/`, or in `plans/` with `.json`: nothing of it is ever published. Of a
    redrive: `redrive.dry-<nonce>`, and no window (-1)."""

    window_ms: int

    @property
    def subject(self) -> str:
        """What the events of such dry runs are about."""
        return REDRIVE if self.window_ms == NO_WINDOW else f"window {window_id(self.window_ms)}"


def parse_rehearsal(name: str) -> Rehearsal | None:
    """None for anything else."""
    head, dash, nonce = name.partition("-")
    window, dot, kind = head.partition(".")
    if not (dash and nonce and dot) or kind != DRY_RUN:
        return None
    try:
        return Rehearsal(NO_WINDOW if window == REDRIVE else parse_window_id(window))
    except ValueError:
        return None


def may_go(history: Iterable[Moment], ttl: Cleaning, now_ms: int) -> Verdict:
    """`history`: the window's dry runs. The files of one are older than the newest of them at most by its job."""
    began_ms = max((m.at_ms for m in history), default=None)
    if ttl.attempts_ms is None:
        return Verdict(False, "the spec keeps it for ever")
    if began_ms is None:
        return Verdict(False, "the ledger has no dry run of this window: it may have lost a commit", odd=True)
    if now_ms - began_ms < ttl.attempts_ms:
        return Verdict(False, "a dry run of this window began less than the spec's time ago")
    return Verdict(True, "a dry run that has ended")


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


def touched_ms(history: Iterable[Moment], number: int) -> int | None:
    """When somebody last began (to build) this generation, by the window's events `BEGUN`; UTC ms."""
    return max((m.at_ms for m in history if m.detail.get("generation") == number), default=None)


def is_given_up(one: Unfinished, touched_ms: int | None, now_ms: int) -> bool:
    """Whether a replay is abandoned, by its age alone.

    What is built may lie where readers look; and a rollback could not be begun again once late rows have been taken up.
    Without an event its age is unknown."""
    if of_kind(one.kind).restores or one.state != BUILDING or touched_ms is None:
        return False
    return now_ms - max(touched_ms, one.began_ms or touched_ms) >= GIVEN_UP_MS


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
