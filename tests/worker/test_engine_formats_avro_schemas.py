"""Avro schemas: of each message by its id, and those that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.failures import JobError
from spark_jobs.engine.formats.avro_decoder import AvroDecoder
from tests.avro_values import ENUM, decoder, number, record, text
from tests.engine_fixtures import chunk_of
from tests.format_fixtures import Dirty, check, spec
from tidegate.core.spec.avro import parse
from tidegate.core.spec.pipeline import AvroFormat, Format


class Registry:
    """In place of the real one: `known` maps ids to (schema, references)."""

    def __init__(self, known: dict[int, tuple[str, tuple[str, ...]]]) -> None:
        self.known, self.asked = known, []

    def schema(self, wanted: int, kind: str) -> tuple[str, tuple[str, ...]]:
        from spark_jobs.engine.formats.registry import UnknownSchema, WrongSchema

        self.asked.append(wanted)
        if wanted not in self.known:
            raise UnknownSchema(wanted, "the registry x")
        if self.known[wanted][0] == "protobuf":
            raise WrongSchema(f"schema id {wanted} is of type PROTOBUF, not {kind}")
        return self.known[wanted]


def framed(schema_id: int, datum: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + datum


def confluent(registry: Registry | None, unknown_schema: str = "fail", **more: Any) -> AvroDecoder:
    avro = AvroFormat("confluent", registry_conn_id="r" if registry else None, unknown_schema=unknown_schema, **more)
    made = spec(Format("avro", avro=avro), {"c": "int", "later": "string"})
    return AvroDecoder(made, lambda: registry)  # type: ignore[arg-type, return-value]


ONE, TWO = json.dumps(record(c="int")), json.dumps(record(later="string", c="long"))


@pytest.mark.parametrize(
    ("row", "message", "expected"),
    [
        ("A-message-confluent", framed(1, number(5)), {"c": 5, "later": None}),
        ("A-message-confluent", framed(2**32 - 1, text("x") + number(5)), {"c": 5, "later": "x"}),
        ("A-message-header", b"\x00\x00\x00\x01", Dirty("no Confluent header")),
        ("A-message-header", b"\x01" + framed(1, number(5))[1:], Dirty("no Confluent header")),
        ("A-message-header", b"", Dirty("no Confluent header")),
        ("A-message-tombstone", None, Dirty("tombstone")),
        ("A-message-other-schema", framed(7, number(5)), Dirty("schema id 7 is of type PROTOBUF, not AVRO")),
        ("A-message-trailing", framed(1, number(5) + b"\x00"), Dirty("1 bytes too many")),
    ],
)
def test_confluent_messages(row, message, expected):
    registry = Registry({1: (ONE, ()), 2**32 - 1: (TWO, ()), 7: ("protobuf", ())})
    check(confluent(registry), message, framed(1, number(1)), expected)
    assert len(registry.asked) == len(set(registry.asked)) <= 2


@pytest.mark.parametrize("row", ["A-message-unknown-schema"])
def test_an_id_that_nobody_knows(row):
    registry = Registry({1: (ONE, ())})
    messages = [framed(1, number(1)), framed(99, number(5)), framed(1, number(2)), framed(99, number(5))]
    with pytest.raises(JobError, match="schema id 99 is not in the registry x") as error:
        confluent(registry).decode(chunk_of(messages))
    assert (error.value.failure.retry, error.value.failure.offset) == (True, 1)
    assert "format.unknown_schema: dirty" in error.value.failure.advice
    check(confluent(registry, "dirty"), messages[1], messages[0], Dirty("schema id 99 is not in the registry x"))
    local = confluent(None, schemas={1: ONE})
    with pytest.raises(JobError, match="schema id 99 is not in format.schemas"):
        local.decode(chunk_of(messages))
    check(confluent(None, "dirty", schemas={1: ONE}), messages[1], messages[0], Dirty("not in format.schemas"))
    both = confluent(registry, schemas={99: TWO})
    check(both, framed(99, text("x") + number(5)), messages[0], {"c": 5, "later": "x"})


def test_types_of_other_schemas_are_found():
    count = record(n="int") | {"name": "Count", "namespace": "other"}
    registry = Registry({1: (json.dumps(record(c="other.Count")), (json.dumps(ENUM), json.dumps(count)))})
    avro = AvroFormat("confluent", registry_conn_id="r")
    made = AvroDecoder(spec(Format("avro", avro=avro), {"n": "int from $.c.n"}), lambda: registry)  # type: ignore[arg-type, return-value]
    check(made, framed(1, number(5)), framed(1, number(1)), {"n": 5})


@pytest.mark.parametrize("row", ["A-spec"])
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("[", "not JSON"),
        ('"int"', "not records"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"Gone"}]}', "a: the type 'Gone' is not defined"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "twice"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":["int",["null"]]}]}', "a union in a union"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"fixed","name":"F"}}]}', "has no 'size'"),
        ('{"type":"record","name":"R","fields":{}}', "are no list"),
        ('{"type":"record","name":"R"}', "has no 'fields'"),
        ("[" * 100_000, "nested too deeply"),
        ('{"type":' * 300 + '"int"' + "}" * 300, "nested too deeply"),
    ],
)
def test_a_schema_that_is_none_stops_the_job(row, schema, says):
    """The spec refuses those that it has: tests/spec/test_spec_formats.py."""
    with pytest.raises(JobError, match="an Avro schema cannot be used") as error:
        decoder_for(spec(Format("avro", avro=AvroFormat(schema=schema)), {"c": "int"}))
    assert says in str(error.value)


def test_types_that_are_used_again_and_again_cost_no_more_than_once():
    inner: Any = record(x="int") | {"name": "N0"}
    for i in range(1, 40):
        inner = record(left=inner, right=f"N{i - 1}") | {"name": f"N{i}"}
    decoder(record(a={"type": "array", "items": inner}, c="N39"), {"c": "int from $.c.left.left.gone"})
    wide = [record(x="int") | {"name": f"B{i}"} for i in range(4000)]
    told = "an Avro schema cannot be used"
    try:  # Python's recursion limit decides, which other tests of the process may have raised
        decoder(record(c=wide), {"c": "int from $.c.x"})
    except JobError as e:
        told = str(e)
    assert "an Avro schema cannot be used" in told


def test_names_are_found_by_their_namespaces():
    text_ = json.dumps(
        {
            "type": "record",
            "name": "a.R",
            "fields": [
                {"name": "x", "type": {"type": "enum", "name": "E", "symbols": ["S"]}},
                {"name": "y", "type": "E"},
                {"name": "z", "type": "a.E"},
                {"name": "w", "type": {"type": "record", "name": "b.Q", "fields": [{"name": "e", "type": "a.E"}]}},
                {"name": "v", "type": "b.Q"},
            ],
        }
    )
    schema = parse(text_)
    fields = dict(schema.fields)
    assert fields["x"] is fields["y"] is fields["z"] is dict(fields["w"].fields)["e"]
    assert fields["v"] is fields["w"]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "int", "logicalType": "timestamp-millis"}, "int"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "bytes"),
        ({"type": "bytes", "logicalType": "decimal", "precision": "5"}, "bytes"),
        ({"type": "string", "logicalType": "decimal", "precision": 5}, "string"),
        ({"type": "fixed", "name": "F", "size": 15, "logicalType": "uuid"}, "fixed"),
        ({"type": "long", "logicalType": "whatever"}, "long"),
        ({"type": {"type": "long", "logicalType": "timestamp-micros"}}, "timestamp-micros"),
    ],
)
def test_a_logical_type_that_is_not_valid_is_ignored(schema, kind):
    assert parse(json.dumps(schema)).kind == kind
