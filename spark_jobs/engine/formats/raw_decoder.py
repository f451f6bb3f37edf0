"""Raw records: key, value and headers as Kafka has them; the table's readers decide what they mean."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.formats import Bad, Decoded
from spark_jobs.engine.types import schema_of
from tidegate.core.source.records import Chunk, Headers
from tidegate.core.spec import paths
from tidegate.core.spec.pipeline import RAW_HEADERS, RAW_PARTS, Pipeline

_NULL = "null, but the column is not nullable"


class RawDecoder:
    """Nothing in a record makes it bad, unless the spec says so: by `nullable: false`, or by the type string."""

    def __init__(self, pipeline: Pipeline) -> None:
        if pipeline.event_time.path is not None:
            raise refuse(
                "raw records have no event time but Kafka's",
                advice="set event_time.from to kafka_timestamp",
                field="event_time.from",
            )
        self._schema = schema_of(tuple((c.name, c.type) for c in pipeline.columns))
        self._columns = []
        for column in pipeline.columns:
            (part, *rest) = paths.parse(column.path)
            if rest or column.type not in RAW_PARTS.get(part, ()):
                raise refuse(
                    f"a raw record has no {column.path} of type {column.type}",
                    advice=f"there are $.key and $.value (binary, string) and $.headers ({RAW_HEADERS})",
                    field=column.name,
                )
            self._columns.append((column.name, part, column.nullable))

    def decode(self, chunk: Chunk) -> Decoded:
        bad: dict[int, Bad] = {}
        arrays = []
        for (name, part, nullable), field in zip(self._columns, self._schema, strict=True):
            if part == "headers":
                array = pa.array([_headers(h) for h in chunk.headers or [None] * len(chunk)], field.type)
            else:
                array = _part(chunk.keys if part == "key" else chunk.values, field.type, name, bad)
            if not nullable and array.null_count:
                for i in range(len(chunk)):
                    if not array[i].is_valid:
                        bad.setdefault(i, Bad(_NULL, name))
            arrays.append(array)
        return Decoded(pa.Table.from_arrays(arrays, schema=self._schema), None, bad)


def _headers(found: Headers | None) -> list[dict] | None:
    return None if found is None else [{"name": name, "value": value} for name, value in found]


def _part(found: Sequence[bytes | None], kind: pa.DataType, name: str, bad: dict[int, Bad]) -> pa.Array:
    array = pa.array(found, pa.binary())
    if not pa.types.is_string(kind):
        return array
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for i, value in enumerate(found):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError as e:
                bad.setdefault(i, Bad(f"invalid UTF-8 at byte {e.start}", name))
                texts.append(None)
        return pa.array(texts, kind)
