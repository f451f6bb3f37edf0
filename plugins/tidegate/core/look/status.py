"""How one pipeline stands: the one answer that `status`, the board, measures and notices show. Times are UTC ms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tidegate.core.base.offsets import Interval
from tidegate.core.batch.states import first_batch
from tidegate.core.completeness.rules import Held
from tidegate.core.copy.complete import kept, unread
from tidegate.core.copy.rounds import Reading
from tidegate.core.copy.words import how_far, how_far_by_days
from tidegate.core.daily.purge import KeptOut
from tidegate.core.deliver.states import Backlog
from tidegate.core.late.reopen import Choice
from tidegate.core.look.overdue import Concern
from tidegate.core.look.survey import Block, Survey
from tidegate.core.look.views import Overview
from tidegate.core.mirror.applies import Merging
from tidegate.core.source.loss_warning import TimeToLoss
from tidegate.core.source.port import LogState
from tidegate.core.source.progress import Progress
from tidegate.core.source.trouble import Remedy
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.tell.pauses import Pause
from tidegate.core.window import due as rules
from tidegate.core.window import readiness
from tidegate.core.window.cut import window_end, window_from, window_start
from tidegate.core.window.due import ArchiveNote, Due
from tidegate.core.window.forecast import Forecast
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey

NEW, ATTENTION, PAUSED, WELL = "new", "attention", "paused", "well"


@dataclass(frozen=True, kw_only=True)
class Lag:
    """`records` (offsets) wait for the next batches, in each Kafka partition too; `lost` ones retention has taken
    already. `unread`: up to the log's end, which an open transaction may hold, and with the open batch until it is
    sealed. `asked_ms`: when Kafka said so, by itself or to the newest plan (`by_plan`)."""

    records: int
    partitions: dict[int, int] = field(default_factory=dict)
    lost: int = 0
    unread: int = 0
    unread_partitions: tuple[int, ...] = ()
    asked_ms: int = 0
    by_plan: bool = False
    topic_id: str = ""


@dataclass(frozen=True, kw_only=True)
class PipelineStatus:
    """`remedy`: what the source's folder says of trouble. `survey` is None for a pipeline that no run has registered;
    `topic`, `lag` and `loss` if Kafka gave no answer, `lag` too if the ledger's offsets are of another topic.

    `due` are windows that may be published and are not; `due_since_ms` is when the batch landed that made the oldest of
    them ready (None too where it was not looked at). `held` of them another system's count holds. `next_window` is the
    oldest one that is neither published nor due: its certificate says who blocks it, `expected` when it will be ready,
    and `passed_before` whether those before it are. `late_left`: windows whose late rows wait for a human.
    `merging`: of a keyed table only, which has no windows; `reading`: of its newest copy, None without one.
    `kept_out`: of a table by days, the newest events that a purge has.
    `backlogs`: how far each delivery is, in the YAML's order. `contradiction`: of the YAML to what has landed, which
    every task refuses."""

    pipeline: Pipeline
    remedy: Remedy
    now_ms: int
    due: Due
    survey: Survey | None = None
    topic: LogState | None = None
    lag: Lag | None = None
    watermark_ms: int | None = None
    due_since_ms: int | None = None
    next_window: Certificate | None = None
    expected: Forecast | None = None
    loss: TimeToLoss | None = None
    held: tuple[Held, ...] = ()
    late_left: tuple[Choice, ...] = ()
    merging: Merging | None = None
    reading: Reading | None = None
    kept_out: KeptOut | None = None
    backlogs: tuple[Backlog, ...] = ()
    contradiction: Concern | None = None
    concerns: tuple[Concern, ...] = ()
    overview: Overview | None = None  # where it was asked for

    @property
    def copy_words(self) -> str:
        """How far the copy of a mirror's source table is; empty for a pipeline that copies none."""
        if self.pipeline.copy is None:
            return ""
        if self.pipeline.windows.copied:
            return how_far_by_days(self.reading, self._unread)
        if self.merging is None:
            return ""
        return how_far(self.reading, self.merging.told, self.pipeline.copy.is_told, self._unread)

    @property
    def _unread(self) -> tuple[str, ...]:
        copy, reading = self.pipeline.copy, self.reading
        if copy is None or reading is None:
            return ()
        if not copy.servers:
            return unread(self.pipeline, reading.columns)
        # nobody reads a server that is gone, and one that has come back is read anew
        named = {one.name for one in copy.servers}.difference(reading.dropped)
        lacks = {
            name for server, columns in reading.columns_of if server in named for name in unread(self.pipeline, columns)
        }
        return tuple(name for name in kept(self.pipeline) if name in lacks)

    @property
    def is_copied(self) -> bool:
        """Whether a copy of the source's table is whole."""
        if self.merging is not None:
            return self.merging.told is not None and self.merging.told.copied.whole is not None
        return self.reading is not None and self.reading.whole is not None

    @property
    def name(self) -> str:
        return self.pipeline.name

    @property
    def well(self) -> bool:
        return not self.concerns

    @property
    def level(self) -> str:
        """attention | paused (on purpose) | new (no batch was ever planned) | well."""
        if self.concerns:
            return ATTENTION
        if self.pause is not None:
            return PAUSED
        return WELL if self.survey is not None and self.survey.begun else NEW

    @property
    def behind_ms(self) -> int | None:
        """How far the watermark is behind the clock."""
        return None if self.watermark_ms is None else max(0, self.now_ms - self.watermark_ms)

    @property
    def pause(self) -> Pause | None:
        """The pause on purpose that is not over."""
        pause = self.survey.pause if self.survey is not None else None
        return pause if pause is not None and not pause.over(self.now_ms) else None

    @property
    def archive(self) -> ArchiveNote | None:
        """What maintenance has seen of the archive runs."""
        return self.survey.note if self.survey is not None else None

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.survey.blocks if self.survey is not None else ()

    @property
    def passed_before(self) -> bool:
        waits = self.next_window
        return waits is not None and waits.watermark_ms is not None and waits.watermark_ms >= waits.window.start_ms

    @property
    def plan_lag(self) -> Lag | None:
        """What the newest plan left unread, as it met the topic."""
        newest = None if self.survey is None else self.survey.progress.newest
        if newest is None or self.pipeline.windows.read_whole:
            return None
        looks = newest.partitions.items()
        ends = {p: (x.high_watermark if x.last_stable_offset is None else x.last_stable_offset) for p, x in looks}
        left = {p: max(0, ends[p] - x.end) for p, x in looks}
        return Lag(records=sum(left.values()), partitions=left, asked_ms=newest.clock_ms, by_plan=True)


