"""Events and rows of a table in words."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.engine.mirror.shape import Shape
from tidegate.core.mirror.jobs import Position


def spelled(shape: Shape, rows: pa.Table, at: int) -> str:
    return ", ".join(f"{name}={str(rows[name][at].as_py())[:100]}" for name in shape.key)


def coordinates(shape: Shape, rows: pa.Table, at: int) -> str:
    topic, partition, offset, batch = (
        rows[name][at].as_py() for name in (shape.topic, shape.partition, shape.offset, shape.batch)
    )
    return f"{topic}, partition {partition}, offset {offset} (batch {batch})"


def position(shape: Shape, rows: pa.Table, at: int) -> Position:
    """Where the source's log says it."""
    commit, row, n = (rows[name][at].as_py() for name in (shape.commit, shape.row, shape.n))
    return commit, row, n
