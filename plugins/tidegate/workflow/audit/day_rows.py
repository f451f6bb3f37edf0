"""Gathers what a deep audit of days compares: the rows and tombstones of each day in force, and what its events make of
the day that it is built on, bucket by bucket. A generation's files do not change; one that was replaced, moved or
cleaned meanwhile is looked at again as it is then."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.core.audit.keyed import problems_of_day
from tidegate.core.audit.problems import Problem
from tidegate.core.audit.scope import Part
from tidegate.core.base.errors import Alarm, StorageAhead, StorageError
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.daily.day import Day, buckets_of
from tidegate.core.look.port import LedgerReads
from tidegate.core.mirror.comparison import Compared, Recomputed
from tidegate.core.mirror.jobs import Daily, EventFile
from tidegate.core.target.paths import join
from tidegate.core.window.states import CURRENT, PublishedGeneration
from tidegate.workflow.apply.copies import chunk_files
from tidegate.workflow.audit.keyed import SPACE, Found, TableReader, compare, job, take_up
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force
from tidegate.workflow.generation import copies, daily

LOOKS = 5
"""How often a day is looked at while it is being replaced, or what it is built on."""
PAUSE_S = 0.5
"""Before the second look, and twice as long before each further one."""


def recompute(ctx: Context, reads: LedgerReads, reader: TableReader, part: Part, known: bool = False) -> Found:
    """Hold the days in force that the part holds, and of them the buckets that it draws, against what they are made of;
    nothing of tables without days. `known`: whether the audit has problems to tell already, so that it is worth its
    end.

    Raises StorageError where events cannot be read and nothing of that is known; LedgerError."""
    table = ctx.target.daily
    spine = None if table is None else reads.spine(ctx.name)
    if table is None or spine is None:
        return Found()
    days = _Days(ctx, reader, part, table, known)
    due = sorted(g.window_ms for g in spine.generations if g.state == CURRENT and part.holds(g.window_ms))
    for number, start_ms in enumerate(due, 1):  # the oldest first: what is wrong in one is not told of the next
        ctx.say(f"{iso(start_ms)}: compares its rows with what they are made of, day {number:,} of {len(due):,}")
        days.compare(start_ms)
    return days.found()


@dataclass(frozen=True)
class _Look:
    """At a day. `why`: why nothing is said of it, or of some of its buckets; `unread`: why its events cannot be read.
    `still`: nothing that it was told of has moved since."""

    compared: tuple[Compared, ...] = ()
    problems: tuple[Problem, ...] = ()
    events: int = 0
    why: str = ""
    unread: str = ""
    still: bool = True

    @property
    def is_clean(self) -> bool:
        return not (self.problems or self.why or self.unread)


class _Days:
    """Adds up what was found, day by day."""

    def __init__(self, ctx: Context, reader: TableReader, part: Part, table: Daily, known: bool) -> None:
        self._ctx, self._reader, self._table, self._known = ctx, reader, table, known
        self._drawn = [n for n in range(table.buckets) if part.draws("bucket", str(n))]
        self._wrong: dict[tuple[int, int], set[int]] = {}
        self._skipped: list[tuple[int, str]] = []
        self._problems: list[Problem] = []
        self._unsettled: list[Problem] = []
        self._sums = Recomputed(upto=0, buckets=0, rows=0, tombstones=0, events=0)

    def found(self) -> Found:
        notes = []
        if self._skipped:
            at, why = self._skipped[0]
            more = f" and {many(len(self._skipped) - 1, 'more day')}" if len(self._skipped) > 1 else ""
            notes = [f"{iso(at)}{more} could not be compared with what they are made of: {why}"]
        return Found(self._sums, tuple(self._problems), tuple(self._unsettled), tuple(notes))

    def compare(self, start_ms: int) -> None:
        look = _Look()
        for number in range(LOOKS):
            if number:
                time.sleep(PAUSE_S * 2 ** (number - 1))
            current = in_force(self._ctx, daily.key_at(self._ctx, start_ms))
            if current is None:
                return
            look = self._look(current)
            if look.is_clean or look.still:
                self._keep(current, look)
                return
        self._unsettled += look.problems
        self._skip(start_ms, look.why or look.unread)

    def _keep(self, current: PublishedGeneration, look: _Look) -> None:
        start_ms = current.window.start_ms
        if look.unread and not self._known:
            raise StorageError(f"{iso(start_ms)}: its events cannot be read: {look.unread}", advice=SPACE)
        self._skip(start_ms, look.why or look.unread)
        self._problems += look.problems
        self._wrong[start_ms, current.number] = {c.bucket for c in look.compared if c.differ or c.unread}
        s = self._sums
        self._sums = replace(
            s,
            buckets=s.buckets + len(look.compared),
            rows=s.rows + sum(c.rows for c in look.compared),
            tombstones=s.tombstones + sum(c.tombstones for c in look.compared),
            events=s.events + look.events,
            days=s.days + bool(look.compared),
        )

    def _skip(self, start_ms: int, why: str) -> None:
        if why:
            self._skipped.append((start_ms, why))

    # ------------------------------------------------------------ one look

    def _look(self, current: PublishedGeneration) -> _Look:
        base: PublishedGeneration | None = None
        try:
            day = daily.read(self._ctx, current.location)
            base = daily.ground_of(self._ctx, day)
            before = None if base is None else daily.read(self._ctx, base.location)
            if day.base is not None and base is None:
                look = _Look(why=f"the ledger does not have {daily.words(day.base)}, which it is built on")
            else:
                look = self._compared(current, day, base, before)
        except (Alarm, StorageAhead) as e:
            look = _Look(why=str(e.args[0]))
        return look if look.is_clean else replace(look, still=self._still(current, base))

    def _compared(
        self, current: PublishedGeneration, day: Day, base: PublishedGeneration | None, before: Day | None
    ) -> _Look:
        held = buckets_of(day, current.location)
        ground = () if base is None or before is None else buckets_of(before, base.location)
        wrong = set() if base is None else self._wrong.get((base.window.start_ms, base.number), set())
        drawn = [n for n in self._drawn if n not in wrong]
        table, files = self._table, [f for f in current.files if f.rows]
        self._reader.begin(
            job(
                self._ctx,
                first=min(current.batches, default=0),
                last=max(current.batches, default=0),
                key=table.key,
                buckets=table.buckets,
                base=ground,
                columns=table.columns,
                whole=True,
                swept_below=day.swept_below,
                purged_below=day.purged_below,
                sweep=bool(day.taken),
            ),
            drawn,
        )
        events = [EventFile(0, join(current.location, f.path), f.rows, f.bytes) for f in files]
        chunks = copies.read_of(self._ctx, day.taken) if day.taken else []
        due = sum(f.rows for f in files) + sum(chunk.rows for chunk in chunks)
        read, unread = take_up(self._ctx, self._reader, [events, *(chunk_files(self._ctx, c) for c in chunks)], due)
        if unread:
            return _Look(unread=unread)
        compared = list(compare(self._ctx, self._reader, drawn, held))
        made = [c for c in compared if not c.unmade]
        of = "no day before" if day.base is None else daily.words(day.base)
        kept_out = day.below_purge - (0 if before is None else before.below_purge)
        what = problems_of_day(self._ctx.name, current.window.start_ms, current.location, of, made, kept_out)
        return _Look(tuple(made), tuple(what), read, _unmade(compared, wrong, of))

    def _still(self, *generations: PublishedGeneration | None) -> bool:
        """Whether the ledger says the same of them as before, and neither is about to move."""
        ctx = self._ctx
        return all(
            ctx.ledger.windows.generation(ctx.name, one.window, one.number) == one and not daily.is_moving(ctx, one)
            for one in generations
            if one is not None
        )


def _unmade(compared: Iterable[Compared], wrong: set[int], ground: str) -> str:
    if wrong:
        return f"{ground}, which it is built on, is not right in {many(len(wrong), 'bucket')}"
    return next((f"{ground}, which it is built on: {c.unmade}" for c in compared if c.unmade), "")
