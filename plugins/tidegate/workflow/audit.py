"""Prove that every record is where the ledger says, exactly once: gather, decide, report. Changes nothing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegate.core import audit as rules
from tidegate.core.audit import Ledger, Problem, Totals, republish
from tidegate.core.coverage import Footer, check_coverage
from tidegate.core.errors import CatalogueError, LedgerError, TidegateError
from tidegate.core.layout import PartitionValues, join, parse_partition_path, partition_path, window_id
from tidegate.core.receipt import DIRTY, LATE
from tidegate.core.tables import data_table, dirty_table, late_table
from tidegate.core.views import Books, LedgerReads
from tidegate.core.window import BUILDING, BUILT, SWAPPING, WindowKey
from tidegate.workflow.audit_files import Files, Found, Listing, Pace
from tidegate.workflow.context import Context
from tidegate.workflow.publication import wanted_partitions, window_values

FooterReader = Callable[[Sequence[str], bool], Iterable[Footer]]
"""(URIs, whether to read coordinates too) -> a Footer for each. Raises TidegateError when it cannot work at all."""

TRIES = 3


@dataclass(frozen=True)
class Depth:
    """What is looked at beyond the ledger and the files' lengths."""

    footers: bool = True
    coordinates: bool = True
    catalogue: bool = True
    broker: bool = True


@dataclass(frozen=True)
class Produced:
    """Offsets of the topic as the broker has them now, against the newest plan."""

    offsets: int
    not_planned: int
    passed_by_retention: int


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


def audit(ctx: Context, reads: LedgerReads, footers: FooterReader, depth: Depth = Depth()) -> Report:
    """Look again, a few times, where something was wrong and the pipeline has moved meanwhile: files move between
    two looks, and only what stays wrong is.

    Raises LedgerError, StorageError and whatever else keeps it from looking."""
    for tries_left in range(TRIES - 1, -1, -1):
        books = reads.books(ctx.name)
        if books is None:
            raise LedgerError(f"pipeline {ctx.name} is not in the ledger", advice="its first ingest run registers it")
        report = _Audit(ctx, Ledger(books), footers, depth).report()
        moved = _in_motion(books) or reads.newest_event(ctx.name) != books.newest_event
        if report.balanced or not tries_left or not moved:
            return report
        ctx.say("the pipeline is at work and has moved files meanwhile: looking again")
    raise AssertionError("unreachable")


def _in_motion(books: Books) -> bool:
    """Whether somebody moves files between two of the ledger's steps."""
    return any(g.state in (BUILDING, BUILT, SWAPPING) for g in books.generations) or any(
        b.state == "LANDED" and not b.side_moved for b in books.batches
    )


