"""What the ledger says of many pipelines at once: the ground of `status`, the board, measures and notices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.core.base.offsets import Interval
from tidegate.core.batch.refusal import Refusal, RefusalKind, refusal_of
from tidegate.core.batch.states import INGEST, BatchKind, BatchState
from tidegate.core.batch.totals import NO_TIME, NO_TOTALS, Spent, Totals
from tidegate.core.copy.rounds import Reading
from tidegate.core.daily.purge import KeptOut
from tidegate.core.deliver.states import Backlog
from tidegate.core.files.slow_path import Slow
from tidegate.core.late.reopen import LateWindow
from tidegate.core.mirror.applies import Merging
from tidegate.core.replay.abandoned import Unfinished
from tidegate.core.source.progress import Progress
from tidegate.core.spec.pipeline import Delivery
from tidegate.core.tell.notices import AuditOutcome, FailedTask
from tidegate.core.tell.pauses import Pause, silent
from tidegate.core.window.answer import Answer
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.states import GenerationState
from tidegate.core.window.watermark import TopicFacts

LATELY_MS = 3 * 60_000


@dataclass(frozen=True)
class Block:
    """An alarm: `subject` is `batch 12`, `window 20130105T040000Z` or, of a log that was cut, `partition 3`."""

    subject: str
    reason: str


@dataclass(frozen=True)
class Published:
    """Generations in force: how many windows and rows; and of the newest window, `[start, end)` and when its first
    generation came into force (UTC ms; None: none has)."""

    windows: int = 0
    rows: int = 0
    newest_start_ms: int | None = None
    first_published_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class OpenRow:
    """The batch that has not landed: a pipeline has one at most. `planned_ms` is UTC."""

    batch_id: int
    state: BatchState
    epoch: int = 0
    kind: BatchKind = INGEST
    records: int = 0
    planned_ms: int = 0
    refused: str | None = None
    blocked: str | None = None
    refused_kind: RefusalKind | None = None
    refused_advice: str | None = None

    @property
    def refusal(self) -> Refusal | None:
        return refusal_of(self.refused, self.refused_kind, self.refused_advice)

    @property
    def stuck(self) -> bool:
        """Whether it waits for a human."""
        return bool(self.refused or self.blocked)


@dataclass(frozen=True)
class Told:
    """A notice that stands: `kind` as in core.tell.notices."""

    kind: str
    what: str
    advice: str
    since_ms: int


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the ledger knows of one pipeline, as of one instant: the ground of everything that is said of it.

    `begun`: a batch was planned. `blocks`: alarms that wait for a human; `closing`: windows that are closing
    (start, UTC ms) -> the first batch that brings them nothing; `building`: those with a generation on its way.
    `lost` offsets were gone before they were read; `late_now`: late rows that no generation in force has taken up.
    `audit`: the newest one. `untold` messages to people have not been delivered; `told`: conditions that they were
    told of and that have not ended. `pause`: the newest one, which may be over. `slow`: messages of the newest
    landed batch that took the slow path. `busy`: generations on their way, by state; `replays`: those of replays
    and rollbacks. `lately`: windows that were published for the first time within LATELY_MS. `failed`: tasks, but those
    of windows, that have failed for good and have not ended well since."""

    progress: Progress
    facts: TopicFacts
    begun: bool = False
    open_batch: OpenRow | None = None
    blocks: tuple[Block, ...] = ()
    closing: Mapping[int, int] = field(default_factory=dict)
    building: frozenset[int] = frozenset()
    totals: Totals = NO_TOTALS
    published: Published = Published()
    busy: Mapping[GenerationState, int] = field(default_factory=dict)
    replays: tuple[Unfinished, ...] = ()
    note: ArchiveNote | None = None
    lost: int = 0
    late_now: int = 0
    audit: AuditOutcome | None = None
    untold: int = 0
    told: tuple[Told, ...] = ()
    pause: Pause | None = None
    slow: tuple[Slow, ...] = ()
    lately: int = 0
    failed: tuple[FailedTask, ...] = ()

    @property
    def held(self) -> int:
        """Batches, windows and cut logs that wait for a human: refused or blocked."""
        one = self.open_batch
        return len(self.blocks) + int(one is not None and bool(one.refused) and not one.blocked)

    @property
    def unaccounted(self) -> int:
        """Records read whose fate is not known: anything but 0 is a broken promise."""
        return self.totals.ingested.unaccounted + self.totals.redriven.unaccounted


