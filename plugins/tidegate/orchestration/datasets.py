"""The Airflow dataset of a pipeline's table, `tidegate://<database>.<table>`, for DAGs that are scheduled by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.datasets import Dataset

from tidegate.core.pipeline import Pipeline

if TYPE_CHECKING:
    from airflow.models.baseoperator import BaseOperator
    from airflow.utils.context import Context

    from tidegate.workflow.context import Published


def dataset_of(pipeline: Pipeline) -> Dataset:
    """The outlet of the publishing tasks, and what a consumer names in its `schedule`."""
    return Dataset(f"tidegate://{pipeline.sink.table}")


def announce(task: BaseOperator, published: Published, context: Context) -> None:
    """A new generation is one event, with the window and what is in force there; an unchanged one is none.

    Airflow emits an event for each outlet that a task has when it succeeds, so an unchanged window drops its outlet.
    Not an alias, which could simply stay empty: the first two tasks to publish at once would both insert its dataset,
    and the loser would die after its work, without a state.
    """
    dataset = dataset_of(task.pipeline)
    if not published.new:
        task.outlets = []
        return
    context["outlet_events"][dataset].extra = {
        "window_start": context["data_interval_start"].isoformat(),
        "window_end": context["data_interval_end"].isoformat(),
        "generation": published.generation,
        "rows": published.rows,
        "digest": published.digest,
        "location": published.location,
    }
