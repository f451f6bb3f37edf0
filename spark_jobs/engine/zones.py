"""The worker's zone data against those that the plan pins (R1): before anything is read, and in each task's process."""

from __future__ import annotations

from spark_jobs.engine.failures import refuse
from tidegate.core.base.instants import DAY_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import from_plain
from tidegate.core.batch.jobs import JobPart, ReadPlan, ReplayPlan
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_end
from tidegate.core.window.zonedata import SAME_TZDATA, around, disagreement


def check_zone_data(plan: ReadPlan) -> None:
    """Raises JobError where this host would cut a window, or spell its directory, otherwise than the control plane.

    A replay looks at the windows that it rebuilds: what tzdata says of other years is no reason to refuse them."""
    pinned = [part for part in plan.parts if part.zone is not None]
    windows = _rebuilt(plan) if pinned and isinstance(plan, ReplayPlan) else []
    for part in pinned:
        found = disagreement(part.zone, _concerned(plan, part, windows))
        if found is not None:
            raise refuse(
                found.text(f"the plan of batch {part.batch_id}", "this worker's"),
                advice=f"{SAME_TZDATA}; then clear the task",
                field="windows.timezone",
            )


def _rebuilt(plan: ReplayPlan) -> list[Interval]:
    """Nothing for windows below a day: they are cut in UTC, and the control plane spells what a replay publishes."""
    windows = from_plain(Pipeline, plan.pipeline).windows
    if windows.size_ms < DAY_MS:
        return []
    starts = [t.window_ms for t in plan.targets] or [plan.window_ms]
    return [around(start, window_end(start, windows)) for start in starts if start is not None]


def _concerned(plan: ReadPlan, part: JobPart, windows: list[Interval]) -> list[Interval] | None:
    """None: everything that the plan pins."""
    if not isinstance(plan, ReplayPlan):
        return None
    rerouted = {t.window_ms for t in plan.targets} | {plan.window_ms}
    return None if windows and part.floor.reroute_ms in rerouted and part.floor.reroute_ms is not None else windows
