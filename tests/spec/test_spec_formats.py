"""`format` and what it says about columns: wrong combinations are refused with their places."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from tidegate.core.base.errors import SpecError
from tidegate.core.base.plain import dumps, loads
from tidegate.core.spec.pipeline import (
    RAW_HEADERS,
    AvroFormat,
    Column,
    CsvFormat,
    DebeziumFormat,
    EventTime,
    Format,
    Pipeline,
)
from tidegate.spec import fingerprint, load_file

HEAD = """\
version: 1
name: orders
owner: shop
source: {topic: orders}
windows: {size: 1h, start: 2024-01-01T00:00:00Z, watermark_delay: 6h}
partition_by: [date, hour]
sink: {table: lake.orders, location: file:///lake/orders}
"""
COLUMNS = """\
columns:
- {name: shop, type: string}
- {name: total, type: "decimal(10,2)", from: $.total}
"""
TIME = "event_time: {from: $.placed}\n"
KAFKA = "event_time: {from: kafka_timestamp}\n"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "shop", "type": ["null", "string"]},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
LATER = {"type": "record", "name": "Order", "fields": [*ORDER["fields"], {"name": "note", "type": "string"}]}


def descriptors(folder: Path, **options: object) -> str:
    file = FileDescriptorProto(name="shop/order.proto", package="shop.v1", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    kinds = {"shop": "STRING", "total": "INT64", "placed": "INT64", "seen": "MESSAGE"}
    for number, (name, kind) in enumerate(kinds.items(), 1):
        field = order.field.add(name=name, number=number, label=1, type=getattr(FieldDescriptorProto, f"TYPE_{kind}"))
        if kind == "MESSAGE":
            field.type_name = ".google.protobuf.Timestamp"
    (folder / "order.desc").write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    return "order.desc"


def load(folder: Path, message_format: str, columns: str = COLUMNS, time: str = TIME) -> Pipeline:
    path = folder / "orders.yaml"
    path.write_text(f"{HEAD}format:\n  {message_format}\n{columns}{time}")
    return load_file(path, {})


def refused(folder: Path, field: str, says: str, *args: str) -> None:
    with pytest.raises(SpecError) as error:
        load(folder, *args)
    assert error.value.field == field, str(error.value)
    assert says in str(error.value)
    assert error.value.where.startswith(str(folder / "orders.yaml:"))


CSV = "type: csv\n  fields: [shop, _, total, placed, _]"


def test_csv(tmp_path):
    pipeline = load(tmp_path, CSV)
    assert pipeline.format == Format("csv", "ignore", CsvFormat(("shop", "_", "total", "placed", "_")))
    odd = load(tmp_path, CSV + '\n  delimiter: "\\t"\n  quote: null\n  escape: "\\\\"\n  null_text: "\\\\N"')
    assert odd.format.csv == CsvFormat(("shop", "_", "total", "placed", "_"), "\t", None, "\\", "\\N")
    assert loads(Pipeline, dumps(odd)) == odd
    assert fingerprint(odd) != fingerprint(pipeline)


@pytest.mark.parametrize(
    ("field", "says", "message_format", "columns"),
    [
        ("format.fields", "is required with format.type csv", "type: csv", COLUMNS),
        ("format.fields[4]", "shop is there already", "type: csv\n  fields: [shop, _, total, placed, shop]", COLUMNS),
        ("format.quote", "is the same as delimiter", CSV + "\n  delimiter: ';'\n  quote: ';'", COLUMNS),
        ("format.escape", "is the same as quote", CSV + "\n  escape: '\"'", COLUMNS),
        ("columns[0].type", "$.note is not one of format.fields", CSV, "columns:\n- {name: note, type: string}\n"),
        (
            "columns[0].from",
            "is not one of format.fields",
            CSV,
            "columns:\n- {name: a, type: string, from: $.shop.a}\n",
        ),
        ("columns[0].from", "is not one of format.fields", CSV, "columns:\n- {name: a, type: string, from: $._}\n"),
        ("columns[0].type", "cannot be array<int>", CSV, "columns:\n- {name: shop, type: array<int>}\n"),
        ("event_time.from", "is not one of format.fields", "type: csv\n  fields: [shop, total]", COLUMNS),
        ("format.wire", "no meaning with format.type csv", CSV + "\n  wire: plain", COLUMNS),
    ],
)
def test_wrong_csv(tmp_path, field, says, message_format, columns):
    refused(tmp_path, field, says, message_format, columns)


def test_avro_schemas_come_from_files_or_stand_in_the_yaml(tmp_path):
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/order.avsc").write_text(json.dumps(ORDER))
    by_file = load(tmp_path, "type: avro\n  schema: schemas/order.avsc")
    inline = load(tmp_path, f"type: avro\n  schema: {json.dumps(ORDER)}")
    assert by_file.format == inline.format == Format("avro", "ignore", avro=AvroFormat(schema=json.dumps(ORDER)))
    text = load(tmp_path, f"type: avro\n  schema: '{json.dumps(ORDER)}'")
    assert text.format == by_file.format
    (tmp_path / "schemas/order.avsc").write_text(json.dumps(LATER))
    assert fingerprint(load(tmp_path, "type: avro\n  schema: schemas/order.avsc")) != fingerprint(by_file)
    many = load(
        tmp_path, f"type: avro\n  wire: confluent\n  schemas: {{7: schemas/order.avsc, 8: {json.dumps(ORDER)}}}"
    )
    assert many.format.avro == AvroFormat("confluent", schemas={7: json.dumps(LATER), 8: json.dumps(ORDER)})
    assert loads(Pipeline, dumps(many)) == many
    registry = load(tmp_path, "type: avro\n  wire: confluent\n  registry_conn_id: reg\n  unknown_schema: dirty")
    assert registry.format.avro == AvroFormat("confluent", registry_conn_id="reg", unknown_schema="dirty")


INTO_SHOP = "columns:\n- {name: a, type: int, from: $.shop.a}\n"
TAGS = "columns:\n- {name: tags, type: array<int>}\n"
GONE = "columns:\n- {name: shop, type: string}\nevent_time: {from: $.gone}\n"
INLINE = f"type: avro\n  schema: {json.dumps(ORDER)}"


@pytest.mark.parametrize(
    ("field", "says", "message_format", "columns"),
    [
        ("format.schema", "is required with wire: plain", "type: avro", COLUMNS),
        ("format.schema", "cannot be read (looked for it at", "type: avro\n  schema: gone.avsc", COLUMNS),
        ("format.schema", "is no Avro schema: not JSON", "type: avro\n  schema: '{'", COLUMNS),
        ("format.schema", "the type 'Nowhere' is not defined", "type: avro\n  schema: '\"Nowhere\"'", COLUMNS),
        ("format.schema", "is string, not a record", "type: avro\n  schema: '\"string\"'", COLUMNS),
        ("format.schemas", "no meaning with wire: plain", INLINE + "\n  schemas: {1: '{}'}", COLUMNS),
        ("format.registry_conn_id", "needs registry_conn_id", "type: avro\n  wire: confluent", COLUMNS),
        (
            "format.schema",
            "no meaning with wire: confluent",
            INLINE + "\n  wire: confluent\n  registry_conn_id: r",
            COLUMNS,
        ),
        ("format.schemas.7", "is no Avro schema", "type: avro\n  wire: confluent\n  schemas: {7: '[]'}", COLUMNS),
        ("columns[0].type", "string cannot be int", INLINE, "columns:\n- {name: shop, type: int}\n"),
        ("columns[0].type", "no field $.note", INLINE, "columns:\n- {name: note, type: int}\n"),
        (
            "columns[0].from",
            "$.shop is string, not a record",
            INLINE,
            "columns:\n- {name: a, type: int, from: $.shop.a}\n",
        ),
        (
            "columns[0].type",
            "its elements: string cannot be int",
            INLINE,
            "columns:\n- {name: tags, type: array<int>}\n",
        ),
        ("event_time.from", "decimal cannot be an event time", INLINE, COLUMNS + "event_time: {from: $.total}\n"),
    ],
)
def test_wrong_avro(tmp_path, field, says, message_format, columns):
    refused(tmp_path, field, says, message_format, columns, "" if "event_time" in columns else TIME)


def test_a_column_must_fit_every_schema_that_has_it(tmp_path):
    (tmp_path / "1.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "2.avsc").write_text(json.dumps(LATER))
    both = "type: avro\n  wire: confluent\n  schemas: {1: 1.avsc, 2: 2.avsc}"
    load(tmp_path, both, COLUMNS + "- {name: note, type: string}\n")
    refused(tmp_path, "columns[2].type", "string cannot be int", both, COLUMNS + "- {name: note, type: int}\n")
    with_registry = both + "\n  registry_conn_id: r"
    load(tmp_path, with_registry, COLUMNS + "- {name: later_still, type: int}\n")


def test_protobuf(tmp_path):
    name = descriptors(tmp_path)
    columns = "columns:\n- {name: shop, type: string}\n- {name: seen, type: timestamp}\n"
    pipeline = load(tmp_path, f"type: protobuf\n  descriptor_set: {name}\n  message: shop.v1.Order", columns)
    assert pipeline.format.protobuf is not None
    assert base64.b64decode(pipeline.format.protobuf.descriptor_set) == (tmp_path / name).read_bytes()
    assert (pipeline.format.protobuf.message, pipeline.format.protobuf.wire) == ("shop.v1.Order", "plain")
    assert loads(Pipeline, dumps(pipeline)) == pipeline


@pytest.mark.parametrize(
    ("field", "says", "settings", "columns"),
    [
        ("format.descriptor_set", "is required with format.type protobuf", "message: shop.v1.Order", COLUMNS),
        ("format.message", "is required with format.type protobuf", "descriptor_set: order.desc", COLUMNS),
        ("format.message", "the messages are shop.v1.Order", "descriptor_set: order.desc\n  message: Order", COLUMNS),
        ("format.descriptor_set", "cannot be read", "descriptor_set: no.desc\n  message: Order", COLUMNS),
        ("format.descriptor_set", "is no FileDescriptorSet", "descriptor_set: orders.yaml\n  message: Order", COLUMNS),
        ("columns[0].type", "has no field $.note", "", "columns:\n- {name: note, type: string}\n"),
        ("columns[0].type", "int64 cannot be string", "", "columns:\n- {name: total, type: string}\n"),
        ("columns[0].from", "$.shop is string, not a message", "", INTO_SHOP),
        ("event_time.from", "has no field $.gone", "", GONE),
    ],
)  # fmt: skip
def test_wrong_protobuf(tmp_path, field, says, settings, columns):
    descriptors(tmp_path)
    settings = settings or "descriptor_set: order.desc\n  message: shop.v1.Order"
    time = "" if "event_time" in columns else TIME
    refused(tmp_path, field, says, f"type: protobuf\n  {settings}", columns, time)


def test_a_descriptor_set_without_its_imports_says_how_to_make_it(tmp_path):
    file = FileDescriptorProto(name="a.proto", dependency=["b.proto"])
    (tmp_path / "a.desc").write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    says = "a.desc lacks b.proto; make it with `protoc --include_imports`"
    refused(tmp_path, "format.descriptor_set", says, "type: protobuf\n  descriptor_set: a.desc\n  message: A")


def test_raw_records_need_no_columns(tmp_path):
    pipeline = load(tmp_path, "type: raw", "", KAFKA)
    assert pipeline.columns == (
        Column(name="key", type="binary", path="$.key"),
        Column(name="value", type="binary", path="$.value"),
        Column(name="headers", type=RAW_HEADERS, path="$.headers"),
    )
    assert pipeline.event_time == EventTime(None)
    line = load(tmp_path, "type: raw", "columns:\n- {name: line, type: string, from: $.value}\n", KAFKA)
    assert line.columns == (Column(name="line", type="string", path="$.value"),)


@pytest.mark.parametrize(
    ("field", "says", "message_format", "columns", "time"),
    [
        ("event_time.from", "raw records have no time but Kafka's", "type: raw", "", TIME),
        ("format.unknown_fields", "raw records have no fields", "type: raw\n  unknown_fields: fail", "", KAFKA),
        ("columns[0].type", "a raw record has $.key", "type: raw", "columns:\n- {name: value, type: int}\n", KAFKA),
        ("columns[0].type", "a raw record has $.key", "type: raw", "columns:\n- {name: other, type: binary}\n", KAFKA),
        ("columns", "is required", "type: json", "", KAFKA),
    ],
)
def test_wrong_raw(tmp_path, field, says, message_format, columns, time):
    refused(tmp_path, field, says, message_format, columns, time)


def test_what_an_earlier_release_fingerprinted_stays_the_same_version(tmp_path):
    pipeline = load(tmp_path, "type: json")
    assert fingerprint(pipeline) == "028d3f19f8fe94685450d78ac1fea98e8d4d868b5408c44e32930b33a1dac75f"


def test_change_events_bring_columns_along(tmp_path):
    pipeline = load(tmp_path, "type: debezium", time="event_time: {from: $._source.ts_ms}\n")
    assert pipeline.format == Format("debezium", debezium=DebeziumFormat("full"))
    added = [("_op", "string"), ("_position_commit", "bigint"), ("_position_row", "bigint"), ("_source_ms", "bigint")]
    assert [(c.name, c.type) for c in pipeline.columns[2:]] == added
    assert [c.name for c in pipeline.columns[2:] if c.nullable] == ["_source_ms"]
    assert load(tmp_path, "type: debezium\n  envelope: flat").format.debezium == DebeziumFormat("flat")
    assert loads(Pipeline, dumps(pipeline)) == pipeline
    assert "debezium" not in dumps(load(tmp_path, CSV)), "a release before this one reads the plans of all others"


def test_change_events_in_avro(tmp_path):
    in_json = load(tmp_path, "type: debezium")
    pipeline = load(tmp_path, "type: debezium\n  encoding: avro\n  registry_conn_id: registry")
    asked = AvroFormat("confluent", registry_conn_id="registry")
    assert pipeline.format == Format("debezium", avro=asked, debezium=DebeziumFormat("full", "avro"))
    assert loads(Pipeline, dumps(pipeline)) == pipeline
    assert "encoding" not in dumps(in_json), "a release before this one reads the plans of all others"
    assert (
        fingerprint(pipeline) != fingerprint(in_json) == fingerprint(load(tmp_path, "type: debezium\n  encoding: json"))
    )
    (tmp_path / "key.avsc").write_text('{"type": "record", "name": "Key", "fields": []}')
    local = load(tmp_path, "type: debezium\n  encoding: avro\n  schemas: {7: key.avsc}\n  unknown_schema: dirty")
    assert local.format.avro == AvroFormat(
        "confluent", schemas={7: (tmp_path / "key.avsc").read_text()}, unknown_schema="dirty"
    )


@pytest.mark.parametrize(
    ("field", "says", "message_format", "columns"),
    [
        ("format.encoding", "must be json or avro", "type: debezium\n  encoding: protobuf", COLUMNS),
        ("format.encoding", "has no meaning with format.type json", "type: json\n  encoding: avro", COLUMNS),
        ("format.unknown_fields", "evolve takes types", "type: json\n  unknown_fields: evolve", COLUMNS),
        ("format.wire", "has no meaning with format.type debezium", "type: debezium\n  wire: confluent", COLUMNS),
        (
            "format.registry_conn_id",
            "has no meaning with encoding: json; leave it out, or set encoding: avro",
            "type: debezium\n  registry_conn_id: r",
            COLUMNS,
        ),
        (
            "format.registry_conn_id",
            "encoding: avro needs registry_conn_id, or schemas by their ids",
            "type: debezium\n  encoding: avro",
            COLUMNS,
        ),
        (
            "format.schemas.7",
            "is no Avro schema",
            'type: debezium\n  encoding: avro\n  schemas: {7: \'{"type": "what"}\'}',
            COLUMNS,
        ),
        (
            "format.schemas.7",
            "cannot be read",
            "type: debezium\n  encoding: avro\n  schemas: {7: missing.avsc}",
            COLUMNS,
        ),
        ("format.envelope", "must be full or flat", "type: debezium\n  envelope: flattened", COLUMNS),
        (
            "columns[0].from",
            "a position has",
            "type: debezium",
            "columns:\n- {name: p, type: bigint, from: $._position}\n",
        ),
        (
            "columns[0].from",
            "$._op is no object",
            "type: debezium",
            "columns:\n- {name: p, type: int, from: $._op.x}\n",
        ),
        (
            "columns[0].from",
            "names of a flat event that begin with __ are those of add.fields",
            "type: debezium\n  envelope: flat",
            "columns:\n- {name: p, type: int, from: $.__p}\n",
        ),
    ],
)
def test_wrong_change_events(tmp_path, field, says, message_format, columns):
    refused(tmp_path, field, says, message_format, columns)
