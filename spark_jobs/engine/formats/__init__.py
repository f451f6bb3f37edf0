"""Message formats: `format.type` -> decoder. A decoder turns a chunk's records into typed columns, one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.slowness import Slowness
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Pipeline


@dataclass(frozen=True)
class Bad:
    """Message that is not a row; `field` is the column (and the place in it), or empty for the message as a whole."""

    reason: str
    field: str = ""


@dataclass
class Decoded:
    """Rows, as many as there were records, in their order: row i is message i, whatever its bytes.

    `table` has the pipeline's columns (and `_extra`); the cells of a bad row mean nothing.
    `event_ms` is int64 epoch ms, null for bad rows; None as a whole when the pipeline goes by Kafka's timestamp.
    `bad`: row -> why. `unknown`: name of an unknown field -> (row, example) of the first message that had it.
    `kept`: a boolean for each row, false where `where` does not hold or the message says nothing new; None
    where nothing is filtered.
    `slow`: messages that were decoded one by one, and why.
    `wider`: name of a column -> (row, type) of the first message whose schema says a wider type of it.
    """

    table: pa.Table
    event_ms: pa.Array | None
    bad: dict[int, Bad] = field(default_factory=dict)
    unknown: dict[str, tuple[int, str]] = field(default_factory=dict)
    kept: pa.Array | None = None
    slow: Slowness = field(default_factory=Slowness)
    wider: dict[str, tuple[int, str]] = field(default_factory=dict)


Paths = tuple[tuple[str, ...], ...]


class Decoder(Protocol):
    def decode(self, chunk: Chunk) -> Decoded: ...


def of_messages(decoder: Decoder) -> Decoder:
    """The decoder that reads the messages: itself, or the one that it computes on top of."""
    inner: Decoder = getattr(decoder, "messages", decoder)
    return inner


def of_format(pipeline: Pipeline, rules_version: int, also_known: Paths) -> Decoder:
    builder = _BUILDERS.get(pipeline.format.type)
    if builder is None:
        raise refuse(
            f"format {pipeline.format.type!r} does not exist; there is {', '.join(sorted(_BUILDERS))}",
            advice="set format.type to one of these",
            field="format.type",
        )
    return builder(pipeline, rules_version, also_known)


def _json(pipeline: Pipeline, rules_version: int, also_known: Paths) -> Decoder:
    from spark_jobs.engine.formats.json_decoder import JsonDecoder

    return JsonDecoder(pipeline, rules_version, also_known)


def _csv(pipeline: Pipeline, rules_version: int, also_known: Paths) -> Decoder:
    from spark_jobs.engine.formats.csv_decoder import CsvDecoder

    return CsvDecoder(pipeline, also_known)


def _avro(pipeline: Pipeline, rules_version: int, also_known: Paths) -> Decoder:
    from spark_jobs.engine.formats.avro_decoder import AvroDecoder

    return AvroDecoder(pipeline, rules_version=rules_version, also_known=also_known)


def _protobuf(pipeline: Pipeline, rules_version: int, also_known: Paths) -> Decoder:
    from spark_jobs.engine.formats.protobuf_decoder import ProtobufDecoder

    return ProtobufDecoder(pipeline, rules_version, also_known)


def _raw(pipeline: Pipeline, rules_version: int, also_known: Paths) -> Decoder:
    from spark_jobs.engine.formats.raw_decoder import RawDecoder

    return RawDecoder(pipeline)


def _debezium(pipeline: Pipeline, rules_version: int, also_known: Paths) -> Decoder:
    from spark_jobs.engine.formats.debezium_decoder import DebeziumDecoder

    return DebeziumDecoder(pipeline, rules_version, also_known)


_BUILDERS: dict[str, Callable[[Pipeline, int, Paths], Decoder]] = {
    "json": _json,
    "csv": _csv,
    "avro": _avro,
    "protobuf": _protobuf,
    "raw": _raw,
    "debezium": _debezium,
}
