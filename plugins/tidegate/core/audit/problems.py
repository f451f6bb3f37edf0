"""The promise, proved: the ledger compared with itself, and with what was found in files and catalogue.

Everything here is arithmetic on what was gathered; `workflow.audit.audit` gathers it, page by page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tidegate.core.base.instants import DAY_MS, iso
from tidegate.core.base.wording import many, those
from tidegate.core.batch.states import ABANDONED
from tidegate.core.files.balance import Balance, window_difference
from tidegate.core.files.receipt import DATA, DIRTY, LATE, FileEntry, content_digest, manifest_digest, rows_at
from tidegate.core.look.views import BatchRow, GenerationRow, RangeRow, Spine, WindowPage
from tidegate.core.replay.reread import read_by
from tidegate.core.source.stretches import never_read
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_id
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import BUILDING, BUILT, CLOSED, CURRENT, OPEN, SWAPPING

RESTORE = "the ledger was changed by something else than Tidegate: compare with a backup of it before going on"


@dataclass(frozen=True, order=True)
class Problem:
    """`subject`: `batch 12`, `window 20130105T040000Z`, `partition 3`, `catalogue`; `advice`: what to do."""

    subject: str
    what: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Of all LANDED batches. `data` + `reopened` + `reread` = `published` + `waiting`; `abandoned` and `lost` are
    offsets that will never be read. `reopened` of the late rows are in generations that took them up."""

    balance: Balance
    published: int
    waiting: int
    abandoned: int
    lost: int
    unfinished: int
    reopened: int = 0
    reread: int = 0  # rows of second readings, less those of the first ones


_REPAIR = "once its cause is understood, `tidegate repair` clears the block"


class Books:
    """Every rule that needs nothing but the ledger: batches in order, then windows, then the sums.

    The spine is of one instant. Details are read later: what has landed since then counts as it was."""

    def __init__(self, spine: Spine, windows: Windows | None = None) -> None:
        """`windows`: how the pipeline's are cut, for the rules that need it."""
        self._spine, self._windows = spine, windows
        self._chain = _Chain(spine)
        self._redrives = Redrives(spine.landed)
        self._next, self._missing = 1, []  # type: tuple[int, list[int]]
        self._balance, self._rerouted = Balance(), 0
        self._published = self._waiting = self._abandoned = self._unfinished = self._reopened = self._reread = 0
        self.published_windows = self.waiting_windows = 0

    def as_of_then(self, batch: BatchRow) -> BatchRow:
        return replace(batch, state=self._spine.unlanded.get(batch.batch_id, batch.state))

    def batch(self, batch: BatchRow, files: tuple[FileEntry, ...]) -> Iterator[Problem]:
        """`batch` as of then; each id once, in order."""
        self._missing += range(self._next, batch.batch_id)[:5]
        self._next = batch.batch_id + 1
        if not batch.is_redrive:
            yield from self._chain.link(batch)
        elif batch.ends:
            yield Problem(f"batch {batch.batch_id}", "it is a redrive, but has planned ends", RESTORE)
        offsets = 0 if batch.is_redrive else sum(r.range.count for r in batch.ranges)
        if batch.state == ABANDONED:
            self._abandoned += offsets
        elif batch.is_open:
            self._unfinished += offsets
            if batch.blocked:
                yield Problem(f"batch {batch.batch_id}", f"blocked: {batch.blocked}", _REPAIR)
        else:
            self._redrives.batch(batch, files)
            for row in batch.ranges:
                self._balance += self._redrives.own(batch, row)
            yield from _batch(batch, files)
            yield from _places(batch, files, self._windows)

    def window(self, page: WindowPage, generation: GenerationRow | None) -> Iterator[Problem]:
        """`generation`: the one in force, or None."""
        owed = [t for t in page.totals if t.kind == DATA]
        mine = sum(t.rows for t in owed if self._spine.landed(t.batch_id))
        self._rerouted += sum(t.rerouted for t in owed if self._spine.landed(t.batch_id))
        if generation is not None:
            later = sum(t.rows for t in owed) - mine  # of batches that landed since then
            late = [t for t in page.totals if t.kind == LATE and generation.took_up(t.batch_id)]
            came = sum(t.rows for t in late if self._spine.landed(t.batch_id))
            self._reopened += came
            later += sum(t.rows for t in late) - came
            self._published += sum(f.rows for f in generation.files) - later
            again = read_by(page.generations, generation.number)
            self._reread += 0 if again is None else (again.rows or 0) - mine
            self.published_windows += 1
        elif owed:
            self._waiting += mine
            self.waiting_windows += 1
        yield from _window_totals(page, self._spine.landed)
        yield from _window(page, generation)
        if generation is None:
            yield from _left_out(page, self._spine.landed)
        if page.window is not None and page.window.blocked:
            yield Problem(f"window {window_id(page.window_ms)}", f"blocked: {page.window.blocked}", _REPAIR)

    def totals(self) -> Totals:
        lost = sum(x.end - x.start for x in self._spine.losses)
        return Totals(
            balance=self._balance,
            published=self._published,
            waiting=self._waiting,
            abandoned=self._abandoned,
            lost=lost,
            unfinished=self._unfinished,
            reopened=self._reopened,
            reread=self._reread,
        )

    def sums(self) -> Iterator[Problem]:
        """When all has been seen: batch ids without a hole, and the balance of the whole pipeline."""
        following, count = self._spine.next_batch_id, sum(self._spine.states.values())
        yield from self._redrives.problems()
        missing = [*self._missing, *range(self._next, following)[:5]]
        if missing or count != following - 1:
            yield Problem("ledger", f"batches {missing[:5] or [count]} do not fit next batch id {following}", RESTORE)
        found = self.totals()
        if not found.balance.holds:
            yield Problem("balance", found.balance.text(), "the problems of single batches say where")
        if found.balance.rerouted != self._rerouted:
            read = those(found.balance.rerouted, "row", "were")
            what = f"{read} rerouted, {self._rerouted:,} by the windows they went to"
            yield Problem("balance", what, RESTORE)
        if found.balance.data + found.reopened + found.reread != found.published + found.waiting:
            late = f" + {found.reopened:,} late ones taken up" if found.reopened else ""
            late += f" {found.reread:+,} by second readings" if found.reread else ""
            yield Problem(
                "balance",
                f"data {found.balance.data:,}{late} is not published {found.published:,} + waiting {found.waiting:,}",
                "the problems of single batches and windows say where",
            )


