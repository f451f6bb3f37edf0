"""One state for each window, as a map shows it: what it means and what to do. Times are UTC ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core.completeness.rules import HOLD, compare
from tidegate.core.look.glance import Mark
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.states import ARCHIVE, HEAL, REOPEN, ROLLBACK, WindowKey
from tidegate.core.window.states import OPEN as WINDOW_OPEN
from tidegate.core.window.watermark import PartitionWatermark, TopicFacts, global_watermark, watermarks

ALARM, LATE, ROLLED_BACK = "alarm", "late", "rolled-back"
REOPENED, REPLAYED, PUBLISHED = "reopened", "replayed", "published"
WORKING, DUE, HELD, READY, BLOCKED, OPEN = "working", "due", "held", "ready", "blocked", "open"


@dataclass(frozen=True)
class Meaning:
    """`label` is a word or two; `todo` says what to do about such a window."""

    label: str
    means: str
    todo: str


MEANINGS: Mapping[str, Meaning] = {
    PUBLISHED: Meaning("published", "Its rows are in the table.", "Nothing."),
    REPLAYED: Meaning("replayed", "Published anew: rebuilt as a later generation.", "Nothing."),
    REOPENED: Meaning("reopened", "Published anew with rows that had come late.", "Nothing."),
    ROLLED_BACK: Meaning("rolled back", "The rows of an earlier generation are in force again.", "Nothing."),
    LATE: Meaning(
        "late rows",
        "Published; rows that came late wait in the late table.",
        "Reopen it to take them up, or leave them there.",
    ),
    READY: Meaning(
        "ready",
        "Its watermark has passed, and no run has published it yet.",
        "Nothing while its archive run is at work; otherwise unpause the archive DAG, or backfill the window.",
    ),
    DUE: Meaning(
        "due",
        "Ready, and its archive run has ended without a publication.",
        "Look at the log of the failed task, fix what it says and clear it.",
    ),
    HELD: Meaning(
        "held",
        "Ready by its watermark; another system's count says that rows are missing.",
        "Find out what is missing, or accept what is there.",
    ),
    WORKING: Meaning(
        "at work",
        "It is closing, or its files are being assembled and published.",
        "Nothing while a run is at work on it; its page says what it waits for.",
    ),
    BLOCKED: Meaning(
        "blocked",
        "Some Kafka partitions have passed its end, at least one has not.",
        "Its page names the partition, when it is expected, and what helps.",
    ),
    OPEN: Meaning("open", "Its rows are still to come.", "Nothing."),
    ALARM: Meaning(
        "alarm",
        "Files and ledger contradict each other; nothing touches it until somebody has looked.",
        "Find out why, then run the repair command that its page names.",
    ),
}
"""In the order of a legend."""
_KINDS = {ARCHIVE: PUBLISHED, REOPEN: REOPENED, ROLLBACK: ROLLED_BACK}


class Judge:
    """Of a pipeline's windows, by what its newest landed batch left behind and what maintenance saw of their runs."""

    def __init__(self, pipeline: Pipeline, facts: TopicFacts, note: ArchiveNote | None, now_ms: int) -> None:
        marks = watermarks(pipeline.windows, facts, now_ms)
        self.low_ms, self.high_ms = global_watermark(marks), _highest(marks)
        self._pipeline, self._now_ms = pipeline, now_ms
        self._ended = frozenset(note.ended) if note is not None else frozenset()

    def state(self, window: WindowKey, mark: Mark | None) -> str:
        """One of MEANINGS."""
        known = mark or Mark(start_ms=window.start_ms, state=WINDOW_OPEN)
        if known.blocked:
            return ALARM
        if known.number is not None:
            return LATE if known.late else _KINDS.get(known.kind or HEAL, REPLAYED)
        if known.state != WINDOW_OPEN or known.building:
            return WORKING
        if self.low_ms is not None and window.end_ms <= self.low_ms:
            if self._held(known):
                return HELD
            return DUE if window.start_ms in self._ended else READY
        return BLOCKED if self.high_ms is not None and window.end_ms <= self.high_ms else OPEN

    def _held(self, mark: Mark) -> bool:
        settings = self._pipeline.completeness
        if settings is None or mark.answer is None:
            return False
        return compare(settings, mark.answer, self._now_ms).action == HOLD


def _highest(marks: tuple[PartitionWatermark, ...]) -> int | None:
    return max((m.watermark_ms for m in marks if m.watermark_ms is not None), default=None)
