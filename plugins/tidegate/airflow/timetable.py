"""Airflow's schedule of a pipeline's windows: the data interval of a run is always exactly one window.

All arithmetic is that of `core.window.cut`, in UTC. Nothing is enumerated: a schedule that starts millions of
windows ago costs the scheduler as much as one that starts today.
"""

from __future__ import annotations

from typing import Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from airflow.utils import timezone
from pendulum import DateTime

from tidegate.core.base.instants import DAY_MS
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_start

TICK_MS, TICK_OFFSET_MS = 600_000, 317_000
"""Of deliveries: windows begin at whole minutes."""


class WindowTimetable(Timetable):
    """One run for each window, due when the window ends.

    A manual run, and `airflow dags test`, means the window that its logical date lies in.
    """

    def __init__(self, size_ms: int, zone: str, start_ms: int) -> None:
        """`size_ms` of a window, `start_ms` UTC ms of the first; `zone` decides where days begin."""
        self._windows = Windows(size_ms=size_ms, timezone=zone, start_ms=start_ms, watermark_delay_ms=0)
        length = f"{size_ms // 60_000} min" if size_ms < DAY_MS else f"day in {zone}"
        self.description = f"one run for each window ({length}), due when the window ends"

    @classmethod
    def of(cls, windows: Windows) -> WindowTimetable:
        return cls(windows.size_ms, windows.timezone, windows.start_ms)

    @property
    def summary(self) -> str:
        size_ms = self._windows.size_ms
        return f"windows of {size_ms // 60_000} min" if size_ms < DAY_MS else f"days in {self._windows.timezone}"

    def serialize(self) -> dict[str, Any]:
        """Inverse of `deserialize`."""
        return {"size_ms": self._windows.size_ms, "zone": self._windows.timezone, "start_ms": self._windows.start_ms}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        """Inverse of `serialize`."""
        return cls(**data)

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        """The window that the logical date `run_after` lies in, not the one before it: 05:00 means 05:00."""
        return self._interval(window_start(to_ms(run_after), self._windows))

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The window after the last run's, within the restriction (both ends inclusive, by window start)."""
        candidates = []
        if last_automated_data_interval is not None:
            candidates.append(window_start(to_ms(last_automated_data_interval.end), self._windows))
        if restriction.earliest is not None:
            candidates.append(self._at_or_after(restriction.earliest))
        if not candidates:
            return None
        if not restriction.catchup:
            now = window_start(to_ms(timezone.utcnow()), self._windows)
            candidates.append(window_start(now - 1, self._windows))
        start = max(candidates)
        if restriction.latest is not None and start > to_ms(restriction.latest):
            return None
        interval = self._interval(start)
        return DagRunInfo(run_after=interval.end, data_interval=interval)

    def _at_or_after(self, instant: DateTime) -> int:
        start = window_start(to_ms(instant), self._windows)
        return start if from_ms(start) == instant else window_end(start, self._windows)

    def _interval(self, start_ms: int) -> DataInterval:
        return DataInterval(from_ms(start_ms), from_ms(window_end(start_ms, self._windows)))


class BackfillOnlyTimetable(WindowTimetable):
    """Windows for `airflow dags backfill` and manual runs; the scheduler gets nothing.

    Only a DAG with catchup=False may use it: backfill asks with catchup=True whatever the DAG says, and that is how the
    two are told apart.
    """

    @property
    def summary(self) -> str:
        return "by backfill only"

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Nothing for the scheduler, every window for a backfill."""
        if not restriction.catchup:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )


class DeliveryTimetable(WindowTimetable):
    """A run every ten minutes by the scheduler, and one for each window by `airflow dags backfill`.

    The two are told apart as `BackfillOnlyTimetable` does it. A scheduled or manual run has no window: its data
    interval is empty, and never begins where a window does, so that a backfill's run has its logical date for itself.
    """

    @property
    def summary(self) -> str:
        return f"every {TICK_MS // 60_000} min"

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        """No window."""
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The next tick for the scheduler, every window for a backfill."""
        if restriction.catchup:
            return super().next_dagrun_info(
                last_automated_data_interval=last_automated_data_interval, restriction=restriction
            )
        after = [to_ms(timezone.utcnow()) - TICK_MS]
        after += [] if last_automated_data_interval is None else [to_ms(last_automated_data_interval.end)]
        after += [] if restriction.earliest is None else [to_ms(restriction.earliest)]
        at = from_ms((max(after) - TICK_OFFSET_MS) // TICK_MS * TICK_MS + TICK_MS + TICK_OFFSET_MS)
        if restriction.latest is not None and at > restriction.latest:
            return None
        return DagRunInfo.exact(at)


def to_ms(instant: DateTime) -> int:
    """UTC ms, rounded down; exact, where a float of microseconds would not be."""
    return int(instant.timestamp()) * 1000 + instant.microsecond // 1000


def from_ms(instant_ms: int) -> DateTime:
    """An aware instant in UTC."""
    seconds, ms = divmod(instant_ms, 1000)
    return DateTime.fromtimestamp(seconds, tz=timezone.utc).replace(microsecond=ms * 1000)
