"""The Airflow dataset of a pipeline's table, `tidegate://<database>.<table>`, for DAGs that are scheduled by it.

The outlet is an alias: a plain dataset outlet would emit an event whenever the task succeeds, also for an unchanged
window that was cleared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.datasets import Dataset, DatasetAlias

from tidegate.core.pipeline import Pipeline

if TYPE_CHECKING:
    from airflow.models.baseoperator import BaseOperator
    from airflow.utils.context import Context

    from tidegate.workflow.context import Published


def dataset_of(pipeline: Pipeline) -> Dataset:
    """What a consumer names in its `schedule`."""
    return Dataset(f"tidegate://{pipeline.sink.table}")


def alias_of(pipeline: Pipeline) -> DatasetAlias:
    """What the publishing tasks have as outlet."""
    return DatasetAlias(f"tidegate {pipeline.sink.table}")


def emit(task: BaseOperator, published: Published, context: Context) -> None:
    """One event with the window and what is in force there."""
    pipeline = task.pipeline
    context["outlet_events"][alias_of(pipeline)].add(
        dataset_of(pipeline),
        extra={
            "window_start": context["data_interval_start"].isoformat(),
            "window_end": context["data_interval_end"].isoformat(),
            "generation": published.generation,
            "rows": published.rows,
            "digest": published.digest,
            "location": published.location,
        },
    )