def lag_of(progress: Progress, topic: LogState | None, asked_ms: int) -> Lag | None:
    """None where it cannot be told: the ledger's offsets say nothing of another topic, and a table without a log does
    not say how many rows it has."""
    if topic is None or topic.traits.windowed or topic.is_another(progress.topic_id):
        return None
    parts = topic.partitions
    begins = {p: progress.begins(p, o.log_start) for p, o in parts.items()}
    behind = {p: max(0, o.last_stable_offset - max(begins[p], o.log_start)) for p, o in parts.items()}
    lost = sum(max(0, o.log_start - begins[p]) for p, o in parts.items())
    unread = {
        p: max(0, o.high_watermark - max(o.log_start, progress.next_offset(p, o.log_start))) for p, o in parts.items()
    }
    return Lag(
        records=sum(behind.values()),
        partitions=behind,
        lost=lost,
        unread=sum(unread.values()),
        unread_partitions=tuple(p for p, n in unread.items() if n),
        asked_ms=asked_ms,
        topic_id=topic.topic_id,
    )


def not_remembered(pipeline: Pipeline, survey: Survey, low: int | None) -> tuple[Interval, ...]:
    """Parts of time up to the watermark of which it is not remembered that their windows are published."""
    return () if low is None else rules.unknown(pipeline.windows, survey.note.published if survey.note else (), low)


def first_open(pipeline: Pipeline, low: int | None) -> int:
    """Start of the window that the watermark lies in."""
    start = pipeline.windows.start_ms
    return window_start(start if low is None else max(low, start), pipeline.windows)


def ahead(pipeline: Pipeline, survey: Survey, start: int) -> tuple[Interval, ...]:
    """A watermark may fall back behind windows that are published, and what they waited for is over: the parts of time
    where there are such windows."""
    newest = survey.published.newest_start_ms
    return () if newest is None or newest < start else (Interval(start, window_end(newest, pipeline.windows)),)


def waits(
    pipeline: Pipeline, survey: Survey, start: int, published: Collection[int], lag: Lag | None, now_ms: int
) -> Certificate:
    """The oldest window from `start` on that is not published."""
    while start in published:
        start = window_end(start, pipeline.windows)
    return certify(pipeline, survey, window_from(start, pipeline.windows), lag, now_ms)


def certify(pipeline: Pipeline, survey: Survey, key: WindowKey, lag: Lag | None, now_ms: int) -> Certificate:
    """A certificate as of now, with what waits in Kafka and where the first batch is, in words."""
    batch, first = survey.open_batch, ""
    if batch is not None:
        first = first_batch(batch.batch_id, batch.state, batch.stuck)
    unread = None if lag is None else lag.partitions
    return readiness.certify(pipeline.name, pipeline.windows, survey.facts, key, now_ms, unread, first)
