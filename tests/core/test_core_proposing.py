"""What is proposed for a field, from what it held."""

from __future__ import annotations

import pytest
import yaml

from tidegate.core.base.hivetypes import parse
from tidegate.core.spec.proposals import advice, keys_of, propose, sample_ranges

TYPES = [
    (["1", "-7"], "bigint"),
    (["9223372036854775807"], "bigint"),
    (["-9223372036854775808"], "bigint"),
    (["9223372036854775808"], "decimal(38,0)"),
    (["-9223372036854775809"], "decimal(38,0)"),
    (["9" * 38], "decimal(38,0)"),
    (["1" + "0" * 38], "double"),
    (["1", "1.5", "9223372036854775808"], "double"),
    (['"x"', '"2013-01-05"', '"2013-01-05T04:00"'], "string"),
    (['{"Ab": 1}'], "map<string,bigint>"),
    (['{"a b": 1}'], "map<string,bigint>"),
    (["1", "9223372036854775808"], "decimal(38,0)"),
    (["1", "1.5"], "double"),
    (["1", "null"], "bigint"),
    (["null"], "string"),
    ([], "string"),
    (["true", "false"], "boolean"),
    (['"B7"', '"2013-01-05"'], "string"),
    (['"2013-01-05"'], "date"),
    (['"2013-01-05T04:00:00Z"', '"2013-01-05 04:00:00.123+02:00"'], "timestamp"),
    (['"2013-01-05"', '"2013-01-05T04:00:00Z"'], "string"),
    (["[1, 2]", "[]", "[null]"], None),
    (["[1, 2.5]"], "array<double>"),
    (["[1]", "[2.5]"], "array<double>"),
    (["[]"], "array<string>"),
    (['{"a": 1, "b": "x"}'], "struct<a:bigint,b:string>"),
    (['{"a": 1}', '{"b": [1]}', '{"a": 2.5}'], "struct<a:double,b:array<bigint>>"),
    (['{"A b": 1, "c": 2}'], "map<string,bigint>"),
    (["{}"], "map<string,string>"),
    (['{"a": 1}', '{"a": "x"}'], None),
    (["1", '"x"'], None),
    (["true", "1"], None),
    (["plain text"], "string"),
]


@pytest.mark.parametrize(("examples", "kind"), TYPES)
def test_types(examples: list[str], kind: str | None) -> None:
    found = propose("gate", examples)
    assert found.note.startswith("seen: ") == (kind is None)
    kind = kind or "string"
    assert found.type == kind == str(parse(kind))
    assert found.seen == len(examples)
    (item,) = yaml.safe_load(found.line)
    assert item == {"name": "gate", "type": kind}


def test_what_was_seen_is_said() -> None:
    assert propose("x", ["1", '"a"', "true"]).line == (
        "- {name: x, type: string}  # seen: bigint, boolean, string; records with anything but text are dirty"
    )
    assert propose("x", ["null"]).line == "- {name: x, type: string}  # only null was seen"
    assert propose("x", ["1"], seen=17).seen == 17


NAMES = [
    ("gate", (), "- {name: gate, type: bigint}"),
    ("Gate", (), "- {name: gate, type: bigint, from: $.Gate}"),
    ("gate-no", (), "- {name: gate_no, type: bigint, from: $.gate-no}"),
    ("7days", (), "- {name: field_7days, type: bigint, from: $.7days}"),
    ("größe", (), '- {name: gr_e, type: bigint, from: "$.größe"}'),
    ("日", (), '- {name: field, type: bigint, from: "$.日"}'),
    ("_id", (), "- {name: id, type: bigint, from: $._id}"),
    ("date", (), "- {name: date_field, type: bigint, from: $.date}"),
    ("gate", ("GATE", "gate_field"), "- {name: gate_field_field, type: bigint, from: $.gate}"),
    ("a#: b", (), '- {name: a_b, type: bigint, from: "$.\\"a#: b\\""}'),
    ("geo.lat", (), '- {name: geo_lat, type: bigint, from: "$.\\"geo.lat\\""}'),
    ("", (), '# the field "" cannot be named in a path'),
    ("on", (), '- {name: "on", type: bigint}'),
    ("a#:b", (), '- {name: a_b, type: bigint, from: "$.a#:b"}'),
]


