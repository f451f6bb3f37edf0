"""Schemas of change events in Avro with a column of each type, as Debezium's documentation has them."""

from __future__ import annotations

import json
from typing import Any

from tidegate.core.spec.pipeline import AvroFormat


def record(name: str, **fields: Any) -> dict[str, Any]:
    """The schema of a record."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "wkb", "type": "bytes"}, {"name": "srid", "type": "int"}],
}
FIELDS: dict[str, Any] = {
    "id": "long",
    "t": ["null", "string"],
    "i": {"type": "int", "connect.type": "int16"},
    "l": ["null", "long"],
    "b": "boolean",
    "f": "float",
    "d": ["null", "double"],
    "x": ["null", "bytes"],
    "day": ["null", {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}],
    "us": {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"},
    "ms": {"type": "long", "logicalType": "timestamp-millis"},
    "n": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}],
    "a": ["null", {"type": "array", "items": ["null", "string"]}],
    "m": {"type": "map", "values": "long"},
    "geo": ["null", INNER],
    "e": {"type": "enum", "name": "E", "symbols": ["A", "B"]},
}


SOURCE = record(
    "Source", connector="string", snapshot=["string", "null"], file="string", pos="long", row="int", ts_ms="long",
) | {"namespace": "io.debezium.connector.mariadb"}  # fmt: skip
KEY = record("Key", id="long")
VALUE = record("Value", **FIELDS)
ENVELOPE = record(
    "Envelope", before=["null", VALUE], after=["null", "Value"], source=SOURCE, op="string", ts_ms=["null", "long"],
) | {"namespace": "server.shop.orders", "connect.name": "server.shop.orders.Envelope"}  # fmt: skip
WRITTEN = AvroFormat("confluent", schemas={n: json.dumps(s) for n, s in enumerate((KEY, ENVELOPE, {"type": "string"}))})
SOME = {
    "connector": "mariadb",
    "snapshot": "false",
    "file": "log.000002",
    "pos": 7,
    "row": 0,
    "ts_ms": 1_700_000_000_000,
}
