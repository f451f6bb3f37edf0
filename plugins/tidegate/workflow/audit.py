"""Prove that every record is where the ledger says, exactly once: gather, decide, report. Changes nothing.

The ledger comes page by page, files directory by directory, rows slab by slab: memory does not grow with the table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.audit import Books, Problem, Totals
from tidegate.core.coverage import FileReader
from tidegate.core.errors import LedgerError
from tidegate.core.slabs import UNBOUNDED, Slab
from tidegate.core.stranded import unpublishable
from tidegate.core.views import BatchPage, GenerationRow, LedgerReads, Spine, WindowPage
from tidegate.core.window import BUILDING, BUILT, CURRENT, SWAPPING
from tidegate.core.wording import many, those
from tidegate.workflow.audit_files import Files, Listing, Pace
from tidegate.workflow.audit_inside import Inside
from tidegate.workflow.audit_outside import Partitions, Produced, Topic
from tidegate.workflow.context import Context

TRIES = 3
MAX_PROBLEMS = 10_000


@dataclass(frozen=True)
class Depth:
    """What is looked at beyond the ledger and the files' lengths; `coordinates` of every row need `footers` too."""

    footers: bool = True
    coordinates: bool = True
    catalogue: bool = True
    broker: bool = True


@dataclass(frozen=True)
class Report:
    """`rows_in_files` and `coordinates` are None where they were not looked at, `notes` say why."""

    pipeline: str
    balanced: bool
    totals: Totals
    batches: dict[str, int]
    windows_published: int
    windows_waiting: int
    files: int
    bytes: int
    rows_in_files: int | None
    coordinates: int | None
    partitions_in_catalogue: int | None
    produced: Produced | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    seconds: float


def audit(ctx: Context, reads: LedgerReads, reader: FileReader, depth: Depth = Depth()) -> Report:
    """Look again, a few times, where something was wrong and the pipeline has moved meanwhile: files move between
    two looks, and only what stays wrong is. `reader` is closed at the end.

    Raises LedgerError, StorageError and whatever else keeps it from looking."""
    try:
        for tries_left in range(TRIES - 1, -1, -1):
            spine = reads.spine(ctx.name)
            if spine is None:
                raise LedgerError(
                    f"pipeline {ctx.name} is not in the ledger", advice="its first ingest run registers it"
                )
            report = _Audit(ctx, reads, spine, reader, depth).report()
            moved = _in_motion(spine) or reads.newest_event(ctx.name) != spine.newest_event
            if report.balanced or not tries_left or not moved:
                return report
            ctx.say("the pipeline is at work and has moved files meanwhile: looking again")
    finally:
        reader.close()
    raise AssertionError("unreachable")


def _in_motion(spine: Spine) -> bool:
    """Whether somebody moves files between two of the ledger's steps."""
    return spine.unmoved > 0 or any(g.state in (BUILDING, BUILT, SWAPPING) for g in spine.generations)


