"""A trigger by its name of 0.1.0: tasks that were deferred before the upgrade wait for it."""

from tidegate.airflow.downstream import WindowPublishedTrigger

__all__ = ["WindowPublishedTrigger"]
