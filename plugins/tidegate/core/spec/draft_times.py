"""Which field of a topic is its event time, and what its windows should be: decided from a sample of messages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from tidegate.core.base.instants import DAY_MS, HOUR_MS, MINUTE_MS, iso, span
from tidegate.core.base.wording import many
from tidegate.core.spec.draft_fields import Field, Path
from tidegate.core.spec.paths import path_of

KAFKA_TIMESTAMP = "kafka_timestamp"
ENOUGH = 0.95
"""Share of the messages that must have a usable event time; the rest would be dirty, and is told."""
EARLIEST_MS = 946_684_800_000  # 2000-01-01: what is before is a counter, an id or a default, rather than a time
AHEAD_MS = DAY_MS
_EPOCH, _MS = datetime.fromtimestamp(0, UTC), timedelta(milliseconds=1)
_LIVE_MS = HOUR_MS
"""A topic whose newest events are older than this (beyond the delay) is not live: the clock says nothing about it."""
_EPOCHS: dict[str, Callable[[int], int]] = {
    "epoch_s": lambda v: v * 1000,
    "epoch_ms": lambda v: v,
    "epoch_us": lambda v: v // 1000,
    "epoch_ns": lambda v: v // 1_000_000,
}
_PATTERNS = (
    "%Y/%m/%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d-%m-%Y %H:%M:%S",
    "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%Y%m%d%H%M%S", "%Y%m%dT%H%M%SZ", "%Y%m%dT%H%M%S",
    "%a, %d %b %Y %H:%M:%S %z", "%a, %d %b %Y %H:%M:%S GMT", "%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %Y",
    "%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d",
)  # fmt: skip
"""Of those that differ by the order of day and month, the one with the day first comes first."""
_EXACT = ("iso8601", "epoch_ms", "epoch_us", "epoch_ns")
_BEST = re.compile(r"(^|_)(event|occurred|happened|measured|observed|sampled|emitted)(_|$)")
_GOOD = re.compile(r"(^|_)(timestamp|ts|time|at|datetime|when|instant|epoch|date|created|produced|sent)(_|$)")
_BAD = re.compile(r"(birth|dob|expir|until|valid|due|updated|modified|ended|end|deleted|planned|scheduled|next)")
_LATER = re.compile(r"(received|ingest|processed|stored|loaded|written|indexed)")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)?")
_DELAYS = tuple(MINUTE_MS * m for m in (15, 30, 60, 120, 180, 360, 720, 1440, 2880, 4320, 10_080))


@dataclass(frozen=True)
class TimeField:
    """A field that can be the event time. `share`: of the messages that have a plausible time in it."""

    path: str
    format: str
    share: float
    rank: tuple[int, ...]
    why: str

    @property
    def date_only(self) -> bool:
        return _date_only(self.format)


@dataclass(frozen=True)
class WindowDraft:
    """`windows` of the draft; `why` by key. `odd`: event times far from all others, which decided nothing."""

    size_ms: int
    start_ms: int
    delay_ms: int
    idle: str
    why: Mapping[str, str]
    odd: int = 0


def candidates(found: Mapping[Path, Field], messages: int, now_ms: int) -> list[TimeField]:
    """Fields that hold times, the best one first."""
    made = (_candidate(path, leaf, messages, now_ms) for path, leaf in found.items())
    return sorted((c for c in made if c is not None), key=lambda c: c.rank)


def chosen(found: Sequence[TimeField]) -> TimeField | None:
    """The first candidate that enough messages have and that is no mere number or date; None: go by Kafka's time."""
    for one in found:
        certain = one.rank[1] <= 1 or (one.rank[1] == 2 and one.format != "epoch_s" and not one.date_only)
        if one.share >= ENOUGH and certain:
            return one
    return None


def event_ms(value: Any, form: str) -> int | None:
    """Epoch ms of a value; None if it is no time of this format. The worker's own rules decide afterwards."""
    if form in _EPOCHS:
        return _EPOCHS[form](value) if type(value) is int else None
    if not isinstance(value, str):
        return None
    try:
        if form == "iso8601":
            at = datetime.fromisoformat(value[:10] + "T" + value[11:]) if _INSTANT.fullmatch(value) else None
        else:
            at = datetime.strptime(value, form)
    except ValueError:
        return None
    if at is None:
        return None
    return (at.replace(tzinfo=at.tzinfo or UTC) - _EPOCH) // _MS


def _date_only(form: str) -> bool:
    return "%" in form and "%H" not in form


def _candidate(path: Path, leaf: Field, messages: int, now_ms: int) -> TimeField | None:
    form, plausible = _format(leaf.values, now_ms)
    if not plausible or plausible < 0.5 * len(leaf.values):
        return None
    share = plausible / messages
    constant = len(leaf.values) > 20 and leaf.values.count(leaf.values[0]) == len(leaf.values)
    rank = (
        share < ENOUGH,
        4 if constant else _grade(path[-1]),
        (form not in _EXACT) + _date_only(form),
        len(path),
    )
    why = f"{plausible:,} of {many(messages, 'message')} have a time in it"
    without = messages - sum(event_ms(v, form) is not None for v in leaf.values)
    why += f"; {without:,} would be dirty" if without else ""
    turned = form.replace("%d/%m", "%m/%d")
    if turned != form and _plausible(leaf.values, turned, now_ms) == plausible:
        why += "; day and month may be the other way round: look"
    return TimeField(path_of(path), form, share, rank, why)


