"""Drops the rows of a server that `copy.servers` names no more (S11)."""

from __future__ import annotations

from tidegate.core.base.errors import SpecError
from tidegate.core.copy.port import KeyRange, TableRange
from tidegate.core.copy.rounds import UNDER_WAY, Round, RoundState
from tidegate.core.mirror.copied import Copied
from tidegate.workflow.apply.apply import apply
from tidegate.workflow.apply.copies import gather
from tidegate.workflow.base import servers
from tidegate.workflow.base.context import Context, guard


def drop(ctx: Context, server: str, why: str) -> Round:
    """A round that has read no row, above all that is known of the server: its sweep drops them, and leaves a marker,
    below which no event makes one (S5). `apply` merges it. Copies and comparisons of the server that are under way are
    given up.

    What has landed is merged first: an event that comes later stands above. Raises SpecError for a server that the YAML
    names, or the table does not know; LostComparison, StorageAhead (R11), and as `apply` does."""
    guard(ctx)
    told = apply(ctx).told
    if server in servers.names(ctx):
        raise SpecError(
            f"{ctx.name}: copy.servers names {server}: its rows are those that it has",
            advice="take its line out of copy.servers first, and end its connector",
        )
    log = next((one for one in told.copied.servers if one.name == server), None)
    if log is None or log.last is None:
        known = ", ".join(one.name for one in told.copied.servers) or "none"
        raise SpecError(f"{ctx.name}: the table has no rows of a server {server}", advice=f"it knows {known}")
    facts, ledger = gather(ctx, told), ctx.ledger.copies
    for one in facts.rounds:
        if one.state in UNDER_WAY and one.server == server:
            ledger.give_up(one, f"its server is gone: {why}")
    number = 1 + max([told.copied.newest, *(one.number for one in facts.rounds)])
    commit, row, _ = max(log.last, log.purged_below, told.copied.floor(number, server))
    low = (commit, row)
    begun = ledger.begin(ctx.name, number, "", (), why, part=servers.part(ctx, server))
    (chunk,) = ledger.cut(begun, 0, [TableRange("", KeyRange(None, None))], True)
    ledger.accept(ledger.attempt(chunk, ctx.nonce()), low, low, ())
    ctx.say(f"{ctx.name}: {begun.words} drops all rows of a server that is gone")
    return begun


def keep_rows(ctx: Context, server: str) -> None:
    """Give up what would drop the rows of a server that is there again. Raises LostComparison."""
    for one in ctx.ledger.copies.rounds(ctx.name):
        if one.drops and one.server == server and one.state == RoundState.OPEN:
            ctx.ledger.copies.give_up(one, "copy.servers names the server again")


def is_dropped(ctx: Context, table: Copied, server: str) -> bool:
    """Whether the newest round of all keys of a server that is in the table has dropped its rows."""
    whole = table.whole_of(server)
    rounds = () if whole is None else ctx.ledger.copies.rounds(ctx.name)
    return any(one.drops and whole is not None and one.number == whole.number for one in rounds)