# ---------------------------------------------------------------- batches


class Redrives:
    """Each dirty row has one owner: the batch that read it, or the redrive that took it up."""

    def __init__(self, landed: Callable[[int], bool]) -> None:
        self._landed = landed
        self._taken: dict[tuple[int, int], int] = defaultdict(int)  # (redrive, Kafka partition) -> rows of its sources
        self._read: dict[tuple[int, int], int] = defaultdict(int)
        self._owners: dict[int, int] = {}
        self._sources: dict[int, tuple[int, ...]] = {}

    def batch(self, batch: BatchRow, files: tuple[FileEntry, ...]) -> None:
        """A landed one."""
        if batch.is_redrive:
            self._sources[batch.batch_id] = batch.sources
            for row in batch.ranges:
                self._read[batch.batch_id, row.range.partition] += 0 if row.balance is None else row.balance.read
        if batch.redriven_by is None:
            return
        self._owners[batch.batch_id] = batch.redriven_by
        for p in (p for f in files if f.kind == DIRTY for p in f.partitions):
            self._taken[batch.redriven_by, p.partition] += p.rows

    def own(self, batch: BatchRow, row: RangeRow) -> Balance:
        """What of the range counts as this batch's. A redrive's gaps are not Kafka's."""
        found = row.balance or Balance(offsets=row.range.count)
        if batch.is_redrive:
            found = replace(found, offsets=found.read, gaps=0)
        gone = found.dirty if batch.redriven_by is not None and self._landed(batch.redriven_by) else 0
        return replace(found, offsets=found.offsets - gone, read=found.read - gone, dirty=found.dirty - gone)

    def problems(self) -> Iterator[Problem]:
        """Problems when all batches have been seen. A batch that landed since the spine was taken counts as it was
        then."""
        for batch_id, owner in self._owners.items():
            if batch_id not in self._sources.get(owner, (batch_id,)) or owner <= batch_id:
                yield Problem(
                    f"batch {batch_id}", f"its dirty rows belong to batch {owner}, which took others", RESTORE
                )
        for owner, sources in self._sources.items():
            lost = [i for i in sources if self._owners.get(i) != owner]
            if lost:
                what = f"it took up the dirty rows of batch {lost[0]}, which are not its own"
                yield Problem(f"batch {owner}", what, RESTORE)
        for owner, partition in sorted(set(self._taken) | set(self._read)):
            took, read = self._taken[owner, partition], self._read[owner, partition]
            if took != read and self._landed(owner):
                what = f"partition {partition}: {many(read, 'row')} redriven, its sources hold {took:,}"
                yield Problem(f"batch {owner}", what, RESTORE)


