"""Delete what the ledger proves to be needed no more (R7): bounded, oldest first, each time looked at again before.

Killed anywhere it does no harm and goes on next time: a deletion is decided from the ledger alone, noted after it is
done, and done again if it was not noted. Two cleaners do the same things at worst.
"""

from __future__ import annotations

from tidegate.core.base.errors import CatalogueError, StorageError
from tidegate.core.clean.rules import Verdict
from tidegate.core.target.port import PrefixTarget, SideTarget, Target
from tidegate.core.window.states import BUILDING, BUILT, SWAPPING
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import Context, guard
from tidegate.workflow.clean.batches import clean_batches
from tidegate.workflow.clean.copies import clean_copies
from tidegate.workflow.clean.generations import clean_generations
from tidegate.workflow.clean.merges import clean_merges
from tidegate.workflow.clean.round import Cleaned, Enough, Item, Run

UNFINISHED = (BUILDING, BUILT, SWAPPING)
LIMIT = 500
"""Deletions of one round."""


def clean(ctx: Context, limit: int = LIMIT, dry_run: bool = False) -> Cleaned:
    """One round over everything that a pipeline leaves behind. `dry_run`: nothing is changed, only told.

    Raises StorageAhead when the ledger has lost commits: then it proves nothing."""
    guard(ctx)
    preflight.check(ctx)
    run = Run(ctx, limit, dry_run)
    try:
        clean_generations(run)
        clean_batches(run)
        clean_merges(run)
        clean_copies(run)
        _leftovers(run)
    except Enough:
        pass
    if not dry_run:
        _sweep(run)
    run.note()
    return run.result()


def _sweep(run: Run) -> None:
    """What tables keep for tasks that are done; a catalogue that is down holds nothing up."""

    def settled(publications: set[tuple[int, int]]) -> set[tuple[int, int]]:
        return {key for key, facts in run.generations(publications).items() if facts.state not in UNFINISHED}

    for table in _tables(run):
        try:
            for line in table.sweep(settled):
                run.ctx.say(line)
        except (CatalogueError, StorageError) as e:
            run.ctx.say(f"{table.name} is swept by the next run: {e}")


def _leftovers(run: Run) -> None:
    """What tables have written for themselves: it may go for ever, or is not named here."""
    useless = Verdict(True, "neither a snapshot that the table keeps nor the log of its metadata names it (C10)")
    for table in _tables(run):
        try:
            found = table.leftovers(run.now_ms)
        except (CatalogueError, StorageError) as e:
            run.ctx.say(f"{table.name} is cleaned by the next run: {str(e).splitlines()[0]}")
            continue
        for path in found:
            run.delete("metadata", path, lambda: useless)


def _tables(run: Run) -> list[Target | PrefixTarget | SideTarget]:
    return [run.ctx.table, *run.ctx.sides.values()]


__all__ = ["LIMIT", "Cleaned", "Item", "clean"]
