"""Prove that every record is where the ledger says, exactly once: gather, decide, report. Changes nothing.

The ledger comes page by page, files directory by directory, rows slab by slab: memory does not grow with the table.

The pipeline goes on meanwhile, and files move between two looks. So what was found is looked for again, with the ledger
read anew, and is only reported if it is found again and the ledger says the same of it at both ends (R10).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from tidegate.core.audit.coverage import FileReader
from tidegate.core.audit.delivered import delivered, of_batches
from tidegate.core.audit.problems import Books, Problem, Totals
from tidegate.core.audit.scope import ALL, Again, Part, is_still, key, stands
from tidegate.core.audit.stranded import unpublishable
from tidegate.core.base.errors import LedgerError
from tidegate.core.base.slabs import UNBOUNDED, Slab
from tidegate.core.base.wording import many, those
from tidegate.core.batch.states import LANDED, BatchState
from tidegate.core.files.receipt import FileEntry
from tidegate.core.look.port import LedgerReads
from tidegate.core.look.views import BatchPage, BatchRow, GenerationRow, Spine, Weight, WindowPage
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.comparison import Recomputed
from tidegate.core.window.states import CURRENT
from tidegate.workflow.audit import day_rows, keyed
from tidegate.workflow.audit.days import Days
from tidegate.workflow.audit.files import Files, Listing
from tidegate.workflow.audit.inside import Inside
from tidegate.workflow.audit.keyed import TableReader
from tidegate.workflow.audit.outside import Partitions, Produced, Topic
from tidegate.workflow.audit.records import Records
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.pace import Meter, Pace

LOOKS = 8
"""How often what was found is looked for again, while the pipeline moves it."""
PAUSE_S = 0.5
"""From the third time on, and twice as long each time: a window's next step may take some seconds."""
MAX_PROBLEMS = 10_000
FOOTERS_PER_S, BYTES_PER_S = 200, 25_000_000
"""What to expect before anything is measured: footers on a disk, rows of Parquet files on one core."""


@dataclass(frozen=True)
class Depth:
    """What is looked at beyond the ledger and the files' lengths; every row (`coordinates`) needs `footers` too.
    `part`: of which files."""

    footers: bool = True
    coordinates: bool = True
    catalogue: bool = True
    broker: bool = True
    part: Part = ALL


@dataclass(frozen=True, kw_only=True)
class Report:
    """`rows_in_files` and `coordinates` are None where they were not looked at, `notes` say why. `unsettled`: findings
    that the pipeline moved at each look. `part` is None if all files were looked at.

    `keyed`: of a mirror, what its table says of itself; `recomputed`: what it was compared with, batch by batch."""

    pipeline: str
    balanced: bool
    totals: Totals
    batches: dict[BatchState, int]
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
    files_read: int = 0
    unsettled: tuple[Problem, ...] = ()
    part: Part | None = None
    keyed: Told | None = None
    recomputed: Recomputed | None = None


def audit(
    ctx: Context,
    reads: LedgerReads,
    reader: FileReader,
    depth: Depth = Depth(),
    seen: Callable[[], None] | None = None,
    tables: TableReader | None = None,
) -> Report:
    """`reader` and `tables`, which makes a keyed table anew, are closed; `seen` is told of each file it looked into.

    Raises LedgerError, StorageError and whatever else keeps it from looking."""
    with closing(reader), nullcontext() if tables is None else closing(tables):
        report = _Rounds(ctx, reads, reader, depth, seen).report()
        return _recomputed(ctx, reads, tables, depth, report) if tables is not None and depth.coordinates else report


def _recomputed(ctx: Context, reads: LedgerReads, tables: TableReader, depth: Depth, report: Report) -> Report:
    known = not report.balanced
    if ctx.keyed is None:
        found = day_rows.recompute(ctx, reads, tables, depth.part, known)
    else:
        found = keyed.recompute(ctx, tables, depth.part, known) if depth.catalogue else keyed.Found()
    return replace(
        report,
        balanced=report.balanced and not found.problems and not found.unsettled,
        problems=(*report.problems, *found.problems),
        unsettled=(*report.unsettled, *found.unsettled),
        notes=(*report.notes, *found.notes),
        recomputed=found.sums,
    )


