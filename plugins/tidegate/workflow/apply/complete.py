"""Since which position of the source nothing in the table is older (S9'), and who is asked (S10)."""

from __future__ import annotations

from tidegate.core.base.errors import LedgerError, LostComparison, TidegateError
from tidegate.core.copy.complete import Look, complete, of_all, unmerged, unread, worth_telling
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Complete, CopyStep
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.servers import names


def look(ctx: Context) -> None:
    """Ask each connector and its source how far they are, then the topic where it ends, and remember that. Whoever
    gives no answer holds up no merge.

    S10: the position is read before the ends; the time is taken before the end of the source's log is read. S9: a log
    that seems to end there is asked once more, after the ends."""
    for server in ctx.connectors:
        _look(ctx, server)


def _look(ctx: Context, server: str) -> None:
    known, at_ms, ask = ctx.ledger.applies.told(ctx.name), ctx.clock.now_ms(), ctx.connectors[server]
    whose = f"its connector of server {server}" if server else "its connector"
    try:
        position, log_end = ask()
        lanes = ctx.log().partitions
        if log_end <= position:
            _, log_end = ask()
    except LedgerError:
        raise
    except TidegateError as e:
        ctx.say(f"{ctx.name}: nobody says how far {whose} is: {str(e).splitlines()[0]}")
        return
    last = None if known is None else known.of_server(server).last_position
    if last is not None and log_end[0] < last[0]:
        # its positions would pass for ones that were delivered long ago
        of = f"the log of server {server}" if server else "the source's log"
        ctx.say(f"{ctx.name}: {of} ends at {log_end[0]}, before merged events: it is another server's log")
        return
    # also of partitions whose records are all gone: they may have gone before they were read
    ends = {number: lane.high_watermark for number, lane in lanes.items() if lane.high_watermark}
    found = Look(position=position, log_end=log_end, at_ms=at_ms, ends=ends, server=server)
    try:
        ctx.ledger.copies.looked(ctx.name, found)
    except LostComparison:
        pass  # another task has looked at this very moment


def told(ctx: Context, table: Told, upto: int, step: CopyStep | None = None) -> Complete | None:
    """What the table may tell once it holds batches 1 to `upto`, and what `step` brings, if a copy of it is whole; no
    more than `caught_up`, and nothing where that copy, or that of any server, lacks a column."""
    after = table.copied if step is None else step.after(table.copied)
    each = names(ctx)
    whole = [after.whole_of(server) for server in each] if each else [after.whole]
    numbers = {one.number for one in whole if one is not None}
    copied = [one.columns for one in ctx.ledger.copies.rounds(ctx.name) if one.number in numbers] if numbers else []
    return None if any(unread(ctx.pipeline, some) for some in copied) else caught_up(ctx, table, upto)


def further(ctx: Context, table: Told) -> Complete | None:
    """What the table may tell as it is, where that is worth a commit that merges nothing."""
    found = table.copied.may_tell(told(ctx, table, table.upto))
    return found if worth_telling(table.copied.complete, found) else None


def caught_up(ctx: Context, table: Told, upto: int) -> Complete | None:
    """Up to where all events are merged once the table holds batches 1 to `upto`; nothing where a purge has kept one
    out, which may have been news (M5), or a person has decided between events."""
    each = names(ctx)
    if not each:
        return caught_up_with(ctx, table, upto)
    return of_all({server: caught_up_with(ctx, table, upto, server) for server in each})


def caught_up_with(ctx: Context, table: Told, upto: int, server: str = "") -> Complete | None:
    """The same of one server alone, whatever the connectors of others say."""
    if server not in ctx.connectors or table.below_purge or table.copied.by_hand:
        return None
    looks = [one for one in ctx.ledger.copies.looks(ctx.name) if one.server == server]
    return complete(looks, ctx.ledger.copies.merged_ends(ctx.name, upto))


def unmerged_now(ctx: Context, upto: int) -> list[tuple[int, int, int]]:
    """(partition, offset that batches 1 to `upto` have read, offset at the newest look), exclusive, of partitions that
    have more; for people."""
    looks = ctx.ledger.copies.looks(ctx.name)
    merged = ctx.ledger.copies.merged_ends(ctx.name, upto)
    return unmerged(looks[-1], merged) if looks and merged else []
