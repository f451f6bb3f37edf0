"""What the ledger shows to people and to the audit: read-only views, each of one instant. Times are UTC ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.batch.refusal import Refusal, RefusalKind, refusal_of
from tidegate.core.batch.states import INGEST, OPEN_STATES, REDRIVE, BatchKind, BatchState, Plan
from tidegate.core.deliver.states import Delivered, Version
from tidegate.core.files.balance import Balance
from tidegate.core.files.receipt import FileEntry
from tidegate.core.source.log_cut import Resumption
from tidegate.core.target.port import Intent
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import CURRENT, GenerationKind, GenerationState, WindowKey, WindowState


@dataclass(frozen=True)
class RangeRow:
    """A planned range; `balance` is None until its batch is SEALED."""

    range: OffsetRange
    balance: Balance | None
    gaps: tuple[Interval, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """`ends` are the planned ends (exclusive) of every Kafka partition, `log_starts` the broker's at plan time.

    A redrive (`kind`) has neither; `sources` are the batches whose dirty rows it takes up. `redriven_by`: the redrive
    that owns this batch's dirty rows since it landed; `set_aside`: their files have left the dirty table.
    `released`: who lifted its limits of dirty records, and why. `floor`: which windows were not open; None if the
    ledger's text of it cannot be read."""

    batch_id: int
    state: BatchState
    epoch: int
    nonce: str
    revision: int
    spec_version: int
    topic: str
    topic_id: str
    clock_ms: int
    records: int
    manifest_digest: str | None
    side_moved: bool
    side_registered: bool
    refused: str | None
    blocked: str | None
    planned_ms: int
    sealed_ms: int | None
    landed_ms: int | None
    ranges: tuple[RangeRow, ...] = ()
    ends: dict[int, int] = field(default_factory=dict)
    log_starts: dict[int, int] = field(default_factory=dict)
    kind: BatchKind = INGEST
    sources: tuple[int, ...] = ()
    redriven_by: int | None = None
    set_aside: bool = False
    released: str | None = None
    floor: Floor | None = None
    refused_kind: RefusalKind | None = None
    refused_advice: str | None = None

    @property
    def refusal(self) -> Refusal | None:
        return refusal_of(self.refused, self.refused_kind, self.refused_advice)

    @property
    def is_redrive(self) -> bool:
        return self.kind == REDRIVE

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


@dataclass(frozen=True)
class WindowRow:
    key: WindowKey
    state: WindowState
    closing_batch: int
    closed_ms: int | None
    blocked: str | None


@dataclass(frozen=True, kw_only=True)
class GenerationRow:
    """`directory` is where it was assembled, `location` where it lies (URIs). `cleaned_ms`: its files are deleted.

    Rows of the batches in `late` came late and were taken up; of those in `set_aside` the files have left the late
    table."""

    window_ms: int
    number: int
    state: GenerationState
    epoch: int
    nonce: str
    kind: GenerationKind
    directory: str | None
    location: str | None
    rows: int | None
    digest: str | None
    built_ms: int | None
    published_ms: int | None
    retired_ms: int | None
    cleaned_ms: int | None = None
    batches: tuple[int, ...] = ()
    files: tuple[FileEntry, ...] = ()
    late: tuple[int, ...] = ()
    set_aside: tuple[int, ...] = ()
    origin: int | None = None  # of a rollback: whose rows it holds
    why: str | None = None  # of a rollback; of a second reading of a table: what was read, and when
    began_ms: int | None = None  # None: begun by an early release, or restored from its record

    def took_up(self, batch_id: int) -> bool:
        """Whether it is in force and holds the batch's late rows."""
        return self.state == CURRENT and batch_id in self.late


@dataclass(frozen=True, kw_only=True)
class WindowTotal:
    """What one batch brought for a window from one Kafka partition; offsets inclusive. `kind`: data | late.

    `rerouted` of its data rows belong to earlier windows, which were not open any more."""

    window_ms: int
    batch_id: int
    kind: str
    partition: int
    rows: int
    min_offset: int
    max_offset: int
    rerouted: int = 0


@dataclass(frozen=True)
class LossRow:
    """Offsets `[start, end)` that the topic no longer had when batch `batch_id` was planned."""

    batch_id: int
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True)
class Event:
    id: int
    at_ms: int
    actor: str
    what: str
    subject: str
    detail: Any


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What is shown of one pipeline beside its survey: how many batches, windows and generations are in which state,
    batches in full, `intents` without an answer, batches whose side files are not in their tables (`side_duties`)."""

    batches: Mapping[str, int]
    windows: Mapping[str, int]
    generations: Mapping[str, int]
    intents: int = 0
    open_batch: BatchRow | None = None
    newest_landed: BatchRow | None = None
    side_duties: tuple[int, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class WindowView:
    """Everything about one window; `window` is None until it is closed. `batches` are those with rows."""

    window: WindowRow | None
    generations: tuple[GenerationRow, ...]
    totals: tuple[WindowTotal, ...]
    batches: tuple[BatchRow, ...]
    intents: tuple[Intent, ...]
    events: tuple[Event, ...]


@dataclass(frozen=True, kw_only=True)
class Spine:
    """Where everything of a pipeline stands, in one snapshot, without files; an audit reads details page by page.

    `unlanded`: state of every batch that is not LANDED; `unmoved` LANDED batches still move late and dirty files, or
    have files that still have to leave their table. Generations have no files, of their batches the first and the last,
    and all that they took up. `versions`: of batches, by side table, of those that deliveries send."""

    name: str
    next_batch_id: int
    topic_id: str | None
    states: dict[BatchState, int]
    unlanded: dict[int, BatchState]
    unmoved: int
    losses: tuple[LossRow, ...]
    windows: dict[int, WindowRow]
    generations: tuple[GenerationRow, ...]
    newest_event: int
    resumptions: tuple[Resumption, ...] = ()  # after cuts of the log
    deliveries: tuple[Delivered, ...] = ()
    versions: dict[str, dict[int, Version]] = field(default_factory=dict)
    stretches: dict[str, dict[int, tuple[Interval, ...]]] = field(default_factory=dict)  # never read, by topic id

    def landed(self, batch_id: int) -> bool:
        """Whether the batch has landed, which is final: pages that are read later show it as it was."""
        return 0 < batch_id < self.next_batch_id and batch_id not in self.unlanded


@dataclass(frozen=True)
class BatchPage:
    """Some batches in order, with their files (of SEALED and LANDED ones).

    `plans`: what each one's record in storage must say, if that was asked for; None for one that cannot be read."""

    batches: tuple[BatchRow, ...]
    files: dict[int, tuple[FileEntry, ...]]
    plans: dict[int, Pinned | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Pinned:
    """What a batch pinned, and the identity of its spec."""

    plan: Plan
    fingerprint: str


@dataclass(frozen=True)
class Weight:
    """Files that an audit reads, by the ledger."""

    files: int = 0
    bytes: int = 0
    rows: int = 0


@dataclass(frozen=True)
class WindowPage:
    """One window: what batches brought, and its generations; those that are BUILT or CURRENT with their files."""

    window_ms: int
    window: WindowRow | None
    totals: tuple[WindowTotal, ...]
    batch_files: tuple[tuple[int, FileEntry], ...]
    generations: tuple[GenerationRow, ...]
