"""Columns that come and grow by themselves (`unknown_fields: evolve`), and the types that messages of a schema have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from core_values import PIPELINE

from tidegate.core.spec.avro import Schema, parse
from tidegate.core.spec.avro_columns import column_types, exact_types, hive_type, row_types
from tidegate.core.spec.compatibility import moved
from tidegate.core.spec.connect_columns import column_types as connect_types
from tidegate.core.spec.evolution import can_grow
from tidegate.core.spec.pipeline import Column, Pipeline, Site
from tidegate.core.spec.schema_changes import (
    SchemaChange,
    grown,
    in_force,
    may_grow,
    new_columns,
    objections,
    outgrown,
    proposed,
    read_by_expressions,
    rounds,
)

EVOLVES = replace(PIPELINE, format=replace(PIPELINE.format, unknown_fields="evolve"))


def column(name: str, kind: str, **more: Any) -> Column:
    return Column(**{"name": name, "type": kind, "path": f"$.{name}"} | more)


def change(name: str, kind: str, path: str = "", **more: Any) -> SchemaChange:
    return SchemaChange(column=name, type=kind, path=path or f"$.{name}", **more)


def with_columns(*columns: Column, spec: Pipeline = EVOLVES) -> Pipeline:
    return replace(spec, columns=(*spec.columns, *columns))


# ---------------------------------------------------------------- what is in force


def test_an_accepted_field_is_a_column_behind_the_yamls_own() -> None:
    assert in_force(PIPELINE, []) is PIPELINE
    pinned = replace(PIPELINE, sink=replace(PIPELINE.sink, fields=(("carrier", 1),)))
    events = column("_op", "string", path="$._op")
    made = in_force(with_columns(events, spec=pinned), [change("seat", "int"), change("row", "bigint")])
    assert [(c.name, c.type, c.path) for c in made.columns[3:]] == [
        ("seat", "int", "$.seat"), ("row", "bigint", "$.row"), ("_op", "string", "$._op"),
    ]  # fmt: skip
    assert [c.accepted for c in made.columns] == [False, False, False, True, True, False]
    assert made.sink.fields == (), "ids of fields are pinned anew"
    assert made.name == PIPELINE.name


def test_the_yaml_has_the_last_word_about_names_and_fields() -> None:
    assert in_force(PIPELINE, [change("leg", "string"), change("fares", "double", path="$.f")]) is PIPELINE


def test_a_type_that_has_grown_stays_grown() -> None:
    made = in_force(PIPELINE, iter([change("leg", "bigint"), change("seat", "int")]))
    assert [(c.name, c.type, c.accepted) for c in made.columns[1:]] == [
        ("leg", "bigint", True), ("fare", "double", False), ("seat", "int", True),
    ]  # fmt: skip
    assert in_force(PIPELINE, [change("leg", "smallint")]) is PIPELINE, "narrower"
    assert in_force(PIPELINE, [change("leg", "bigint", path="$.other")]) is PIPELINE, "of another field"
    both = in_force(PIPELINE, [change("carrier", "int"), change("leg", "bigint")])
    assert both.columns[1].type == "bigint"
    hidden = with_columns(column("h", "int", hidden=True), column("x", "int", expr="leg + 1"))
    assert in_force(hidden, [change("h", "bigint"), change("x", "bigint")]) is hidden


def test_columns_that_have_outgrown_what_the_yaml_says() -> None:
    assert outgrown(PIPELINE, [change("leg", "bigint"), change("seat", "int")]) == {"leg": "bigint"}
    assert outgrown(PIPELINE, []) == {}


def test_an_accepted_column_as_a_line_of_yaml() -> None:
    said = proposed(change("seat", "int"))
    assert (said.field, said.column, said.type, said.note) == ("seat", "seat", "int", "accepted by evolve")
    odd = proposed(change("odd_field", "int", path='$."odd field"'))
    assert (odd.field, odd.line.partition("  #")[0]) == (
        "odd field", '- {name: odd_field, type: int, from: "$.\\"odd field\\""}'
    )  # fmt: skip
    assert change("seat", "int").place == "a record before the ledger was restored"
    assert change("seat", "int", batch_id=3, partition=1, offset=0).place == "batch 3, partition 1, offset 0"


# ---------------------------------------------------------------- fields that become columns


def test_a_field_with_a_type_becomes_a_column() -> None:
    declared = {"seat": "smallint", "Row": "int", "a": "string", "b": "tinyint", "c": "double", "$.d.e": "int"}
    declared |= {"odd field": "int", "": "int"}
    made, left = new_columns(["seat", "Row", "no", "a", "b", "$.d.e", "c", "odd field", ""], declared, ["a"])
    assert [(c.name, c.type, c.path) for c in made] == [
        ("seat", "bigint", "$.seat"), ("row", "bigint", "$.Row"), ("a_field", "string", "$.a"), ("b", "bigint", "$.b"),
        ("c", "double", "$.c"), ("odd_field", "bigint", '$."odd field"'),
    ]  # fmt: skip
    assert left == ("no", "$.d.e", "")
    again, _ = new_columns(["x", "X"], {"x": "string", "X": "string"}, iter(()))
    assert len({c.name for c in again}) == 2
    assert new_columns(["", "x"], {"": "int", "x": "int"}, [])[1] == ("",)


# ---------------------------------------------------------------- columns that grow


def test_numbers_at_the_top_of_the_row_may_grow() -> None:
    spec = with_columns(
        column("t", "tinyint"), column("s", "smallint"), column("i", "int"), column("d", "decimal(5,2)"),
        column("f", "float"), column("b", "bigint"), column("text", "string"), column("deep", "int", path="$.a.b"),
        column("h", "int", hidden=True), column("x", "int", expr="leg + 1"),
    )  # fmt: skip
    assert [c.name for c in may_grow(spec)] == ["t", "s", "i", "d", "f"], "carrier and leg are partitioned by"
    ignores = replace(spec, format=replace(spec.format, unknown_fields="ignore"))
    assert may_grow(ignores) == ()


def test_words_of_the_expressions() -> None:
    spec = replace(with_columns(column("x", "int", expr="leg + other")), where="fare > 1")
    assert read_by_expressions(spec) == {"leg", "other", "fare", "1"}
    assert read_by_expressions(PIPELINE) == frozenset()


def test_a_column_grows_to_the_type_of_the_messages_schema() -> None:
    columns = [column("i", "int"), column("b", "bigint"), column("d", "decimal(5,2)"), column("n", "int")]
    declared = {"i": "bigint", "b": "int", "d": "decimal(7,2)"}
    assert [(c.name, c.type) for c in grown(EVOLVES, columns, declared, True)] == [
        ("i", "bigint"), ("d", "decimal(7,2)"),
    ]  # fmt: skip
    assert [c.name for c in grown(EVOLVES, columns, declared, False)] == ["d"], "readers of Parquet files"
    assert grown(EVOLVES, [column("i", "int", path="$.j")], {"j": "bigint"}, True)[0].type == "bigint"
    foreign = column("i", "int", path="$.größe")
    assert [c.type for c in grown(EVOLVES, [foreign], {"größe": "bigint", "gr": "int"}, True)] == ["bigint"]
    assert grown(EVOLVES, [foreign], {"gr": "bigint"}, True) == (), "of another field whose name begins so"
    assert [c.name for c in grown(EVOLVES, [columns[3], columns[0]], declared, True)] == ["i"]


def test_m7_a_float_that_nobody_has_written_would_lose_digits() -> None:
    mine, theirs = column("f", "float", accepted=True), column("f", "float")
    assert rounds(mine, "double")
    assert not rounds(theirs, "double")
    assert not rounds(mine, "float")
    assert [c.type for c in grown(EVOLVES, [mine], {"f": "double"}, False)] == ["double"]
    assert grown(EVOLVES, [theirs], {"f": "double"}, False) == ()


def test_a_table_says_what_it_cannot_have() -> None:
    wider = with_columns(column("seat", "int"))
    assert objections(EVOLVES, wider, False) == ()
    before, after = with_columns(column("seat", "int")), with_columns(column("seat", "bigint"))
    assert len(objections(before, after, False)) == 1
    assert objections(before, after, True) == ()
    orc = replace(after, sink=replace(after.sink, format="orc"))
    assert objections(before, orc, False) == ()


def test_what_can_grow_depends_on_the_files() -> None:
    assert can_grow("decimal(5,2)", "decimal(6,2)", "parquet")
    assert not can_grow("decimal(5,2)", "decimal(6,3)", "parquet")
    assert not can_grow("int", "bigint", "parquet")
    assert can_grow("int", "bigint", "parquet", promotes=True)
    assert can_grow("int", "bigint", "orc")
    assert not can_grow("bigint", "int", "orc", promotes=True)


def test_keys_of_a_table_that_have_changed() -> None:
    def spec(**options: str) -> Pipeline:
        return replace(PIPELINE, sink=replace(PIPELINE.sink, options=tuple(sorted(options.items()))))

    old, new = spec(buckets="8", x="1", z="1"), spec(buckets="16", y="2", z="1")
    assert moved(old, new, ["buckets", "x", "y", "z", "q"]) == [
        "sink.buckets was 8, is 16", "sink.x was 1, is missing", "sink.y was missing, is 2",
    ]  # fmt: skip


def test_a_source_is_read_at_one_of_its_sites() -> None:
    sites = (Site(name="oslo", conn_id="a"), Site(name="bergen", conn_id="b"))
    source = replace(PIPELINE.source, conn_id="a", sites=sites)
    assert (source.at("bergen"), source.at("bergen").site) == (replace(source, conn_id="b"), "bergen")


# ---------------------------------------------------------------- types of Avro


def avro(kind: Any) -> Schema:
    return parse(json.dumps(kind))


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("bytes", "binary"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "bigint"),
        ({"type": "int", "logicalType": "date"}, "int"),
        (DECIMAL, "decimal(38,2)"),
        (DECIMAL | {"precision": 39}, None),
        (["null", "int"], "int"),
        (["int", "null"], "int"),
        (["null", "int", "string"], None),
        ("null", None),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "array", "items": DECIMAL | {"precision": 39}}, None),
        ({"type": "map", "values": "long"}, "map<string,bigint>"),
        ({"type": "map", "values": "null"}, None),
        (record("R", a="int", b_1=record("S", c="long")), "struct<a:int,b_1:struct<c:bigint>>"),
        (record("R", A="int"), None),
        (record("R", a="int", b="null"), None),
        (record("R"), None),
        (record("R", a=["null", "R"]), None),
        (record("R", a=record("S", b={"type": "array", "items": "R"})), None),
        (record("R", a=record("S", c="int"), b="S"), "struct<a:struct<c:int>,b:struct<c:int>>"),
    ],
)
def test_the_type_that_takes_an_avro_value(kind: Any, wanted: str | None) -> None:
    assert hive_type(avro(kind)) == wanted


ROW = record(
    "Value", id="long", name=["null", "string"], small={"type": "int", "connect.type": "int16"}, nothing="null",
    __deleted="string",
)  # fmt: skip


@pytest.mark.parametrize("flat", [True, False])
def test_columns_of_an_events_row(flat: bool) -> None:
    event = avro(ROW if flat else record("Envelope", op="string", after=["null", ROW]))
    assert column_types(event, flat) == {"id": "bigint", "name": "string", "small": "int"}
    assert row_types(event, flat) == {"id": "bigint", "small": "int"}
    assert exact_types(event, flat) == {"id": "bigint", "name": "string", "small": "smallint"}


def test_an_envelope_without_a_row_has_no_columns() -> None:
    event = avro(record("Envelope", op="string"))
    assert column_types(event, False) == row_types(event, False) == exact_types(event, False) == {}


# ---------------------------------------------------------------- types of Connect's JSON


def connect(**fields: Any) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [{"field": n, **(t if isinstance(t, dict) else {"type": t})} for n, t in fields.items()],
    }


def test_columns_of_a_row_by_connects_schema() -> None:
    row = connect(
        __deleted="string", id="int64", t="int8", s="int16", i="int32", f="float", d="double", ok="boolean",
        text="string", raw="bytes", odd={"type": 7}, many={"type": "array", "items": {"type": "int32"}},
        none={"type": "array", "items": {"type": "bytes"}},
        m={"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
        k={"type": "map", "keys": {"type": "int32"}, "values": {"type": "int64"}},
        v={"type": "map", "keys": {"type": "string"}, "values": {"type": "bytes"}},
        inner=connect(a="int32", b="string"), upper=connect(A="int32"), half=connect(a="int32", b="bytes"),
        empty=connect(),
    )  # fmt: skip
    wanted = {
        "id": "bigint", "t": "tinyint", "s": "smallint", "i": "int", "f": "float", "d": "double", "ok": "boolean",
        "text": "string", "many": "array<int>", "m": "map<string,bigint>", "inner": "struct<a:int,b:string>",
    }  # fmt: skip
    assert connect_types(row, True) == wanted
    assert connect_types(connect(before=connect(x="int32"), after=row), False) == wanted
    assert connect_types(connect(before=row), False) == {}


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "text",
        [],
        {},
        {"type": "struct"},
        {"type": "struct", "fields": {"field": "a"}},
        {"type": "array", "fields": [{"field": "a", "type": "int32"}]},
        {"type": "struct", "fields": ["a", {"type": "int32"}, {"field": 7, "type": "int32"}]},
        {"type": "struct", "fields": [{"field": "a", "type": ["int32"]}, {"field": "b"}]},
        {"type": "struct", "fields": [{"field": "a", "type": "array"}, {"field": "b", "type": "map"}]},
    ],
)
def test_a_schema_may_be_whatever_it_is(odd: Any) -> None:
    assert connect_types(odd, True) == connect_types(odd, False) == {}
    assert (
        connect_types({"type": "struct", "fields": [{"field": "after"} | (odd or {})]}, False) == {}
        if isinstance(odd, dict)
        else True
    )