class _Chain:
    """Each Kafka partition's ranges lie end to end, recorded losses excepted; a recreated topic begins anew, and after
    a cut of the log reading goes on where an operator said. Stretches of copies from another site are not read."""

    def __init__(self, spine: Spine) -> None:
        self._stretches = spine.stretches
        self._losses = {(x.batch_id, x.partition): x for x in spine.losses}
        self._resumed = {(x.topic_id, x.after_batch, x.partition): x.offset for x in spine.resumptions}
        self._ends: dict[str, dict[int, int]] = {}
        self._newest: dict[str, int] = {}

    def link(self, batch: BatchRow) -> Iterator[Problem]:
        before = self._ends.get(batch.topic_id)
        after = self._ends.setdefault(batch.topic_id, {})
        known = None if before is None else dict(before)
        newest = self._newest.get(batch.topic_id, 0)
        self._newest[batch.topic_id] = batch.batch_id
        starts = {r.range.partition: r.range.start for r in batch.ranges}
        stops = {r.range.partition: r.range.end for r in batch.ranges}
        for partition, end in sorted(batch.ends.items()):
            start = starts.get(partition, end)
            loss = self._losses.get((batch.batch_id, partition))
            copies = self._stretches.get(batch.topic_id, {}).get(partition, ())
            began = 0 if any(one.start == 0 for one in copies) else None
            due = began if known is None else known.get(partition, 0)
            due = self._resumed.get((batch.topic_id, newest, partition), due)
            if known is not None and partition not in known and start == batch.log_starts[partition]:
                due = start  # a release before this one began there, and recorded no loss
            if due is not None and start != due:
                goes_on = start if loss is None else loss.start
                due = goes_on if never_read(due, goes_on, copies) else due
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
                subject, f"{where}: {b.text()}, {b.read:,} + {b.gaps:,} gaps of {many(b.offsets, 'offset')}", RESTORE
            )
        for kind in (DATA, LATE, DIRTY):
            counted[kind, row.range.partition] += getattr(row.balance, kind)
    written: dict[tuple[str, int], int] = defaultdict(int)
    for f in files:
        if f.rows != sum(p.rows for p in f.partitions):
            yield Problem(subject, f"{f.path}: {many(f.rows, 'row')}, its Kafka partitions add up differently", RESTORE)
        for part in f.partitions:
            written[f.kind, part.partition] += part.rows
    for kind, partition in sorted(set(counted) | set(written)):
        read, wrote = counted[kind, partition], written[kind, partition]
        if read != wrote:
            yield Problem(
                subject, f"partition {partition}: {many(read, f'{kind} row')} read, {wrote:,} in its files", RESTORE
            )
    if batch.manifest_digest != manifest_digest(files):
        yield Problem(subject, "its files in the ledger are not the ones it was sealed with (manifest digest)", RESTORE)


def _places(batch: BatchRow, files: tuple[FileEntry, ...], windows: Windows | None) -> Iterator[Problem]:
    """Rows are data exactly where their window was open when the batch was planned (R1): no window takes up others."""
    if windows is None or windows.size_ms >= DAY_MS:
        return  # days are as long as a host's zone data say, which may have changed since
    subject, floor = f"batch {batch.batch_id}", batch.floor
    if floor is None:
        yield Problem(subject, "the ledger's text of its floor cannot be read", RESTORE)
        return
    for kind, late, words in (
        (DATA, True, "was not open when it was planned: no window takes them up"),
        (LATE, False, "was open when it was planned: they are in the late table all the same"),
    ):
        rows: dict[int, int] = defaultdict(int)
        for f in files:
            if f.kind == kind and f.window_ms is not None:
                rows[f.window_ms] += f.rows
        wrong = [w for w in sorted(rows) if floor.is_late(w, window_end(w, windows)) is late]
        if wrong:
            more = f", and so {many(len(wrong) - 1, 'window')} more" if len(wrong) > 1 else ""
            what = f"{many(rows[wrong[0]], f'{kind} row')} of window {iso(wrong[0])}, which {words}{more}"
            yield Problem(subject, what, RESTORE)


# ---------------------------------------------------------------- windows


