"""`tidegate schema propose` for change events in Avro: types by the messages' schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.formats.avro_messages import AvroMessages
from spark_jobs.engine.formats.registry import registry_of_job
from spark_jobs.handlers.sample import sample
from tests.change_events.envelopes import ENVELOPE, KEY, record
from tests.change_events.recordings import BY_ID, Message, chunk, pairs, reading
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import to_plain
from tidegate.core.source.records import Chunk
from tidegate.core.spec.avro import parse
from tidegate.core.spec.avro_columns import row_types
from tidegate.core.spec.pipeline import AvroFormat, Column
from tidegate.core.spec.proposals import propose

BY_SCHEMA = {"id": "bigint", "pieces": "int", "placed": "int", "total": "decimal(12,2)", "blob": "binary"}
CITY = {"city": "string", "note": "string", "customer": "string", "changed": "timestamp", "tags": "array<string>"}


class _Reader:
    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        yield chunk(self._messages)

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("name", ["postgres-avro", "postgres-avroflat"])
def test_columns_are_proposed_by_the_newest_schema(name: str) -> None:
    """What the schema knows no better, as a time in a text, by the values."""
    messages = pairs(name)[0]
    made = reading("key bigint from $._key.id", envelope="flat" if name.endswith("flat") else "full", avro=BY_ID)
    hidden = Column(name="days", type="int", path="$.unheard_of", hidden=True)  # its decoder is inside of another
    made = replace(made, columns=(hidden, *made.columns))
    request = {"pipeline": to_plain(made), "topic_id": "t", "ranges": [[0, 0, len(messages)]]}
    found = sample(request, lambda plan, settings: _Reader(messages))  # type: ignore[arg-type, return-value]
    assert {each: found["types"].get(each) for each in BY_SCHEMA} == BY_SCHEMA
    proposed = {
        field: propose(field, told["examples"], declared=found["types"].get(field)).type
        for field, told in found["fields"].items()
    }
    assert {each: proposed[each] for each in (*BY_SCHEMA, *CITY)} == BY_SCHEMA | CITY
    columns = [f"{field} {kind}" for field, kind in proposed.items() if field != "huge"]
    fitting = decoder_for(reading(*columns, envelope=made.format.debezium.envelope, avro=BY_ID)).decode(chunk(messages))  # type: ignore[union-attr]
    assert {bad.reason[:10] for bad in fitting.bad.values()} <= {"TRUNCATE (", "the value ", "null value"}
    in_json = reading("key bigint from $._key.id", envelope=made.format.debezium.envelope)  # type: ignore[union-attr]
    request["pipeline"] = to_plain(in_json)
    assert sample(request, lambda plan, settings: _Reader(pairs(name)[1]))["types"] == {}  # type: ignore[arg-type, return-value]


def test_types_of_schemas() -> None:
    row_schema = parse(json.dumps(ENVELOPE))
    assert row_types(row_schema, flat=False) == {
        "id": "bigint", "i": "int", "l": "bigint", "b": "boolean", "f": "float", "d": "double", "x": "binary",
        "day": "int", "us": "bigint", "ms": "timestamp", "n": "decimal(30,3)", "a": "array<string>",
        "m": "map<string,bigint>", "geo": "struct<wkb:binary,srid:int>",
    }  # fmt: skip
    assert row_types(parse(json.dumps(KEY)), flat=False) == {}
    node = record("Node", below=["null", "Node"])
    deep = record(
        "Row", node=node, n={"type": "bytes", "logicalType": "decimal", "precision": 39}, __op="int", A=["int", "long"]
    )
    assert row_types(parse(json.dumps(deep)), flat=True) == {}


def test_the_newest_schema_is_that_with_the_greatest_id() -> None:
    """Whatever the order in which the sample has them."""
    old, new = (json.dumps(record("V", n=kind)) for kind in ("int", "long"))
    messages = AvroMessages(AvroFormat("confluent", schemas={3: old, 20: new}), registry_of_job)
    assert messages.newest is None
    for number in (20, 3):
        messages(b"\0\0\0\0" + bytes([number]) + b"\2", "value")
    assert messages.newest is not None
    assert row_types(messages.newest, flat=True) == {"n": "bigint"}