@pytest.mark.parametrize(("field", "taken", "line"), NAMES)
def test_names(field: str, taken: tuple[str, ...], line: str) -> None:
    found = propose(field, ["1"], taken)
    assert found.line == line
    assert found.usable == (not line.startswith("#"))


def test_a_struct_of_too_many_fields_is_a_map() -> None:
    many = "{" + ", ".join(f'"f{i}": {i}' for i in range(61)) + "}"
    assert propose("x", [many]).type == "map<string,bigint>"
    less = "{" + ", ".join(f'"f{i}": {i}' for i in range(60)) + "}"
    assert propose("x", [less]).type.startswith("struct<f0:bigint")


@pytest.mark.usefixtures("usual_recursion")
def test_deep_values_are_no_trouble() -> None:
    assert propose("x", ["[" * 100_000]).type == "string"
    long = propose("x", ["{" + ", ".join(f'"{"f" * 40}{i}": 1' for i in range(60)) + "}"])
    assert (long.type, long.note) == ("string", "too long for a type; records with anything but text are dirty")
    ladder = propose("x", ['{"a":' * 900 + "1" + "}" * 900, '{"b":' * 900 + "1" + "}" * 900])
    assert (ladder.type, ladder.note) == (
        "string",
        "nested too deeply for a type; records with anything but text are dirty",
    )


def test_two_structs_join_up_to_the_limit() -> None:
    one, two = ("{" + ", ".join(f'"{p}{i}": {i}' for i in range(30)) + "}" for p in "fg")
    assert propose("x", [one, two]).type.startswith("struct<f0:bigint")
    assert propose("x", [one, two, '{"h": 1}']).type == "string"


def test_names_are_cut() -> None:
    assert propose("x" * 300, ["1"]).column == "x" * 100


def test_what_to_do_is_one_line() -> None:
    said = advice([propose("gate", ['"B7"']), propose("", ["1"])], "flights")
    assert said.startswith(
        "add to columns: - {name: gate, type: string}; or run `tidegate schema propose flights --write`"
    )
    assert "\n" not in said
    assert advice([propose("", ["1"])], "flights").startswith("run `tidegate schema propose flights --write`")


def test_the_newest_records_of_each_partition_are_sampled() -> None:
    two = {0: (0, 100), 1: (90, 95)}
    assert sample_ranges(two, 20) == [(0, 90, 100), (1, 90, 95)]
    assert sample_ranges(two, 25) == [(0, 88, 100), (1, 90, 95)]
    assert sample_ranges({0: (5, 5)}, 20) == []
    assert sample_ranges({}, 20) == []
    assert sample_ranges({p: (0, 10) for p in range(3)}, 1) == [(0, 9, 10), (1, 9, 10), (2, 9, 10)]


def test_so_are_those_at_which_a_batch_stopped() -> None:
    two = {0: (0, 100), 1: (90, 95)}
    assert sample_ranges(two, 30, refused=(0, 7)) == [(0, 7, 17), (0, 90, 100), (1, 90, 95)]
    assert sample_ranges(two, 30, refused=(1, 7)) == [(1, 90, 95), (0, 90, 100), (1, 90, 95)]
    assert sample_ranges(two, 30, refused=(0, 500)) == [(0, 90, 100), (1, 90, 95)]
    assert sample_ranges(two, 30, refused=(9, 7)) == [(0, 90, 100), (1, 90, 95)]


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("a.b", ("a.b",)),
        ("$.a.b-c", ("a", "b-c")),
        ("$.größe.@at", ("größe", "@at")),
        ("$.lines[].sku", ("lines", "[]", "sku")),
        ('$.a."b.c".d', ("a", "b.c", "d")),
        (r'$.a."q\"\\"', ("a", 'q"' + "\\")),
        ('$.a."x\ny"', ("a", "x\ny")),
    ],
)
def test_keys_of_a_path(field: str, keys: tuple[str, ...]) -> None:
    """A field at the top of the message is named by its key, whatever that holds."""
    assert keys_of(field) == keys
