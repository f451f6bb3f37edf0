"""Errors of pydantic in the words of a pipeline's author."""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from tidegate.spec.by_kind import ByKind
from tidegate.spec.deliver import DELIVERY
from tidegate.spec.document import Path, dotted
from tidegate.spec.model import PipelineSpec
from tidegate.spec.problems import Problem
from tidegate.spec.sink import SINK, SinkSection
from tidegate.spec.source import SOURCE, SourceSection
from tidegate.spec.values import nearest, show

_BY_KIND: dict[object, ByKind] = {SourceSection: SOURCE, SinkSection: SINK}
_EXPECTED = {
    "model_type": "must be a mapping of keys to values",
    "dict_type": "must be a mapping of keys to values",
    "tuple_type": "must be a list",
    "too_short": "must not be empty",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}


def problems(error: ValidationError, document: object = None) -> Iterator[Problem]:
    """A problem for each error of pydantic, but for lists that it calls too short for lack of valid entries.

    `document`: what was validated; it names the kinds whose keys are proposed."""
    errors = error.errors(include_url=False, include_context=True)
    for found in errors:
        # the key of a wrong `spark.conf` entry is followed by the marker "[key]"
        path = tuple(part for part in found["loc"] if part != "[key]")
        if found["type"] == "too_short" and any(len(e["loc"]) > len(path) == _shared(e["loc"], path) for e in errors):
            continue
        if found["type"] == "extra_forbidden":
            yield Problem(path, f"unknown key{_suggestion(path, document)}")
        else:
            yield Problem(path, _message(found["type"], found["input"], found["msg"], found.get("ctx", {})))


def _shared(one: Path, other: Path) -> int:
    """Length of their common beginning, in parts."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _message(kind: str, value: object, text: str, context: dict[str, Any]) -> str:
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        return str(context["error"])
    if kind == "model_type" and value is None:
        return "is empty: give its keys, or leave it out"
    if kind == "too_short":
        return _EXPECTED[kind]
    expected = _EXPECTED.get(kind) or f"must{text.removeprefix('Input should')}"
    return f"{expected}, not {show(value)}"


def _suggestion(path: Path, document: object) -> str:
    word = str(path[-1])
    siblings = keys(_model_at(path[:-1], document))
    close = nearest(word, siblings)
    if close:
        return close
    elsewhere = [p for p in all_keys() if p.rpartition(".")[2] == word]
    return f" here (did you mean {elsewhere[0]}?)" if elsewhere else f"; known are {', '.join(siblings)}"


def keys(model: type[BaseModel]) -> list[str]:
    """The keys of a section as the YAML spells them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _section(annotation: object) -> type[BaseModel] | None:
    """The section that a field holds, be it alone, in a list, or optional."""
    if annotation in _BY_KIND:
        by_kind = _BY_KIND[annotation]
        return by_kind.section_of(by_kind.default)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((s for s in map(_section, typing.get_args(annotation)) if s), None)


def _model_at(path: Path, document: object) -> type[BaseModel]:
    model: type[BaseModel] = PipelineSpec
    for part in path:
        if not isinstance(part, int):
            field = next(f for n, f in model.model_fields.items() if (f.alias or n) == part)
            by_kind = _BY_KIND.get(field.annotation)
            if by_kind is not None and isinstance(document, Mapping):
                model = by_kind.section_for(document.get(part))
            else:
                model = _section(field.annotation) or model
    return model


@functools.cache
def all_keys() -> tuple[str, ...]:
    """Every documented key, dotted, in the order of the reference."""

    def walk(model: type[BaseModel], path: Path) -> Iterator[str]:
        for name, field in model.model_fields.items():
            here = (*path, field.alias or name)
            yield dotted(here)
            section = _section(field.annotation)
            if section:
                yield from walk(section, here)

    sections = (("source", SOURCE), ("sink", SINK), ("deliver", DELIVERY))
    by_kind = [(name, one, kind) for name, one in sections for kind in one.kinds.own]
    kinds = (key for name, one, kind in by_kind for key in walk(one.section_of(kind), (name,)))
    return tuple(dict.fromkeys((*walk(PipelineSpec, ()), *kinds)))
