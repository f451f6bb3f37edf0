"""Since which position of the source nothing in the table is older (S9'), and who is asked (S10)."""

from __future__ import annotations

from tidegate.core.base.errors import LedgerError, LostComparison, TidegateError
from tidegate.core.copy.complete import Look, complete, unmerged, unread
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import Complete, CopyStep
from tidegate.workflow.base.context import Context


def look(ctx: Context) -> None:
    """Ask the connector and the source how far they are, then the topic where it ends, and remember that. Whoever gives
    no answer holds up no merge.

    S10: the position is read before the ends; the time is taken before the end of the source's log is read. S9: a log
    that seems to end there is asked once more, after the ends."""
    if ctx.connector is None:
        return
    known, at_ms = ctx.ledger.applies.told(ctx.name), ctx.clock.now_ms()
    try:
        position, log_end = ctx.connector()
        lanes = ctx.log().partitions
        if log_end <= position:
            _, log_end = ctx.connector()
    except LedgerError:
        raise
    except TidegateError as e:
        ctx.say(f"{ctx.name}: nobody says how far its connector is: {str(e).splitlines()[0]}")
        return
    if known is not None and known.last_position is not None and log_end[0] < known.last_position[0]:
        # its positions would pass for ones that were delivered long ago
        ctx.say(f"{ctx.name}: the source's log ends at {log_end[0]}, before merged events: it is another server's log")
        return
    # also of partitions whose records are all gone: they may have gone before they were read
    ends = {number: lane.high_watermark for number, lane in lanes.items() if lane.high_watermark}
    try:
        ctx.ledger.copies.looked(ctx.name, Look(position=position, log_end=log_end, at_ms=at_ms, ends=ends))
    except LostComparison:
        pass  # another task has looked at this very moment


def told(ctx: Context, table: Told, upto: int, step: CopyStep | None = None) -> Complete | None:
    """What the table may tell once it holds batches 1 to `upto`, and what `step` brings, if a copy of it is whole; no
    more than `caught_up`, and nothing where that copy lacks a column."""
    whole = (table.copied if step is None else step.after(table.copied)).whole
    rounds = () if whole is None else ctx.ledger.copies.rounds(ctx.name)
    copied = next((one.columns for one in rounds if whole is not None and one.number == whole.number), ())
    return None if unread(ctx.pipeline, copied) else caught_up(ctx, table, upto)


def caught_up(ctx: Context, table: Told, upto: int) -> Complete | None:
    """Up to where all events are merged once the table holds batches 1 to `upto`; nothing where a purge has kept one
    out, which may have been news (M5), or a person has decided between events."""
    if ctx.connector is None or table.below_purge or table.copied.by_hand:
        return None
    return complete(ctx.ledger.copies.looks(ctx.name), ctx.ledger.copies.merged_ends(ctx.name, upto))


def unmerged_now(ctx: Context, upto: int) -> list[tuple[int, int, int]]:
    """(partition, offset that batches 1 to `upto` have read, offset at the newest look), exclusive, of partitions that
    have more; for people."""
    looks = ctx.ledger.copies.looks(ctx.name)
    merged = ctx.ledger.copies.merged_ends(ctx.name, upto)
    return unmerged(looks[-1], merged) if looks and merged else []