def _grade(name: str) -> int:
    """How little the name sounds like an event time: from 0, the best, to 4."""
    words = re.sub(r"\W+", "_", re.sub(r"([a-z])([A-Z])", r"\1_\2", name)).lower()
    if _BAD.search(name.lower()):
        return 4
    if _LATER.search(name.lower()):
        return 3
    return 0 if _BEST.search(words) else 1 if _GOOD.search(words) else 2


def _plausible(values: Sequence[Any], form: str, now_ms: int) -> int:
    times = (event_ms(v, form) for v in values)
    return sum(t is not None and _is_plausible(t, now_ms) for t in times)


def _is_plausible(event: int, now_ms: int) -> bool:
    return EARLIEST_MS <= event <= now_ms + AHEAD_MS


def _format(values: Sequence[Any], now_ms: int) -> tuple[str, int]:
    """The format that the most values have, with the number of plausible times; of ties the first."""
    texts = [v for v in values if isinstance(v, str)]
    few = texts[:: max(1, len(texts) // 20)]
    forms = list(_EPOCHS) if any(type(v) is int for v in values) else []
    forms += [f for f in ("iso8601", *_PATTERNS) if any(event_ms(v, f) is not None for v in few)]
    counts = ((form, _plausible(values, form, now_ms)) for form in forms)
    return max(counts, key=itemgetter(1), default=("", 0))


# ---------------------------------------------------------------- windows


def windows_of(
    times: Sequence[tuple[int, int, int]], records: int, now_ms: int, *, date_only: bool = False, lag_ms: int = 0
) -> WindowDraft:
    """`times`: (partition, offset, event ms) of the sample, plausible or not; `records`: of the whole topic; `lag_ms`:
    how long after its event a record came to Kafka, usually."""
    kept = _without_odd_ones([t for t in times if _is_plausible(t[2], now_ms)])
    if not kept:
        start = now_ms // HOUR_MS * HOUR_MS
        why = {"start": "this hour: no event time was seen", "watermark_delay": "nothing was seen that says another"}
        return WindowDraft(HOUR_MS, start, _DELAYS[0], "clock", why, len(times))
    first, last = min(t[2] for t in kept), max(t[2] for t in kept)
    size, size_why = _size(last - first, records, date_only)
    disorder = _disorder(kept)
    delay = next((d for d in _DELAYS if d >= 2 * disorder), _DELAYS[-1])
    why = {
        "size": size_why,
        "start": f"the earliest event of the sample is of {iso(first)}",
        "watermark_delay": f"events of the sample are up to {span(disorder)} out of order"
        if disorder
        else "the events of the sample are in order",
    }
    idle = "clock"
    if now_ms - last > _LIVE_MS + delay:
        idle, why["idle"] = "follow", f"the newest event of the sample is {span(now_ms - last)} old"
    elif lag_ms > _LIVE_MS + delay:
        idle, why["idle"] = "follow", f"records come {span(lag_ms)} after their events, as in a load of old data"
    odd = len(times) - len(kept)
    if odd:
        why["start"] += f" (without {many(odd, 'odd event')})"
    return WindowDraft(size, first // size * size, delay, idle, why, odd)


def _size(span_ms: int, records: int, date_only: bool) -> tuple[int, str]:
    hours = span_ms / HOUR_MS + 1
    rate = records / hours
    if date_only:
        return DAY_MS, "the event time has no hour"
    if (hours > 48 and rate < 10) or (hours > 2000 and rate < 10_000):
        return DAY_MS, f"{many(round(hours / 24), 'day')} with about {many(max(1, round(rate * 24)), 'record')} a day"
    return HOUR_MS, f"{many(round(hours), 'hour')} with about {many(max(1, round(rate)), 'record')} an hour"


def _without_odd_ones(times: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Event times but those that are far from all others: one wrong clock must not begin the windows years ago."""
    if len(times) < 20:
        return list(times)
    events = sorted(t[2] for t in times)
    low, high = events[len(events) // 20], events[-1 - len(events) // 20]
    reach = 3 * (high - low) + DAY_MS
    return [t for t in times if low - reach <= t[2] <= high + reach]


def _disorder(times: Sequence[tuple[int, int, int]]) -> int:
    """How far behind the newest event before them events of a Kafka partition are; the worst hundredth left out."""
    newest: dict[int, int] = defaultdict(int)
    behind = []
    for partition, _, event in sorted(times):
        behind.append(max(0, newest[partition] - event))
        newest[partition] = max(newest[partition], event)
    return sorted(behind)[(len(behind) * 99 - 1) // 100]
