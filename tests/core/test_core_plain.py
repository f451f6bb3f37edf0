"""Values from JSON are read by what their own class says, in the order in which it says it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.plain import dumps, loads


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