NOTHING = Survey(progress=Progress(None), facts=TopicFacts(None, None, ()))
"""Of a pipeline that no run has registered."""


@dataclass(frozen=True)
class Head:
    """Whether something of a pipeline may wait for a human, as far as that is told without looking at it closely.

    `stuck`: a batch, a window or a log; `told`: kinds of conditions that people were told of and that have not ended;
    `pause`: it is paused on purpose."""

    name: str
    stuck: bool = False
    told: frozenset[str] = frozenset()
    pause: Pause | None = None

    def waits_at(self, now_ms: int) -> bool:
        """Leaves out what a pause on purpose explains."""
        return self.stuck or bool(self.told - silent(self.pause, now_ms))


@dataclass(frozen=True)
class Landed:
    """A batch that has landed (UTC ms), and what it left behind."""

    batch_id: int
    landed_ms: int
    facts: TopicFacts


@dataclass(frozen=True)
class WindowSteps:
    """What windows and their published generations took, in all. `ready`: from a window's end until it was closed;
    `assemble`: from the beginning of the epoch that was built; `publish`: until the generation was in force; `delay`:
    from a window's end until its first generation was."""

    ready: Spent = NO_TIME
    assemble: Spent = NO_TIME
    publish: Spent = NO_TIME
    delay: Spent = NO_TIME


class SurveyLedger(Protocol):
    """Part of core.look.port.LedgerReads. Raises LedgerError."""

    def survey(self, names: Collection[str], now_ms: int) -> dict[str, Survey]:
        """Surveys of those of `names` that the ledger knows, as of one instant, by a number of statements that does not
        grow with them."""
        ...

    def progress(self, names: Collection[str], now_ms: int) -> dict[str, Progress]:
        """The part of a survey that is always small."""
        ...

    def heads(self) -> dict[str, Head]:
        """Every pipeline that the ledger knows: a number of statements that does not grow with them."""
        ...

    def answers(self, names: Collection[str]) -> dict[str, dict[int, Answer]]:
        """What another system said of windows (start, UTC ms) that are open still: one statement."""
        ...

    def late_windows(self, names: Collection[str]) -> dict[str, list[LateWindow]]:
        """Windows with late rows that no generation in force holds, oldest first: three statements."""
        ...

    def merging(self, names: Collection[str]) -> dict[str, Merging]:
        """How far the keyed tables of `names` are: three statements."""
        ...

    def readings(self, names: Collection[str]) -> dict[str, Reading]:
        """How far the newest copies into the keyed tables of `names` are, of those that have any: four statements."""
        ...

    def kept_out(self, names: Collection[str]) -> dict[str, KeptOut]:
        """The newest events that purges have kept out of days of `names`, of those that have any: one statement."""
        ...

    def backlogs(self, wanted: Mapping[str, Sequence[Delivery]]) -> dict[str, tuple[Backlog, ...]]:
        """How far the deliveries of pipelines are, in the order given: up to three statements for each, and one
        for each side table that is sent beside it."""
        ...

    def earlier_each(self, names: Collection[str]) -> dict[str, TopicFacts]:
        """What the batch left behind that a pace is measured from: two statements."""
        ...

    def totals(self, names: Collection[str]) -> dict[str, Totals]:
        """Over what has landed, redrives too: a number of statements that grows neither with names nor with batches."""
        ...

    def window_steps(self, names: Collection[str]) -> dict[str, WindowSteps]:
        """Over all windows of those of `names` that have any: two statements, which grow with the windows."""
        ...

    def landed_upto_each(self, upto: Mapping[str, int | None]) -> dict[str, Landed]:
        """The newest landed batch of each pipeline whose id is at most the one given (None: of all), redrives left
        out; pipelines without one are left out. Three statements."""
        ...

    def landed_before_each(self, upto_ms: Mapping[str, int]) -> dict[str, Landed]:
        """The same, of batches that had landed at an instant (UTC ms, inclusive)."""
        ...

    def published_within_each(self, parts: Mapping[str, Sequence[Interval]]) -> dict[str, list[int]]:
        """Starts of each pipeline's windows within its parts that have a generation in force: one statement."""
        ...
