"""Avro schemas as the core reads them: names, logical types, paths, and what a column's type takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.core.base.hivetypes import parse as hive
from tidegate.core.spec.avro import SCALARS, Schema, at, event_misfit, misfit, parse, struct_field


def record(name: str = "R", **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def schema(value: Any, *references: Any) -> Schema:
    return parse(json.dumps(value), tuple(json.dumps(r) for r in references))


def field(found: Schema, name: str) -> Schema:
    return dict(found.fields)[name]


@pytest.mark.parametrize("word", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
def test_primitives(word):
    for spelled in (word, {"type": word}, {"type": {"type": word}}):
        found = schema(spelled)
        assert (found.type, found.logical, found.kind, str(found)) == (word, "", word, word)


def test_every_kind_of_type():
    enum, fixed = {"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "fixed", "name": "F", "size": 3}
    found = schema(
        record(
            a={"type": "array", "items": "int"},
            m={"type": "map", "values": "long"},
            e=enum,
            f=fixed,
            u=["null", "string"],
            x=record("X") | {"type": "error"},
        )
    )
    assert [n for n, _ in found.fields] == ["a", "m", "e", "f", "u", "x"]
    assert (field(found, "a").type, field(found, "a").items.type) == ("array", "int")
    assert (field(found, "m").type, field(found, "m").items.type) == ("map", "long")
    assert (field(found, "e").symbols, str(field(found, "e"))) == (("A", "B"), "enum E")
    assert (field(found, "f").size, str(field(found, "f"))) == (3, "fixed F")
    assert ([b.type for b in field(found, "u").branches], str(field(found, "u"))) == (
        ["null", "string"],
        "[null, string]",
    )
    assert (field(found, "x").type, field(found, "x").fields, str(found)) == ("record", (), "record R")


@pytest.mark.parametrize(
    ("base", "more", "kind"),
    [
        ("int", {"logicalType": "date"}, "date"),
        ("int", {"logicalType": "time-millis"}, "time-millis"),
        ("long", {"logicalType": "time-micros"}, "time-micros"),
        ("long", {"logicalType": "timestamp-millis"}, "timestamp-millis"),
        ("long", {"logicalType": "timestamp-micros"}, "timestamp-micros"),
        ("long", {"logicalType": "timestamp-nanos"}, "timestamp-nanos"),
        ("long", {"logicalType": "local-timestamp-millis"}, "local-timestamp-millis"),
        ("long", {"logicalType": "local-timestamp-nanos"}, "local-timestamp-nanos"),
        ("string", {"logicalType": "uuid"}, "uuid"),
        ("bytes", {"logicalType": "decimal", "precision": 4, "scale": 2}, "decimal"),
        ("bytes", {"logicalType": "decimal", "precision": 4}, "decimal"),
        ("bytes", {"logicalType": "decimal", "precision": 4, "scale": 4}, "decimal"),
        ("bytes", {"logicalType": "decimal", "precision": 1}, "decimal"),
        ("fixed", {"name": "F", "size": 16, "logicalType": "uuid"}, "uuid"),
        ("fixed", {"name": "F", "size": 12, "logicalType": "duration"}, "duration"),
        ("fixed", {"name": "F", "size": 5, "logicalType": "decimal", "precision": 4}, "decimal"),
        # not valid where they stand
        ("bytes", {"logicalType": "decimal", "precision": 4, "scale": 5}, "bytes"),
        ("bytes", {"logicalType": "decimal", "precision": 0}, "bytes"),
        ("bytes", {"logicalType": "decimal", "precision": 4, "scale": -1}, "bytes"),
        ("bytes", {"logicalType": "decimal", "precision": True}, "bytes"),
        ("bytes", {"logicalType": "decimal", "precision": 4, "scale": "1"}, "bytes"),
        ("bytes", {"logicalType": "decimal"}, "bytes"),
        ("string", {"logicalType": "decimal", "precision": 4}, "string"),
        ("long", {"logicalType": "date"}, "long"),
        ("int", {"logicalType": "timestamp-millis"}, "int"),
        ("fixed", {"name": "F", "size": 12, "logicalType": "uuid"}, "fixed"),
        ("fixed", {"name": "F", "size": 16, "logicalType": "duration"}, "fixed"),
        ("bytes", {"logicalType": "uuid"}, "bytes"),
        ("string", {"logicalType": "duration"}, "string"),
        ("int", {"logicalType": ["date"]}, "int"),
        ("int", {"logicalType": "unheard-of"}, "int"),
    ],
)
def test_logical_types(base, more, kind):
    found = schema({"type": base, **more})
    assert (found.type, found.kind) == (base, kind)
    assert found.scale == (more.get("scale", 0) if kind == "decimal" else 0)


def test_names_and_namespaces():
    found = schema(
        {
            "type": "record",
            "name": "R",
            "namespace": "a.b",
            "fields": [
                {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["S"]}},
                {"name": "near", "type": "E"},
                {"name": "full", "type": "a.b.E"},
                {"name": "as_type", "type": {"type": "E"}},
                {
                    "name": "other",
                    "type": {
                        "type": "record",
                        "name": "c.R",
                        "namespace": "ignored",
                        "fields": [{"name": "e", "type": "a.b.E"}, {"name": "self", "type": ["null", "R"]}],
                    },
                },
                {"name": "none", "type": {"type": "fixed", "name": "F", "namespace": "", "size": 1}},
                {"name": "by_none", "type": "F"},
                {"name": "own", "type": ["null", "R"]},
            ],
        }
    )
    fields = dict(found.fields)
    assert found.name == "a.b.R"
    assert fields["e"] is fields["near"] is fields["full"] is fields["as_type"]
    assert fields["e"].name == "a.b.E"
    assert fields["other"].name == "c.R"
    assert field(fields["other"], "self").branches[1] is fields["other"]
    assert fields["own"].branches[1] is found
    assert fields["none"].name == "F"
    assert fields["by_none"] is fields["none"]


def test_a_namespace_holds_for_all_that_is_inside_of_it():
    enum = {"type": "enum", "name": "E", "symbols": ["S"]}
    uses = {
        "items": {"type": "array", "items": "E"},
        "values": {"type": "map", "values": "E"},
        "wrapped": {"type": {"type": "E"}},
        "branch": ["null", "E"],
        "record": record("Q", e="E"),
    }
    found = schema(record("a.b.R", e=enum, **uses))
    e = field(found, "e")
    assert e.name == "a.b.E"
    assert field(found, "items").items is field(found, "values").items is field(found, "wrapped") is e
    assert field(found, "branch").branches[1] is field(field(found, "record"), "e") is e


def test_a_name_with_a_dot_is_a_full_name():
    outer, inner = (
        {"type": "enum", "name": name, "symbols": [symbol]} for name, symbol in (("c.E", "O"), ("a.c.E", "I"))
    )
    assert field(schema(record("a.R", e="c.E"), outer, inner), "e").symbols == ("O",)
    assert field(schema(record("a.R", e="a.c.E"), outer, inner), "e").symbols == ("I",)
    alone = {"type": "enum", "name": "E", "symbols": ["N"]}
    assert field(schema(record("a.R", e="E"), alone), "e").symbols == ("N",), "one without a namespace"


def test_references_are_known_in_their_order():
    first, second = {"type": "enum", "name": "x.E", "symbols": ["S"]}, record("x.Q", e="x.E")
    found = schema(record(q="x.Q"), first, second)
    assert field(field(found, "q"), "e").symbols == ("S",)
    with pytest.raises(ValueError, match=r"^e: the type 'x.E' is not defined \(before it is used\)$"):
        schema(record(q="x.Q"), second, first)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("Gone", "the type 'Gone' is not defined (before it is used)"),
        (5, "5 is no schema"),
        (None, "null is no schema"),
        ({"name": "R"}, '{"name": "R"} is no schema'),
        ({"type": "Gone"}, "the type 'Gone' is not defined (before it is used)"),
        ([], "a union without branches"),
        (["int", ["null"]], "a union in a union"),
        ({"type": "array"}, """{"type": "array"} has no 'items'"""),
        ({"type": "map", "items": "int"}, """{"type": "map", "items": "int"} has no 'values'"""),
        ({"type": "record", "fields": []}, """{"type": "record", "fields": []} has no 'name'"""),
        ({"type": "record", "name": "", "fields": []}, '"" is no name'),
        ({"type": "record", "name": 7, "fields": []}, "7 is no name"),
        ({"type": "record", "name": "R"}, """{"type": "record", "name": "R"} has no 'fields'"""),
        ({"type": "record", "name": "R", "fields": {}}, "the fields of R are no list"),
        ({"type": "record", "name": "R", "fields": ["x"]}, '"x" is no field of R'),
        ({"type": "record", "name": "R", "fields": [{"type": "int"}]}, '{"type": "int"} is no field of R'),
        ({"type": "record", "name": "R", "fields": [{"name": "x"}]}, """x: {"name": "x"} has no 'type'"""),
        (record(x="Gone"), "x: the type 'Gone' is not defined (before it is used)"),
        (record(x=record("R")), "x: the type 'R' is defined twice"),
        ({"type": "enum", "name": "E"}, """{"type": "enum", "name": "E"} has no 'symbols'"""),
        ({"type": "enum", "name": "E", "symbols": []}, "[] is no list of symbols"),
        ({"type": "enum", "name": "E", "symbols": [1]}, "[1] is no list of symbols"),
        ({"type": "enum", "name": "E", "symbols": "A"}, '"A" is no list of symbols'),
        ({"type": "fixed", "name": "F", "size": -1}, "-1 is no size"),
        ({"type": "fixed", "name": "F", "size": True}, "true is no size"),
        ({"type": "fixed", "name": "F"}, """{"type": "fixed", "name": "F"} has no 'size'"""),
        ({"x" * 70: 1}, f'{{"{"x" * 55}... is no schema'),
        ({"ü" * 53: 1}, f'{{"{"ü" * 53}": 1}} is no schema'),
        ({"ü" * 54: 1}, f'{{"{"ü" * 54}"... is no schema'),
    ],
)
def test_what_is_no_schema(value, says):
    with pytest.raises(ValueError) as error:
        schema(value)
    assert str(error.value) == says


def test_text_that_is_no_json_and_nesting_without_end():
    for text, says in (("{", "^not JSON: .* at character 1$"), ("[" * 99_999, "^nested too deeply$")):
        with pytest.raises(ValueError, match=says):
            parse(text)
    for levels, fine in ((201, True), (202, False)):
        text = '{"type":' * levels + '"int"' + "}" * levels
        if fine:
            assert parse(text).type == "int"
        else:
            with pytest.raises(ValueError, match="^nested too deeply$"):
                parse(text)
    with pytest.raises(ValueError, match="twice"):
        parse('{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}')


@pytest.mark.parametrize(
    ("begin", "end", "each"),
    [
        ('{"type":"array","items":', "}", 1),
        ('{"type":"map","values":', "}", 1),
        ('{"type":"record","name":"R%d","fields":[{"name":"a","type":', "}]}", 1),
        ('["null",{"type":"array","items":', "}]", 2),
    ],
)
def test_every_kind_of_nesting_is_counted(begin, end, each):
    """Thirty of its kind, inside of arrays."""

    def nested(levels):
        arrays = levels - 30 * each
        opened = (begin % i if "%d" in begin else begin for i in range(30))
        return '{"type":"array","items":' * arrays + f'{"".join(opened)}"int"{end * 30}' + "}" * arrays

    assert parse(nested(200)).type == "array"
    with pytest.raises(ValueError, match="nested too deeply$"):
        parse(nested(201))


def test_a_fixed_type_may_be_empty():
    assert schema({"type": "fixed", "name": "F", "size": 0}).size == 0


INNER = record("Inner", x="int", s="string")


def test_paths_lead_through_records_and_unions():
    found = schema(
        record(a=INNER, u=["null", "Inner", record("Other", x="long", z="int"), "string"], n="null", i="int")
    )
    assert [s.type for s in at(found, ("a",))] == ["record"]
    assert [s.type for s in at(found, ("a", "x"))] == ["int"]
    assert [s.type for s in at(found, ("u", "x"))] == ["int", "long"]
    assert [s.type for s in at(found, ("u", "z"))] == ["int"]
    assert at(found, ("gone",)) == at(found, ("a", "gone")) == at(found, ("n", "x")) == at(found, ("gone", "x")) == []
    for path, says in (
        (("i", "x"), r"\$\.i is int, not a record"),
        (("a", "s", "t"), r"\$\.a\.s is string, not a record"),
    ):
        with pytest.raises(ValueError, match=f"^{says}$"):
            at(found, path)
    with pytest.raises(ValueError, match=r"^\$ is int, not a record$"):
        at(schema("int"), ("x",))


KINDS = {
    **{w: w for w in ("boolean", "int", "long", "float", "double", "bytes", "string")},
    **{w: {"type": "long", "logicalType": w} for w in SCALARS if "timestamp" in w or w == "time-micros"},
    **{w: {"type": "int", "logicalType": w} for w in ("date", "time-millis")},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    "enum": {"type": "enum", "name": "E", "symbols": ["A"]},
    "fixed": {"type": "fixed", "name": "F", "size": 2},
    "duration": {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"},
}
TARGETS = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(5,2)",
    "string",
    "binary",
    "date",
    "timestamp",
]
INTEGERS = {"tinyint", "smallint", "int", "bigint"}
NUMBERS = INTEGERS | {"float", "double", "decimal(5,2)", "timestamp"}
TAKEN = {
    "boolean": {"boolean"},
    "int": NUMBERS,
    "long": NUMBERS,
    "float": {"float", "double"},
    "double": {"float", "double"},
    "bytes": {"binary"},
    "fixed": {"binary"},
    "duration": {"binary"},
    "string": {"string", "binary", "date", "timestamp"},
    "enum": {"string"},
    "uuid": {"string"},
    "decimal": {"decimal(5,2)"},
    "date": {"date"},
    "time-millis": INTEGERS,
    "time-micros": INTEGERS,
    **{
        f"{local}timestamp-{unit}": {"timestamp", "bigint"}
        for local in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_which_types_take_a_kind(kind):
    assert set(KINDS) == set(SCALARS) == set(TAKEN)
    found = schema(KINDS[kind])
    assert found.kind == kind
    for wrapped in (found, schema(["null", KINDS[kind]])):
        for target in TARGETS:
            reason = misfit(wrapped, hive(target))
            assert reason == (None if target in TAKEN[kind] else f"{found} cannot be {target}")
        for target in ("array<int>", "map<string,int>", "struct<x:int>"):
            assert misfit(wrapped, hive(target)) == f"{found} cannot be {target}"
        timely = kind in ("int", "long", "string") or "timestamp" in kind
        assert event_misfit(wrapped) == (None if timely else f"{found} cannot be an event time")


def test_a_uuid_on_fixed_is_bytes_too():
    found = schema({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"})
    assert misfit(found, hive("binary")) is None
    assert misfit(found, hive("string")) is None
    assert misfit(found, hive("date")) == "uuid U cannot be date"


def test_null_fits_everything_and_a_union_as_well_as_its_best_branch():
    assert misfit(schema("null"), hive("int")) is None
    assert misfit(schema(["null"]), hive("int")) is None
    assert misfit(schema(["null", "string", "int"]), hive("int")) is None
    assert misfit(schema(["null", "string", "bytes"]), hive("int")) == "string cannot be int"
    assert event_misfit(schema(["null"])) is None
    assert event_misfit(schema(["bytes", "long"])) is None
    assert event_misfit(schema(["null", "bytes", "double"])) == "bytes cannot be an event time"


@pytest.mark.parametrize(
    ("value", "target", "deep", "shallow"),
    [
        ({"type": "array", "items": "int"}, "array<bigint>", None, None),
        ({"type": "array", "items": "string"}, "array<int>", "its elements: string cannot be int", None),
        ({"type": "map", "values": "int"}, "map<string,int>", None, None),
        ({"type": "map", "values": "string"}, "map<string,int>", "its values: string cannot be int", None),
        ({"type": "map", "values": "int"}, "map<int,int>", "keys of a map are strings, not int", "same"),
        ({"type": "array", "items": "int"}, "map<string,int>", "array cannot be map<string,int>", "same"),
        ({"type": "map", "values": "int"}, "array<int>", "map cannot be array<int>", "same"),
        (INNER, "struct<x:bigint,gone:int>", None, None),
        (INNER, "struct<s:int>", "s: string cannot be int", None),
        (INNER, "map<string,int>", "record Inner cannot be map<string,int>", "same"),
        (record("Q", aB="int", AB="int"), "struct<ab:int>", "both aB and AB of Q could be the struct's ab", "same"),
    ],
)
def test_nested_types(value, target, deep, shallow):
    assert misfit(schema(value), hive(target)) == misfit(schema(["null", value]), hive(target)) == deep
    assert misfit(schema(value), hive(target), deep=False) == (deep if shallow == "same" else shallow)
    assert misfit(schema(["null", value]), hive(target), deep=False) == (deep if shallow == "same" else shallow)


def test_fields_of_structs_are_found_whatever_their_case():
    found = schema(record(x="int", unitPrice="int", ab="int", AB="int"))
    assert [struct_field(found, name) for name in ("x", "unitprice", "ab", "gone")] == ["x", "unitPrice", "ab", None]
