"""Frozen dataclasses to plain JSON values and back, driven by their type hints.

Plans, receipts and specs travel as JSON between the ledger, the control plane and Spark jobs; this is the one codec.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")
LEFT_OUT = {"left out": True}
"""Metadata of a field that is left out of the JSON while it has its default: releases that do not know it can read the
rest."""
_ATOMS = frozenset({type(None), bool, int, float, str})


class UnknownFields(ValueError):
    """A later version of the class was written: with further fields, or a value of a further kind."""


def to_plain(value: Any) -> Any:
    """Dataclass -> dict, tuple and frozenset -> list; everything else as it is."""
    kind: Any = type(value)
    if kind in _ATOMS:
        return value
    names = _names(kind)
    if names is not None:
        plain: dict[str, Any] = {}
        for name, optional, default in names:
            v = getattr(value, name)
            if not optional or v != default:
                plain[name] = v if type(v) in _ATOMS else to_plain(v)
        return plain
    if isinstance(value, dict):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, frozenset):
        return sorted(to_plain(v) for v in value)
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    return value


def dumps(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces; equal values give equal texts."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@functools.cache
def _names(cls: type) -> tuple[tuple[str, bool, Any], ...] | None:
    """Each field, whether it is left out while it has its default, and that default; None for another class."""
    if not dataclasses.is_dataclass(cls):
        return None
    return tuple((f.name, "left out" in f.metadata, f.default) for f in dataclasses.fields(cls))


def from_plain(kind: type[T] | Any, value: Any) -> T:
    """The inverse of `to_plain` for `kind`. Raises ValueError on a missing or unknown field, and on a value of another
    type."""
    return _reader(kind)(value)  # type: ignore[no-any-return]


def _reader(kind: Any) -> Callable[[Any], Any]:
    """Looking at type hints costs more than reading a value: once for each class, not for each value of a plan.

    Kept by class alone: `A | B` equals `B | A`, and the first one is what a value is read as when nothing tells."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return _as_it_is
    if origin in (typing.Union, types.UnionType):
        return _union(tuple(a for a in args if a is not type(None)))
    if origin in (tuple, frozenset, list):
        if origin is tuple and args[-1] is not Ellipsis:
            return _row(args)
        return _collection(origin, args[0])
    if origin is dict:
        return _mapping(*args)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind)
    return _record(kind) if isinstance(kind, type) and dataclasses.is_dataclass(kind) else _scalar(kind)


def _as_it_is(value: Any) -> Any:
    return value


def _union(kinds: tuple[Any, ...]) -> Callable[[Any], Any]:
    if len(kinds) == 1:
        return _reader(kinds[0])

    def read(value: Any) -> Any:
        return from_plain(next((a for a in kinds if isinstance(value, a)), kinds[0]), value)

    return read


def _row(kinds: tuple[Any, ...]) -> Callable[[Any], Any]:
    readers = [_reader(kind) for kind in kinds]

    def read(value: Any) -> Any:
        return None if value is None else tuple(r(v) for r, v in zip(readers, value, strict=True))

    return read


def _collection(origin: Callable[[Any], Any], kind: Any) -> Callable[[Any], Any]:
    one = _reader(kind)

    def read(value: Any) -> Any:
        return None if value is None else origin(map(one, value))

    return read


def _mapping(key: Any, kind: Any) -> Callable[[Any], Any]:
    keys, values = _reader(key), _reader(kind)

    def read(value: Any) -> Any:
        return None if value is None else {keys(k): values(v) for k, v in value.items()}

    return read


@functools.cache
def _readers(cls: type) -> dict[str, Callable[[Any], Any]]:
    return {name: _reader(hint) for name, hint in typing.get_type_hints(cls).items()}


@functools.cache
def _record(cls: Any) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value is None:
            return None
        readers = _readers(cls)  # not before: a class may have fields of itself
        unknown = set(value) - set(readers)
        if unknown:
            raise UnknownFields(
                f"{cls.__name__}: unknown {sorted(unknown)}: a newer release wrote it, install that here"
            )
        try:
            return cls(**{k: readers[k](v) for k, v in value.items()})
        except TypeError as e:
            raise ValueError(f"{cls.__name__}: {e}") from None

    return read


def _member(kind: type[Enum]) -> Callable[[Any], Any]:
    members = {member.value: member for member in kind}

    def read(value: Any) -> Any:
        if value is None or value in members:
            return members.get(value)
        known = ", ".join(members)
        raise UnknownFields(
            f"{str(value)[:40]!r} is no {kind.__name__} of this release, which knows {known}: "
            "a newer release wrote it, install that here"
        )

    return read


def _scalar(kind: Any) -> Callable[[Any], Any]:
    allowed = _SCALARS.get(kind)

    def read(value: Any) -> Any:
        if value is None or type(value) is kind:
            return value
        if kind is int and isinstance(value, str):  # keys of JSON objects
            return int(value)
        if allowed and (not isinstance(value, allowed) or isinstance(value, bool) is not (kind is bool)):
            raise ValueError(f"{str(value)[:40]!r} is no {kind.__name__}")
        return value

    return read


_SCALARS: dict[Any, Any] = {int: int, str: str, bool: bool, float: (int, float)}


def loads(kind: type[T], text: str | bytes) -> T:
    """Raises ValueError for whatever `dumps` of a `kind` did not write: cut off, garbage, another version's."""
    try:
        found: T | None = from_plain(kind, json.loads(text))
    except (KeyError, TypeError, AttributeError, RecursionError) as e:
        raise ValueError(f"not a {kind.__name__}: {e}") from None
    if found is None:
        raise ValueError(f"not a {kind.__name__}: null")
    return found
