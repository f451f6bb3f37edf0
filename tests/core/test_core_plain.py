"""Values from JSON are read by what their own class says, in the order in which it says it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tidegate.core.base.choice import Choice
from tidegate.core.base.plain import LEFT_OUT, UnknownFields, dumps, from_plain, loads, to_plain


@dataclass(frozen=True)
class Cat:
    name: str


@dataclass(frozen=True)
class Dog:
    name: str


@dataclass(frozen=True)
class CatFirst:
    pet: Cat | Dog
    next: CatFirst | None = None


@dataclass(frozen=True)
class DogFirst:
    pet: Dog | Cat


def test_equal_unions_of_two_classes_are_read_each_in_its_order() -> None:
    text = '{"pet":{"name":"Mia"}}'
    assert loads(CatFirst, text).pet == Cat("Mia")
    assert loads(DogFirst, text).pet == Dog("Mia")


def test_a_class_may_have_fields_of_itself() -> None:
    chain = CatFirst(Cat("a"), CatFirst(Cat("b")))
    assert loads(CatFirst, dumps(chain)) == chain


class Size(Choice):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Crate:
    at: tuple[int, str] | None
    cats: tuple[Cat, ...] | None = None
    by_day: dict[int, Cat] | None = None
    size: Size | None = None
    more: str = field(default="", metadata=LEFT_OUT)
    last: int = field(default=3, metadata=LEFT_OUT)


FULL = Crate((1, "é"), (Cat("a"), Cat("b")), {7: Cat("c")}, Size.LARGE, "x", 4)


def test_all_kinds_of_fields_come_back() -> None:
    assert dumps(FULL) == (
        '{"at":[1,"é"],"by_day":{"7":{"name":"c"}},"cats":[{"name":"a"},{"name":"b"}],"last":4,"more":"x",'
        '"size":"large"}'
    )
    assert loads(Crate, dumps(FULL)) == FULL
    assert loads(Crate, dumps(Crate(None))) == Crate(None)
    assert from_plain(Crate, {"at": None, "cats": None, "by_day": None, "size": None}) == Crate(None)


def test_what_may_be_left_out_is_while_it_has_its_default() -> None:
    """Other fields are written, whatever they are: earlier releases ask for them."""
    assert to_plain(Crate(None)) == {"at": None, "cats": None, "by_day": None, "size": None}
    for more in ({"more": "x"}, {"last": 0}):
        assert to_plain(replace(Crate(None), **more)) == to_plain(Crate(None)) | more


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"at": [1, "a", 2]}, "zip"),
        ({"at": [1]}, "zip"),
        ({"at": ["x", "a"]}, "invalid literal"),
        ({"at": [1.5, "a"]}, "'1.5' is no int"),
        ({"at": [True, "a"]}, "'True' is no int"),
        ({"at": [1, 2]}, "'2' is no str"),
        ({}, "missing 1 required positional argument: 'at'"),
    ],
)
def test_values_of_another_type_are_refused(wrong: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        from_plain(Crate, wrong)


def test_a_word_that_only_a_newer_release_knows_is_named() -> None:
    with pytest.raises(UnknownFields) as said:
        from_plain(Crate, {"at": None, "size": "x" * 41})
    assert str(said.value) == (
        f"'{'x' * 40}' is no Size of this release, which knows small, large: a newer release wrote it, "
        "install that here"
    )
    with pytest.raises(UnknownFields, match=r"Crate: unknown \['lid', 'weight'\]"):
        from_plain(Crate, {"at": None, "weight": 1, "lid": 2})
