"""What a dry run leaves when it dies, and when that may be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.batch.states import REDRIVE
from tidegate.core.clean.rules import Moment, Verdict
from tidegate.core.spec.pipeline import Cleaning
from tidegate.core.target.paths import DRY_RUN
from tidegate.core.window.cut import parse_window_id, window_id

EVENT = "dry run"
NO_WINDOW = -1


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
