"""The daily check by the maintenance DAG: the ledger's sums, and the files of the newest windows. The audit, by hand,
looks at everything."""

from __future__ import annotations

from tidegate.core.audit import checkup as rules
from tidegate.core.audit.checkup import Flaw, Shown
from tidegate.core.look.port import LedgerReads
from tidegate.core.window.states import PublishedGeneration, WindowKey
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.listing import present, sizes
from tidegate.workflow.base.renames import manifest_of


def if_due(ctx: Context, reads: LedgerReads) -> list[str]:
    """Check once a day, and again at each call while something is wrong. Raises LedgerError, StorageError."""
    last, now = ctx.ledger.notices.audit(ctx.name), ctx.clock.now_ms()
    if last is not None and not last.problems and now - last.at_ms < rules.EVERY_MS:
        return []
    flaws = check(ctx, reads)
    if last is not None and last.problems == len(flaws) and now - last.at_ms < rules.EVERY_MS:
        return []  # as before: no event for every ten minutes
    first = flaws[0] if flaws else Flaw("", "")
    ctx.ledger.notices.audited(ctx.name, len(flaws), first.what, first.advice, "daily")
    if not flaws:
        return [f"daily check: the sums balance, the newest {rules.NEWEST_WINDOWS} windows are whole"]
    return [f"WARNING: daily check: {flaw.what}: {flaw.advice}" for flaw in flaws[:10]]


def check(ctx: Context, reads: LedgerReads) -> list[Flaw]:
    """Flaws that a quick look finds; at most `NEWEST_WINDOWS` directories are listed."""
    found = rules.of_sums(ctx.name, reads.totals([ctx.name])[ctx.name])
    for key in ctx.ledger.notices.newest_windows(ctx.name, rules.NEWEST_WINDOWS):
        found += _window(ctx, key)
    return found


def _window(ctx: Context, key: WindowKey) -> list[Flaw]:
    """A window that is being changed now is looked at the next time."""
    before = ctx.ledger.windows.get(ctx.name, key)
    if before.current is None or before.newest != before.current:
        return []
    generation = ctx.ledger.windows.generation(ctx.name, key, before.current)
    if not isinstance(generation, PublishedGeneration):
        return []
    owed = ctx.ledger.windows.owed(ctx.name, key, generation.batches, generation.late)
    manifest = manifest_of(generation.files) | ctx.target.beside(generation.location)
    # readers of a table without marks ask it for files: the directory itself is nothing to them
    listing = (sizes if ctx.target.marks else present)(ctx.storage, generation.location, manifest)
    rows = sum(f.rows for f in generation.files)
    shown = Shown(key.start_ms, rows, sum(o.rows for o in owed), manifest, listing, ctx.target.marks)
    flaws = rules.of_window(ctx.name, shown)
    return flaws if flaws and ctx.ledger.windows.get(ctx.name, key) == before else []
