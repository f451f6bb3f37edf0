"""One window: its certificate, what it rests on, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.board.airflow import Run, runs_of_window
from tidegate.board.reach import Reach
from tidegate.core.base.offsets import Interval
from tidegate.core.look.glance import Mark
from tidegate.core.look.window_map import MEANINGS, Judge, Meaning
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import parse_window_id, window_from, window_start
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.workflow.look.explanation import Explanation, explain

MOST = 40
"""Most Kafka partitions, ranges and batches to list; the rest is counted."""


class NoWindow(Exception):
    """The address names no window."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """`files`: of each generation (files, bytes). `runs` are Airflow's of this window, newest first."""

    pipeline: Pipeline
    explanation: Explanation
    state: str
    meaning: Meaning
    files: dict[int, tuple[int, int]]
    runs: tuple[Run, ...]
    previous_ms: int
    next_ms: int
    now_ms: int

    @property
    def stored(self) -> Certificate | None:
        """The certificate of the publication, if it differs from today's."""
        stored, now = self.explanation.stored, self.explanation.now
        if stored is None or (stored.ready, stored.reason) == (now.ready, now.reason):
            return None
        return stored


def key_of(pipeline: Pipeline, text: str) -> WindowKey:
    """The window that holds the instant `text`, or whose id it is. Raises NoWindow."""
    if not pipeline.windows.closes:
        raise NoWindow(text)
    try:
        if text.endswith("Z") and "-" not in text:
            at_ms = parse_window_id(text)
        else:
            at = datetime.fromisoformat(text)
            at_ms = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
        start = window_start(at_ms, pipeline.windows)
        return window_from(start, pipeline.windows)
    except (ValueError, OverflowError, OSError):
        raise NoWindow(text) from None


def gather(reach: Reach, name: str, window: str) -> Page:
    """Raises UnknownPipeline, NotRegistered, NoWindow, LedgerError."""
    pipeline = reach.pipeline(name)
    key = key_of(pipeline, window)
    ctx, reads = reach.context(pipeline), reach.ledger().reads
    topic, _ = reach.topics.known([pipeline]).get(name, (None, 0))
    found = explain(ctx, reads, key, topic, reads.window_view(name, key))  # a window may have very many files
    now_ms = ctx.clock.now_ms()
    judge = Judge(pipeline, ctx.ledger.windows.facts(name), ctx.ledger.due.note(name), now_ms)
    marks: list[Mark] = reads.marks(name, Interval(key.start_ms, key.start_ms + 1))
    state = judge.state(key, marks[0] if marks else None)
    return Page(
        pipeline=pipeline,
        explanation=found,
        state=state,
        meaning=MEANINGS[state],
        files=reads.file_counts(name, key),
        runs=runs_of_window(pipeline, key, found.view.events),
        previous_ms=window_start(key.start_ms - 1, pipeline.windows),
        next_ms=key.end_ms,
        now_ms=now_ms,
    )
