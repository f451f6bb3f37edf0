"""Tasks that have failed for good, in the ledger's event log: `tidegate status` and the board know them from there.

Of a task whose process died nothing is noted. Those of a window are not noted: its state says what has become of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.adapters.airflow_connections import airflow_connection
from tidegate.core.base.errors import TidegateError
from tidegate.core.base.wording import in_one_line

if TYPE_CHECKING:
    from airflow.utils.context import Context

    from tidegate.core.ledger import Ledger


def note(context: Context, what: str, advice: str) -> None:
    """Say that the task has no retries left. A ledger that gives no answer is a warning: it may be why it failed."""
    from tidegate import wiring

    ti, log = context["ti"], context["task"].log
    try:
        ledger = wiring.open_ledger(f"airflow {ti.dag_id}/{ti.run_id}/{ti.task_id}", airflow_connection)
        try:
            ledger.notices.task_failed(context["task"].pipeline.name, _name(context), what, advice)  # type: ignore[attr-defined]
        finally:
            ledger.close()
    except Exception as e:  # the task fails as it would
        log.warning("status will not name this failure: %s", in_one_line(e))


def over(ledger: Ledger, pipeline: str, context: Context) -> None:
    """Say that the task ended well, if it had failed before. Its work is done, whatever the ledger answers."""
    try:
        ledger.notices.task_works(pipeline, _name(context))
    except TidegateError as e:
        context["task"].log.warning("status may go on naming an earlier failure: %s", in_one_line(e))


def _name(context: Context) -> str:
    return f"{context['ti'].dag_id} {context['ti'].task_id}"
