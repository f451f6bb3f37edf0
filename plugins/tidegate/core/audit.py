"""The promise, proved: the ledger held against itself, and against what was found in files and catalogue.

Everything here is arithmetic on what was gathered; `workflow.audit` gathers it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.core.balance import Balance, window_difference
from tidegate.core.instants import iso
from tidegate.core.layout import window_id
from tidegate.core.receipt import DATA, DIRTY, LATE, FileEntry, content_digest, manifest_digest
from tidegate.core.views import BatchRow, Books, GenerationRow, WindowTotal
from tidegate.core.window import CURRENT

RESTORE = "the ledger was changed by something else than Tidegate: compare with a backup of it before going on"


@dataclass(frozen=True, order=True)
class Problem:
    """`subject`: `batch 12`, `window 20130105T040000Z`, `partition 3`, `catalogue`; `advice`: what to do."""

    subject: str
    what: str
    advice: str = ""


@dataclass(frozen=True)
class Totals:
    """Of all LANDED batches. `data` = `published` + `waiting`; `abandoned` and `lost` are offsets nobody will read."""

    balance: Balance
    published: int
    waiting: int
    abandoned: int
    lost: int
    unfinished: int


@dataclass
class Ledger:
    """The books with the indexes that the rules need."""

    books: Books
    landed: dict[int, BatchRow] = field(init=False)
    current: dict[int, GenerationRow] = field(init=False)
    owed: dict[int, list[WindowTotal]] = field(init=False)

    def __post_init__(self) -> None:
        self.landed = {b.batch_id: b for b in self.books.batches if b.state == "LANDED"}
        self.current = {g.window_ms: g for g in self.books.generations if g.state == CURRENT}
        self.owed = defaultdict(list)
        for total in self.books.window_totals:
            if total.kind == DATA:
                self.owed[total.window_ms].append(total)

    def files(self, batch_id: int) -> tuple[FileEntry, ...]:
        return self.books.batch_files.get(batch_id, ())


def totals(ledger: Ledger) -> Totals:
    balance = Balance()
    for batch in ledger.landed.values():
        for row in batch.ranges:
            balance += row.balance or Balance(offsets=row.range.count)
    published = sum(sum(f.rows for f in g.files) for g in ledger.current.values())
    waiting = sum(t.rows for w, owed in ledger.owed.items() if w not in ledger.current for t in owed)

    def offsets(*states: str) -> int:
        return sum(r.range.count for b in ledger.books.batches if b.state in states for r in b.ranges)

    lost = sum(x.end - x.start for x in ledger.books.losses)
    unfinished = offsets("PLANNED", "WRITING", "SEALED")
    return Totals(balance, published, waiting, offsets("ABANDONED"), lost, unfinished)


def check_ledger(ledger: Ledger) -> Iterator[Problem]:
    """Every rule that needs nothing but the ledger."""
    yield from _chain(ledger.books)
    for batch in ledger.landed.values():
        yield from _batch(batch, ledger.files(batch.batch_id))
    yield from _window_totals(ledger)
    for window_ms in sorted(set(ledger.owed) | set(ledger.current) | set(ledger.books.windows)):
        yield from _window(ledger, window_ms)
    for batch in ledger.books.batches:
        if batch.is_open and batch.blocked:
            yield Problem(f"batch {batch.batch_id}", f"blocked: {batch.blocked}", _REPAIR)
    for window in ledger.books.windows.values():
        if window.blocked:
            yield Problem(f"window {window_id(window.key.start_ms)}", f"blocked: {window.blocked}", _REPAIR)


_REPAIR = "once its cause is understood, `tidegate repair` clears the block"


# ---------------------------------------------------------------- batches


def _chain(books: Books) -> Iterator[Problem]:
    """Batch ids without a hole, and each Kafka partition's ranges end to end, recorded losses excepted."""
    ids = [b.batch_id for b in books.batches]
    if ids != list(range(1, books.next_batch_id)):
        missing = sorted(set(range(1, books.next_batch_id)) - set(ids))
        yield Problem(
            "ledger", f"batches {missing[:5] or ids[-1:]} do not fit next batch id {books.next_batch_id}", RESTORE
        )
    losses = {(x.batch_id, x.partition): x for x in books.losses}
    ends: dict[str, dict[int, int]] = {}
    for batch in books.batches:
        before = ends.get(batch.topic_id)
        after = ends.setdefault(batch.topic_id, {})
        starts = {r.range.partition: r.range.start for r in batch.ranges}
        stops = {r.range.partition: r.range.end for r in batch.ranges}
        for partition, end in sorted(batch.ends.items()):
            start = starts.get(partition, end)
            loss = losses.get((batch.batch_id, partition))
            due = None if before is None else before.get(partition, batch.log_starts[partition])
            if loss is not None and due is not None and (loss.start, loss.end) == (due, start):
                due = start
            yield from _joint(batch, partition, due, start, end, stops.get(partition, end))
            after[partition] = end
        for partition in sorted(set(stops) - set(batch.ends)):
            yield Problem(f"batch {batch.batch_id}", f"partition {partition} has a range but no planned end", RESTORE)