def _window_totals(page: WindowPage, landed: Callable[[int], bool]) -> Iterator[Problem]:
    """What the batches owe the window, counted again from their files."""
    told = {(t.batch_id, t.kind, t.partition): (t.rows, t.min_offset, t.max_offset) for t in page.totals}
    found: dict[tuple[int, str, int], tuple[int, int, int]] = {}
    for batch_id, f in page.batch_files:
        for p in f.partitions if f.kind != DIRTY else ():
            key = (batch_id, f.kind, p.partition)
            rows, low, high = found.get(key, (0, p.min_offset, p.max_offset))
            found[key] = (rows + p.rows, min(low, p.min_offset), max(high, p.max_offset))
    for key in sorted(set(told) | set(found)):
        batch_id, kind, partition = key
        if told.get(key) != found.get(key) and landed(batch_id):
            owes, has = rows_at(told.get(key)), rows_at(found.get(key))
            where = f"partition {partition}, window {iso(page.window_ms)}"
            yield Problem(f"batch {batch_id}", f"{where}: {kind} in the ledger {owes}, in its files {has}", RESTORE)


def _window(page: WindowPage, current: GenerationRow | None) -> Iterator[Problem]:
    """Rows owed by the batches equal the manifest in force, for each Kafka partition."""
    subject = f"window {window_id(page.window_ms)}"
    in_force = [g for g in page.generations if g.state == CURRENT]
    if len(in_force) > 1:
        yield Problem(subject, f"{len(in_force)} generations are in force at once", RESTORE)
    if current is None:
        return
    if page.window is None or page.window.state != CLOSED:
        yield Problem(subject, f"published, but {OPEN if page.window is None else page.window.state}", RESTORE)
    again = read_by(page.generations, current.number)  # then that reading is owed, and nothing of the first one
    reread = {(0, 0): again.rows} if again is not None and again.rows else {}
    owed: dict[tuple[int, int], int] = defaultdict(int, reread)
    mine = [t for t in page.totals if t.kind == DATA or (t.kind == LATE and current.took_up(t.batch_id))]
    owing = sorted({t.batch_id for t in mine})
    for t in mine if again is None else ():
        owed[0, t.partition] += t.rows
    there: dict[tuple[int, int], int] = defaultdict(int)
    for f in current.files:
        for p in f.partitions:
            there[0, p.partition] += p.rows
    name = f"generation {current.number}"
    for (_, partition), (due, has) in window_difference(owed, there).items():
        yield Problem(subject, f"partition {partition}: {many(due, 'row')} landed, {has:,} in {name}", RESTORE)
    rows = sum(f.rows for f in current.files)
    if current.rows != rows or any(f.rows != sum(p.rows for p in f.partitions) for f in current.files):
        yield Problem(subject, f"{name}: its files hold {many(rows, 'row')}, the ledger says {current.rows:,}", RESTORE)
    if current.digest != content_digest(current.files):
        yield Problem(subject, f"{name}: its files are not what it was built of (content digest)", RESTORE)
    landed = [f for i, f in page.batch_files if i in current.batches and f.kind == DATA]
    if of_kind(current.kind).landed and current.digest != content_digest(landed):
        yield Problem(subject, f"{name}: its content is not that of batches {list(current.batches)}", RESTORE)
    if owing != sorted(current.batches):
        yield Problem(subject, f"{name} is of batches {list(current.batches)}, rows came from {owing}", RESTORE)


def _left_out(page: WindowPage, landed: Callable[[int], bool]) -> Iterator[Problem]:
    """Landed rows that no generation will ever hold: the window was closed without their batch, and is on its way, or
    every generation of it was given up."""
    if page.window is None or page.window.state != CLOSED:
        return
    subject = f"window {window_id(page.window_ms)}"
    owing: dict[int, int] = defaultdict(int)
    for t in page.totals:
        if t.kind == DATA and landed(t.batch_id):
            owing[t.batch_id] += t.rows
    if any(g.state == CURRENT for g in page.generations) or not owing:
        return  # published since
    coming = [g for g in page.generations if g.state in (BUILDING, BUILT, SWAPPING)]
    if not coming:
        what = f"closed with {many(sum(owing.values()), 'landed row')}, but no generation of it is on its way"
        yield Problem(subject, what, RESTORE)
        return
    missing = sorted(set(owing) - set(coming[-1].batches))
    if missing:
        rows = sum(owing[i] for i in missing)
        what = f"closed without batch {missing[0]}: no generation will hold its {many(rows, 'landed row')}"
        yield Problem(subject, what, RESTORE)


def republish(pipeline: str, window_ms: int) -> str:
    """The advice for a published window that lost something."""
    at = iso(window_ms)
    return f"clear its publish task, or: airflow dags backfill --reset-dagruns -y {pipeline}.archive -s {at} -e {at}"
