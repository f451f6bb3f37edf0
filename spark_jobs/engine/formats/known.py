"""Tree of the fields of a message that columns take, and names for those that none takes.

A field is known if a column has its path, a path below it or one above it. A struct knows the fields that it names, in
arrays and maps too; any other type knows all that is below. A field inside another is named by its path, `$.a.b`: a key
other than letters, digits, `_` and `-` in double quotes, `[]` for all elements of an array or values of a map.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

from tidegate.core.base.hivetypes import Array, HiveType, Map, Struct
from tidegate.core.spec import paths

NESTED = 3
"""The first version of the rules by which unknown fields are looked for inside of known ones."""
Path = tuple[str, ...]


@dataclass(frozen=True)
class Items:
    """Known fields of an array's elements, or of a map's values."""

    each: Known


Known = Union[dict[str, "Known"], Items, None]  # noqa: UP007  # it names itself
"""By the keys of an object; None: all that is there."""


def known_fields(
    targets: Iterable[tuple[Path, HiveType | None]],
    version: int,
    tree: Callable[[Path, HiveType | None], Known] = lambda _, kind: of_type(kind),
) -> dict[str, Known]:
    """The tree for paths and the types that are taken there (None: an event time). `tree`: of what is there; a format
    with a schema may call a struct's fields by other names."""
    found: dict[str, Known] = {}
    for path, kind in targets:
        below = tree(path, kind)
        for key in reversed(path[1:]):
            below = {key: below}
        below = below if version >= NESTED else None
        found[path[0]] = joined(found[path[0]], below) if path[0] in found else below
    return found


def of_type(kind: HiveType | None) -> Known:
    if isinstance(kind, Struct):
        return {name: of_type(each) for name, each in kind.fields}
    if isinstance(kind, Array | Map):
        each = of_type(kind.element if isinstance(kind, Array) else kind.value)
        return None if each is None else Items(each)
    return None


def joined(one: Known, other: Known) -> Known:
    """Known fields of either of two columns."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {k: joined(one[k], each) if k in one else each for k, each in other.items()}
    if isinstance(one, Items) and isinstance(other, Items):
        each = joined(one.each, other.each)
        return None if each is None else Items(each)
    return None


def inside(known: Known, place: Iterable[Any]) -> Known:
    """The tree below a place: keys, and `Items` for elements. None too where no column looks into it."""
    for step in place:
        if step is Items:
            known = known.each if isinstance(known, Items) else None
        else:
            known = known.get(step) if isinstance(known, dict) else None
    return known


# ---------------------------------------------------------------- names


_WORD = re.compile(r"[A-Za-z0-9_-]+")


@functools.lru_cache(10_000)
def spelled(key: str) -> str:
    """A key as a step of a path."""
    if _WORD.fullmatch(key):
        return key
    return paths.quoted(key)


def path_of(place: Iterable[Any]) -> str:
    """A place as a path: keys, and `Items` for elements."""
    return "$" + "".join("[]" if step is Items else f".{spelled(step)}" for step in place)


def at_the_top(key: str, version: int) -> str:
    """Name of an unknown field of the message itself: its key, unless that could be taken for a path."""
    return f"$.{spelled(key)}" if version >= NESTED and key.startswith("$.") else key


# ---------------------------------------------------------------- looking


Members = Callable[[Any], Iterable[tuple[str, Any]] | None]
"""(key, value) of what is an object, else None."""
Elements = Callable[[Any], Collection[Any]]
"""Of an array or a map; nothing for all else."""


def unknown_texts(
    message: Any,
    known: dict[str, Known],
    version: int,
    text: Callable[[Any], str],
    members: Members,
    elements: Elements,
) -> dict[str, str]:
    """The unknown fields of a message by their names, each as `text`: in their order, those of elements last, with
    what all elements have in one array."""
    single: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    for key, value in members(message) or ():
        if key not in known:
            single[at_the_top(key, version)] = text(value)
        elif known[key] is not None:
            unknown_below(value, known[key], f"$.{spelled(key)}", text, members, elements, single, several)
    return single | as_arrays(several)


def as_arrays(several: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: f"[{','.join(texts)}]" for name, texts in several.items()}


def unknown_below(
    value: Any,
    known: Known,
    place: str,
    text: Callable[[Any], str],
    members: Members,
    elements: Elements,
    single: dict[str, str],
    several: dict[str, list[str]],
) -> None:
    """Adds the unknown fields inside of a known one: those of elements to `several`."""
    for name, item, many in _below(value, known, place, False, members, elements):
        if many:
            several.setdefault(name, []).append(text(item))
        else:
            single[name] = text(item)


def _below(
    value: Any, known: Known, place: str, many: bool, members: Members, elements: Elements
) -> Iterator[tuple[str, Any, bool]]:
    if isinstance(known, Items):
        for item in elements(value):
            yield from _below(item, known.each, f"{place}[]", True, members, elements)
    elif known is not None:
        for key, item in members(value) or ():
            name = f"{place}.{spelled(key)}"
            if key not in known:
                yield name, item, many
            elif known[key] is not None:
                yield from _below(item, known[key], name, many, members, elements)


def members(value: Any) -> Iterable[tuple[str, Any]] | None:
    """Fields of a value that is an object in Python's terms."""
    return value.items() if isinstance(value, dict) else None


def elements(value: Any) -> Collection[Any]:
    """What a value holds that is an object or a list in Python's terms."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
