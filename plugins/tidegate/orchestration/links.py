"""The board's button by its name of 0.1.0: DAGs that Airflow serialised before the upgrade have it."""

from __future__ import annotations

from tidegate.airflow import links as now


class BoardLink(now.BoardLink):
    """`tidegate.airflow.links.BoardLink`."""
