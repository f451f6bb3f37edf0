"""Windows as a calendar: rows and columns of local time, whatever the size of a window and whatever clocks do.

| windows | a page | rows | columns |
|---|---|---|---|
| days | a year | months | days |
| 15 minutes and longer | a month | days | times of day |
| shorter | a day | hours | minutes |

Where clocks go back the repeated times have columns (or rows) of their own; where they go forward cells are missing.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from tidegate.board.words import counted, local, utc
from tidegate.core.base.instants import DAY_MS, MINUTE_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.base.zones import day_start
from tidegate.core.look.glance import Mark
from tidegate.core.look.window_map import MEANINGS, PUBLISHED, Judge
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.states import WindowKey

YEAR, MONTH, DAY = "year", "month", "day"
SIGNS = {
    "published": "", "replayed": "↻", "reopened": "+", "rolled-back": "↶", "late": "L", "ready": "○", "due": "!",
    "held": "=", "working": "…", "blocked": "‖", "open": "·", "alarm": "✕",
}  # fmt: skip
"""Signs of states besides their colours."""
MOST_CHOICES = 240
_YEARS = range(1970, 2200)
_FORMATS = {YEAR: "%Y", MONTH: "%Y-%m", DAY: "%Y-%m-%d"}


@dataclass(frozen=True)
class Cell:
    """`level`: 0 for no rows, else 1 to 4 by the rows of the page's largest window; only of published ones."""

    start_ms: int
    state: str
    sign: str
    level: int | None
    text: str


@dataclass(frozen=True)
class Row:
    label: str
    weekend: bool
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Period:
    """A year, month or day of the pipeline's zone; `value` is its name in addresses."""

    kind: str
    value: str
    first: date
    after: date
    zone: str

    @property
    def interval(self) -> Interval:
        zone = zoneinfo.ZoneInfo(self.zone)
        return Interval(day_start(self.first, zone), day_start(self.after, zone))


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """`previous` and `next` are names of periods, None at the ends; `choices` are all, newest first (none for days)."""

    period: Period
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    previous: str | None
    next: str | None
    choices: tuple[str, ...]
    counts: Mapping[str, int]
    oldest: str
    newest: str

    @property
    def tight(self) -> bool:
        """Whether there are too many columns for large cells."""
        return len(self.columns) > 40


_Placed = tuple[tuple[str, bool], dict[tuple[int, int], Cell]]


def kind_of(windows: Windows) -> str:
    if windows.size_ms >= DAY_MS:
        return YEAR
    return MONTH if windows.size_ms >= 15 * MINUTE_MS else DAY


def period_of(windows: Windows, name: str | None, at_ms: int) -> Period:
    """The period called `name`, or for an invalid name the one that holds `at_ms`."""
    kind = kind_of(windows)
    try:
        named = datetime.strptime(name or "", _FORMATS[kind]).date()
    except ValueError:
        named = None
    if named is None or named.year not in _YEARS:
        named = _local(at_ms, windows).date()
    return _period(kind, named, windows.timezone)


def _period(kind: str, day: date, zone: str) -> Period:
    first = {YEAR: day.replace(month=1, day=1), MONTH: day.replace(day=1), DAY: day}[kind]
    longest = {YEAR: 366, MONTH: 31, DAY: 1}[kind]
    after = first + timedelta(days=longest)
    after = {YEAR: after.replace(month=1, day=1), MONTH: after.replace(day=1), DAY: after}[kind]
    return Period(kind, first.strftime(_FORMATS[kind]), first, after, zone)


def _local(ms: int, windows: Windows) -> datetime:
    return datetime.fromtimestamp(ms / 1000, zoneinfo.ZoneInfo(windows.timezone))


def calendar(windows: Windows, period: Period, marks: Sequence[Mark], judge: Judge, now_ms: int) -> Calendar:
    """Windows from `windows.start` on that have begun by `now_ms`, and those of which the ledger knows something."""
    known = {m.start_ms: m for m in marks}
    most = max((m.rows or 0 for m in marks), default=0)
    placed: dict[tuple[str, bool], dict[tuple[int, int], Cell]] = {}
    counts: dict[str, int] = {}
    for key in _windows(windows, period.interval):
        mark = known.get(key.start_ms)
        row, column = _place(windows, period.kind, key.start_ms)
        cells = placed.setdefault(row, {})
        if mark is None and (key.end_ms <= windows.start_ms or key.start_ms > now_ms):
            continue
        while column in cells:
            column = (column[0], column[1] + 1)
        cell = _cell(windows, key, mark, judge, most)
        cells[column] = cell
        counts[cell.state] = counts.get(cell.state, 0) + 1
    met = {column for cells in placed.values() for column in cells} | _always(windows, period.kind)
    columns = sorted(met, key=_in_time if period.kind == MONTH else None)
    rows = [
        Row(label, weekend, tuple(cells.get(column) for column in columns))
        for (label, weekend), cells in _trimmed(list(placed.items()))
    ]
    previous, following, choices = _neighbours(windows, period, now_ms)
    return Calendar(
        period=period,
        columns=tuple(_column_label(period.kind, column, columns) for column in columns),
        rows=tuple(rows),
        previous=previous,
        next=following,
        choices=choices,
        counts=counts,
        oldest=_name(windows, period.kind, windows.start_ms),
        newest=_name(windows, period.kind, now_ms),
    )


