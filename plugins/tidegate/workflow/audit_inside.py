"""What is inside the files: their footers, and every row's Kafka coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from tidegate.core.audit import Problem
from tidegate.core.coverage import Allowance, FileReader, Footer, Span, check_coverage, twin_of
from tidegate.core.offsets import Interval
from tidegate.core.pipeline import Pipeline
from tidegate.core.redriving import coordinates
from tidegate.core.slabs import Slab
from tidegate.core.tables import told_columns
from tidegate.core.views import BatchRow
from tidegate.core.wording import many
from tidegate.workflow.audit_files import Found, Listing, Pace, Wanted

CHUNK = 500
"""Files that are asked for at once."""


class Inside:
    """Looks into the files that were found, and counts what it saw; with `deep` slab by slab."""

    def __init__(self, pipeline: Pipeline, reader: FileReader, pace: Pace, deep: bool) -> None:
        self._told_columns = partial(told_columns, pipeline)
        self._reader, self._pace, self._deep = reader, pace, deep
        self._allowed = Allowance()
        self.files = self.rows = self.coordinates = self.without_columns = 0

    def begin(self, slab: Slab) -> None:
        if self._deep:
            self._allowed = Allowance()
            self._reader.begin(slab)

    def expect(self, batches: Sequence[BatchRow]) -> None:
        """What these landed batches of the slab have read."""
        if not self._deep:
            return
        spans = []
        for batch in batches:
            for row in sorted(batch.ranges, key=lambda r: r.range.partition):
                r, balance = row.range, row.balance
                if batch.is_redrive:
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
        """`again`: these files were looked into with an earlier slab, whose rows are not this one's."""
        for wanted in listing.lost:
            self._absent(wanted)
        for at in range(0, len(listing.found), CHUNK):
            found = listing.found[at : at + CHUNK]
            for one, footer in zip(found, self._footers(found), strict=True):
                problems = list(self._check(one, footer))
                if not again:
                    self.files += 1
                    self.rows += footer.rows
                    yield from problems
                self._pace.say(lambda: f"read {many(self.files, 'file')}, {many(self.rows, 'row')}")

    def end(self) -> Iterator[Problem]:
        if self._deep:
            found = self._reader.end()
            self.coordinates += found.rows
            yield from check_coverage(found, self._allowed)

    def _footers(self, found: Sequence[Found]) -> Iterable[Footer]:
        if self._deep:
            columns = self._told_columns
            return self._reader.coordinates([(f.uri, f.wanted.batch_id, columns(f.wanted.entry.kind)) for f in found])
        return self._reader.footers([f.uri for f in found])

    def _check(self, found: Found, footer: Footer) -> Iterator[Problem]:
        yield from _footer_problems(found, footer)
        if footer.error:
            self._absent(found.wanted)
        elif self._deep and footer.coordinates is None:
            self.without_columns += 1
            self._absent(found.wanted)

    def _absent(self, wanted: Wanted) -> None:
        for p in wanted.entry.partitions:
            if wanted.batch_id is not None:
                self._allowed.spans[wanted.batch_id, p.partition] += p.rows
            else:
                self._allowed.anywhere[p.partition] += p.rows


def _within(gap: Interval, start: int, end: int) -> Interval:
    low = min(max(gap.start, start), end)
    return Interval(low, max(low, min(gap.end, end)))


def _footer_problems(found: Found, footer: Footer) -> Iterator[Problem]:
    wanted, entry = found.wanted, found.wanted.entry
    if footer.error:
        yield Problem(wanted.subject, f"{found.uri} cannot be read: {footer.error}", wanted.advice)
        return
    told = {p.partition: (p.rows, p.min_offset, p.max_offset) for p in entry.partitions}
    for what, has, due in (
        ("rows", footer.rows, entry.rows),
        ("kind", footer.kind, entry.kind),
        ("rows by Kafka partition", dict(footer.partitions), told),
        ("checksum", footer.checksum, entry.checksum),
    ):
        if has is not None and has != due:
            words = f"{found.uri} is another file than the manifest's: {what} {has}, should be {due}"
            yield Problem(wanted.subject, words, wanted.advice)
            break
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
