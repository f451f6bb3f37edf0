"""Tidegate as Airflow sees it. Imported by every Airflow process at its start: nothing heavy here, and no listeners."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from tidegate.orchestration.timetable import BackfillOnlyTimetable, WindowTimetable


class TidegatePlugin(AirflowPlugin):
    """The schedules that serialised DAGs name."""

    name = "tidegate"
    timetables = [WindowTimetable, BackfillOnlyTimetable]
