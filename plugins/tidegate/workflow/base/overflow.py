"""What a job is told of the partition values that windows have already, and what people are told of those beyond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from tidegate.core.base.instants import iso
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.base.plain import from_plain
from tidegate.core.batch.jobs import ReadPlan, ReplayPlan
from tidegate.core.files.overflow import Known, Overflow, overflow_values, told
from tidegate.core.files.receipt import Receipt
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import window_from, window_start
from tidegate.core.window.lateness import Floor
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.in_force import in_force

P = TypeVar("P", bound=ReadPlan)
MOST_SPANS = 32
"""Each is a query; with more holes among the closed windows one query goes through all of them."""


def with_known(ctx: Context, job: P) -> P:
    """Every attempt of a batch sees the same: no other batch lands before it. A replay sees what its window has."""
    pipeline: Pipeline = from_plain(Pipeline, job.pipeline)
    if not pipeline.dynamic_partitions:
        return job
    found: dict[int, set[PartitionValues]] = {}
    if isinstance(job, ReplayPlan):
        for target in job.targets:
            parts = [job.parts[i] for i in target.parts]
            pinned: list[Pipeline] = [from_plain(Pipeline, p.pinned) for p in parts if p.pinned is not None]
            if any(_spelled(one) != _spelled(pipeline) for one in pinned):
                continue  # its rows may get other values: those that they had must not take the room
            window_ms = target.window_ms
            found |= ctx.ledger.batches.values(ctx.name, window_ms, window_ms)
            late = _of_late_rows(ctx, window_ms)
            if late:
                found[window_ms] = found.get(window_ms, set()) | late
    else:
        (part,) = job.parts
        for first_ms, last_ms in open_spans(part.floor, window_start(part.floor.low_ms, pipeline.windows)):
            found |= ctx.ledger.batches.values(ctx.name, first_ms, last_ms)
    beyond = {overflow_values(pipeline)}
    return replace(job, known=Known.of({window: values - beyond for window, values in found.items()}))


def _of_late_rows(ctx: Context, window_ms: int) -> set[PartitionValues]:
    """The values that a window with late rows has: those of landed data are not all of them."""
    key = window_from(window_ms, ctx.pipeline.windows)
    current = in_force(ctx, key)
    return {f.values for f in current.files} if current is not None and current.late else set()


def open_spans(floor: Floor, first_ms: int) -> list[tuple[int, int | None]]:
    """Spans in which windows that the plan saw open can start, UTC ms, inclusive; None: without an end. What a pipeline
    published in years is not looked through for each batch. `first_ms`: of the one that holds the low mark."""
    found: list[tuple[int, int | None]] = []
    at = first_ms
    for closed in floor.closed:
        if at < closed.start:
            found.append((at, closed.start - 1))
        at = closed.end
    found.append((at, None))
    return found if len(found) <= MOST_SPANS else [(found[0][0], None)]


def _spelled(pipeline: Pipeline) -> Any:
    """Format and columns that partition values are made of."""
    dynamic = tuple(pipeline.column(name) for name in pipeline.dynamic_partitions)
    inputs = pipeline.columns if any(column.expr is not None for column in dynamic) else dynamic
    return replace(pipeline.format, unknown_fields=""), inputs


def say(ctx: Context, receipt: Receipt) -> None:
    for one in receipt.overflow:
        say_one(ctx, one)


def say_one(ctx: Context, one: Overflow) -> None:
    limit = ctx.pipeline.sink.max_partitions
    ctx.say(f"overflow: window {iso(one.window_ms)}: {told(one, ctx.pipeline.dynamic_partitions, limit)}")
