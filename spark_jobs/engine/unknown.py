"""Fields that no column takes, and columns that are too narrow by a message's schema: what an operator is told of one
that stops the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.engine.formats import Decoder, of_messages
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.spec.proposals import advice, propose, scalar
from tidegate.core.spec.schema_changes import EVOLVE, new_columns, rounds

MOST_TOLD = 10
Unknown = Mapping[str, tuple[int, str]]
"""A chunk's: field -> (row, value as text), not empty."""
Wider = Mapping[str, tuple[int, str]]
"""A chunk's: column -> (row, type by its schema), not empty."""


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


def wider_column(pipeline: Pipeline, wider: Wider, chunk: Chunk, partition: int) -> JobError:
    """The refusal of a batch for columns that have to grow first."""
    name, (row, kind) = next(iter(wider.items()))
    columns = tuple(replace(pipeline.column(each), type=wide) for each, (_, wide) in wider.items())
    rounded = next((c for c in columns if rounds(pipeline.column(c.name), c.type)), None)
    if rounded is not None:
        column, path = rounded.name, scalar(rounded.path)
        return refuse(
            f"column {column} was taken up as float, and is double by the message's schema, which it cannot become",
            advice=f"write in the YAML: - {{name: {column}, type: float, hidden: true}} and - {{name: {column}_2, "
            f"type: double, from: {path}}}; then clear the write task: the same offsets are read again",
            partition=partition,
            offset=chunk.offsets[wider[column][0]],
            field=column,
            kind=RefusalKind.WIDER_TYPE,
        )
    more = "".join(f"; also {c.name} {c.type}" for c in columns[1:MOST_TOLD])
    return refuse(
        f"column {name} is {pipeline.column(name).type}, and {kind} by the message's schema{more}",
        advice="let the write task go on: unknown_fields: evolve gives the column the wider type; or write it in the "
        "YAML, then clear the task: the same offsets are read again",
        partition=partition,
        offset=chunk.offsets[row],
        field=name,
        kind=RefusalKind.WIDER_TYPE,
        columns=columns,
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