def _joint(batch: BatchRow, partition: int, due: int | None, start: int, end: int, stop: int) -> Iterator[Problem]:
    subject = f"batch {batch.batch_id}"
    if stop != end:
        yield Problem(subject, f"partition {partition}: the range ends at {stop}, planned end is {end}", RESTORE)
    if due is not None and start > due:
        yield Problem(subject, f"partition {partition}: offsets [{due}, {start}) are in no batch", RESTORE)
    if due is not None and start < due:
        yield Problem(subject, f"partition {partition}: offsets [{start}, {due}) are in an earlier batch too", RESTORE)


def _batch(batch: BatchRow, files: tuple[FileEntry, ...]) -> Iterator[Problem]:
    subject = f"batch {batch.batch_id}"
    counted: dict[tuple[str, int], int] = defaultdict(int)
    for row in batch.ranges:
        where = f"partition {row.range.partition} [{row.range.start}, {row.range.end})"
        if row.balance is None:
            yield Problem(subject, f"{where}: landed without counts", RESTORE)
            continue
        if not row.balance.holds:
            b = row.balance
            yield Problem(
                subject, f"{where}: {b.text()}, {b.read:,} + {b.gaps:,} gaps of {b.offsets:,} offsets", RESTORE
            )
        for kind in (DATA, LATE, DIRTY):
            counted[kind, row.range.partition] += getattr(row.balance, kind)
    written: dict[tuple[str, int], int] = defaultdict(int)
    for f in files:
        if f.rows != sum(p.rows for p in f.partitions):
            yield Problem(subject, f"{f.path}: {f.rows:,} rows, its Kafka partitions add up differently", RESTORE)
        for part in f.partitions:
            written[f.kind, part.partition] += part.rows
    for kind, partition in sorted(set(counted) | set(written)):
        read, wrote = counted[kind, partition], written[kind, partition]
        if read != wrote:
            yield Problem(subject, f"partition {partition}: {read:,} {kind} rows read, {wrote:,} in its files", RESTORE)
    if batch.manifest_digest != manifest_digest(files):
        yield Problem(subject, "its files in the ledger are not the ones it was sealed with (manifest digest)", RESTORE)


