"""Fields that no column takes: what an operator is told of one that stops the batch, and which fields are known."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.engine.failures import JobError, refuse
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.spec.proposals import advice, propose

MOST_TOLD = 10


def unknown_field(
    pipeline: Pipeline, unknown: Mapping[str, tuple[int, str]], chunk: Chunk, partition: int, example: str
) -> JobError:
    """`unknown`: the chunk's, field -> (row, value as text), not empty; `example`: the first one's value for people."""
    (name, (row, _)), *others = unknown.items()
    taken = [c.name for c in pipeline.columns]
    proposals = []
    for field, (_, text) in list(unknown.items())[:MOST_TOLD]:
        proposals.append(propose(field, [text], taken))
        taken.append(proposals[-1].column)
    more = f"; also {', '.join(repr(n[:80]) for n, _ in others[:MOST_TOLD])}" if others else ""
    return refuse(
        f"unknown field {name[:200]!r}, for example {example}{more}",
        advice=advice(proposals, pipeline.name),
        partition=partition,
        offset=chunk.offsets[row],
        field=name[:200],
        kind=RefusalKind.UNKNOWN_FIELD,
    )
