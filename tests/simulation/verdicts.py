"""What is promised, by name; and what a life is counted by."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

EARLY = "no window is published before its time"
DELAYED = "none later than one batch after it could have been"
ONE_PLACE = "every record is in exactly one place"
SAME = "decisions are identical on re-run"
REASON = "a row is late for a stated reason"
LIVE = "a topic that has ended leaves no window behind that its policy closes"
FORWARD = "the watermark moves back for a stated reason only"
NAMES = frozenset({EARLY, DELAYED, ONE_PLACE, SAME, REASON, LIVE, FORWARD})

REASONS = (
    "before windows.start",
    "older than max_age",
    "its partition came after the close",
    "behind its own partition by more than the delay",
    "behind the other partitions by more than the delay",  # idle: follow
    "longer under way than the delay",  # idle: clock
)
DATA, LATE, DIRTY, TURNED_AWAY, DROPPED, REROUTED = "data", "late", "dirty", "filtered", "dropped", "rerouted"

Fate = tuple[int, int, str, int | None]
"""(Kafka partition, offset, place, start of the window that it is in)."""


class Violated(AssertionError):
    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name, self.detail = name, detail


def require(holds: bool, name: str, detail: str) -> None:
    if not holds:
        raise Violated(name, detail)


@dataclass
class Tally:
    """What a life was like; see `report`."""

    records: int = 0
    batches: int = 0
    empty: int = 0
    abandoned: int = 0
    lost: int = 0
    closes: int = 0
    places: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    delays: Counter[int] = field(default_factory=Counter)  # batches from "could have been ready" to ready
    catching_up: Counter[int] = field(default_factory=Counter)  # the same, where `max_records` holds batches small
    waits: Counter[int] = field(default_factory=Counter)  # batches from ready to CLOSED where archive runs are prompt
    back: Counter[str] = field(default_factory=Counter)
