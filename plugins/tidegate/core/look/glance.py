"""What the board's pages show of windows, batches and events, each in a few statements. Times are UTC ms."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.files.receipt import DirtySample
from tidegate.core.files.slow_path import Slow
from tidegate.core.look.views import LossRow
from tidegate.core.window.answer import Answer
from tidegate.core.window.states import GenerationKind, GenerationState, WindowState


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One window of which the ledger knows something. `number`, `kind`, `rows` and `published_ms` are of the generation
    in force, `building` is the state of a newer one. `late` rows wait in the late table."""

    start_ms: int
    state: WindowState
    blocked: str | None = None
    number: int | None = None
    kind: GenerationKind | None = None
    rows: int | None = None
    published_ms: int | None = None
    building: GenerationState | None = None
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


@dataclass(frozen=True, kw_only=True)
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
