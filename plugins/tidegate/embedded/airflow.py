"""Airflow 2.11: scheduler, triggerer and web server, each a process; LocalExecutor on PostgreSQL."""

from __future__ import annotations

from tidegate.embedded.parts import Part


class Airflow(Part):
    """placeholder"""

    name = "airflow"
    port_names = ("airflow",)
    after = ("postgres",)

    def start(self) -> None:
        """Start."""
        raise NotImplementedError
