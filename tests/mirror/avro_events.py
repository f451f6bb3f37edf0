"""Change events in Avro, each with the schema of its row's columns; and the format that knows these schemas."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro

from tests.change_events.envelopes import SOURCE, record
from tests.world import T0
from tidegate.core.spec.pipeline import AvroFormat, DebeziumFormat, Format


def decimal(precision: int, scale: int = 2) -> dict[str, Any]:
    """The schema of a decimal as `decimal.handling.mode=precise` has it."""
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


class AvroEvents:
    """`schemas`: all of the messages made so far, by their ids."""

    def __init__(self) -> None:
        self.schemas: dict[int, str] = {}

    def told(self, kinds: dict[str, Any], commit: int, ms: int = T0, **row: Any) -> tuple[bytes, bytes]:
        """(key, value) of an update as MariaDB's connector makes it."""
        after = record("Value", **{name: ["null", kind] for name, kind in kinds.items()})
        envelope = record(
            "Envelope", before=["null", after], after=["null", "Value"], source=SOURCE, op="string", ts_ms="long"
        )
        source = {"connector": "mariadb", "snapshot": "false", "file": "binlog.000001", "pos": commit, "row": 0}
        value = {"before": None, "after": row, "source": source | {"ts_ms": ms}, "op": "u", "ts_ms": ms}
        return self._written(record("Key", id=kinds["id"]), {"id": row["id"]}), self._written(envelope, value)

    def format(self, unknown_fields: str = "evolve") -> Format:
        """Of a pipeline that reads what was made so far."""
        avro = AvroFormat("confluent", schemas=dict(self.schemas))
        return Format("debezium", unknown_fields, avro=avro, debezium=DebeziumFormat(encoding="avro"))

    def _written(self, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
        text = json.dumps(schema)
        number = next((n for n, known in self.schemas.items() if known == text), len(self.schemas) + 1)
        self.schemas[number] = text
        content = io.BytesIO()
        fastavro.schemaless_writer(content, fastavro.parse_schema(json.loads(text)), value)
        return b"\0" + struct.pack(">I", number) + content.getvalue()
