"""What the ledger says of replays that have been, and of those that were left; what a dry run leaves when it dies, and
when that may be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.cleaning import Moment, Verdict
from tidegate.core.layout import DRY_RUN, parse_window_id
from tidegate.core.pipeline import Cleaning
from tidegate.core.reopening import QUIET_MS
from tidegate.core.window import WindowKey

EVENT = "dry run"


@dataclass(frozen=True, order=True)
class Rehearsal:
    """`<window>.dry-<run>.<nonce>` in `tmp/`, or in `plans/` with `.json`: nothing of it is ever published."""

    window_ms: int


def parse_rehearsal(name: str) -> Rehearsal | None:
    """None for anything else."""
    head, dash, nonce = name.partition("-")
    window, dot, kind = head.partition(".")
    if not (dash and nonce and dot) or kind != DRY_RUN:
        return None
    try:
        return Rehearsal(parse_window_id(window))
    except ValueError:
        return None


def may_go(history: Iterable[Moment], ttl: Cleaning, now_ms: int) -> Verdict:
    """`history`: the window's dry runs. What one has left is older than the newest of them at most by its job."""
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
    build it, None if nobody has."""

    window_ms: int
    number: int
    kind: str
    state: str
    began_ms: int | None = None

    def at_work(self, now_ms: int) -> bool:
        """Whether somebody may be at it still."""
        return self.began_ms is not None and now_ms - self.began_ms < QUIET_MS


class ReplayLedger(Protocol):
    def rebuilt_by(self, name: str, spec_version: int) -> dict[int, int]:
        """Windows (start, UTC ms) that a replay by this spec has rebuilt already, whether or not it found their content
        changed, each with its generation in force; without those of which a newer generation is at work."""
        ...

    def unfinished(self, name: str) -> list[Unfinished]:
        """By window."""
        ...

    def rehearsed(self, name: str, key: WindowKey, attempt: str) -> None:
        """An event: a dry run of a replay begins to write the work directory of that name, which nobody publishes."""
        ...
