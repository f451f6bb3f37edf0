"""Links from a task in Airflow to its window or batch on the board. Light, as every parser and webserver loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.models.baseoperatorlink import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.models.taskinstancekey import TaskInstanceKey


class BoardLink(BaseOperatorLink):
    """Button of a task that leads to the window or the batch of its run; asks nothing before a click."""

    name = "Tidegate"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """The board's address for the run, which finds its window or batch."""
        from flask import url_for

        return url_for("TidegateBoard.run", dag_id=ti_key.dag_id, run_id=ti_key.run_id)