def _window_totals(ledger: Ledger) -> Iterator[Problem]:
    """What the batches owe the windows, counted again from their files."""
    told = {
        (t.batch_id, t.window_ms, t.kind, t.partition): (t.rows, t.min_offset, t.max_offset)
        for t in ledger.books.window_totals
    }
    found: dict[tuple[int, int, str, int], tuple[int, int, int]] = {}
    for batch_id in ledger.landed:
        for f in ledger.files(batch_id):
            if f.kind == DIRTY or f.window_ms is None:
                continue
            for p in f.partitions:
                key = (batch_id, f.window_ms, f.kind, p.partition)
                rows, low, high = found.get(key, (0, p.min_offset, p.max_offset))
                found[key] = (rows + p.rows, min(low, p.min_offset), max(high, p.max_offset))
    for key in sorted(set(told) | set(found)):
        if told.get(key) != found.get(key):
            batch_id, window_ms, kind, partition = key
            owes, has = _rows(told.get(key)), _rows(found.get(key))
            where = f"partition {partition}, window {window_id(window_ms)}"
            yield Problem(f"batch {batch_id}", f"{where}: {kind} in the ledger {owes}, in its files {has}", RESTORE)


def _rows(entry: tuple[int, int, int] | None) -> str:
    return "no rows" if entry is None else f"{entry[0]:,} rows at [{entry[1]}, {entry[2]}]"


# ---------------------------------------------------------------- windows


def _window(ledger: Ledger, window_ms: int) -> Iterator[Problem]:
    """Rows owed by the batches equal the manifest in force, for each Kafka partition."""
    subject, current = f"window {window_id(window_ms)}", ledger.current.get(window_ms)
    row = ledger.books.windows.get(window_ms)
    in_force = [g for g in ledger.books.generations if g.window_ms == window_ms and g.state == CURRENT]
    if len(in_force) > 1:
        yield Problem(subject, f"{len(in_force)} generations are in force at once", RESTORE)
    if current is None:
        return
    if row is None or row.state != "CLOSED":
        yield Problem(subject, f"published, but {'OPEN' if row is None else row.state}", RESTORE)
    owed: dict[tuple[int, int], int] = defaultdict(int)
    for t in ledger.owed.get(window_ms, []):
        if t.batch_id in ledger.landed:
            owed[0, t.partition] += t.rows
    there: dict[tuple[int, int], int] = defaultdict(int)
    for f in current.files:
        for p in f.partitions:
            there[0, p.partition] += p.rows
    name = f"generation {current.number}"
    for (_, partition), (due, has) in window_difference(owed, there).items():
        yield Problem(subject, f"partition {partition}: {due:,} rows landed, {has:,} in {name}", RESTORE)
    rows = sum(f.rows for f in current.files)
    if current.rows != rows or any(f.rows != sum(p.rows for p in f.partitions) for f in current.files):
        yield Problem(subject, f"{name}: its files hold {rows:,} rows, the ledger says {current.rows:,}", RESTORE)
    if current.digest != content_digest(current.files):
        yield Problem(subject, f"{name}: its files are not what it was built of (content digest)", RESTORE)
    landed = [f for i in current.batches for f in ledger.files(i) if f.kind == DATA and f.window_ms == window_ms]
    if current.kind == "archive" and current.digest != content_digest(landed):
        yield Problem(subject, f"{name}: its content is not that of batches {list(current.batches)}", RESTORE)
    owing = sorted({t.batch_id for t in ledger.owed.get(window_ms, [])})
    if owing != sorted(current.batches):
        yield Problem(subject, f"{name} is of batches {list(current.batches)}, rows came from {owing}", RESTORE)


def holds(found: Totals) -> Iterator[Problem]:
    """The balance of the whole pipeline."""
    if not found.balance.holds:
        yield Problem("balance", found.balance.text(), "the problems of single batches say where")
    if found.balance.data != found.published + found.waiting:
        yield Problem(
            "balance",
            f"data {found.balance.data:,} is not published {found.published:,} + waiting {found.waiting:,}",
            "the problems of single batches and windows say where",
        )


def republish(pipeline: str, window_ms: int) -> str:
    """The advice for a published window that lost something."""
    at = iso(window_ms)
    return f"clear its publish task, or: airflow dags backfill --reset-dagruns -y {pipeline}.archive -s {at} -e {at}"


def by_subject(problems: Iterable[Problem]) -> list[Problem]:
    """Without repetitions, in the order found."""
    return list(dict.fromkeys(problems))
