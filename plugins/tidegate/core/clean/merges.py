"""What of a merge's files may be deleted: those of tries that are over and that no snapshot of the table names."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.core.base.instants import span
from tidegate.core.clean.rules import Verdict
from tidegate.core.mirror.applies import OPEN, Apply, Tried
from tidegate.core.spec.pipeline import Cleaning


def try_of_merge(apply: Apply, tried: Tried | None, ttl: Cleaning, now_ms: int) -> Verdict:
    """Whether the try is over for long enough. An OPEN one may be at work, or may have committed without a word: the
    next look at the table tells (M4)."""
    if tried is None or tried.apply != apply:
        return Verdict(False, "the ledger has no such merge: it may have lost a commit", odd=True)
    if tried.state == OPEN:
        return Verdict(False, "the merge is OPEN")
    if ttl.attempts_ms is None:
        return Verdict(False, "clean.attempts: never")
    if tried.done_ms is None or now_ms - tried.done_ms < ttl.attempts_ms:
        return Verdict(False, f"it is over for less than {span(ttl.attempts_ms)}")
    return Verdict(True, f"the merge is {tried.state}, and no snapshot of the table names it")


def file_of_merge(path: str, named: Collection[str]) -> Verdict:
    """`named`: URIs of all files that a snapshot of the table names."""
    if path in named:
        return Verdict(False, "a snapshot of the table names it")
    return Verdict(True, "no snapshot of the table names it")
