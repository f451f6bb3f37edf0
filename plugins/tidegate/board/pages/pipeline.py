"""One pipeline: how it is, and its windows as a calendar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.board.pages import calendar
from tidegate.board.pages.calendar import Calendar
from tidegate.board.reach import Reach
from tidegate.core.deliver.due import in_words
from tidegate.core.deliver.states import Backlog
from tidegate.core.look import overdue
from tidegate.core.look.chunk_map import ChunkMap, chunk_map
from tidegate.core.look.concerns import late_words
from tidegate.core.look.glance import DirtyShare
from tidegate.core.look.status import PipelineStatus
from tidegate.core.look.survey import NOTHING
from tidegate.core.look.window_map import Judge
from tidegate.core.source.loss_warning import CRITICAL, WARN, sentence, short
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.kinds import dags_of
from tidegate.workflow.look.status import status

EVENTS = 8
DIRTY_BATCHES = 3
"""Newest batches with dirty rows to show with samples."""


@dataclass(frozen=True)
class PartitionLag:
    """`behind` is None where Kafka has not answered; offsets exclusive at the end."""

    partition: int
    planned_end: int | None
    behind: int | None
    stable: int | None
    high_watermark: int | None


@dataclass(frozen=True, kw_only=True)
class Page:
    """`asked_ms`: when Kafka answered (UTC ms), else `silence` says why not. `spec_error`: the YAML is broken, and
    what is shown is by the spec that the ledger has. `chunks`: of copies that are under way."""

    pipeline: Pipeline
    status: PipelineStatus
    calendar: Calendar
    lags: tuple[PartitionLag, ...]
    dirty: tuple[DirtyShare, ...]
    asked_ms: int | None
    silence: str
    address: str
    spec_error: str
    now_ms: int
    chunks: tuple[ChunkMap, ...] = ()

    @property
    def dags(self) -> tuple[str, ...]:
        return dags_of(self.pipeline)

    @property
    def level(self) -> str:
        return "broken" if self.spec_error else self.status.level

    @property
    def loss(self) -> tuple[str, str, str]:
        """Time to loss: short, in words, and its level."""
        loss = self.status.loss
        if loss is None:
            return "?", f"not known: {self.silence}", ""
        return short(loss), sentence(loss), loss.level if loss.level in (WARN, CRITICAL) else ""

    @property
    def balanced(self) -> bool:
        """Whether every record that was read is accounted for."""
        return self.status.survey is None or not self.status.survey.unaccounted

    def delivered(self, backlog: Backlog) -> str:
        """How far a delivery is, in words."""
        return in_words(backlog, self.now_ms)

    @property
    def late(self) -> str:
        """Words on late rows that wait for a human."""
        return late_words(self.status.late_left, self.pipeline.name)

    @property
    def due(self) -> str:
        """Due windows in words, with the command that publishes them; empty if none is due."""
        due = self.status.due
        if not due:
            return ""
        over, held = overdue.ended(due, self.status.archive), [h.window_ms for h in self.status.held]
        lately = 0 if self.status.survey is None else self.status.survey.lately
        just_now = overdue.just_now(self.status.due_since_ms, self.status.archive, self.status.now_ms)
        fill = overdue.to_fill(self.pipeline.name, due, over, held, lately, just_now)
        return overdue.ranges(due) + (f"; {fill}" if fill else "")


def gather(reach: Reach, name: str, period: str | None, address: str) -> Page:
    """The page; `address` is a window's without the window. Raises UnknownPipeline, NotRegistered, LedgerError."""
    pipeline = reach.pipeline(name)
    topics = reach.topics.known([pipeline])
    topic, asked_ms = topics.get(name, (None, None))
    ctx = reach.context(pipeline)
    reads = reach.ledger().reads
    found = status(ctx, reads, topic, EVENTS)
    now_ms = ctx.clock.now_ms()
    judge = Judge(pipeline, NOTHING.facts if found.survey is None else found.survey.facts, found.archive, now_ms)
    at_ms = min(now_ms, max(pipeline.windows.start_ms, judge.low_ms if judge.low_ms is not None else now_ms))
    shown = calendar.period_of(pipeline.windows, period, at_ms)
    error = reach.broken(name)
    return Page(
        pipeline=pipeline,
        status=found,
        calendar=calendar.calendar(pipeline.windows, shown, reads.marks(name, shown.interval), judge, now_ms),
        lags=tuple(_lags(found, topic)),
        dirty=tuple(reads.dirty_shares(name, DIRTY_BATCHES)),
        asked_ms=asked_ms,
        silence=reach.topics.silence(pipeline),
        address=address,
        spec_error="" if error is None else str(error),
        now_ms=now_ms,
        chunks=tuple(_chunks(reach, found, now_ms)),
    )


def _chunks(reach: Reach, found: PipelineStatus, now_ms: int) -> Iterator[ChunkMap]:
    """Of each copy that is under way."""
    told = None if found.merging is None else found.merging.told
    for round_ in () if found.reading is None else [one.round for one in found.reading.under_way]:
        chunks = reach.ledger().copies.chunks(found.name, round_.number)
        yield chunk_map(round_, chunks, None if told is None else told.copied.round(round_.number), now_ms)


def _lags(found: PipelineStatus, topic: LogState | None) -> list[PartitionLag]:
    ends = {} if found.survey is None else found.survey.progress.ends
    offsets = {} if topic is None else topic.partitions
    lags: list[PartitionLag] = []
    if found.pipeline.windows.read_whole:
        return lags  # offsets of a lane that is time tell nobody anything
    for p in sorted({*ends, *offsets}):
        behind = None if found.lag is None else found.lag.partitions.get(p)
        at = offsets.get(p)
        marks = (None, None) if at is None else (at.last_stable_offset, at.high_watermark)
        lags.append(PartitionLag(p, ends.get(p), behind, *marks))
    return lags
