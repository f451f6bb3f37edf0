"""Fields of a writer's schema that no column takes, inside of those that one takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_jobs.engine.formats.assembly import as_text
from spark_jobs.engine.formats.known import Items, Known, Path, elements, joined, members, of_type, unknown_below
from tidegate.core.base.hivetypes import Array, HiveType, Map, Struct
from tidegate.core.spec.avro import Schema, branches_of, struct_field


def known_at(schema: Schema, path: Path, kind: HiveType | None) -> Known:
    """What a column of this type takes of the values at a path, by the schema's names. Raises ValueError."""
    places = [schema]
    for key in path:
        places = [field for each in places for place in branches_of(each) for n, field in place.fields if n == key]
    found: list[Known] = [_known(place, kind) for each in places for place in branches_of(each) if place.type != "null"]
    known = found[0] if found else of_type(kind)
    for other in found[1:]:
        known = joined(known, other)
    return known


def _known(schema: Schema, kind: HiveType | None) -> Known:
    if isinstance(kind, Struct):
        fields = dict(schema.fields) if schema.type == "record" else {}
        known: dict[str, Known] = {}
        for name, each in kind.fields:
            own = struct_field(schema, name) if fields else None
            if own is not None:
                below = _of_any(fields[own], each)
                known[own] = joined(known[own], below) if own in known else below
        return known
    if isinstance(kind, Array | Map):
        wanted = kind.element if isinstance(kind, Array) else kind.value
        each = of_type(wanted) if schema.items is None else _of_any(schema.items, wanted)
        return None if each is None else Items(each)
    return None


def _of_any(schema: Schema, kind: HiveType) -> Known:
    return known_at(schema, (), kind)


def hides(schema: Schema, known: Known) -> bool:
    """Whether a value can have fields that are not known."""
    if schema.type == "union":
        return any(hides(branch, known) for branch in schema.branches)
    if isinstance(known, dict) and schema.type == "record":
        return any(name not in known or hides(field, known[name]) for name, field in schema.fields)
    return isinstance(known, Items) and schema.items is not None and hides(schema.items, known.each)


def tells(name: str, schema: Schema, known: dict[str, Known]) -> bool:
    """Whether a top field is unknown, or can have unknown ones inside."""
    return name not in known or hides(schema, known[name])


def finder(name: str, known: Known) -> Callable[[Any, dict[str, str], dict[str, list[str]]], None]:
    """What adds the unknown fields inside of the value of a top field: of elements to the second one."""
    return lambda value, single, several: unknown_below(
        value, known, f"$.{name}", as_text, members, elements, single, several
    )
