"""What a keyed table says before its source is read: of one in Iceberg its snapshot, of one by days what has landed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from tidegate.core.base.errors import NotReady, StepMissing, StorageAhead
from tidegate.core.copy.days import copied, forgotten
from tidegate.core.copy.rounds import RoundState
from tidegate.core.copy.steps import unread_topic
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import RoundIn
from tidegate.core.mirror.jobs import EventFile, Position
from tidegate.workflow.apply.apply import event_files, keyed
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.generation import copies, daily

Greatest = Callable[[Sequence[EventFile]], Position | None]
"""The greatest position of events in those of these landed files that are still there; None without any."""
_LOOKS = 10
"""Batches whose files may have moved to their day: the next one is taken then."""


def no_files(files: Sequence[EventFile]) -> Position | None:
    """For tables that say their position themselves."""
    raise NotImplementedError("nobody looks into landed files here")


def table_key(ctx: Context) -> tuple[str, ...]:
    """Logical columns of the keyed table's key. Raises StepMissing."""
    if ctx.keyed is not None:
        return ctx.keyed.key
    daily = ctx.target.daily
    if daily is None:
        raise StepMissing(f"{ctx.name} is published by windows: its rows have no key")
    return daily.key


def told(ctx: Context, greatest: Greatest, server: str = "") -> Told:
    """What it says. `server`: whose events have to have shown that the topic began before them, where there are
    several. Raises NotReady (S4)."""
    found = _by_days(ctx, greatest) if ctx.keyed is None else Told.by(keyed(ctx).standing())
    why = unread_topic(found.of_server(server).begins, by_days=ctx.keyed is None)
    if why is not None:
        raise NotReady(f"{ctx.name}: {f'server {server}: ' if server else ''}{why}")
    return found


def _by_days(ctx: Context, greatest: Greatest) -> Told:
    """S4, S2: the topic has all events above one that has landed, and a query sees what was committed with it. Any
    batch says so: the oldest one that the topic begins there, which a connector's slot has confirmed first; the newest
    one whose events wait for their day how far a query sees."""
    table_key(ctx)
    landed = ctx.ledger.applies.landed(ctx.name, 0).rows

    def found(newest: bool) -> Position | None:
        batches = (n for n in sorted(landed, reverse=newest) if landed[n])
        positions = (greatest(event_files(ctx, n)) for n in islice(batches, _LOOKS))
        return next((one for one in positions if one is not None), None)

    last = found(newest=True)
    first = None if last is None else found(newest=False) or last
    rounds = [one for one in ctx.ledger.copies.rounds(ctx.name) if one.state == RoundState.WHOLE]
    chunks = {one.number: ctx.ledger.copies.chunks(ctx.name, one.number) for one in rounds}
    return Told(begins=first, last_position=last, copied=copied(rounds, chunks, _taken(ctx)))


def _taken(ctx: Context) -> RoundIn | None:
    """The newest copy whose rows published days have; None without one. Raises Alarm."""
    days = ctx.ledger.windows.published_starts(ctx.name)
    newest = in_force(ctx, daily.key_at(ctx, max(days))) if days else None
    day = None if newest is None else daily.read(ctx, newest.location)
    if day is None or not day.copied:
        return None
    return RoundIn(day.copied, day.swept_below, day.swept_below, (), swept=True)


def refuse_forgotten(ctx: Context, told: Told) -> None:
    """Raises StorageAhead (R11) where days have taken a copy, and what would be read now is another one of its
    number."""
    rounds = ctx.ledger.copies.rounds(ctx.name) if ctx.keyed is None else ()
    why = forgotten(rounds, told.copied.newest)
    if ctx.keyed is None and why is not None and all(one.number <= told.copied.newest for one in rounds):
        raise StorageAhead(f"{ctx.name}: {why}: it was restored", advice=copies.again(ctx))


def needs_nothing(ctx: Context) -> bool:
    """Whether the newest copy of a table by days is whole: nobody need look into files to know it."""
    newest = ctx.ledger.copies.newest(ctx.name) if ctx.keyed is None else None
    return newest is not None and newest.state == RoundState.WHOLE
