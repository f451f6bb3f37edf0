"""The columns of a delivered table, whatever kind of system has it."""

from __future__ import annotations

from tidegate.core.deliver.port import WINDOW_COLUMN, Table
from tidegate.core.spec.pipeline import Delivery, Pipeline, table_columns


def delivered_columns(pipeline: Pipeline) -> tuple[tuple[str, str], ...]:
    """(name, Hive type): the window's start, the columns that partition the table, then those that its files hold.

    Date, hour and minute are the window's; what the overflow partition holds has its own values again."""
    partitioned = tuple((name, pipeline.column(name).type) for name in pipeline.dynamic_partitions)
    return (WINDOW_COLUMN, *partitioned, *table_columns(pipeline))


def table_of(pipeline: Pipeline, delivery: Delivery) -> Table:
    """What the system is told of its table."""
    return Table(
        pipeline=pipeline.name,
        delivery=delivery.name,
        name=delivery.table,
        columns=delivered_columns(pipeline),
        options=delivery.options,
        spec=pipeline,
        side=delivery.side,
    )
