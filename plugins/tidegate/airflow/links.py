"""From a task in Airflow to what it worked on, on the board. Every parser and webserver loads it: nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.models.baseoperatorlink import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.models.taskinstancekey import TaskInstanceKey


class BoardLink(BaseOperatorLink):
    """A button of the task: the window or the batch of its run. Nothing is asked before somebody clicks."""

    name = "Tidegate"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """The board's address for the run; it finds out which window or batch that is."""
        from flask import url_for

        return url_for("TidegateBoard.run", dag_id=ti_key.dag_id, run_id=ti_key.run_id)
