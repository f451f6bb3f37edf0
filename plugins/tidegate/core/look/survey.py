"""What the ledger says of many pipelines at once: the ground of measures, alerts and the forecast of losses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.base.offsets import Interval
from tidegate.core.batch.totals import NO_STEPS, NO_TIME, BatchSteps, Spent, Totals
from tidegate.core.files.slow_path import Slow
from tidegate.core.source.progress import Progress
from tidegate.core.tell.notices import AuditOutcome
from tidegate.core.tell.pauses import Pause
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.watermark import TopicFacts


@dataclass(frozen=True)
class Counts:
    """Sums over the LANDED batches but redrives; each only grows. `bytes`: keys and values as Kafka delivered them.

    `unaccounted` sums, range by range, what `read` differs by from what its records became: 0, or the promise is
    broken. `dirty_now` are dirty rows that no redrive has taken up."""

    offsets: int = 0
    read: int = 0
    data: int = 0
    late: int = 0
    dirty: int = 0
    filtered: int = 0
    dropped: int = 0
    rerouted: int = 0
    bytes: int = 0
    unaccounted: int = 0
    dirty_now: int = 0


@dataclass(frozen=True)
class Published:
    """Generations in force: how many windows and rows; and of the newest window, `[start, end)` and when its first
    generation came into force (UTC ms; None: none has)."""

    windows: int = 0
    rows: int = 0
    newest_start_ms: int | None = None
    first_published_ms: int | None = None


@dataclass(frozen=True)
class Survey:
    """One pipeline. `open_since_ms`: when the batch was planned that has not landed; `held` of batches and windows wait
    for a human (refused or blocked); `lost` offsets were gone before they were read; `steps` of LANDED batches;
    `audit`: the newest one; `untold` messages to people have not been delivered; `late_now`: late rows that no
    generation in force has taken up; `pause`: it is paused on purpose; `slow`: messages of the newest landed batch
    that took the slow path."""

    progress: Progress
    facts: TopicFacts
    counts: Counts = Counts()
    published: Published = Published()
    note: ArchiveNote | None = None
    open_since_ms: int | None = None
    held: int = 0
    lost: int = 0
    steps: BatchSteps = NO_STEPS
    audit: AuditOutcome | None = None
    untold: int = 0
    late_now: int = 0
    pause: Pause | None = None
    slow: tuple[Slow, ...] = ()


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
    """Part of core.views.LedgerReads. Raises LedgerError."""

    def survey(self, names: Collection[str], now_ms: int) -> dict[str, Survey]:
        """Those of `names` that the ledger knows, as of one instant, by a number of statements that does not grow with
        them."""
        ...

    def progress(self, names: Collection[str], now_ms: int) -> dict[str, Progress]:
        """The part of a survey that is always small."""
        ...

    def totals(self, names: Collection[str]) -> dict[str, Totals]:
        """Over what has landed, redrives too: a number of statements that grows neither with names nor with batches."""
        ...

    def window_steps(self, names: Collection[str]) -> dict[str, WindowSteps]:
        """Over all windows of those of `names` that have any: two statements, which grow with the windows."""
        ...

    def landed_upto_each(self, upto: Mapping[str, int | None]) -> dict[str, Landed]:
        """For each pipeline the newest landed batch whose id is at most the one given (None: of all), redrives left
        out; pipelines without one are left out. Three statements."""
        ...

    def landed_before_each(self, upto_ms: Mapping[str, int]) -> dict[str, Landed]:
        """The same, of batches that had landed at an instant (UTC ms, inclusive)."""
        ...

    def published_within_each(self, parts: Mapping[str, Sequence[Interval]]) -> dict[str, list[int]]:
        """For each pipeline the starts of windows within its parts that have a generation in force: one statement."""
        ...