def ahead(ctx: Context, reads: LedgerReads, depth: Depth) -> tuple[Weight, float]:
    """What will be looked into, and in about how many seconds; raises LedgerError."""
    found = reads.weight(ctx.name, depth.part.within)
    share = depth.part.share
    due = Weight(*(round(n * share) for n in (found.files, found.bytes, found.rows)))
    return due, due.files / FOOTERS_PER_S + (due.bytes / BYTES_PER_S if depth.coordinates else 0)


def _spine(ctx: Context, reads: LedgerReads) -> Spine:
    spine = reads.spine(ctx.name)
    if spine is None:
        raise LedgerError(f"pipeline {ctx.name} is not in the ledger", advice="its first ingest run registers it")
    return spine


class _Rounds:
    """One look at everything, then as many at what was found as it takes to tell what stands."""

    def __init__(
        self, ctx: Context, reads: LedgerReads, reader: FileReader, depth: Depth, seen: Callable[[], None] | None
    ) -> None:
        self._ctx, self._reads, self._reader, self._depth, self._seen = ctx, reads, reader, depth, seen
        self._standing: dict[tuple[str, str], Problem] = {}

    def report(self) -> Report:
        started = time.monotonic()
        before = _spine(self._ctx, self._reads)
        first = last = self._look(before, None)
        left, after = first.problems, _spine(self._ctx, self._reads)
        if left and is_still(before, after):
            self._keep(left)
            left = ()
        for number in range(LOOKS):
            if not left:
                break
            if number > 1:
                time.sleep(PAUSE_S * 2 ** (number - 2))
            self._ctx.say(f"the pipeline is at work: looking again at {many(len(left), 'finding')}")
            spine = after
            again = self._look(spine, Again.of(left, last.rows_differ))
            after = _spine(self._ctx, self._reads)
            new = [p for p in again.problems if key(p) not in self._standing]
            known = {key(p) for p in left}
            if is_still(spine, after):
                stay = new
            else:
                stay = [p for p in new if key(p) in known and stands(p, before, after, last.batches, again.batches)]
            self._keep(stay)
            left = tuple(p for p in new if key(p) not in self._standing)
            before, last = spine, again
        return self._report(first, last, left, time.monotonic() - started)

    def _keep(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self._standing.setdefault(key(problem), problem)

    def _look(self, spine: Spine, again: Again | None) -> _Look:
        look = _Look(
            ctx=self._ctx,
            reads=self._reads,
            spine=spine,
            reader=self._reader,
            depth=self._depth,
            again=again,
            seen=self._seen,
        )
        look.carry_out()
        return look

    def _report(self, first: _Look, last: _Look, unsettled: tuple[Problem, ...], seconds: float) -> Report:
        """Sums are of the newest look, what was read is of the first, which looked at all of it."""
        inside, part = first.inside, self._depth.part
        problems = tuple(self._standing.values())[:MAX_PROBLEMS]
        return Report(
            pipeline=self._ctx.name,
            balanced=not problems and not unsettled,
            totals=last.books.totals(),
            batches=dict(last.spine.states),
            windows_published=last.books.published_windows,
            windows_waiting=last.books.waiting_windows,
            files=first.found,
            bytes=first.bytes,
            rows_in_files=inside.rows if inside is not None else None,
            coordinates=inside.coordinates if inside is not None and first.located else None,
            partitions_in_catalogue=last.partitions.count,
            produced=last.topic.produced,
            problems=problems,
            notes=tuple(
                [
                    *part.notes(),
                    *first.notes,
                    *last.partitions.notes,
                    *last.topic.notes,
                    *self._of_these(first, problems),
                ]
            ),
            seconds=seconds,
            files_read=inside.files if inside is not None else 0,
            unsettled=unsettled,
            part=None if part.is_all else part,
            keyed=last.partitions.keyed,
        )

    def _of_these(self, first: _Look, problems: tuple[Problem, ...]) -> Iterable[str]:
        inside = first.inside
        if inside is not None and inside.without_columns:
            without = those(inside.without_columns, "file", "have")
            yield f"{without} no Kafka columns: their coordinates were not checked"
        if inside is not None and inside.opaque:
            what = f"{those(inside.opaque, 'file', 'have')} times that only other readers can read"
            yield f"{what}: the checksum of their rows was not computed again"
        if inside is not None and inside.unknown_identity:
            what = f"{those(inside.unknown_identity, 'file', 'were')} written by a newer release, which hashes rows"
            yield f"{what} otherwise: the checksum of their rows was not computed again; audit with that release"
        if len(problems) >= MAX_PROBLEMS:
            yield f"the first {MAX_PROBLEMS:,} problems are shown, there are more"


@dataclass(kw_only=True)
class _Look:
    """At everything, or `again` at what was found: the ledger as a whole, and of the files those that matter."""

    ctx: Context
    reads: LedgerReads
    spine: Spine
    reader: FileReader
    depth: Depth
    again: Again | None
    seen: Callable[[], None] | None
    found: int = 0
    bytes: int = 0
    rows_differ: bool = False
    notes: list[str] = field(default_factory=list)
    batches: dict[int, BatchRow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ctx, spine, depth, again = self.ctx, self.spine, self.depth, self.again
        spec, whole = ctx.pipeline, depth.part.is_all
        self.deep = depth.footers and depth.coordinates
        self.located = self.deep and spec.kafka_columns
        self._spans = self.located and whole and (again is None or again.rows)
        self.inside = self._look_inside()
        self.books = Books(spine, spec.windows)
        self.partitions = Partitions(ctx, spine, lambda: self.reads.spine(ctx.name))
        self.topic, self._files = Topic(ctx, spine), Files(ctx, spine, depth.part)
        self._records, self._days = Records(ctx, spine, self.deep), Days(ctx)
        self._problems: dict[Problem, None] = {}
        self._lost = 0
        self._published = {g.window_ms: g for g in spine.generations if g.state == CURRENT}
        self._pace = Pace(ctx.say)
        note = ctx.ledger.due.note(ctx.name)
        self._remembered = note.published if note is not None else ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._problems)

    def _look_inside(self) -> Inside | None:
        spec, depth, first = self.ctx.pipeline, self.depth, self.again is None
        if not depth.footers:
            return None
        if self.deep and not spec.kafka_columns:
            self.notes.append("coordinates were not checked: the files have none (kafka_columns: false)")
        if spec.sink.format == "text" and not self.deep:
            self.notes.append("the files were not looked into: text has no footers, a deep audit counts the rows")
            return None
        due = ahead(self.ctx, self.reads, depth)[0] if first else Weight()
        meter = Meter(self.ctx.say, due, seen=self.seen if first else None)
        return Inside(spec, self.reader, meter, depth.part, rows=self.deep, spans=self._spans)

    def carry_out(self) -> None:
        say = self.ctx.say
        slabs = self.reads.slabs(self.ctx.name) if self._spans else [Slab(0, UNBOUNDED, 0)]
        for number, slab in enumerate(slabs, 1):
            if len(slabs) > 1:
                say(
                    f"slab {number} of {len(slabs)}: {many(slab.offsets, 'offset')}, "
                    f"batches from {max(1, slab.first)} on"
                )
            self._slab(slab, first=number == 1)
        self._note(self.books.sums())
        self._note(delivered(self.spine.deliveries, self.spine.generations))
        self._note(of_batches(self.spine.deliveries, self.spine.versions))
        self._note(self._files.unknown_batches())
        self.notes += self._days.notes()
        if self.again is None:
            landed, published = self.spine.states.get(LANDED, 0), self.books.published_windows
            say(f"ledger: {many(landed, 'landed batch')}, {many(published, 'published window')}")
            say(f"files: {self.found:,} in their places, {self._lost:,} not")
        if self.depth.catalogue:
            self._note(self.partitions.compare())
        if self.depth.broker:
            self._note(self.topic.compare())

    def _note(self, problems: Iterable[Problem], batch: BatchRow | None = None) -> None:
        for problem in problems:
            if batch is not None:
                self.batches[batch.batch_id] = batch
            if len(self._problems) < MAX_PROBLEMS:
                self._problems.setdefault(problem)

    # ------------------------------------------------------------ slab by slab

    def _slab(self, slab: Slab, first: bool) -> None:
        """The batches of the slab, then the windows that have rows of them; the ledger's windows with the first."""
        if self.inside is not None:
            self.inside.begin(slab)
        last = min(slab.last, self.spine.next_batch_id - 1)
        for page in self.reads.batch_pages(self.ctx.name, max(1, slab.first), last, plans=self.deep):
            self._page(page)
        for window in self.reads.window_pages(self.ctx.name):
            self._window(window, slab, first)
        if self.inside is not None:
            wrong = list(self.inside.end())
            self.rows_differ |= bool(wrong)
            self._note(wrong)

    def _page(self, page: BatchPage) -> None:
        batches = [self.books.as_of_then(b) for b in page.batches]
        if self.inside is not None:
            replaced = {i for first in self._files.reread.values() for i in first}
            self.inside.expect([b for b in batches if b.state == LANDED and b.batch_id not in replaced])
        for batch in batches:
            files = page.files.get(batch.batch_id, ())
            self.topic.planned(batch)
            self._note(self.books.batch(batch, files), batch)
            if self.again is None or batch.batch_id in self.again.batches:
                self._note(self._records.of_batch(batch, page.plans), batch)
            if batch.state == LANDED:
                self.partitions.expect_batch(batch, files)
                self._pace.say(partial(self._so_far, batch.batch_id))
                self._batch_files(batch, files)

    def _so_far(self, batch_id: int) -> str:
        return f"batches up to {batch_id:,}, {many(self.found, 'file')} in their places"

    def _batch_files(self, batch: BatchRow, files: Iterable[FileEntry]) -> None:
        wanted = self.again is None or batch.batch_id in self.again.batches
        if wanted or self._spans:
            self._look(self._files.of_batch(batch, files), again=not wanted, batch=batch)
        if batch.is_redrive and self._spans:
            self._look(self._files.of_sources(batch), again=True)

    def _window(self, page: WindowPage, slab: Slab, first: bool) -> None:
        current = self._in_force(page)
        if first:
            self._note(self.books.window(page, current))
            self._note(unpublishable(self.ctx.name, self.ctx.pipeline.windows, self.spine, page, self._remembered))
            if current is not None and (self.again is None or page.window_ms in self.again.windows):
                self._note(self._records.of_window(current))
            if current is not None and self.depth.catalogue:
                self.partitions.expect_window(current)
        placed = current
        if placed is None and self._files.placed(page.window_ms):
            placed = next((g for g in page.generations if g.number == 1), None)
        if placed is None or not self.depth.part.holds(page.window_ms):
            return
        low, high = min(placed.batches, default=0), max(placed.batches, default=0)
        home = low in slab and (self.again is None or page.window_ms in self.again.windows)
        if home and current is not None:
            self._note(self._days.of_window(current))
        if home or (self._spans and low <= slab.last and slab.first <= high):
            self._look(self._files.of_window(placed), again=not home)

    def _in_force(self, page: WindowPage) -> GenerationRow | None:
        """The generation in force of a window that was published when the look began; by now it may be a newer one."""
        current = next((g for g in page.generations if g.state == CURRENT), None)
        return current if page.window_ms in self._published else None

    def _look(self, listing: Listing, again: bool = False, batch: BatchRow | None = None) -> None:
        if not again:
            self.found += len(listing.found)
            self._lost += len(listing.lost)
            self.bytes += sum(f.wanted.entry.bytes for f in listing.found)
            self._note(listing.problems, batch)
        if self.inside is not None:
            self._note(self.inside.look(listing, again), batch)
