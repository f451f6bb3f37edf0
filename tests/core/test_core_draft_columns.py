"""Columns that a draft has, each as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from test_core_drafting import tree

from tidegate.core.spec.draft_fields import MOST_COLUMNS, DraftColumn, Message, columns_of, fields_of

EVERY_SCALAR = "bigint and boolean and date and decimal(38,0) and double and string and timestamp"


def drafted(*rows: dict[str, Any], text_only: bool = False) -> list[DraftColumn]:
    return list(columns_of(tree(*rows), len(rows), text_only).columns)


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([{"a": 1}, {"a": None}, {}], DraftColumn("a", "bigint", "$.a", "in 2 of 3 messages, 1 null", values=1)),
        (
            [{"a": None}, {"a": None}, {"a": 1}],
            DraftColumn("a", "bigint", "$.a", "in 3 of 3 messages, 2 null", values=1),
        ),
        (
            [{"a": None}, {"a": None}],
            DraftColumn("a", "string", "$.a", "in 2 of 2 messages, 2 null; only null was seen"),
        ),
        ([{"a": {}}], DraftColumn("a", "map<string,string>", "$.a", "in 1 of 1 message", values=1)),
        ([{"a": {"b c": None}}], DraftColumn("a", "map<string,string>", "$.a", "in 1 of 1 message", values=1)),
        (
            [{"a": 1}] * 39 + [{"a": {}}],
            DraftColumn("a", "bigint", "$.a", "in 40 of 40 messages; 1 would be dirty: object", values=40),
        ),
        (
            [{"a": v} for v in (True, 1, 1.5, 10**30, "x", "2013-01-05", "2013-01-05T04:00Z")],
            DraftColumn("a", "string", "$.a", f"in 7 of 7 messages; as {EVERY_SCALAR}", convert=True, values=7),
        ),
        ([{"a": "é"}], DraftColumn("a", "string", "$.a", "in 1 of 1 message", values=1)),
        (
            [{"a": 1}, {"a": "x"}],
            DraftColumn("a", "string", "$.a", "in 2 of 2 messages; as bigint and string", convert=True, values=2),
        ),
    ],
)
def test_a_column_as_a_whole(rows: list[dict[str, Any]], column: DraftColumn) -> None:
    assert drafted(*rows) == [column]


def test_names_that_no_path_has_and_columns_beyond_the_most_are_told() -> None:
    found = columns_of(tree({"": 1, "b": 2}), 1, False)
    assert [c.path for c in found.columns] == ["$.b"]
    assert found.left == ('"": no path can name it',)
    wide = columns_of(tree({f"f{n}": n for n in range(MOST_COLUMNS + 2)}), 1, False)
    assert len(wide.columns) == MOST_COLUMNS
    assert wide.left == tuple(f"$.f{n}: more than {MOST_COLUMNS} columns" for n in (MOST_COLUMNS, MOST_COLUMNS + 1))


def test_a_key_inside_of_an_object_that_no_path_has_is_told() -> None:
    found = columns_of(tree({"a": {"": 1, "d": "x"}, "e": 1}), 1, False)
    assert [c.path for c in found.columns] == ["$.a.d", "$.e"]
    assert found.left == ('"a.": no path can name it',)


def test_keys_that_are_no_plain_words_have_paths_in_quotes() -> None:
    found = columns_of(tree({"geo.lat": 1, "a b": {"c": 1, 'd"': "x"}, "@at": 1}), 1, False)
    assert [(c.name, c.path) for c in found.columns] == [
        ("geo_lat", '$."geo.lat"'), ("a_b_c", '$."a b".c'), ("a_b_d", '$."a b"."d\\""'), ("at", "$.@at")
    ]  # fmt: skip
    assert not found.left


@pytest.mark.parametrize(
    ("keys", "each_in", "messages", "columns"),
    [
        (60, 100, 100, 60),
        (61, 100, 100, 1),
        (30, 100, 100, 30),
        (20, 1, 100, 20),
        (21, 1, 100, 1),
        (21, 10, 100, 21),
        (21, 9, 100, 1),
        (2, 1, 100, 2),
    ],
)
def test_many_keys_of_which_each_is_rare_are_data(keys: int, each_in: int, messages: int, columns: int) -> None:
    """More than 60 are, whatever; more than 20 are where each is in less than a tenth of the messages."""
    rows = [{"m": {f"k{k}": k for k in range(keys) if (n + k) % messages < each_in}} for n in range(messages)]
    found = drafted(*rows)
    assert len(found) == columns
    if columns == 1:
        assert found[0] == DraftColumn("m", "map<string,bigint>", "$.m", "in 100 of 100 messages", values=100)


def test_eight_levels_are_taken_apart() -> None:
    def nested(levels: int, value: Any) -> dict[str, Any]:
        for _ in range(levels):
            value = {"a": value}
        return value  # type: ignore[no-any-return]

    eight = "$" + ".a" * 8
    assert [(c.path, c.type) for c in drafted(nested(8, 1))] == [(eight, "bigint")]
    assert [(c.path, c.type) for c in drafted(nested(9, 1))] == [(eight, "struct<a:bigint>")]
    assert [(c.path, c.type) for c in drafted(nested(8, {"b c": 1}))] == [(eight, "map<string,bigint>")]
    assert [c.path for c in drafted(nested(40, 1))] == [eight]
    keys = [nested(8, {f"k{n}": 1 for n in range(first, first + 40)}) for first in (0, 40)]
    assert [(c.path, c.type) for c in drafted(*keys)] == [(eight, "map<string,bigint>")], "keys are data there, too"


@pytest.mark.usefixtures("usual_recursion")
def test_what_is_nested_too_deeply_for_a_type_gets_no_column() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = {"a": [deep]}
    found = columns_of(tree({"x": deep, "y": {"": deep}, "id": 1}), 1, False)
    assert [c.path for c in found.columns] == ["$.id"]
    told = "in 1 of 1 message, nested too deeply for a type: no type takes them all"
    assert found.left == (f"$.x.a: {told}", '"y.": no path can name it')


def test_what_decoding_left_without_a_text_is_null() -> None:
    found = fields_of([Message(0, 0, 0, {"a": None}), Message(0, 1, 0, None), Message(0, 2, 0, {"a": "7"})])
    assert columns_of(found, 2, False).columns == (
        DraftColumn("a", "bigint", "$.a", "in 2 of 2 messages, 1 null", values=1),
    )
