"""Paths of values in a message: what an author may write, and the keys that it names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.spec.paths import PATH, parse, path_of, quoted, unquoted


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("$.a", ("a",)),
        ("$.a.b-c", ("a", "b-c")),
        ("$.@at", ("@at",)),
        ('$."geo.lat"', ("geo.lat",)),
        ('$."a b".c."d\\"\\\\"', ("a b", "c", 'd"\\')),
        ('$."[]"', ("[]",)),
    ],
)
def test_what_authors_write(path: str, keys: tuple[str, ...]) -> None:
    assert re.fullmatch(PATH, path)
    assert (parse(path), path_of(keys)) == (keys, path)


@pytest.mark.parametrize("path", ["", "$", "a", "$.", "$..a", '$.""', '$."a', '$."a"b', "$.a[0]", "$.a b", '$."a\\"'])
def test_what_names_nothing(path: str) -> None:
    assert not re.fullmatch(PATH, path)
    with pytest.raises(ValueError, match="path"):
        parse(path)


@given(st.lists(st.text(min_size=1), min_size=1))
def test_each_key_has_a_path(keys: list[str]) -> None:
    path = path_of(keys)
    assert re.fullmatch(PATH, path, re.DOTALL)
    assert parse(path) == tuple(keys)


@given(st.text())
def test_a_key_in_quotes(key: str) -> None:
    assert unquoted(quoted(key)[1:-1]) == key


def test_whatever_is_escaped_stands_for_itself() -> None:
    assert unquoted("\\a\\\n") == "a\n"
