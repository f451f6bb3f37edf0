"""A range of windows is filled, or rebuilt, by the scheduler's runs: few at a time, watched until they have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.core.base.errors import SpecError
from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import Interval
from tidegate.core.publish import backfill as rules
from tidegate.core.publish.backfill import Facts, Run
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window import watermark
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Context

MOST_WINDOWS = 20_000
"""More is a mistake in the range."""


class Runs(Protocol):
    """The runs of one DAG."""

    def look(self, keys: Sequence[WindowKey]) -> dict[int, Run]:
        """Runs by the start of their window."""
        ...

    def room(self, own: int, most: int | None) -> int:
        """How many more may be begun beside `own` that this backfill has begun and that are active: `most` in all, and
        what leaves room for the schedule."""
        ...

    def begin(self, keys: Sequence[WindowKey], runs: Mapping[int, Run], note: str) -> list[WindowKey]:
        """Clear their runs, or create them; those that were begun: a run that somebody else has begun meanwhile is left
        alone, and all are while another process works on the DAG's runs."""
        ...

    def catch_up(self, keys: Sequence[WindowKey], start: bool) -> bool:
        """Whether one process is publishing these windows, or is about to; `start`: it may be asked to."""
        ...


@dataclass(frozen=True)
class Asked:
    """Which windows (oldest first), and what for. `mark` is that of a rebuild, None where windows are to be published;
    `note` is written at each run that is begun."""

    keys: tuple[WindowKey, ...]
    note: str
    mark: str | None = None
    most: int | None = None
    newest_first: bool = False
    stop_on_failure: bool = False

    @property
    def may_catch_up(self) -> bool:
        """Whether windows without a run may be published by one process: oldest first, whatever fails."""
        return self.mark is None and self.most is None and not (self.newest_first or self.stop_on_failure)


@dataclass(frozen=True)
class Line:
    """A window, its verdict (see `core.publish.backfill`) and its run."""

    key: WindowKey
    verdict: str
    run: Run | None


@dataclass
class Progress:
    """What is known after a look; `tried` are windows (starts) whose runs this process has begun."""

    lines: tuple[Line, ...] = ()
    tried: set[int] = field(default_factory=set)

    @property
    def counts(self) -> dict[str, int]:
        """Counts by verdict."""
        return dict(Counter(line.verdict for line in self.lines))

    @property
    def done(self) -> bool:
        """Whether every window is what it was asked to be."""
        return all(line.verdict == rules.DONE for line in self.lines)

    def moving(self, stop_on_failure: bool = False) -> bool:
        """Whether anything is to be waited for, or to be begun."""
        counts = self.counts
        if counts.get(rules.WORKING):
            return True
        startable = any(counts.get(verdict) for verdict in rules.STARTABLE)
        return startable and not (stop_on_failure and counts.get(rules.FAILED))


def windows_between(spec: Windows, first: WindowKey, last: WindowKey) -> tuple[WindowKey, ...]:
    """Windows from `first` to `last`, both included. Raises SpecError for too many, or for windows before
    `windows.start`."""
    if first.start_ms < window_start(spec.start_ms, spec):
        raise SpecError(f"{iso(first.start_ms)} is before windows.start ({iso(spec.start_ms)})", advice="begin there")
    found: list[WindowKey] = []
    start = first.start_ms
    while start <= last.start_ms:
        end = window_end(start, spec)
        found.append(WindowKey(start, end))
        if len(found) > MOST_WINDOWS:
            raise SpecError(f"the range holds more than {MOST_WINDOWS:,} windows", advice="take a shorter one")
        start = end
    return tuple(found)


def look(ctx: Context, runs: Runs, asked: Asked, tried: set[int]) -> Progress:
    """What each window is like now; changes nothing."""
    seen = runs.look(asked.keys)  # before the ledger: see core.publish.backfill.to_fill
    facts = _facts(ctx, asked.keys)
    lines = []
    for key in asked.keys:
        run = seen.get(key.start_ms)
        if asked.mark is None:
            verdict = rules.to_fill(key, run, facts, tried)
        else:
            verdict = rules.to_rebuild(key, run, facts, tried, asked.mark)
        lines.append(Line(key, verdict, run))
    return Progress(tuple(lines), tried)


def advance(ctx: Context, runs: Runs, asked: Asked, tried: set[int]) -> Progress:
    """Look, and begin what there is room for."""
    found = look(ctx, runs, asked, tried)
    if asked.stop_on_failure and found.counts.get(rules.FAILED):
        return found
    found = _caught_up(runs, asked, found)
    working = sum(line.verdict == rules.WORKING and line.key.start_ms in tried for line in found.lines)
    verdicts = [(line.key, line.verdict) for line in found.lines]
    if not any(verdict in rules.STARTABLE for _, verdict in verdicts):
        return found
    keys = rules.chosen(verdicts, runs.room(working, asked.most), asked.newest_first)
    known = {line.key.start_ms: line.run for line in found.lines if line.run is not None}
    begun = runs.begin(keys, known, asked.note) if keys else []
    if not begun:
        return found
    tried |= {key.start_ms for key in begun}
    starts = {key.start_ms for key in begun}
    lines = (Line(x.key, rules.WORKING, x.run) if x.key.start_ms in starts else x for x in found.lines)
    return Progress(tuple(lines), tried)


def _caught_up(runs: Runs, asked: Asked, found: Progress) -> Progress:
    """Windows that a catch-up is on its way to are being worked on."""
    keys = [line.key for line in found.lines if line.verdict == rules.CREATE]
    if not keys or not asked.may_catch_up:
        return found
    if not runs.catch_up(keys, rules.by_catch_up(line.verdict for line in found.lines)):
        return found
    lines = (Line(x.key, rules.WORKING, x.run) if x.verdict == rules.CREATE else x for x in found.lines)
    return Progress(tuple(lines), found.tried)


def _facts(ctx: Context, keys: Sequence[WindowKey]) -> Facts:
    marks = watermark.watermarks(ctx.pipeline.windows, ctx.ledger.windows.facts(ctx.name), ctx.clock.now_ms())
    part = Interval(keys[0].start_ms, keys[-1].end_ms)
    published = ctx.ledger.due.published_within(ctx.name, [part])
    return Facts(frozenset(published), watermark.global_watermark(marks))
