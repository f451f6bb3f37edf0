"""Weights by their name of 0.1.0: DAGs that Airflow serialised before the upgrade have it."""

from __future__ import annotations

from tidegate.airflow import weights as now


class TodayFirst(now.TodayFirst):
    """`tidegate.airflow.weights.TodayFirst`."""