class _Audit:
    def __init__(self, ctx: Context, reads: LedgerReads, spine: Spine, reader: FileReader, depth: Depth) -> None:
        self._ctx, self._reads, self._spine, self._depth = ctx, reads, spine, depth
        self._notes: list[str] = []
        self._deep = False
        self._inside = self._look_inside(reader)
        self._books, self._files = Books(spine), Files(ctx, spine)
        self._partitions, self._topic = Partitions(ctx, spine), Topic(ctx, spine)
        self._problems: dict[Problem, None] = {}
        self._found = self._bytes = self._lost = 0
        self._published = {g.window_ms for g in spine.generations if g.state == CURRENT}
        self._pace = Pace(ctx.say)
        note = ctx.ledger.due.note(ctx.name)
        self._remembered = note.published if note is not None else ()

    def _look_inside(self, reader: FileReader) -> Inside | None:
        spec = self._ctx.pipeline
        if not self._depth.footers:
            return None
        if self._depth.coordinates and not spec.kafka_columns:
            self._notes.append("coordinates were not checked: the files have none (kafka_columns: false)")
        self._deep = self._depth.coordinates and spec.kafka_columns
        if spec.sink.format == "text" and not self._deep:
            self._notes.append("the files were not looked into: text has no footers, a deep audit counts the rows")
            return None
        return Inside(spec, reader, Pace(self._ctx.say), self._deep)

    def report(self) -> Report:
        started, say = time.monotonic(), self._ctx.say
        slabs = self._reads.slabs(self._ctx.name) if self._deep else [Slab(0, UNBOUNDED, 0)]
        for number, slab in enumerate(slabs, 1):
            if len(slabs) > 1:
                say(
                    f"slab {number} of {len(slabs)}: {many(slab.offsets, 'offset')}, "
                    f"batches from {max(1, slab.first)} on"
                )
            self._slab(slab, first=number == 1)
        self._note(self._books.sums())
        self._note(self._files.unknown_batches())
        landed, published = self._spine.states.get("LANDED", 0), self._books.published_windows
        say(f"ledger: {many(landed, 'landed batch')}, {many(published, 'published window')}")
        say(f"files: {self._found:,} in their places, {self._lost:,} not")
        if self._depth.catalogue:
            self._note(self._partitions.compare())
        if self._depth.broker:
            self._note(self._topic.compare())
        return self._report(time.monotonic() - started)

    def _report(self, seconds: float) -> Report:
        inside = self._inside
        notes = [*self._notes, *self._partitions.notes, *self._topic.notes]
        if inside is not None and inside.without_columns:
            notes.append(
                f"{those(inside.without_columns, 'file', 'have')} no Kafka columns: their coordinates were not checked"
            )
        if len(self._problems) >= MAX_PROBLEMS:
            notes.append(f"the first {MAX_PROBLEMS:,} problems are shown, there are more")
        return Report(
            self._ctx.name,
            not self._problems,
            self._books.totals(),
            dict(self._spine.states),
            self._books.published_windows,
            self._books.waiting_windows,
            self._found,
            self._bytes,
            inside.rows if inside is not None else None,
            inside.coordinates if inside is not None and self._deep else None,
            self._partitions.count,
            self._topic.produced,
            tuple(self._problems),
            tuple(notes),
            seconds,
        )

    def _note(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            if len(self._problems) < MAX_PROBLEMS:
                self._problems.setdefault(problem)

    # ------------------------------------------------------------ slab by slab

    def _slab(self, slab: Slab, first: bool) -> None:
        """The batches of the slab, then the windows that have rows of them; the ledger's windows with the first."""
        if self._inside is not None:
            self._inside.begin(slab)
        last = min(slab.last, self._spine.next_batch_id - 1)
        for page in self._reads.batch_pages(self._ctx.name, max(1, slab.first), last):
            self._page(page)
        for page in self._reads.window_pages(self._ctx.name):
            self._window(page, slab, first)
        if self._inside is not None:
            self._note(self._inside.end())

    def _page(self, page: BatchPage) -> None:
        batches = [self._books.as_of_then(b) for b in page.batches]
        landed = [b for b in batches if b.state == "LANDED"]
        if self._inside is not None:
            self._inside.expect(landed)
        for batch in batches:
            files = page.files.get(batch.batch_id, ())
            self._topic.planned(batch)
            self._note(self._books.batch(batch, files))
            if batch.state == "LANDED":
                self._pace.say(
                    lambda n=batch.batch_id: f"batches up to {n:,}, {many(self._found, 'file')} in their places"
                )
                self._partitions.expect_batch(batch, files)
                self._look(self._files.of_batch(batch, files))
                if batch.is_redrive and self._deep:
                    self._look(self._files.of_sources(batch), again=True)

    def _window(self, page: WindowPage, slab: Slab, first: bool) -> None:
        current = self._in_force(page)
        if first:
            self._note(self._books.window(page, current))
            self._note(unpublishable(self._ctx.name, self._ctx.pipeline.windows, self._spine, page, self._remembered))
            if current is not None and self._depth.catalogue:
                self._partitions.expect_window(current)
        placed = current
        if placed is None and self._files.placed(page.window_ms):
            placed = next((g for g in page.generations if g.number == 1), None)
        if placed is None:
            return
        low, high = min(placed.batches, default=0), max(placed.batches, default=0)
        home = low in slab
        if home or (self._deep and low < slab.first <= high):
            self._look(self._files.of_window(placed), again=not home)

    def _in_force(self, page: WindowPage) -> GenerationRow | None:
        """Of a window that was published when the audit began; by now it may be a newer generation."""
        current = next((g for g in page.generations if g.state == CURRENT), None)
        return current if page.window_ms in self._published else None

    def _look(self, listing: Listing, again: bool = False) -> None:
        if not again:
            self._found += len(listing.found)
            self._lost += len(listing.lost)
            self._bytes += sum(f.wanted.entry.bytes for f in listing.found)
            self._note(listing.problems)
        if self._inside is not None:
            self._note(self._inside.look(listing, again))
