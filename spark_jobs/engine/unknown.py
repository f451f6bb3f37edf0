"""Fields that no column takes: what an operator is told of one that stops the batch, and which fields are known."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.engine.formats import Decoder, of_messages
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.spec.proposals import advice, propose
from tidegate.core.spec.schema_changes import EVOLVE, new_columns

MOST_TOLD = 10
Unknown = Mapping[str, tuple[int, str]]
"""A chunk's: field -> (row, value as text), not empty."""


def unknown_field(
    pipeline: Pipeline, unknown: Unknown, chunk: Chunk, partition: int, example: str, decoder: Decoder
) -> JobError:
    """`example`: the first one's value for people."""
    (name, (row, _)), *others = unknown.items()
    declared = _declared(unknown, chunk, decoder) if pipeline.format.unknown_fields == EVOLVE else {}
    taken = [c.name for c in pipeline.columns]
    columns, left = new_columns(unknown, declared, taken)
    proposals = []
    for field, (_, text) in list(unknown.items())[:MOST_TOLD]:
        proposals.append(propose(field, [text], taken, declared=declared.get(field)))
        taken.append(proposals[-1].column)
    more = f"; also {', '.join(repr(n[:80]) for n, _ in others[:MOST_TOLD])}" if others else ""
    untyped = ""
    if pipeline.format.unknown_fields == EVOLVE and left:
        untyped = f"; not taken up, since no schema of the message gives {left[0][:80]!r} a type of a column"
    return refuse(
        f"unknown field {name[:200]!r}, for example {example}{more}{untyped}",
        advice=advice(proposals, pipeline.name),
        partition=partition,
        offset=chunk.offsets[row],
        field=name[:200],
        kind=RefusalKind.UNKNOWN_FIELD,
        columns=() if left else columns,
    )


def _declared(unknown: Unknown, chunk: Chunk, decoder: Decoder) -> dict[str, str]:
    """The type of each field by the schema of the first message that has it."""
    from spark_jobs.engine.formats.debezium_decoder import DebeziumDecoder

    messages = of_messages(decoder)
    if not isinstance(messages, DebeziumDecoder):
        return {}
    found: dict[str, str] = {}
    by_row: dict[int, dict[str, str]] = {}
    for field, (row, _) in unknown.items():
        if row not in by_row:
            by_row[row] = messages.declared(chunk.values[row] or b"")
        kind = by_row[row].get(field)
        if kind is not None:
            found[field] = kind
    return found
