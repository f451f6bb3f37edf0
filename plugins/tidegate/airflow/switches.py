"""Pause and unpause DAGs in Airflow's own database, as its UI and `airflow dags unpause` do."""

from __future__ import annotations

from collections.abc import Sequence
from logging import Logger
from typing import TYPE_CHECKING, Any

from airflow.models.dag import DagModel
from airflow.models.errors import ParseImportError
from airflow.utils.session import create_session
from sqlalchemy import select, update

from tidegate.airflow.backfill.range_runs import scheduler_alive

if TYPE_CHECKING:
    from tidegate.workflow.base.context import Context


def settle(ctx: Context, dag_ids: Sequence[str], log: Logger) -> None:
    """End the pause on purpose of those of these DAGs that somebody has unpaused in the UI."""
    from tidegate.workflow.look import pauses as paused

    for line in paused.settle(ctx, Switches(dag_ids).look):
        log.info(line)


class Switches:
    """Switches of a few DAGs. Each method is a transaction of its own."""

    def __init__(self, dag_ids: Sequence[str]) -> None:
        self.dag_ids = tuple(dag_ids)

    def look(self) -> dict[str, bool]:
        """Whether each is paused, without DAGs that Airflow does not know (any more)."""
        asked = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(self.dag_ids), DagModel.is_active)
        with create_session() as session:
            found = {dag_id: bool(paused) for dag_id, paused in session.execute(asked)}
        return {dag_id: found[dag_id] for dag_id in self.dag_ids if dag_id in found}

    def turn(self, dag_id: str, paused: bool) -> bool:
        """Pause or unpause it. Returns whether that changed anything."""
        other = (DagModel.dag_id == dag_id, DagModel.is_paused.is_(not paused))
        change = update(DagModel).where(*other).values(is_paused=paused)
        with create_session() as session:
            return bool(session.execute(change.execution_options(synchronize_session=False)).rowcount)

    def scheduler_alive(self) -> bool:
        """Whether a scheduler has given a sign within the last minute."""
        with create_session() as session:
            return scheduler_alive(session)

    def import_errors(self) -> list[str]:
        """File and last line of each error that keeps DAGs of these pipelines, or of their file, from Airflow."""
        from tidegate.adapters.airflow_facts import last_line

        asked = select(ParseImportError.filename, ParseImportError.stacktrace).order_by(ParseImportError.filename)
        with create_session() as session:
            found: Sequence[Any] = session.execute(asked).all()
        names = tuple(f"{dag_id.rpartition('.')[0]}.yaml" for dag_id in self.dag_ids)
        mine = [row for row in found if row.filename.endswith(names) or row.filename.endswith(".py")]
        return [f"{row.filename}: {last_line(row.stacktrace or '')}" for row in mine]
