"""What must hold, told from the topic's truth and the documentation. Nothing of the core is imported here.

When a window's time has come is said in `marks`. What follows for a record: it may be late only for one of the
`REASONS`; one that keeps its policy's promise is not. This leg stands without the other (`by_promise`): it needs only
what was sent, what was read, and when.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tests.simulation.calendar import Calendar
from tests.simulation.marks import Known, Marks, Times
from tests.simulation.settings import Setting
from tests.simulation.topic import BAD, FILTERED, Record, Topic
from tests.simulation.verdicts import (
    DATA,
    DELAYED,
    DIRTY,
    DROPPED,
    EARLY,
    FORWARD,
    LATE,
    LIVE,
    ONE_PLACE,
    REASON,
    REASONS,
    REROUTED,
    TURNED_AWAY,
    Fate,
    Tally,
    Violated,
    require,
)


@dataclass
class Read:
    """A plan in the making: what it reads, and what the topic was like when it was made."""

    number: int
    clock: int
    ranges: tuple[tuple[int, int, int], ...]  # partition, first offset, offset behind the last
    unread: dict[int, bool]
    not_open: dict[int, frozenset[int]]


class Oracle:
    def __init__(self, setting: Setting, topic: Topic, calendar: Calendar, by_promise: bool = False) -> None:
        """`by_promise`: windows' times are not looked at, only what becomes of records."""
        self._s, self._topic, self._calendar, self._by_promise = setting, topic, calendar, by_promise
        self._times, self.tally = Times(setting), Tally()
        self._known = Known()
        self._ideal: dict[int, int | None] = {}  # largest plausible event if all that can be read had been
        self._ideal_at: dict[int, int] = {}
        self._position: dict[int, int] = {}
        self._began = False
        self._pending: Read | None = None
        self._marks: Marks = {}
        self._not_open: dict[int, frozenset[int]] = {}  # window start -> partitions that were known when it closed
        self._closing: dict[int, int] = {}  # window start -> the first batch that owes it nothing
        self._rows: dict[int, Counter[int]] = defaultdict(Counter)  # window start -> data rows by batch
        self._published: dict[int, int] = {}
        self._possible: dict[int, int] = {}  # window end -> batches landed when it could first have been ready
        self._ready: dict[int, int] = {}  # window end -> batches landed when it was
        self._highest = [setting.start, setting.start]  # ends up to which the two above have been filled
        self._landed = 0

    @property
    def mark(self) -> int | None:
        """Windows that end up to here have their time."""
        return self._times.lowest(self._marks)

    # ------------------------------------------------------------ plans

    def may_plan(self, clock: int) -> None:
        """No batch is open, and an ingest run is about to plan. What could be ready if it read all there is?"""
        if not self._began:
            return
        self._see_all(clock)
        low = self._times.lowest(self._times.marks(self._could_know(clock)))
        if low is not None and low > self._highest[0]:
            for end in self._calendar.ends(self._highest[0], low):
                self._possible[end] = self._landed
            self._highest[0] = max(self._highest[0], low)

    def _see_all(self, clock: int) -> None:
        for p, log in self._topic.logs.items():
            at = max(self._ideal_at.get(p, log.begins), log.begins)
            newest = self._ideal.get(p)
            for record in log.records[at : self._topic.readable(p)]:
                if record is not None and self._moves(record, clock):
                    newest = record.event if newest is None else max(newest, record.event)
            self._ideal[p], self._ideal_at[p] = newest, max(at, self._topic.readable(p))

    def _could_know(self, clock: int) -> Known:
        known = Known(clock, {p: self._ideal.get(p) for p in self._topic.logs})
        for p in self._topic.logs:
            more = self._topic.readable(p) > self._position.get(p, self._topic.logs[p].begins)
            known.advanced[p] = clock if more else self._known.advanced.get(p)
            known.timed[p] = clock if self._timed(p, clock) else self._known.timed.get(p)
            known.unread[p] = self._topic.holds_back(p)
        return known

    def _timed(self, partition: int, clock: int) -> bool:
        """Whether a batch that reads all there is would read a plausible event."""
        log = self._topic.logs[partition]
        at = max(self._position.get(partition, log.begins), log.begins)
        return any(r and self._moves(r, clock) for r in log.records[at : self._topic.readable(partition)])

    def nothing_planned(self, clock: int) -> None:
        """Right, if there is nothing to read and no window whose time would come by looking."""
        if not self._began:
            return
        for p, log in self._topic.logs.items():
            left = self._topic.readable(p) - max(self._position.get(p, 0), log.begins)
            require(left <= 0, DELAYED, f"no batch at {clock}, though partition {p} has {left} offsets to read")
        low = self._times.lowest(self._times.marks(self._could_know(clock)))
        now = self.mark
        if self._by_promise:
            return
        if low is None or (now is not None and low <= now):
            return
        missed = self._calendar.ends(max(now, self._s.start) if now is not None else self._s.start, low)
        require(not missed, DELAYED, f"no batch at {clock}, though an empty one would carry {now} over {missed[:1]}")

    def planned(self, number: int, clock: int, ranges: Iterable[tuple[int, int, int]], lost: Iterable) -> None:
        """`ranges` for every partition of the topic, empty ones too; `lost` likewise as (partition, from, to)."""
        ranges, lost = tuple(ranges), tuple(lost)
        for p, first, last in lost:
            self._moves_on(p, first, last)
            self.tally.lost += last - first
        readable = total = 0
        for p, first, last in ranges:
            self._moves_on(p, first, last)
            limit = self._topic.readable(p)
            require(last <= limit, EARLY, f"batch {number} reads partition {p} up to {last}, stable up to {limit}")
            readable, total = readable + limit - first, total + last - first
        if readable <= self._s.max_records:
            require(total == readable, DELAYED, f"batch {number} leaves {readable - total} offsets without need")
        unread = {p: last < log.ends or self._topic.holds_back(p) for (p, _, last) in ranges
                  for log in (self._topic.logs[p],)}  # fmt: skip
        self._pending = Read(number, clock, ranges, unread, dict(self._not_open))
        if not self._began:
            self._began = True
            self._ideal_at = {p: first for p, first, _ in ranges}
            self._see_all(clock)

    def _moves_on(self, partition: int, first: int, last: int) -> None:
        expected = self._position.get(partition)
        if expected is None:
            # a partition that came later begins at 0: what retention has taken of it is lost
            expected = 0
            if not self._began:
                is_earliest = self._s.source_start == "earliest"
                expected = self._topic.logs[partition].begins if is_earliest else self._topic.readable(partition)
        require(
            first == expected, ONE_PLACE, f"partition {partition}: from {first} on, the last plan ends at {expected}"
        )
        self._position[partition] = last

    # ------------------------------------------------------------ what becomes of records

    def judged(self, number: int, fates: list[Fate]) -> None:
        """The places that an attempt found for the records of the open batch: each of them, once."""
        read = self._pending
        assert read is not None
        assert read.number == number
        told = iter(fates)
        for p, first, last in read.ranges:
            records = self._topic.logs[p].records
            for offset in range(first, last):
                record = records[offset]
                if record is not None:
                    expected = (p, offset, *self._place(record, read, p))
                    found = next(told, None)
                    require(found == expected, ONE_PLACE, f"batch {number}: {found} should be {expected}")
        require(next(told, None) is None, ONE_PLACE, f"batch {number} has records that are not its own")

    def _place(self, record: Record, read: Read, partition: int) -> tuple[str, int | None]:
        s, event = self._s, record.event
        if event is None or record.kind == BAD or (s.future == "dirty" and event > read.clock + s.skew):
            return DIRTY, None
        if record.kind == FILTERED:
            return TURNED_AWAY, None
        start, end = self._calendar.window(event)
        if not self._is_late(start, end, read):
            return DATA, start
        if s.late == "side":
            return LATE, start
        return (DROPPED, None) if s.late == "drop" else (REROUTED, self._oldest_open(read))

    def _is_late(self, start: int, end: int, read: Read) -> bool:
        return end <= self._low(read) or start in read.not_open

    def _low(self, read: Read) -> int:
        s = self._s
        return s.start if s.max_age is None else max(s.start, read.clock - s.max_age)

    def _oldest_open(self, read: Read) -> int:
        start, end = self._calendar.window(self._low(read))
        while self._is_late(start, end, read):
            start, end = self._calendar.window(end)
        return start

    def _reason(self, record: Record, read: Read, partition: int) -> str:
        s, event = self._s, record.event
        assert event is not None
        start, end = self._calendar.window(event)
        if end <= s.start:
            return REASONS[0]
        if end <= self._low(read):
            return REASONS[1]
        if partition not in read.not_open[start]:
            return REASONS[2]
        known = self._known
        own = {p: mark + s.apart for p in known.newest if (mark := self._times.own(p, known)) is not None}
        if event < own.get(partition, event):
            return REASONS[3]
        if s.idle == "follow" and event < max(own.values(), default=event):
            return REASONS[4]
        if s.idle == "clock" and event < record.at + s.apart - s.delay:
            return REASONS[5]
        raise Violated(REASON, f"{record} of partition {partition} is late for {start}, and kept its promise")

    # ------------------------------------------------------------ batches land

    def landed(self, number: int, fates: list[Fate]) -> None:
        read = self._pending
        assert read is not None
        assert read.number == number
        self._pending = None
        self._count(read, fates)
        before, was_silent = self._marks, self._times.is_silent(self._known)
        newest, advanced, timed = dict(self._known.newest), dict(self._known.advanced), dict(self._known.timed)
        for p, first, last in read.ranges:
            events = [r.event for r in self._topic.logs[p].records[first:last] if r and self._moves(r, read.clock)]
            timed[p] = read.clock if events else timed.get(p)
            events += [e for e in (newest.get(p),) if e is not None]
            newest[p] = max(events, default=None)
            advanced[p] = read.clock if last > first else advanced.get(p)
        self._known = Known(read.clock, newest, advanced, timed, read.unread)
        self._marks = self._times.marks(self._known)
        self._landed += 1
        self._watch_back(before, was_silent)
        low = self.mark
        if low is not None and low > self._highest[1]:
            for end in self._calendar.ends(self._highest[1], low):
                self._is_ready(end)
            self._highest[1] = low

    def _moves(self, record: Record, clock: int) -> bool:
        plausible = record.event is not None and record.event <= clock + self._s.skew
        return plausible and record.kind != BAD

    def _count(self, read: Read, fates: list[Fate]) -> None:
        self.tally.batches += 1
        self.tally.records += len(fates)
        self.tally.empty += not any(last > first for _, first, last in read.ranges)
        for p, offset, place, window in fates:
            self.tally.places[place] += 1
            if place in (LATE, DROPPED, REROUTED):
                record = self._topic.logs[p].records[offset]
                assert record is not None
                self.tally.reasons[self._reason(record, read, p)] += 1
            if place in (DATA, REROUTED):
                assert window is not None
                require(window not in self._published, EARLY, f"batch {read.number} owes rows to {window}: published")
                self._rows[window][read.number] += 1

    def _is_ready(self, end: int) -> None:
        self._ready[end] = self._landed
        possible = self._possible.pop(end, None)
        if possible is None:
            return
        delay = self._landed - possible
        if self._s.is_capped:
            self.tally.catching_up[delay] += 1
            return
        self.tally.delays[delay] += 1
        require(
            delay <= 1 or self._by_promise,
            DELAYED,
            f"the window that ends at {end} is ready {delay} batches after it could be",
        )

    def _watch_back(self, before: Marks, was_silent: bool) -> None:
        s, old, new = self._s, self._times.lowest(before), self.mark
        if old is None or (new is not None and new >= old) or self._by_promise:
            return
        for p, mark in self._marks.items():
            if mark.at is not None and mark.at >= old:
                continue
            if p not in before:
                reason = "a partition is new"
            elif before[p].stands_in and mark.why:
                reason = mark.why
            elif before[p].stands_in and was_silent:
                reason = "a silent topic speaks again"
            elif mark.at is not None and mark.at >= old - s.apart:
                reason = "a plan's host has a clock that is behind another's"
            else:
                raise Violated(FORWARD, f"partition {p}: from {before[p]} to {mark}, without a reason")
            self.tally.back[reason] += 1

    def abandoned(self) -> None:
        """An operator has given up the open batch: its records are a recorded loss."""
        read = self._pending
        assert read is not None
        self.tally.abandoned += 1
        self.tally.lost += sum(last - first for _, first, last in read.ranges)
        self._pending = None
        self._ideal = dict(self._known.newest)
        self._possible.clear()
        self._highest[0] = self._highest[1]

    # ------------------------------------------------------------ windows close

    def certified(self, start: int, end: int, ready: bool, asked: int) -> None:
        """What a certificate says at `asked`, from what has landed."""
        if self._by_promise:
            return
        marks = self._times.marks(self._known, asked)
        low = self._times.lowest(marks)
        should = end <= self._s.start or (low is not None and low >= end)
        detail = f"[{start}, {end}) at {asked}: the marks are {marks}"
        require(not ready or should, EARLY, f"certified {detail}")
        require(ready or not should, DELAYED, f"not certified {detail}")

    def closing(self, start: int, next_batch: int) -> None:
        self._not_open[start] = frozenset(self._known.newest)
        self._closing[start] = next_batch

    def closed(self, start: int, batches: Iterable[int], is_prompt: bool) -> None:
        """A generation of these batches is what readers will see."""
        read, below = self._pending, self._closing[start]
        require(read is None or read.number >= below, EARLY, f"{start} does not wait for batch {read and read.number}")
        owed = sorted(self._rows[start])
        require(sorted(batches) == owed, ONE_PLACE, f"{start} is made of batches {sorted(batches)}, has rows of {owed}")
        self._published[start] = sum(self._rows[start].values())
        self.tally.closes += 1
        ready = self._ready.get(self._calendar.window(start)[1])
        if is_prompt and ready is not None and not self._by_promise:
            self.tally.waits[self._landed - ready] += 1
            require(self._landed - ready <= 1, DELAYED, f"{start} is CLOSED {self._landed - ready} batches after ready")

    # ------------------------------------------------------------ the end

    def ended(self, clock: int) -> None:
        """Nobody has sent anything for long, every ingest and archive run has come; `clock` is the last plan's."""
        s = self._s
        if not self._began or not self._known.newest:
            return
        held = [p for p in self._topic.logs if self._topic.holds_back(p)]
        assert not held, "the generator ends all transactions"
        marks = [self._times.own(p, self._known) for p in self._known.newest]
        told = [m for m in marks if m is not None]
        if s.idle == "follow":
            due = max(told, default=None)
        elif not any(self._known.advanced.values()):
            due = None  # nothing has ever been read, so nothing has fallen silent
        elif s.idle == "clock" and s.on_silence == "close" and not self._times.lags(self._known):
            due = clock - s.apart - s.delay
        else:
            due = None if len(told) < len(marks) else min(told)
        if due is not None:
            left = [
                e for e in self._calendar.ends(s.start, due) if self._calendar.window(e - 1)[0] not in self._published
            ]
            require(not left, LIVE, f"{len(left)} windows are left, the first ends at {left[:1]}; due up to {due}")
        for start, rows in self._rows.items():
            if start in self._published:
                require(self._published[start] == sum(rows.values()), ONE_PLACE, f"{start} has rows behind its back")
        self._every_offset_is_somewhere()

    def _every_offset_is_somewhere(self) -> None:
        for p, log in self._topic.logs.items():
            require(self._position.get(p, 0) == log.ends, ONE_PLACE, f"partition {p} is read up to {self._position}")
