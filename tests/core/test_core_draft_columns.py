"""Columns that a draft has, each as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from test_core_drafting import tree

from tidegate.core.spec.draft_fields import MOST_COLUMNS, DraftColumn, columns_of


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
    odd = "a" + '"' * 3
    found = columns_of(tree({odd: 1, "b": 2}), 1)
    assert [c.path for c in found.columns] == ["$.b"]
    assert found.left == ('"a\\"\\"\\"": no path can name it',)
    wide = columns_of(tree({f"f{n}": n for n in range(MOST_COLUMNS + 2)}), 1)
    assert len(wide.columns) == MOST_COLUMNS
    assert wide.left == tuple(f"$.f{n}: more than {MOST_COLUMNS} columns" for n in (MOST_COLUMNS, MOST_COLUMNS + 1))
