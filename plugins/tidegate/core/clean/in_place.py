"""What may be deleted of attempts on a store without renames, where files stay for good."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.clean.rules import GenerationFacts, Verdict
from tidegate.core.target.paths import BOUNDS, FAILURE, RECEIPT, Assembly
from tidegate.core.window.states import DISCARDED


def holds_files(attempt: Assembly, facts: GenerationFacts | None) -> Verdict | None:
    """Why files of a generation may still lie in the attempt, on a store without renames; None if the ledger knows of
    none."""
    if facts is None:
        return Verdict(False, "the ledger has no such generation: it may have lost a commit", odd=True)
    if facts.working or facts.blocked:
        return Verdict(False, "a generation of the window is not done")
    if attempt.epoch < facts.epoch or facts.state == DISCARDED or facts.cleaned_ms is not None:
        return None
    return Verdict(False, f"its files are those of generation {facts.number}, which is {facts.state}")


@dataclass(frozen=True)
class LeftInPlace:
    """Paths below a landed attempt on a store without renames. `useless`: what duplicate tasks wrote, and what merged
    files hold; `foreign`: what is not ours."""

    useless: tuple[str, ...]
    foreign: tuple[str, ...]


def left_in_place(manifest: Iterable[str], listing: Iterable[str], merged: Iterable[str] = ()) -> LeftInPlace:
    """What may go, and what nobody knows; a file of the manifest stays until its generation goes, and so do the receipt
    and the bounds."""
    named, useless, foreign = set(manifest) - set(merged), [], []
    for path in sorted(set(listing) - named):
        first = path.split("/")[0]
        if first in ("data", "late", "dirty"):
            useless.append(path)
        elif first not in (BOUNDS, RECEIPT, FAILURE):
            foreign.append(path)
    return LeftInPlace(tuple(useless), tuple(foreign))
