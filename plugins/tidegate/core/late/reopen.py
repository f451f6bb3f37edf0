"""Late rows that a published window takes up: which, within which budget, and what the new generation must show.

A reopening makes one generation: the content of the one in force and all late rows that wait. From its publication on
the rows are the window's: they are counted there and in the late table no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.core.base.instants import HOUR_MS, iso
from tidegate.core.base.wording import many, those
from tidegate.core.files.overflow import Overflow
from tidegate.core.files.receipt import CHECKSUM_MODULUS, BatchRows, FileEntry, content_digest, rows_at
from tidegate.core.spec.pipeline import Reopening, Windows
from tidegate.core.window.cut import window_from
from tidegate.core.window.states import BUILDING, QUIET_MS, GenerationState, WindowKey

if TYPE_CHECKING:
    from tidegate.core.files.landed import OwedSpan


MOST_REFUSED = 2
"""So often a reopening is refused before it is no more tried by itself."""


@dataclass(frozen=True)
class LateBatch:
    """Late rows of one LANDED batch for one window, that no generation in force holds.

    `settled`: they are in the late table, by the ledger."""

    batch_id: int
    rows: int
    landed_ms: int
    settled: bool


@dataclass(frozen=True, kw_only=True)
class LateWindow:
    """A window for which late rows wait. `current`: its generation in force, None if it was never published.

    `reopened`: how many of its generations took late rows up; `refused`: how many since the one in force were refused.
    `working`: one of its generations is being built or swapped in. `blocked`: by an alarm, its reason."""

    start_ms: int
    batches: tuple[LateBatch, ...]
    current: int | None
    reopened: int
    working: bool
    blocked: str | None = None
    refused: int = 0

    @property
    def rows(self) -> int:
        return sum(b.rows for b in self.batches)

    @property
    def settled(self) -> tuple[LateBatch, ...]:
        """What a reopening takes up now."""
        return tuple(b for b in self.batches if b.settled)

    @property
    def waiting_since_ms(self) -> int:
        """When the oldest of its late rows landed."""
        return min(b.landed_ms for b in self.batches)


@dataclass(frozen=True)
class Unfinished:
    """A reopening that has begun and is not in force. `taken_ms`: when somebody last began to build it, UTC ms."""

    start_ms: int
    number: int
    state: GenerationState
    taken_ms: int | None


class ReopenLedger(Protocol):
    """Who owns late rows: the late table, or the window's generation in force if it names their batch as late."""

    def candidates(self, name: str, window_ms: int | None = None, since_ms: int | None = None) -> list[LateWindow]:
        """Windows with late rows that no generation in force holds, oldest window first; or this one alone.

        `since_ms`: only windows that start then or later (UTC ms)."""
        ...

    def duties(self, name: str) -> list[tuple[int, int, int]]:
        """(window start UTC ms, number of its generation in force, batch) whose late files have not left yet."""
        ...

    def unfinished(self, name: str) -> list[Unfinished]:
        """Reopenings that are BUILDING, BUILT or SWAPPING, oldest window first; none of windows that are blocked."""
        ...

    def cleared(self, name: str, window_ms: int, number: int, batch_id: int) -> None:
        """The batch's late files of the window have left the late table; done if it is marked."""
        ...


def over_budget(window: LateWindow, end_ms: int, budget: Reopening, now_ms: int) -> list[str]:
    """What another reopening of the window would exceed; `end_ms` is the window's end (exclusive)."""
    found = []
    rows = sum(b.rows for b in window.settled)
    if budget.generations is not None and window.reopened >= budget.generations:
        found.append(f"it was reopened {window.reopened} times (late.reopen_generations: {budget.generations})")
    if budget.age_ms is not None and now_ms - end_ms > budget.age_ms:
        found.append(f"it ended at {iso(end_ms)} (late.reopen_age: {budget.age_ms / HOUR_MS:g} h)")
    if budget.rows is not None and rows > budget.rows:
        found.append(f"{those(rows, 'late row', 'wait')} (late.reopen_rows: {budget.rows:,})")
    return found


@dataclass(frozen=True)
class Choice:
    """What a reopening would take up; `over`: what of the budget it would exceed. `late` is None if nothing waits."""

    window: WindowKey
    late: LateWindow | None
    over: tuple[str, ...] = ()


def choice(windows: Windows, late: LateWindow, budget: Reopening, now_ms: int) -> Choice:
    key = window_from(late.start_ms, windows)
    return Choice(key, late, tuple(over_budget(late, key.end_ms, budget, now_ms)))