def _trimmed(rows: list[_Placed]) -> list[_Placed]:
    """Rows without those at both ends in which no window has begun."""
    filled = [n for n, (_, cells) in enumerate(rows) if cells]
    return rows[filled[0] : filled[-1] + 1] if filled else []


def _windows(windows: Windows, within: Interval) -> Iterator[WindowKey]:
    start = window_start(within.start, windows)
    start = start if start >= within.start else window_end(start, windows)
    while start < within.end:
        end = window_end(start, windows)
        yield WindowKey(start, end)
        start = end


def _place(windows: Windows, kind: str, start_ms: int) -> tuple[tuple[str, bool], tuple[int, int]]:
    """(row's label, whether it is a weekend's), (column, 1 if clocks show it for the second time)."""
    at = _local(start_ms, windows)
    again = int(at.fold == 1 and at.replace(fold=0).utcoffset() != at.utcoffset())
    if kind == YEAR:
        return (at.strftime("%b %Y"), False), (at.day, 0)
    if kind == MONTH:
        return (at.strftime("%a %d"), at.weekday() >= 5), (at.hour * 60 + at.minute, again)
    return (at.strftime("%H") + (" again" if again else ""), False), (at.minute, 0)


def _always(windows: Windows, kind: str) -> set[tuple[int, int]]:
    """Columns to show even without a window, so that pages of one pipeline look alike."""
    if kind == YEAR:
        return {(day, 0) for day in range(1, 32)}
    span, size = (24 * 60, windows.size_ms // MINUTE_MS) if kind == MONTH else (60, windows.size_ms // MINUTE_MS)
    if not size or span % size:
        return set()
    first = _local(windows.start_ms, windows)
    if (first.hour * 60 + first.minute) % size:
        return set()
    return {(minute, 0) for minute in range(0, span, size)}


def _in_time(column: tuple[int, int]) -> tuple[int, int, int]:
    """Columns in the order of time: a repeated hour as a whole before it comes again."""
    minutes, again = column
    return minutes // 60, again, minutes


def _column_label(kind: str, column: tuple[int, int], columns: Sequence[tuple[int, int]]) -> str:
    """Label of a column: hours in full, minutes between them short, none without room."""
    value, again = column
    if kind != MONTH:
        return f"{value:02d}" if kind == DAY else str(value)
    hour, minute = divmod(value, 60)
    if minute == 0:
        label = f"{hour:02d}"
    elif all(v % 60 for v, _ in columns):
        label = f"{hour:02d}:{minute:02d}"
    else:
        label = f":{minute:02d}" if len(columns) <= 50 or again else ""
    return f"{label}²" if again else label


def _cell(windows: Windows, key: WindowKey, mark: Mark | None, judge: Judge, most: int) -> Cell:
    state = judge.state(key, mark)
    rows = mark.rows if mark is not None else None
    level = None
    if state == PUBLISHED and rows is not None:
        level = 0 if rows == 0 else min(4, 1 + rows * 4 // (most + 1))
    there = local(key.start_ms, windows.timezone)
    words = [f"{utc(key.start_ms)} UTC{f' ({there})' if there else ''}: {MEANINGS[state].label}"]
    if mark is not None and mark.number is not None:
        words.append(f"generation {mark.number}, {counted(rows, 'row')}")
        words += [counted(mark.late, "late row")] if mark.late else []
        words += [f"the next generation is {mark.building}"] if mark.building else []
    return Cell(key.start_ms, state, "0" if level == 0 else SIGNS[state], level, "; ".join(words))


def _neighbours(windows: Windows, period: Period, now_ms: int) -> tuple[str | None, str | None, tuple[str, ...]]:
    oldest, newest = (_local(ms, windows).date() for ms in (windows.start_ms, max(now_ms, windows.start_ms)))
    before = _period(period.kind, period.first - timedelta(days=1), period.zone)
    after = _period(period.kind, period.after, period.zone)
    previous = before.value if before.after > oldest else None
    following = after.value if after.first <= newest else None
    if period.kind == DAY:
        return previous, following, ()
    choices, one = [], _period(period.kind, newest, period.zone)
    while one.after > oldest and len(choices) < MOST_CHOICES:
        choices.append(one.value)
        one = _period(period.kind, one.first - timedelta(days=1), period.zone)
    if period.value not in choices:
        choices.append(period.value)
    return previous, following, tuple(choices)


def _name(windows: Windows, kind: str, ms: int) -> str:
    return _local(ms, windows).strftime(_FORMATS[kind])
