"""What is inside the files: their footers, every row's Kafka coordinates, and the checksum over all that rows hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from tidegate.core.audit.coverage import Allowance, FileReader, Footer, RowsSought, Span, check_coverage, twin_of
from tidegate.core.audit.problems import Problem
from tidegate.core.audit.scope import Part
from tidegate.core.base.offsets import Interval
from tidegate.core.base.slabs import SCATTERED, Slab
from tidegate.core.dirty.redrive import coordinates
from tidegate.core.files.receipt import DATA, LATE, ROW_IDENTITY, identity_of
from tidegate.core.look.views import BatchRow
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.tables import told_columns
from tidegate.workflow.audit.files import Found, Listing, Wanted
from tidegate.workflow.base.pace import Meter

CHUNK = 500
"""Files that are asked for at once."""


class Inside:
    """Looks into the files that were found, and counts what it saw.

    `rows`: every row is read; `spans`: their coordinates are compared with what batches have read, slab by slab."""

    def __init__(
        self, pipeline: Pipeline, reader: FileReader, meter: Meter, part: Part, *, rows: bool, spans: bool
    ) -> None:
        self._told_columns = partial(told_columns, pipeline)
        self._dynamic = pipeline.dynamic_partitions
        self._reader, self._meter, self._part, self._rows, self._spans = reader, meter, part, rows, spans
        self._allowed = Allowance()
        self.files = self.rows = self.coordinates = self.without_columns = self.opaque = self.unknown_identity = 0

    def begin(self, slab: Slab) -> None:
        if self._spans:
            self._allowed = Allowance()
            self._reader.begin(slab)

    def expect(self, batches: Sequence[BatchRow]) -> None:
        """What these landed batches of the slab have read."""
        if not self._spans:
            return
        spans = []
        for batch in batches:
            for row in sorted(batch.ranges, key=lambda r: r.range.partition):
                r, balance = row.range, row.balance
                if not batch.is_redrive and _is_sparse(r.count, row.gaps):
                    spans += [Span(batch.batch_id, r.partition, i.start, i.end) for i in coordinates(r, row.gaps)]
                elif batch.is_redrive:
                    mine = coordinates(r, row.gaps)
                    for owner in (batch.batch_id, twin_of(batch.batch_id)):
                        spans += [Span(owner, r.partition, i.start, i.end) for i in mine]
                else:
                    gaps = tuple(g for g in (_within(g, r.start, r.end) for g in row.gaps) if len(g))
                    spans.append(Span(batch.batch_id, r.partition, r.start, r.end, gaps))
                if balance is not None and balance.filtered + balance.dropped:
                    self._allowed.spans[batch.batch_id, r.partition] += balance.filtered + balance.dropped
        self._reader.expect(spans)

    def look(self, listing: Listing, again: bool = False) -> Iterator[Problem]:
        """`again`: these files were looked into before; their rows are compared with other spans now."""
        for wanted in listing.lost:
            self._absent(wanted)
        drawn = [f for f in listing.found if self._part.draws(f.wanted.subject, f.wanted.entry.path)]
        for apart in (False, True):
            files = [f for f in drawn if (f.wanted.apart or f.wanted.again) is apart and not (apart and again)]
            for at in range(0, len(files), CHUNK):
                found = files[at : at + CHUNK]
                for one, footer in zip(found, self._footers(found, apart, again), strict=True):
                    problems = list(self._check(one, footer))
                    if not again:
                        self._count(one, footer)
                        yield from problems

    def _count(self, one: Found, footer: Footer) -> None:
        self.files += 1
        self.rows += 0 if one.wanted.apart else footer.rows
        self.opaque += footer.opaque
        if not self._spans and footer.coordinates is not None and not one.wanted.apart:
            self.coordinates += footer.rows
        self._meter.read(one.wanted.entry.bytes, footer.rows)

    def end(self) -> Iterator[Problem]:
        if self._spans:
            found = self._reader.end()
            self.coordinates += found.rows
            yield from check_coverage(found, self._allowed)

    def _footers(self, found: Sequence[Found], apart: bool, again: bool) -> Iterable[Footer]:
        if not self._rows:
            return self._reader.footers([f.uri for f in found])
        return self._reader.coordinates([self._sought(f, content=not again) for f in found], apart=apart)

    def _sought(self, found: Found, *, content: bool) -> RowsSought:
        wanted = found.wanted
        columns = self._told_columns(wanted.entry.kind)
        dynamic = self._dynamic if wanted.entry.kind == LATE else ()
        known = identity_of(wanted.entry.checksum) == ROW_IDENTITY
        self.unknown_identity += content and not known
        return RowsSought(found.uri, wanted.batch_id, columns, wanted.entry if content and known else None, dynamic)

    def _check(self, found: Found, footer: Footer) -> Iterator[Problem]:
        yield from _footer_problems(found, footer)
        if footer.error:
            self._absent(found.wanted)
        elif self._rows and footer.coordinates is None:
            self.without_columns += 1
            self._absent(found.wanted)

    def _absent(self, wanted: Wanted) -> None:
        """Some of its rows may have been read all the same: up to so many may be missing."""
        for p in wanted.entry.partitions if not (wanted.apart or wanted.again) else ():
            if wanted.batch_id is not None:
                self._allowed.unread[wanted.batch_id, p.partition] += p.rows
            else:
                self._allowed.anywhere[p.partition] += p.rows


def _is_sparse(offsets: int, gaps: Sequence[Interval]) -> bool:
    """Whether a bit for each row, and a span for each run of them, is far less than a bit for each offset."""
    return len(gaps) * SCATTERED < offsets and sum(map(len, gaps)) > offsets - offsets // 8


def _within(gap: Interval, start: int, end: int) -> Interval:
    low = min(max(gap.start, start), end)
    return Interval(low, max(low, min(gap.end, end)))


def _as_long(wanted: Wanted) -> str:
    """The advice for a damaged file that has its length: tasks look at lengths, and take it for whole."""
    if wanted.entry.kind != DATA or wanted.by_backup:
        return wanted.advice
    return f"move the file away, since tasks take it for whole by its length; then {wanted.advice}"


def _footer_problems(found: Found, footer: Footer) -> Iterator[Problem]:
    wanted, entry = found.wanted, found.wanted.entry
    if footer.error:
        yield Problem(wanted.subject, f"{found.uri} cannot be read: {footer.error}", _as_long(wanted))
        return
    told = {p.partition: (p.rows, p.min_offset, p.max_offset) for p in entry.partitions}
    by_partition = None if footer.partitions is None else dict(footer.partitions)
    for what, has, due in (
        ("rows", footer.rows, entry.rows),
        ("kind", footer.kind, entry.kind),
        ("rows by Kafka partition", by_partition, told),
        ("checksum", footer.checksum, entry.checksum),
    ):
        if has is not None and has != due:
            words = f"{found.uri} is another file than the manifest's: {what} {has}, should be {due}"
            yield Problem(wanted.subject, words, _as_long(wanted))
            break
    else:
        if footer.content is not None and footer.content != entry.checksum:
            words = f"{found.uri}: its rows are not those that were written: their checksum is {footer.content}"
            yield Problem(wanted.subject, f"{words}, should be {entry.checksum}", _as_long(wanted))
    span = wanted.batches
    if (
        footer.batches is not None
        and span is not None
        and not (span[0] <= footer.batches[0] <= footer.batches[1] <= span[1])
    ):
        # rows of other slabs are looked at with those, but only in the files of their windows
        what = f"{found.uri} has rows of batches {list(footer.batches)}, its generation is of {list(span)}"
        yield Problem(wanted.subject, what, wanted.advice)
    if footer.coordinates is not None and dict(footer.coordinates) != told:
        rows = dict(footer.coordinates)
        what = f"{found.uri} has rows {rows} by Kafka partition (rows, first, last offset), the manifest says {told}"
        yield Problem(wanted.subject, what, wanted.advice)
