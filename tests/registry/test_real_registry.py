"""What readers ask a registry, asked of a real one: schemas by ids, what they refer to, and what is not there."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.formats.debezium_decoder import DebeziumDecoder
from spark_jobs.engine.formats.registry import SchemaRegistry, UnknownSchema, WrongSchema
from tests.change_events.recordings import BY_ID, chunk, pairs, reading, schemas
from tests.registry.apicurio import Apicurio, running
from tidegate.core.base.connection import Connection
from tidegate.wiring import registry_secrets

pytestmark = pytest.mark.skipif(
    os.environ.get("TIDEGATE_REGISTRY") != "all", reason="a registry of 110 MB: make test-registry"
)
INT = json.dumps({"type": "record", "name": "R", "fields": [{"name": "c", "type": "int"}]})
OUTER = json.dumps({"type": "record", "name": "Outer", "fields": [{"name": "r", "type": "R"}]})
OUTMOST = json.dumps({"type": "record", "name": "Outmost", "fields": [{"name": "o", "type": "Outer"}]})
PROTOBUF = 'syntax = "proto3";\npackage shop;\nmessage Order {\n  int64 id = 1;\n}\n'


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    with running(tmp_path_factory.mktemp("registry")) as found:
        yield found


def client(registry: Apicurio, pauses: list[float] | None = None) -> SchemaRegistry:
    """By an Airflow connection, as docs/formats.md has it."""
    told = registry_secrets(Connection(conn_id="schema_registry", conn_type="http", host=registry.url))
    return SchemaRegistry(told["tidegate.registry.url"], pause=([] if pauses is None else pauses).append)


def test_a_schema_by_its_id(registry: Apicurio) -> None:
    number = registry.register("numbers-value", INT)
    text, others = client(registry).schema(number, "AVRO")
    assert (json.loads(text), others) == (json.loads(INT), ())


def test_what_it_refers_to_comes_first(registry: Apicurio) -> None:
    """Also over two steps, and by subjects that are no words of a path."""
    registry.register("shop/R value", INT)
    one = {"name": "R", "subject": "shop/R value", "version": 1}
    registry.register("shop/outer", OUTER, references=[one])
    another = {"name": "Outer", "subject": "shop/outer", "version": 1}
    number = registry.register("outmost-value", OUTMOST, references=[another])
    text, others = client(registry).schema(number, "AVRO")
    assert [json.loads(each)["name"] for each in (*others, text)] == ["R", "Outer", "Outmost"]


def test_an_unknown_id_is_a_definite_answer(registry: Apicurio) -> None:
    pauses: list[float] = []
    with pytest.raises(UnknownSchema, match="schema id 999999 is not in the registry"):
        client(registry, pauses).schema(999_999, "AVRO")
    assert pauses == []


def test_a_schema_of_another_format(registry: Apicurio) -> None:
    number = registry.register("orders-proto", PROTOBUF, "PROTOBUF")
    with pytest.raises(WrongSchema, match=f"schema id {number} is of type PROTOBUF, not AVRO"):
        client(registry).schema(number, "AVRO")


def test_a_subject_that_was_deleted_keeps_its_ids(registry: Apicurio) -> None:
    """Messages in the topic have them for good."""
    number = registry.register("gone-value", INT.replace('"R"', '"Gone"'))
    registry.delete("gone-value")
    assert json.loads(client(registry).schema(number, "AVRO")[0])["name"] == "Gone"


@pytest.mark.parametrize("name", ["mariadb-avro", "postgres-avro"])
def test_recorded_change_events_are_read_by_it(registry: Apicurio, name: str) -> None:
    """Debezium's own schemas, keys and values, from before and after an ALTER TABLE; the rows are those of the schemas
    that were recorded."""
    numbers = {old: registry.register(f"{name}-{old}", text) for old, text in schemas().items()}
    messages = [(_numbered(key, numbers), _numbered(value, numbers)) for key, value in pairs(name)[0]]
    made = reading("id decimal(20,0)", "customer string", "total decimal(12,2)", "city string", avro=BY_ID)
    wanted = decoder_for(made).decode(chunk(pairs(name)[0]))
    asked = replace(BY_ID, schemas={}, registry_conn_id="schema_registry")
    by_registry = replace(made, format=replace(made.format, avro=asked))
    found = DebeziumDecoder(by_registry, registry=lambda: client(registry)).decode(chunk(messages))
    assert found.bad == wanted.bad
    assert found.table.equals(wanted.table)
    assert any(found.table["city"].to_pylist())


def _numbered(message: bytes | None, numbers: dict[int, int]) -> bytes | None:
    """The message with the registry's id of its schema."""
    if message is None:
        return None
    (old,) = struct.unpack(">I", message[1:5])
    return message[:1] + struct.pack(">I", numbers[old]) + message[5:]
