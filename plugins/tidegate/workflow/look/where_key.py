"""The events of a key of a keyed table: from the files of all landed batches. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.base.errors import LedgerError, StepMissing
from tidegate.core.mirror.jobs import EventFile
from tidegate.core.mirror.key_history import (
    MOST,
    NO_PURGE,
    Event,
    EventReader,
    Happened,
    Purge,
    Question,
    history,
    newest,
)
from tidegate.core.mirror.key_values import KeyValue, key_values
from tidegate.core.spec.change_events import SAYS_HOW
from tidegate.core.target.port import PrefixTarget
from tidegate.workflow.apply.apply import event_files
from tidegate.workflow.base.context import Context

FILES_AT_ONCE = 50
"""After so many files it says how far it is."""


@dataclass(frozen=True, kw_only=True)
class KeyAnswer:
    """`key`: as it was asked. `upto`: the last batch in the table by the ledger, 0 for none. `events`: the newest
    first, of `count` in all. `seen`: the one that made the row, or its tombstone. `notes`: what could not be read."""

    pipeline: str
    table: str
    key: dict[str, str]
    upto: int
    newest_merged: bool
    count: int
    seen: Happened | None
    events: tuple[Happened, ...]
    notes: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether the newest event is merged, and every file was read."""
        return self.newest_merged and not self.notes


def key_of(ctx: Context, given: Sequence[str]) -> tuple[KeyValue, ...]:
    """The key that `column=value` of each column names; asks nobody. Raises NoKey, and StepMissing of a pipeline with
    windows."""
    return key_values(_table(ctx).key, {c.name: c.type for c in ctx.pipeline.columns}, given)


def where_key(ctx: Context, rows: EventReader, key: tuple[KeyValue, ...], most: int = MOST) -> KeyAnswer:
    """Look into every landed file. Raises LedgerError; StorageError if no file can be read at all.

    What has landed is read after how far the table is: no event of a merged batch is missing."""
    if ctx.ledger.pipelines.row(ctx.name) is None:
        raise LedgerError(f"pipeline {ctx.name} is not in the ledger", advice="its first ingest run registers it")
    told = ctx.ledger.applies.told(ctx.name)
    upto = 0 if told is None else told.upto
    landed = ctx.ledger.applies.landed(ctx.name, 0).rows
    files = [f for batch_id in sorted(landed) if landed[batch_id] for f in event_files(ctx, batch_id)]
    look = _Look(ctx, rows, key, most, len(files))
    merged = look.newest(f for f in files if f.batch_id <= upto)
    waiting = look.newest(f for f in files if f.batch_id > upto)
    purge = NO_PURGE if told is None else Purge(told.purged_below, told.purged_upto)
    found = history(merged, waiting, look.count, most, purge)
    return KeyAnswer(
        pipeline=ctx.name,
        table=ctx.pipeline.sink.table,
        key={v.column: v.text for v in key},
        upto=upto,
        newest_merged=found.newest_merged,
        count=found.count,
        seen=found.seen,
        events=found.events,
        notes=tuple(dict.fromkeys(f"not every file could be read: {why}" for why in look.unread)),
    )


class _Look:
    """Counts over all files: events of the key, and what could not be read."""

    def __init__(self, ctx: Context, rows: EventReader, key: tuple[KeyValue, ...], most: int, files: int) -> None:
        self._ctx, self._rows, self._key, self._most, self._files = ctx, rows, key, most, files
        columns = ((c.of, c.type) for c in _table(ctx).columns())
        self._content = tuple((of, kind) for of, kind in columns if of and of not in SAYS_HOW)
        self._done = self.count = 0
        self.unread: list[str] = []

    def newest(self, files: Iterable[EventFile]) -> list[Event]:
        """The newest events of the key in these files: in memory there are never more than twice as many."""
        kept: list[Event] = []
        uris = [f.uri for f in files]
        for at in range(0, len(uris), FILES_AT_ONCE):
            some = tuple(uris[at : at + FILES_AT_ONCE])
            found = self._rows.events(Question(self._key, some, self._content, self._most))
            kept = newest((*kept, *found.events), self._most)
            self.count += found.count
            self.unread += [found.unread] if found.unread else []
            self._done += len(some)
            if self._files > FILES_AT_ONCE:
                self._ctx.say(f"{self._ctx.name}: {self._done:,} of {self._files:,} files read")
        return kept


def _table(ctx: Context) -> PrefixTarget:
    if ctx.keyed is None:
        raise StepMissing(f"{ctx.name} is published by windows: its rows have no key")
    return ctx.keyed
