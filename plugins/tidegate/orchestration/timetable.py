"""Timetables by their names of 0.1.0: DAGs that Airflow serialised before the upgrade have these."""

from __future__ import annotations

from tidegate.airflow import timetable as now


class WindowTimetable(now.WindowTimetable):
    """`tidegate.airflow.timetable.WindowTimetable`."""


class BackfillOnlyTimetable(now.BackfillOnlyTimetable):
    """`tidegate.airflow.timetable.BackfillOnlyTimetable`."""
