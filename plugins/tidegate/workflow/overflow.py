"""What a job is told of the partition values that windows have already, and what people are told of those beyond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.core.batch import JobPlan
from tidegate.core.instants import iso
from tidegate.core.lateness import Floor
from tidegate.core.overflow import Known, overflow_values, told
from tidegate.core.pipeline import Pipeline
from tidegate.core.plain import from_plain
from tidegate.core.receipt import Receipt
from tidegate.workflow.context import Context

MOST_SPANS = 32
"""Each is a query; with more holes among the closed windows one query goes through all of them."""


def with_known(ctx: Context, job: JobPlan) -> JobPlan:
    """Every attempt of a batch sees the same: no other batch lands before it. A replay sees what its window has."""
    pipeline = from_plain(Pipeline, job.pipeline)
    if job.mode == "merge" or not pipeline.dynamic_partitions:
        return job
    if job.mode == "replay":
        assert job.window_ms is not None
        pinned = (from_plain(Pipeline, part.pinned) for part in job.parts if part.pinned is not None)
        if any(_spelled(one) != _spelled(pipeline) for one in pinned):
            return job  # its rows may get other values: those that they had must not take the room
        found = ctx.ledger.batches.values(ctx.name, job.window_ms, job.window_ms)
    else:
        (part,) = job.parts
        found = {}
        for first_ms, last_ms in open_spans(part.floor, pipeline.windows.size_ms):
            found |= ctx.ledger.batches.values(ctx.name, first_ms, last_ms)
    beyond = {overflow_values(pipeline)}
    return replace(job, known=Known.of({window: values - beyond for window, values in found.items()}))


def open_spans(floor: Floor, size_ms: int) -> list[tuple[int, int | None]]:
    """Where windows that the plan saw open can start, UTC ms, inclusive; None: without an end. So that what a pipeline
    published in years is not looked through for each batch."""
    found: list[tuple[int, int | None]] = []
    at = floor.low_ms - size_ms
    for closed in floor.closed:
        if at < closed.start:
            found.append((at, closed.start - 1))
        at = closed.end
    found.append((at, None))
    return found if len(found) <= MOST_SPANS else [(found[0][0], None)]


def _spelled(pipeline: Pipeline) -> Any:
    """What partition values are made of."""
    dynamic = tuple(pipeline.column(name) for name in pipeline.dynamic_partitions)
    inputs = pipeline.columns if any(column.expr is not None for column in dynamic) else dynamic
    return replace(pipeline.format, unknown_fields=""), inputs


def say(ctx: Context, receipt: Receipt) -> None:
    for one in receipt.overflow:
        limit = ctx.pipeline.sink.max_partitions
        ctx.say(f"overflow: window {iso(one.window_ms)}: {told(one, ctx.pipeline.dynamic_partitions, limit)}")
