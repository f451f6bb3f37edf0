"""Tidegate's plugin for Airflow. Every Airflow process imports it at its start: nothing heavy here, no listeners."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from tidegate.airflow.timetable import BackfillOnlyTimetable, DeliveryTimetable, WindowTimetable
from tidegate.airflow.weights import TodayFirst
from tidegate.orchestration import timetable as old_timetable
from tidegate.orchestration import weights as old_weights


class TidegatePlugin(AirflowPlugin):
    """Schedules and weights that serialised DAGs name, and the board, which only the webserver loads."""

    name = "tidegate"
    timetables = [
        WindowTimetable,
        BackfillOnlyTimetable,
        DeliveryTimetable,
        old_timetable.WindowTimetable,
        old_timetable.BackfillOnlyTimetable,
    ]
    priority_weight_strategies = [TodayFirst, old_weights.TodayFirst]

    @cached_property
    def operator_extra_links(self) -> list[Any]:  # type: ignore[override]
        """Buttons of tasks, which serialised DAGs name."""
        from tidegate.airflow.links import BoardLink
        from tidegate.orchestration import links as old_links

        return [BoardLink(), old_links.BoardLink()]

    @cached_property
    def appbuilder_views(self) -> list[Any]:  # type: ignore[override]
        """The board's views."""
        from tidegate.board.registration import views

        return views()

    @cached_property
    def flask_blueprints(self) -> list[Any]:  # type: ignore[override]
        """The board's templates and files."""
        from tidegate.board.registration import blueprint

        return [blueprint()]
