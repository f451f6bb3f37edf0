"""What the board's pages show of windows, batches and events, each in a few statements. Times are UTC ms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.base.offsets import Interval
from tidegate.core.files.receipt import DirtySample
from tidegate.core.files.slow_path import Slow
from tidegate.core.look.views import BatchRow, Event, LossRow, WindowView
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.answer import Answer
from tidegate.core.window.states import WindowKey


@dataclass(frozen=True)
class Mark:
    """One window of which the ledger knows something. `number`, `kind`, `rows` and `published_ms` are of the generation
    in force, `building` is the state of a newer one. `late` rows wait in the late table."""

    start_ms: int
    state: str
    blocked: str | None = None
    number: int | None = None
    kind: str | None = None
    rows: int | None = None
    published_ms: int | None = None
    building: str | None = None
    late: int = 0
    answer: Answer | None = None


@dataclass(frozen=True)
class Binding:
    """`run` is `<DAG id>/<run id>`."""

    run: str
    batch_id: int


@dataclass(frozen=True)
class DirtyShare:
    """Dirty rows of one batch, with the samples that its job kept."""

    batch_id: int
    rows: int
    samples: tuple[DirtySample, ...]


@dataclass(frozen=True)
class WindowShare:
    """Rows that a batch brought for a window."""

    start_ms: int
    rows: int
    late: int


@dataclass(frozen=True)
class BatchDetail:
    """What a batch left; `windows` are the first of them, `more_windows` are not listed; `slow`: messages that took the
    slow path."""

    files: int
    bytes: int
    windows: tuple[WindowShare, ...]
    more_windows: int
    losses: tuple[LossRow, ...]
    dirty: DirtyShare
    slow: tuple[Slow, ...] = ()


class GlanceLedger(Protocol):
    """Each method is of one instant and changes nothing. Raises LedgerError."""

    def spec_versions(self, names: Collection[str]) -> dict[str, int]:
        """The newest version of each pipeline's spec."""
        ...

    def specs(self, wanted: Collection[tuple[str, int]]) -> dict[tuple[str, int], Pipeline]:
        """Specs by (pipeline, version); at most a few thousand at once."""
        ...

    def marks(self, name: str, within: Interval) -> list[Mark]:
        """Windows that begin in `within`, in order: a number of statements that does not grow with them."""
        ...

    def dirty_shares(self, name: str, most: int) -> list[DirtyShare]:
        """Of the newest batches, those with dirty rows, at most so many; how far back it looks is bounded."""
        ...

    def window_view(self, name: str, key: WindowKey, events: int = 20) -> WindowView:
        """As `LedgerReads.window`, but batches without ranges and generations without files, in a few statements."""
        ...

    def file_counts(self, name: str, key: WindowKey) -> dict[int, tuple[int, int]]:
        """Of each generation: (files, bytes)."""
        ...

    def batch(self, name: str, batch_id: int) -> tuple[BatchRow | None, BatchDetail | None, int]:
        """The batch with its ranges, what it left, and the number of the newest one; (None, None, ...) without it."""
        ...

    def event_page(self, name: str, limit: int, before: int | None, subject: str | None) -> list[Event]:
        """The newest events whose id is below `before`, newest first."""
        ...

    def bindings(self, name: str, batch_id: int) -> list[Binding]:
        """The runs that are bound to a batch."""
        ...
