"""The events of a key of a keyed table: from the files of all landed batches, by days also from those of published
days. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.core.base.errors import Alarm, LedgerError, NotReady, StepMissing
from tidegate.core.base.fields import columns
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.copy.rounds import RoundState
from tidegate.core.daily.day import Day, copied_of, purged_of, swept_of
from tidegate.core.look.port import LedgerReads
from tidegate.core.mirror.copied import NOTHING
from tidegate.core.mirror.jobs import START, Position, TableColumn
from tidegate.core.mirror.key_history import (
    MOST,
    NO_PURGE,
    Event,
    EventReader,
    Happened,
    History,
    Purge,
    Question,
    history,
    kept_out_by_days,
    newest,
)
from tidegate.core.mirror.key_values import KeyValue, key_values
from tidegate.core.mirror.parts import swept_below
from tidegate.core.spec.change_events import SAYS_HOW
from tidegate.core.window import turn
from tidegate.core.window.states import WindowKey
from tidegate.workflow.apply.apply import event_files
from tidegate.workflow.apply.copies import chunk_files, read_chunks
from tidegate.workflow.base import servers
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.generation import daily
from tidegate.workflow.generation.copies import read_of
from tidegate.workflow.look.day_files import events_by_day

FILES_AT_ONCE = 50
"""After so many files it says how far it is."""
LOOKS = 3
"""How often files that move are looked for."""


@dataclass(frozen=True, kw_only=True)
class KeyAnswer:
    """`key`: as it was asked. `upto`: the last batch in the table by the ledger, 0 for none. `events`: the newest
    first, of `count` in all. `seen`: the one that made the row, or its tombstone. `notes`: what could not be read.
    `day_ms`: of a table by days, the start of the day whose row was asked for (UTC); None if none is published."""

    pipeline: str
    table: str
    key: dict[str, str]
    upto: int
    newest_merged: bool
    count: int
    seen: Happened | None
    events: tuple[Happened, ...]
    notes: tuple[str, ...] = ()
    day_ms: int | None = field(default=None, metadata=LEFT_OUT)

    @property
    def settled(self) -> bool:
        """Whether the newest event is merged, and every file was read."""
        return self.newest_merged and not self.notes


def key_of(ctx: Context, given: Sequence[str]) -> tuple[KeyValue, ...]:
    """The key that `column=value` of each column names; asks nobody. Raises NoKey, and StepMissing of a pipeline whose
    rows have none."""
    return key_values(_table(ctx)[0], {c.name: c.type for c in ctx.pipeline.columns}, given)


def where_key(ctx: Context, rows: EventReader, key: tuple[KeyValue, ...], most: int = MOST) -> KeyAnswer:
    """Look into every landed file. Raises LedgerError; StorageError if no file can be read at all.

    What has landed is read after how far the table is: no event of a merged batch is missing."""
    if ctx.ledger.pipelines.row(ctx.name) is None:
        raise LedgerError(f"pipeline {ctx.name} is not in the ledger", advice="its first ingest run registers it")
    told = ctx.ledger.applies.told(ctx.name)
    upto = 0 if told is None else told.upto
    landed = ctx.ledger.applies.landed(ctx.name, 0).rows
    files = [f for batch_id in sorted(landed) if landed[batch_id] for f in event_files(ctx, batch_id)]
    copied = NOTHING if told is None else told.copied
    inside, others = read_chunks(ctx, copied)
    look = _Look(ctx, rows, key, most, len(files), {c.batch_id: c.round for c in (*inside, *others)})
    of_chunks = [[(f.uri,) for c in some for f in chunk_files(ctx, c)] for some in (inside, others)]
    merged = look.newest([*((f.uri,) for f in files if f.batch_id <= upto), *of_chunks[0]])
    waiting = look.newest([*((f.uri,) for f in files if f.batch_id > upto), *of_chunks[1]])
    values = {v.column: v.value for v in key}
    swept = swept_below(values, copied.swept_below, copied.swept_parts)
    of = None if told is None else told.of_server(servers.of_key(ctx, values))
    purge = NO_PURGE if of is None else Purge(of.purged_below, of.purged_upto, swept, of.below_purge > 0)
    return look.answer(history(merged, waiting, look.count, most, purge), upto=upto)


def where_key_by_days(
    ctx: Context,
    reads: LedgerReads,
    rows: EventReader,
    key: tuple[KeyValue, ...],
    day: WindowKey | None = None,
    most: int = MOST,
) -> KeyAnswer:
    """The same of a table by days. `day`: only the events up to that one, and the row that it shows; else all, and the
    newest day's. Raises LedgerError; NotReady for a day that is not published; StorageError.

    Each event is looked for where the ledger had it: what moved meanwhile is looked for again."""
    for number in range(1, LOOKS + 1):
        found = _by_days(ctx, reads, rows, key, day, most)
        if not found.notes or number == LOOKS:
            break
    return found


def _by_days(
    ctx: Context, reads: LedgerReads, rows: EventReader, key: tuple[KeyValue, ...], day: WindowKey | None, most: int
) -> KeyAnswer:
    days = [d for d in events_by_day(ctx, reads) if day is None or d.window_ms <= day.start_ms]
    shown = max((d.window_ms for d in days if d.published), default=None)
    newest_day = _record(ctx, shown)
    copied, swept = copied_of(newest_day), swept_of(newest_day)
    if day is not None and shown != day.start_ms:
        raise NotReady(f"{ctx.name} {iso(day.start_ms)} is not published", advice="ask for an earlier day, or for none")
    chunks = [c for one in _whole(ctx, day, copied) for c in read_of(ctx, one)]
    look = _Look(ctx, rows, key, most, sum(len(d.files) for d in days), {c.batch_id: c.round for c in chunks})
    inside, others = (
        [(f.uri,) for c in chunks if (c.round <= copied) is there for f in chunk_files(ctx, c)]
        for there in (True, False)
    )
    merged = look.newest([*(uris for d in days if d.published for uris in d.files), *inside])
    waiting = look.newest([*(uris for d in days if not d.published for uris in d.files), *others])
    at = {uri: d.window_ms for d in days for uris in d.files for uri in uris}
    purge = Purge(purged_of(newest_day), max((e.batch_id for e in merged), default=0), swept)
    out = kept_out_by_days(_by_day(merged, at), lambda start_ms: _marker(ctx, start_ms)) if purge.below > START else ()
    found = history(merged, waiting, look.count, most, purge, unit="day", kept_out=out)
    seen = None if found.seen is None else replace(found.seen, day_ms=at.get(found.seen.file))
    dated = tuple(replace(e, day_ms=at.get(e.file)) for e in found.events)
    return look.answer(replace(found, seen=seen, events=dated), upto=0, day_ms=shown)


def _record(ctx: Context, start_ms: int | None) -> Day | None:
    """What the day in force is made of: copies of the source's table, purges. None without one; and where nobody can
    know it, as if it had none: the audit says so."""
    current = None if start_ms is None else in_force(ctx, daily.key_at(ctx, start_ms))
    try:
        return None if current is None else daily.read(ctx, current.location)
    except Alarm:
        return None


def _marker(ctx: Context, start_ms: int) -> Position:
    """Below which position no event of the day makes a row of a key that has none (M5)."""
    earlier = turn.before(daily.key_at(ctx, start_ms), ctx.pipeline.windows)
    return purged_of(None if earlier is None else _record(ctx, earlier.start_ms))


def _by_day(events: Iterable[Event], at: Mapping[str, int]) -> dict[int, list[Event]]:
    """Rows of copies come first: they are of no day, and no purge keeps them out (S7)."""
    found: dict[int, list[Event]] = {}
    for event in events:
        found.setdefault(at.get(event.file, 0), []).append(event)
    return found


def _whole(ctx: Context, day: WindowKey | None, copied: int) -> list[int]:
    """Copies that have been read as a whole; of one `day` those that it has."""
    rounds = ctx.ledger.copies.rounds(ctx.name)
    return [r.number for r in rounds if r.state == RoundState.WHOLE and (day is None or r.number <= copied)]


class _Look:
    """Counts over all files: events of the key, and what could not be read."""

    def __init__(
        self,
        ctx: Context,
        rows: EventReader,
        key: tuple[KeyValue, ...],
        most: int,
        files: int,
        rounds: Mapping[int, int] | None = None,
    ) -> None:
        """`rounds`: of chunks of copies, by what their rows have for a batch (S1)."""
        self._ctx, self._rows, self._key, self._most, self._files = ctx, rows, key, most, files
        self._rounds = rounds or {}
        columns = ((c.of, c.type) for c in _table(ctx)[1])
        self._content = tuple((of, kind) for of, kind in columns if of and of not in SAYS_HOW)
        self._done = self.count = 0
        self.unread: list[str] = []

    def newest(self, files: Iterable[tuple[str, ...]]) -> list[Event]:
        """The newest events of the key in these files: in memory there are never more than twice as many."""
        kept: list[Event] = []
        places = list(files)
        for at in range(0, len(places), FILES_AT_ONCE):
            some = tuple(places[at : at + FILES_AT_ONCE])
            found = self._rows.events(Question(self._key, some, self._content, self._most))
            events = [replace(e, n=self._rounds.get(e.batch_id, e.n)) for e in found.events]
            kept = newest((*kept, *events), self._most)
            self.count += found.count
            self.unread += [found.unread] if found.unread else []
            self._done += len(some)
            if self._files > FILES_AT_ONCE:
                self._ctx.say(f"{self._ctx.name}: {self._done:,} of {self._files:,} files read")
        return kept

    def answer(self, found: History, **told: Any) -> KeyAnswer:
        """What was found in them."""
        return KeyAnswer(
            pipeline=self._ctx.name,
            table=self._ctx.pipeline.sink.table,
            key={v.column: v.text for v in self._key},
            **columns(found, "newest_merged", "count", "seen", "events"),
            notes=tuple(dict.fromkeys(f"not every file could be read: {why}" for why in self.unread)),
            **told,
        )


def _table(ctx: Context) -> tuple[Sequence[str], Sequence[TableColumn]]:
    """Its key and columns."""
    if ctx.keyed is not None:
        return ctx.keyed.key, ctx.keyed.columns()
    daily = ctx.target.daily
    if daily is None:
        raise StepMissing(f"{ctx.name} is published by windows: its rows have no key")
    return daily.key, daily.columns
