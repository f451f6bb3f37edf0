"""Paths of a table's fields, by which their ids are told."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.base.hivetypes import Array, HiveType, Map, Struct, parse


def field_paths(name: str, text: str) -> tuple[str, ...]:
    """The column and all fields within it, parents first: `tags`, `tags.element`, `tags.element.unit`; a map's are
    `key` and `value`."""
    return tuple(_paths(name, parse(text)))


def _paths(path: str, kind: HiveType) -> Iterator[str]:
    yield path
    children: tuple[tuple[str, HiveType], ...] = ()
    if isinstance(kind, Array):
        children = (("element", kind.element),)
    elif isinstance(kind, Map):
        children = (("key", kind.key), ("value", kind.value))
    elif isinstance(kind, Struct):
        children = kind.fields
    for name, child in children:
        yield from _paths(f"{path}.{name}", child)
