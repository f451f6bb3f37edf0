"""Recorded events, with ALTER TABLE in the middle, become columns by the schemas that came with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.unknown import unknown_field
from tests.change_events.recordings import BY_ID, Message, chunk, pairs, reading, recorded
from tests.change_events.test_changelog import produce, rows
from tests.mirror.days import YAML as DAILY
from tests.mirror.days import DailyWorld
from tests.mirror.worlds import told
from tests.world import HOUR, T0, World
from tidegate.core.spec import connect_columns
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.core.spec.schema_changes import SchemaChange, in_force

JSON = {"customer": "string", "total": "string", "placed": "bigint", "note": "string", "pieces": "bigint"}
AVRO = JSON | {"total": "decimal(12,2)", "city": "string"}
MARIADB, POSTGRES = {"due": "bigint", "changed": "bigint"}, {"tags": "array<string>", "changed": "string"}
CASES = {
    "mariadb-schema": (("id string",), JSON | MARIADB | {"huge": "string"}),
    "postgres-schema": (("id bigint", "blob binary"), JSON | POSTGRES | {"huge": "string"}),
    "mariadb-avro": (("id decimal(20,0)", "huge string as text"), AVRO | MARIADB),
    "mariadb-avroflat": (("id decimal(20,0)", "huge string as text"), AVRO | MARIADB),
    "postgres-avro": (("id bigint", "huge string as text"), AVRO | POSTGRES | {"blob": "binary"}),
}
"""What the YAML names, and what comes by itself; the table was altered while those in Avro were recorded."""


def evolved(pipeline: Pipeline, messages: list[Message]) -> tuple[Pipeline, list[int]]:
    """The pipeline once no field stops it, and the offsets at which it was stopped."""
    stops = []
    while True:
        decoder, records = decoder_for(pipeline), chunk(messages)
        decoded = decoder.decode(records)
        if not decoded.unknown:
            return pipeline, stops
        failure = unknown_field(pipeline, decoded.unknown, records, 0, "", decoder).failure
        assert failure.columns, failure.what
        stops.append(failure.offset)
        changes = [SchemaChange(column=c.name, type=c.type, path=c.path) for c in failure.columns]
        pipeline = in_force(pipeline, changes)


@pytest.mark.parametrize("name", CASES)
def test_recorded_tables(name: str) -> None:
    named, wanted = CASES[name]
    avro = BY_ID if "avro" in name else None
    messages = pairs(name)[0] if avro else recorded(name)
    made = reading(*named, envelope="flat" if name.endswith("flat") else "full", avro=avro)
    made = replace(made, format=replace(made.format, unknown_fields="evolve"))
    first, _ = evolved(made, messages[:1])
    assert "city" not in {c.name for c in first.columns}
    whole, stops = evolved(first, messages)
    assert len(stops) == ("city" in wanted)
    assert {c.name: c.type for c in whole.columns if c.accepted} == wanted
    decoded = decoder_for(whole).decode(chunk(messages))
    assert {bad.reason[:10] for bad in decoded.bad.values()} <= {"TRUNCATE (", "the value ", "null value"}
    if stops:
        assert {*decoded.table["city"].to_pylist()} == {"Oslo", None}


def test_a_column_that_is_computed_stands_in_no_fields_way() -> None:
    made = reading("id string")
    total = Column(name="twice", type="string", path=None, expr="id || id")
    made = replace(made, columns=(*made.columns, total), format=replace(made.format, unknown_fields="evolve"))
    whole, _ = evolved(made, recorded("mariadb-schema"))
    assert {c.name: c.type for c in whole.columns if c.accepted} == CASES["mariadb-schema"][1]


@pytest.mark.parametrize(
    ("name", "columns", "wanted"),
    [
        ("mariadb-avro", ("id decimal(10,0)", "total decimal(6,2)", "pieces smallint"),
         {"id": "decimal(20,0)", "total": "decimal(12,2)", "pieces": "int"}),
        ("mariadb-avroflat", ("id decimal(20,0)", "total decimal(6,2)", "placed int"), {"total": "decimal(12,2)"}),
        ("postgres-avro", ("id bigint", "total decimal(38,2)", "pieces int"), {}),
        ("mariadb-schema", ("id string", "pieces smallint", "due int"), {"pieces": "int"}),
        ("mariadb-plain", ("id string", "pieces smallint"), {}),
    ],
)  # fmt: skip
def test_recorded_schemas_that_say_wider_types(name: str, columns: tuple[str, ...], wanted: dict[str, str]) -> None:
    """In Hive, whose `bigint` reads no older `int`."""
    avro = BY_ID if "avro" in name else None
    messages = pairs(name)[0] if avro else recorded(name)
    made = reading(*columns, envelope="flat" if name.endswith("flat") else "full", avro=avro)
    evolving = replace(made, format=replace(made.format, unknown_fields="evolve"))
    assert {n: kind for n, (_, kind) in decoder_for(evolving).decode(chunk(messages)).wider.items()} == wanted
    assert decoder_for(made).decode(chunk(messages)).wider == {}


def test_bytes_in_json_have_no_type() -> None:
    """Their Base64 would become the text of a column that means bytes."""
    made = reading("id bigint")
    made = replace(made, format=replace(made.format, unknown_fields="evolve"))
    decoder, records = decoder_for(made), chunk(recorded("postgres-schema"))
    failure = unknown_field(made, decoder.decode(records).unknown, records, 0, "", decoder).failure
    assert failure.columns == ()
    assert "no schema of the message gives 'blob' a type" in failure.what


def test_types_of_connects_schemas() -> None:
    def struct(*fields: dict[str, object]) -> dict[str, object]:
        return {"type": "struct", "fields": list(fields)}

    def of(name: str, kind: object, **more: object) -> dict[str, object]:
        return {"field": name, "type": kind, **more}

    row = struct(
        of("a", "int8"), of("b", "float"), of("c", "double"), of("d", "boolean"), of("x", "bytes"),
        of("l", "array", items={"type": "int64"}), of("m", "map", keys={"type": "string"}, values={"type": "int32"}),
        of("n", "map", keys={"type": "int32"}, values={"type": "int32"}), of("s", "struct", fields=[of("z", "string")]),
        of("t", "struct", fields=[of("Z", "string")]), of("u", "array", items={"type": "bytes"}), of("v", 7),
        of("__op", "string"),
    )  # fmt: skip
    types = {
        "a": "tinyint", "b": "float", "c": "double", "d": "boolean", "l": "array<bigint>", "m": "map<string,int>",
        "s": "struct<z:string>",
    }  # fmt: skip
    assert connect_columns.column_types(row, True) == types
    assert connect_columns.column_types(struct({**row, "field": "after"}), False) == types
    for odd in (None, 7, [], {}, {"type": "struct", "fields": 3}, struct(of("after", "int32")), {"fields": [row]}):
        assert connect_columns.column_types(odd, False) == {}


# ---------------------------------------------------------------- windows in Hive, and days


def in_hours(folder: Path) -> World:
    made = reading("id string", location=f"file://{folder}/lake/readings")
    return World(folder, replace(made, format=replace(made.format, unknown_fields="evolve")))


def test_hours_in_hive_have_the_column_first(tmp_path: Path) -> None:
    """A replay of the hour before writes it too, without a value."""
    world, early = in_hours(tmp_path), told({"id": "string"}, 1, ms=T0, id="a")
    produce(world, [early])
    world.ingest("r1")
    produce(world, [told({"id": "string", "qty": "int32"}, 2, ms=T0 + HOUR, id="b", qty=4)])
    for partition in (0, 1):
        produce(world, [told({"id": "string", "qty": "int32"}, 3, ms=T0 + 4 * HOUR, id="c", qty=5)], partition)
    world.ingest("r2")
    world.archive(0)
    world.archive(1)
    assert [(row["id"], row.get("qty")) for row in rows(world)] == [("a", None), ("b", 4)]
    assert ("qty", "bigint") in world.catalogue._tables["lake.readings"].definition.columns
    assert world.replay(0).new
    assert [(row["id"], row["qty"]) for row in rows(world)] == [("a", None), ("b", 4)]


def test_days_in_hive(tmp_path: Path) -> None:
    world = DailyWorld(tmp_path, DAILY.replace("{{type: debezium}}", "{{type: debezium, unknown_fields: evolve}}"))
    kinds = {"id": "int64", "word": "string"}
    world.land(told(kinds, 10, ms=T0, id=1, word="a"))
    world.land(told({**kinds, "qty": "int16"}, 20, ms=T0 + 30 * HOUR, id=2, word="b", qty=4))
    for partition in (0, 1):
        world.land(told(kinds, 30, ms=T0 + 80 * HOUR, id=3, word="c"), partition=partition)
    world.publish(0)
    world.publish(1)
    place = world.place(1)
    assert place is not None
    found = [row for path in place.glob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    assert sorted((row["id"], row["qty"]) for row in found) == [(1, None), (2, 4)]