class _Audit:
    def __init__(self, ctx: Context, ledger: Ledger, footers: FooterReader, depth: Depth) -> None:
        self._ctx, self._ledger, self._footers, self._depth = ctx, ledger, footers, depth
        self._notes: list[str] = []

    def report(self) -> Report:
        started = time.monotonic()
        ledger, say = self._ledger, self._ctx.say
        books, totals = ledger.books, rules.totals(ledger)
        say(f"ledger: {len(ledger.landed):,} landed batches, {len(ledger.current):,} published windows")
        problems = [*rules.holds(totals), *rules.check_ledger(ledger)]
        listing = Files(self._ctx, ledger).look()
        say(f"files: {len(listing.found):,} in their places, {len(listing.lost):,} not")
        problems += listing.problems
        rows, coordinates = None, None
        if self._depth.footers:
            rows, coordinates = self._look_inside(listing, problems)
        partitions = self._catalogue(problems) if self._depth.catalogue else None
        produced = self._broker(problems) if self._depth.broker else None
        batches: dict[str, int] = defaultdict(int)
        for b in books.batches:
            batches[b.state] += 1
        unique = tuple(rules.by_subject(problems))
        return Report(
            self._ctx.name,
            not unique,
            totals,
            dict(batches),
            len(ledger.current),
            len(set(ledger.owed) - set(ledger.current)),
            len(listing.found),
            sum(f.wanted.entry.bytes for f in listing.found),
            rows,
            coordinates,
            partitions,
            produced,
            unique,
            tuple(self._notes),
            time.monotonic() - started,
        )

    # ------------------------------------------------------------ inside the files

    def _look_inside(self, listing: Listing, problems: list[Problem]) -> tuple[int | None, int | None]:
        """(rows in the footers, coordinates read); each None where it was not looked at."""
        if self._ctx.pipeline.sink.format != "parquet":
            self._notes.append(f"footers were not read: sink.format is {self._ctx.pipeline.sink.format}")
            return None, None
        deep = self._depth.coordinates and self._ctx.pipeline.kafka_columns
        if self._depth.coordinates and not deep:
            self._notes.append("coordinates were not checked: the files have none (kafka_columns: false)")
        by_uri = {f.uri: f for f in listing.found}
        read: list[Footer] = []
        absent: dict[int, int] = defaultdict(int)
        for wanted in listing.lost:
            for p in wanted.entry.partitions:
                absent[p.partition] += p.rows
        pace = Pace(self._ctx.say)
        for footer in self._footers(sorted(by_uri), deep) if by_uri else ():
            found = by_uri[footer.path]
            read.append(footer)
            problems += _footer_problems(found, footer, deep)
            if footer.error:
                for p in found.wanted.entry.partitions:
                    absent[p.partition] += p.rows
            pace.say(lambda: f"read {len(read):,} of {len(by_uri):,} files")
        unread = sorted(set(by_uri) - {f.path for f in read})
        for uri in unread[:5]:
            problems.append(Problem(by_uri[uri].wanted.subject, f"{uri} was not read", "run the audit again"))
        if deep:
            problems += check_coverage(self._ledger, read, absent)
        coordinates = sum(len(i) for f in read for many in (f.intervals or {}).values() for i in many)
        return sum(f.rows for f in read), coordinates if deep else None

    # ------------------------------------------------------------ the catalogue

    def _catalogue(self, problems: list[Problem]) -> int | None:
        """Partitions of the three tables; None when the endpoint does not answer."""
        count = 0
        spec = self._ctx.pipeline
        for window_ms in sorted(self._moving()):
            self._notes.append(f"window {window_id(window_ms)} is being swapped: its partitions were not compared")
        for table, expected in (
            (data_table(spec).name, self._expected_data()),
            (late_table(spec).name, self._expected_side(LATE)),
            (dirty_table(spec).name, self._expected_side(DIRTY)),
        ):
            if not expected:
                continue  # the table may not have been created yet
            self._ctx.say(f"catalogue: {len(expected):,} partitions of {table}")
            try:
                have = self._ctx.catalogue.partitions(table)
            except TidegateError as e:
                if not isinstance(e, CatalogueError) or not self._endpoint_answers():
                    self._notes.append(f"the catalogue was not checked: {str(e).splitlines()[0]}")
                    return None
                problems.append(Problem("catalogue", f"{table}: {str(e).splitlines()[0]}", "mend or create the table"))
                continue
            problems += self._partition_problems(table, expected, have)
            count += len(have)
        return count

    def _endpoint_answers(self) -> bool:
        try:
            self._ctx.catalogue.execute("SHOW DATABASES")
        except TidegateError:
            return False
        return True

    def _expected_data(self) -> dict[PartitionValues, tuple[str, str, str]]:
        """Values -> (location, subject, advice)."""
        expected = {}
        for window_ms, g in self._ledger.current.items():
            key = WindowKey(window_ms, window_ms)
            about = (f"window {window_id(window_ms)}", republish(self._ctx.name, window_ms))
            for values, place in wanted_partitions(self._ctx, key, g.files, g.location or "").items():
                expected[values] = (place, *about)
        return expected

    def _expected_side(self, kind: str) -> dict[PartitionValues, tuple[str, str, str]]:
        expected: dict[PartitionValues, tuple[str, str, str]] = {}
        for batch in self._ledger.landed.values():
            if not batch.side_registered:
                continue
            directory = self._ctx.layout.side(batch.batch_id, kind)
            about = (f"batch {batch.batch_id}", "add the partition again: ALTER TABLE ... ADD PARTITION ... LOCATION")
            for f in self._ledger.files(batch.batch_id):
                if f.kind != kind:
                    continue
                folder = f.path.removeprefix(f"{kind}/").rpartition("/")[0]
                place = join(directory, folder) if folder else directory
                expected[(("_batch", str(batch.batch_id)), *parse_partition_path(folder))] = (place, *about)
        return expected

    def _partition_problems(
        self, table: str, expected: dict[PartitionValues, tuple[str, str, str]], have: dict[PartitionValues, str]
    ) -> Iterator[Problem]:
        moving = [window_values(self._ctx, WindowKey(w, w)) for w in self._moving()]

        def settled(values: PartitionValues) -> bool:
            return not any(values[: len(m)] == m for m in moving)

        for values, (place, subject, advice) in expected.items():
            name = f"{table} partition {partition_path(values)}"
            if values not in have and settled(values):
                yield Problem(subject, f"{name} is not in the catalogue", advice)
            elif values in have and have[values] != place and settled(values):
                yield Problem(subject, f"{name} is at {have[values]}, should be at {place}", advice)
        for values in sorted(set(have) - set(expected), key=partition_path):
            if settled(values):
                name = f"{table} partition {partition_path(values)}"
                yield Problem("catalogue", f"{name} belongs to no manifest ({have[values]})", "find out who added it")

    def _moving(self) -> set[int]:
        """Windows whose partitions are on their way from one generation to the next."""
        return {g.window_ms for g in self._ledger.books.generations if g.state == SWAPPING}

    # ------------------------------------------------------------ the broker

    def _broker(self, problems: list[Problem]) -> Produced | None:
        topic = self._ctx.pipeline.source.topic
        try:
            state = self._ctx.source.describe(topic)
        except TidegateError as e:
            self._notes.append(f"the broker was not asked: {str(e).splitlines()[0]}")
            return None
        books = self._ledger.books
        if books.topic_id is not None and state.topic_id != books.topic_id:
            self._notes.append(f"topic {topic} was recreated ({state.topic_id}); nothing of the new one was read yet")
            return None
        mine = [b for b in books.batches if b.topic_id == state.topic_id]
        ends = mine[-1].ends if mine else {}
        firsts: dict[int, int] = {}
        for b in mine:
            starts = {r.range.partition: r.range.start for r in b.ranges}
            for p, end in b.ends.items():
                firsts.setdefault(p, starts.get(p, end))
        for p, end in sorted(ends.items()):
            if p in state.partitions and end > state.partitions[p].high_watermark:
                problems.append(
                    Problem(
                        f"partition {p}",
                        f"read to offset {end}, but the topic ends at {state.partitions[p].high_watermark}",
                        "the topic lost its newest records: compare with the producers",
                    )
                )
        high = {p: o.high_watermark for p, o in state.partitions.items()}
        return Produced(
            sum(h - firsts.get(p, state.partitions[p].log_start) for p, h in high.items()),
            sum(max(0, h - ends.get(p, state.partitions[p].log_start)) for p, h in high.items()),
            sum(max(0, o.log_start - ends.get(p, o.log_start)) for p, o in state.partitions.items()),
        )


def _footer_problems(found: Found, footer: Footer, deep: bool) -> Iterator[Problem]:
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
        if has != due:
            words = f"{found.uri} is another file than the manifest's: {what} {has}, should be {due}"
            yield Problem(wanted.subject, words, wanted.advice)
            break
    if footer.repeated:
        first = ", ".join(f"partition {p} offset {o}" for p, o in footer.duplicates[:3])
        yield Problem(wanted.subject, f"{found.uri} holds {footer.repeated:,} rows twice: {first}", wanted.advice)
    if not deep or footer.intervals is None:
        return
    rows = {
        p: (sum(map(len, many)), min(i.start for i in many), max(i.end for i in many) - 1)
        for p, many in footer.intervals.items()
        if many
    }
    if not footer.repeated and rows != told:
        what = f"{found.uri} has rows {rows} by Kafka partition (rows, first, last offset), the manifest says {told}"
        yield Problem(wanted.subject, what, wanted.advice)
