"""Triggers by their names of 0.1.0: tasks that were deferred before the upgrade wait for these."""

from tidegate.airflow.sensors import WindowClosingTrigger, WindowReadyTrigger

__all__ = ["WindowClosingTrigger", "WindowReadyTrigger"]
