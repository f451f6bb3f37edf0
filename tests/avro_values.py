"""Avro messages written by hand or by fastavro, and decoders of them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from spark_jobs.engine.decoder import decoder_for
from tests.format_fixtures import check, spec
from tidegate.core.spec.pipeline import AvroFormat, Format


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def decoder(schema: Any, columns: dict[str, str], time: str = "", form: str = "epoch_ms", unknown: str = "ignore"):
    avro = AvroFormat(schema=json.dumps(schema))
    return decoder_for(spec(Format("avro", unknown, avro=avro), columns, time, form))


def written(schema: Any, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def number(n: int) -> bytes:
    n = (n << 1) ^ (n >> 63)
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def text(s: bytes | str) -> bytes:
    s = s.encode() if isinstance(s, str) else s
    return number(len(s)) + s


def one(schema: Any, kind: str, message: bytes | None, expected: Any, neighbour: bytes | None = None) -> None:
    """A record of one field `c`."""
    made = decoder(record(c=schema, end="int"), {"c": kind, "end": "int"})
    good = number(1) if neighbour is None else neighbour + number(1)
    check(made, message if message is None else message + number(7), good, expected)


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
INTS = {"type": "array", "items": "int"}


INNER = record(x="int", s="string") | {"name": "Inner"}


def logical(base: Any, name: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": name, **more} if isinstance(base, str) else {**base, "logicalType": name}


MILLIS, MICROS, NANOS = (logical("long", f"timestamp-{u}") for u in ("millis", "micros", "nanos"))
COUNTS = {"type": "map", "values": "int"}
