"""Fields that no column takes inside of those that one takes: named by path, captured, refused, proposed; and batches
of the rules before, which see the top of a message only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine.formats.json_decoder import JsonDecoder
from spark_jobs.engine.formats.known import spelled
from spark_jobs.handlers.sample import sample
from tests.avro_values import decoder as avro_decoder
from tests.avro_values import written
from tests.batch.test_protocol_spec_changes import balanced, rows
from tests.engine_fixtures import FakeReader, chunk_of, records
from tests.format_fixtures import spec
from tests.protobuf_values import decoder as protobuf_decoder
from tests.protobuf_values import put, tagged
from tests.world import World, record
from tidegate.core.base.errors import BatchRefused
from tidegate.core.base.plain import to_plain
from tidegate.core.batch import planning
from tidegate.core.batch.rules_version import rules_for, rules_of_replay
from tidegate.core.replay.origin import needing_decoding
from tidegate.core.spec.paths import parse
from tidegate.core.spec.pipeline import Column, Format, Pipeline
from tidegate.core.spec.proposals import propose
from tidegate.workflow.batch import ingest

VALUE = {"v": "int from $.reading.value"}
DEVICE = {"d": "struct<model:string,os:struct<name:string>>"}
ITEMS = {"i": "array<struct<sku:string,of:array<struct<n:int>>>>"}

CAPTURED: list[tuple[dict[str, str], str, dict[str, str]]] = [
    (VALUE, '{"reading":{"value":1,"unit":"C"},"x":2}', {"$.reading.unit": '"C"', "x": "2"}),
    (VALUE, '{"reading":{"a":{"b":[1, 2]}}}', {"$.reading.a": '{"b":[1,2]}'}),
    (VALUE, '{"reading":null,"z":null}', {"z": "null"}),
    (VALUE, '{"$.reading.unit":1,"reading":{"unit":2}}', {'$."$.reading.unit"': "1", "$.reading.unit": "2"}),
    (VALUE, '{"reading":{"a.b":1,"":2,"q\\"\\\\":3,"ö":4,"a-b":5}}',
     {'$.reading."a.b"': "1", '$.reading.""': "2", '$.reading."q\\"\\\\"': "3", '$.reading."ö"': "4",
      "$.reading.a-b": "5"}),
    (DEVICE, '{"d":{"model":"x","cpu":1,"os":{"v":2}}}', {"$.d.cpu": "1", "$.d.os.v": "2"}),
    (DEVICE, '{"d":null}', {}),
    (ITEMS, '{"i":[{"sku":"a","x":1},null,{"of":[{"n":1,"m":2},{"m":3}],"x":{"y":1}}],"z":0}',
     {"z": "0", "$.i[].x": '[1,{"y":1}]', "$.i[].of[].m": "[2,3]"}),
    ({"m": "map<string,struct<a:int>>"}, '{"m":{"k":{"b":1},"l":{"a":1},"n":{"b":null}}}', {"$.m[].b": "[1,null]"}),
    ({"m": "map<string,string>", "a": "array<int>"}, '{"m":{"k":"x"},"a":[1]}', {}),
    ({"m": "map<double,struct<a:int>>"}, '{"m":{}}', {}),
    (DEVICE | {"o": "string from $.d.cpu"}, '{"d":{"cpu":"x","ram":1,"os":{"v":2}}}',
     {"$.d.ram": "1", "$.d.os.v": "2"}),
    ({"t": "map<string,int> from $.a", "b": "int from $.a.b"}, '{"a":{"b":1,"c":2}}', {}),
]  # fmt: skip


def captured(columns: dict[str, str], message: str, version: int = 3, policy: str = "capture") -> list[dict[str, str]]:
    """What the library's way and the row rules' give."""
    made = spec(Format("json", policy), columns)
    found = []
    for vectorised in (True, False):
        decoded = JsonDecoder(made, version, vectorised=vectorised).decode(chunk_of([b"{}", message.encode()]))
        assert decoded.bad == {}
        told = {name: text for name, (row, text) in decoded.unknown.items() if row == 1}
        if policy == "capture":
            assert dict(decoded.table["_extra"].to_pylist()[1]) == told
            assert decoded.table["_extra"].to_pylist()[0] == []
            told = dict(decoded.table["_extra"].to_pylist()[1])
        found.append(told)
    return found


@pytest.mark.parametrize(("columns", "message", "extra"), CAPTURED)
def test_what_no_column_takes_is_kept_by_its_path(columns: dict, message: str, extra: dict) -> None:
    for found in captured(columns, message):
        assert list(found.items()) == list(extra.items()), "in this order"
    assert all(found == extra for found in captured(columns, message, policy="fail"))
    assert captured(columns, message, policy="ignore") == [{}, {}]
    top = {name: text for name, text in extra.items() if not name.startswith("$.")}
    for version in (1, 2):
        before = captured(columns, message, version)
        assert [{n: t for n, t in found.items() if not n.startswith("$.")} for found in before] == [top, top]
        assert [[n for n in found if n.startswith("$.") and n not in json.loads(message)] for found in before] == [
            [],
            [],
        ]


def test_paths_of_keys_can_be_read_again() -> None:
    for key in ["unit", "a.b", 'q"', "\\", "\n", "größe", "$", "[]", "a b"]:
        assert parse(f"$.a.{spelled(key)}") == ("a", key)


def test_avro_fields_inside_of_others() -> None:
    inner = {"type": "record", "name": "os", "fields": [{"name": "n", "type": "int"}, {"name": "V", "type": "string"}]}
    item = {"type": "record", "name": "item", "fields": [{"name": "sku", "type": "int"}, {"name": "x", "type": "int"}]}
    device = {"type": "record", "name": "device", "fields": [
        {"name": "model", "type": "string"}, {"name": "os", "type": ["null", inner]}, {"name": "cpu", "type": "bytes"},
    ]}  # fmt: skip
    schema = {"type": "record", "name": "top", "fields": [
        {"name": "d", "type": device}, {"name": "l", "type": {"type": "array", "items": item}},
        {"name": "e", "type": "int"},
    ]}  # fmt: skip
    value = {"d": {"model": "x", "os": {"n": 1, "V": "2"}, "cpu": b"a"}, "l": [{"sku": 1, "x": 2}, {"sku": 3, "x": 4}],
             "e": 5}  # fmt: skip
    columns = {"m": "string from $.d.model", "v": "struct<v:string> from $.d.os", "l": "array<struct<sku:int>>"}
    extra = {"$.d.os.n": "1", "$.d.cpu": '"YQ=="', "e": "5", "$.l[].x": "[2,4]"}
    decoded = avro_decoder(schema, columns, unknown="capture").decode(chunk_of([written(schema, value)]))
    assert decoded.table["_extra"].to_pylist() == [list(extra.items())]
    assert avro_decoder(schema, columns, unknown="fail").decode(chunk_of([written(schema, value)])).unknown.keys() == (
        extra.keys()
    )
    without = value | {"d": value["d"] | {"os": None}, "l": []}  # type: ignore[dict-item, operator]
    decoded = avro_decoder(schema, columns, unknown="capture").decode(chunk_of([written(schema, without)]))
    assert dict(decoded.table["_extra"].to_pylist()[0]) == {"$.d.cpu": '"YQ=="', "e": "5"}


def test_protobuf_fields_inside_of_others() -> None:
    inner = put("int32", 5) + put("int64", 6) + tagged(900, 0, b"\x07")
    message = tagged(203, 2, inner + tagged(203, 2, put("int64", 8))) + put("int64", 9)
    columns = {"a": "int from $.m.int32", "s": "struct<int32:int> from $.m.m"}
    decoded = protobuf_decoder(columns, unknown="capture").decode(chunk_of([message]))
    assert dict(decoded.table["_extra"].to_pylist()[0]) == {
        "$.m.int64": "6", '$.m."#900"': "7", "$.m.m.int64": "8", "int64": "9",
    }  # fmt: skip


@pytest.mark.parametrize("version", [2, 3])
def test_a_path_that_is_known_without_a_column(version: int) -> None:
    """What the event time came from when the row was first decoded: its own field, or by version 2 the top one."""
    made = spec(Format("json", "capture"), VALUE)
    messages = [b'{"m":{"t":1,"x":2},"reading":{"t":3,"u":4}}', b'{"m":5}', b'{"m":{"t":1,"t":2}}']
    nested = {"m": {"$.m.x": "2"}, "reading": {"m": '{"t":1,"x":2}'}}
    for field, extra in nested.items():
        expected = ({} if field == "m" else extra) if version == 2 else extra | {"$.reading.u": "4"}
        if version == 3 and field == "m":
            expected = expected | {"$.reading.t": "3"}
        for vectorised in (True, False):
            known = ((field, "t"),)
            decoded = JsonDecoder(made, version, known, vectorised=vectorised).decode(chunk_of(messages))
            assert decoded.bad == {}
            found = [dict(cell) for cell in decoded.table["_extra"].to_pylist()]
            assert found[0] == expected
            assert found[1] == ({} if field == "m" else {"m": "5"})


# ---------------------------------------------------------------- proposals


def test_columns_are_proposed_by_path() -> None:
    asked = spec(Format("json"), VALUE, "$.meta.at")
    values = [b'{"reading":{"value":1,"unit":"C","odd":{"a":1}},"meta":{"at":1,"by":"x"},"l":[{"a":1}]}'] * 2
    request = {"pipeline": to_plain(asked), "topic_id": "t", "ranges": [[0, 0, 2]]}
    found = sample(request, lambda plan, settings: FakeReader({0: records(values)}))["fields"]
    lines = [propose(name, each["examples"], ["v"]).line for name, each in found.items()]
    assert sorted(lines) == [
        '- {name: l, type: "array<struct<a:bigint>>"}',
        "- {name: meta_by, type: string, from: $.meta.by}",
        '- {name: reading_odd, type: "struct<a:bigint>", from: $.reading.odd}',
        "- {name: reading_unit, type: string, from: $.reading.unit}",
    ]


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("$.reading.unit", "- {name: reading_unit_field, type: bigint, from: $.reading.unit}"),
        ('$.messung."größe"', '- {name: messung_gr_e, type: bigint, from: "$.messung.größe"}'),
        ("$.i[].x", '# the field "$.i[].x" is inside of an array or a map: add it to that column\'s type'),
        ('$.a."b.c"', '- {name: a_b_c, type: bigint, from: "$.a.\\"b.c\\""}'),
        ('$.a.""', '# the field "$.a.\\"\\"" cannot be named in a path'),
        ("[]", '- {name: field, type: bigint, from: "$.\\"[]\\""}'),
    ],
)
def test_lines_for_paths(field: str, line: str) -> None:
    assert propose(field, ["1"], ["reading_unit"]).line == line


# ---------------------------------------------------------------- versions of the rules


def policy(unknown: str, **changes: Any) -> Pipeline:
    return replace(spec(Format("json", unknown), VALUE), **changes)


def test_a_plan_pins_what_a_worker_of_the_release_before_knows_where_it_says_the_same() -> None:
    assert [rules_for(policy(unknown)) for unknown in ("ignore", "capture", "fail")] == [2, 3, 3]
    ignored, kept = policy("ignore"), policy("capture")
    assert rules_of_replay(2, kept, kept) == 2, "what was captured by version 2 stays as it is"
    assert rules_of_replay(2, ignored, kept) == 3, "nothing was captured: today's columns get all of it"
    assert [rules_of_replay(n, ignored, ignored) for n in (2, 3)] == [2, 3]


def test_files_do_not_hold_what_a_struct_with_fewer_fields_left_unknown() -> None:
    before = policy("capture", columns=(Column(name="s", type="struct<a:int,b:int>", path="$.s", hidden=True),))
    today = policy("capture", columns=(Column(name="s", type="struct<a:int>", path="$.s", hidden=True),))
    assert needing_decoding(today, [before]) == ("_extra",)
    assert needing_decoding(before, [before]) == ()


# ---------------------------------------------------------------- lives


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def taking_a_part(world: World, unknown: str) -> None:
    columns = (*world.pipeline.columns, Column(name="temperature", type="int", path="$.reading.value"))
    world.change_spec(columns=columns, format=replace(world.pipeline.format, unknown_fields=unknown))


def odd(name: str, hours: float) -> dict[str, Any]:
    return record(name, hours) | {"reading": {"value": 1, "unit": "C"}, "gate": 7}


def extra(world: World) -> dict[str, dict[str, str]]:
    return {row["id"]: dict(row["_extra"]) for row in rows(world)}


def test_an_hour_of_the_rules_before_keeps_its_content(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    taking_a_part(world, "capture")
    with monkeypatch.context() as earlier:
        earlier.setattr(planning, "rules_for", lambda _: 2)
        world.produce(odd("a0", 0.1), odd("b0", 1.2))
        world.produce(record("d0", 2.5), partition=1)
        world.ingest("r1")
    world.archive(0)
    assert extra(world) == {"a0": {"gate": "7"}}
    world.produce(odd("b1", 1.4), odd("e0", 4.0))
    world.produce(record("y", 4.9), partition=1)
    world.ingest("r2")
    world.archive(1)
    found = {"a0": {"gate": "7"}, "b0": {"gate": "7"}, "b1": {"gate": "7", "$.reading.unit": '"C"'}}
    assert extra(world) == found
    assert [world.replay(hour).note for hour in (0, 1)] == ["unchanged", "unchanged"]
    balanced(world)
    for file in (world.folder / "lake/readings/date=2013-01-05/hour=01").rglob("*.parquet"):
        file.unlink()
    world.archive(1)  # as Clear does
    assert extra(world) == found
    balanced(world)


def test_a_batch_stops_at_a_field_inside_and_goes_on_with_its_column(world: World) -> None:
    taking_a_part(world, "fail")
    world.produce(record("a0", 0.1), odd("b0", 1.2) | {"gate": None}, record("c0", 2.5))
    world.produce(record("d0", 3.5), partition=1)
    world.change_spec(columns=(*world.pipeline.columns, Column(name="gate", type="string", path="$.gate")))
    ingest.plan(world.context(), "r1")
    with pytest.raises(BatchRefused) as refused:
        ingest.write(world.context(), "r1")
    assert "unknown field '$.reading.unit', for example \"C\" (partition 0, offset 1" in str(refused.value)
    assert "- {name: reading_unit, type: string, from: $.reading.unit}" in refused.value.advice
    world.change_spec(
        columns=(*world.pipeline.columns, Column(name="reading_unit", type="string", path="$.reading.unit"))
    )
    assert world.ingest("r1") == 1
    for hour in (0, 1):
        world.archive(hour)
    assert {row["id"]: row["reading_unit"] for row in rows(world)} == {"a0": None, "b0": "C"}
    balanced(world)
