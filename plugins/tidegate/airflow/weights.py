"""Order in which tasks get a pool's slots: today's windows before old ones, however those were begun.

The scheduler takes tasks by weight, then by logical date, oldest first. With equal weights the month that one pipeline
catches up with would stand before today's windows of all others. So the archive's tasks lose most of their weight once
their window began longer ago than RECENT; within a class the oldest comes first, and what has begun is finished first.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.task.priority_strategy import PriorityWeightStrategy
from airflow.utils import timezone

if TYPE_CHECKING:
    from airflow.models.taskinstance import TaskInstance

RECENT = timedelta(days=2)
"""A window of a day begins a day before it ends."""
OLD = 10
"""Divisor for the weight of an old window's task."""
PUBLISH, APPLY, READY, MAINTAIN, DELIVER, CATCH_UP, REPLAY = 40, 40, 30, 20, 15, 10, 2
LAND, WRITE, PLAN, COPY = 3, 2, 1, 1


class TodayFirst(PriorityWeightStrategy):
    """The task's own weight, for a window that began RECENT ago or later; a tenth of it for others."""

    def get_weight(self, ti: TaskInstance) -> int:
        """Weight by the run's id: tasks know nothing else of their run when they get their weights."""
        weight = int(ti.task.priority_weight)  # type: ignore[union-attr]
        at = logical_date(ti.run_id)
        return weight if at is None or at > timezone.utcnow() - RECENT else max(1, weight // OLD)


def logical_date(run_id: str | None) -> datetime | None:
    """Date in an id such as `scheduled__2024-10-27T01:00:00+00:00`; None for a chosen id."""
    _, _, text = (run_id or "").partition("__")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else None


def rule() -> str:
    """`weight_rule` of the archive's tasks. Where the plugin that runs is of an earlier version, as in a scheduler that
    was not restarted after an upgrade, one that it knows."""
    from airflow import plugins_manager

    plugins_manager.initialize_priority_weight_strategy_plugins()
    name = f"{TodayFirst.__module__}.{TodayFirst.__qualname__}"
    known: dict[str, Any] = plugins_manager.priority_weight_strategy_classes or {}
    return name if name in known else "absolute"
