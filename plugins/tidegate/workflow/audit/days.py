"""Days of keyed tables: their sums, and on what they are built."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.audit.problems import Problem, republish
from tidegate.core.base.errors import Alarm
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.daily.day import Day
from tidegate.core.look.views import GenerationRow
from tidegate.core.window.cut import window_id
from tidegate.workflow.base.context import Context
from tidegate.workflow.generation import daily


class Days:
    """Looked at day by day; nothing for other tables. Raises StorageError, LedgerError."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._outdated: list[tuple[int, str]] = []

    def of_window(self, current: GenerationRow) -> Iterator[Problem]:
        """What is wrong with the day in force: with its sums, or with what it adds to the day that it is built on."""
        if self._ctx.target.daily is None:
            return
        subject = f"window {window_id(current.window_ms)}"
        try:
            day = daily.read(self._ctx, current.location or "")
        except Alarm as e:
            yield Problem(subject, str(e.args[0]), republish(self._ctx.name, current.window_ms))
            return
        rows = sum(f.rows for f in current.files)
        before = self._events_before(day)
        if before is not None and day.events != before + rows:
            yield Problem(
                subject,
                f"its rows are of {many(day.events, 'event')}; the day before has {before:,}, its own are {rows:,}",
                republish(self._ctx.name, current.window_ms),
            )
        why = daily.why_outdated(self._ctx, day)
        if why is not None:
            self._outdated.append((current.window_ms, why))

    def notes(self) -> list[str]:
        """Days that a replay would change, in one line."""
        if not self._outdated:
            return []
        first, why = min(self._outdated)
        more = len(self._outdated) - 1
        return [f"{iso(first)}{f' and {more:,} more' if more else ''}: {why}; a replay brings it up to that"]

    def _events_before(self, day: Day) -> int | None:
        """Events up to the day that it is built on; None if that generation has been cleaned since."""
        if day.base is None:
            return 0
        base = daily.ground_of(self._ctx, day)
        try:
            return None if base is None else daily.read(self._ctx, base.location).events
        except Alarm:
            return None