def left(windows: Windows, found: Iterable[LateWindow], budget: Reopening, now_ms: int) -> tuple[Choice, ...]:
    """Windows whose late rows `late.reopen_after` asks for, and that nothing reopens by itself: over their budget, or
    refused too often."""
    after_ms = budget.after_ms
    if after_ms is None:
        return ()
    old = (w for w in found if w.current is not None and now_ms - w.waiting_since_ms >= after_ms)
    choices = ((w, choice(windows, w, budget, now_ms)) for w in old)
    return tuple(one for w, one in choices if one.over or w.refused >= MOST_REFUSED)


def is_due(window: LateWindow, budget: Reopening, now_ms: int) -> bool:
    """Whether the spec wants the window to be reopened by itself, its budget left aside."""
    if budget.after_ms is None or window.current is None or window.working or window.blocked is not None:
        return False
    if window.refused >= MOST_REFUSED:
        return False
    return any(now_ms - b.landed_ms >= budget.after_ms for b in window.settled)


def is_abandoned(one: Unfinished, now_ms: int) -> bool:
    """Whether another task should go on with it. What is built is soon finished, and its late rows may be hidden
    from readers until it is."""
    return one.state != BUILDING or one.taken_ms is None or now_ms - one.taken_ms >= QUIET_MS


# ---------------------------------------------------------------- what the job must show


@dataclass(frozen=True)
class ReopenReceipt:
    """`_receipt.json` of a job of mode reopen, written last. `copied` holds the rows of the generation in force,
    `added` those that came late; paths are below the attempt's directory. `batches` counts both together, in the
    order of batch and Kafka partition."""

    attempt: str
    copied: tuple[FileEntry, ...]
    added: tuple[FileEntry, ...]
    batches: tuple[BatchRows, ...]
    overflow: tuple[Overflow, ...] = ()
    seconds: float = 0.0

    @property
    def files(self) -> tuple[FileEntry, ...]:
        return self.copied + self.added


def errors(
    receipt: ReopenReceipt,
    current: Sequence[FileEntry],
    late: Sequence[FileEntry],
    owed: Sequence[OwedSpan],
    listing: Mapping[str, int],
) -> list[str]:
    """Why what the job wrote cannot be the generation in force plus the late rows, no more and no less.

    `owed`: what the ledger says that each batch brought, late rows included; `listing`: path -> bytes of what is in
    the work directory."""
    found = []
    if content_digest(receipt.copied) != content_digest(current):
        found.append("the rows of the generation in force are not what they were (content digest)")
    due, has = sum(f.rows for f in late), sum(f.rows for f in receipt.added)
    if has != due:
        found.append(f"{many(has, 'late row')} written, the late files hold {due:,}")
    if not receipt.overflow and _checksum(receipt.added) != _checksum(late):
        found.append("the late rows are not those of the late files (checksum)")
    found += _by_batch(receipt.batches, owed)
    found += _by_partition(receipt)
    for f in receipt.files:
        if listing.get(f.path) != f.bytes:
            found.append(f"{f.path}: {many(f.bytes, 'byte')} written, {listing.get(f.path)} in the work directory")
    return found


def _checksum(files: Iterable[FileEntry]) -> int:
    return sum(f.checksum for f in files) % CHECKSUM_MODULUS


def _by_batch(batches: Iterable[BatchRows], owed: Iterable[OwedSpan]) -> list[str]:
    told = {(b.batch_id, b.partition): (b.rows, b.min_offset, b.max_offset) for b in batches}
    due = {(s.batch_id, s.partition): (s.rows, s.min_offset, s.max_offset) for s in owed}
    return [
        f"batch {batch}, partition {partition}: {rows_at(told.get((batch, partition)))} written, "
        f"{rows_at(due.get((batch, partition)))} owed"
        for batch, partition in sorted(told.keys() | due.keys())
        if told.get((batch, partition)) != due.get((batch, partition))
    ]


def _by_partition(receipt: ReopenReceipt) -> list[str]:
    """The files' own counts against the rows that were counted by batch."""
    in_files: dict[int, int] = defaultdict(int)
    counted_rows: dict[int, int] = defaultdict(int)
    for f in receipt.files:
        for p in f.partitions:
            in_files[p.partition] += p.rows
    for b in receipt.batches:
        counted_rows[b.partition] += b.rows
    return [
        f"partition {p}: {many(in_files[p], 'row')} in the files, {counted_rows[p]:,} counted"
        for p in sorted(in_files.keys() | counted_rows.keys())
        if in_files[p] != counted_rows[p]
    ]
