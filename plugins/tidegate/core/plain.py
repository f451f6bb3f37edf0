"""Frozen dataclasses to plain JSON values and back, driven by their type hints.

Plans, receipts and specs travel as JSON between the ledger, the control plane and Spark jobs; this is the one codec.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")
LEFT_OUT = {"left out": True}
"""Metadata of a field that is left out of the JSON while it has its default: releases that do not know it can read the
rest."""
_ATOMS = frozenset({type(None), bool, int, float, str})


class UnknownFields(ValueError):
    """A later version of the class was written."""


def to_plain(value: Any) -> Any:
    """Dataclass -> dict, tuple and frozenset -> list; everything else as it is."""
    if type(value) in _ATOMS:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((name, optional, default, getattr(value, name)) for name, optional, default in _names(type(value)))
        return {
            name: v if type(v) in _ATOMS else to_plain(v)
            for name, optional, default, v in fields
            if not optional or v != default
        }
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
def _names(cls: type) -> tuple[tuple[str, bool, Any], ...]:
    """Each field, whether it is left out while it has its default, and that default."""
    return tuple((f.name, "left out" in f.metadata, f.default) for f in dataclasses.fields(cls))


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def from_plain(kind: type[T] | Any, value: Any) -> T:
    """The inverse of `to_plain` for `kind`. Raises ValueError on a missing or unknown field, and on a value of another
    type."""
    if value is None or kind is Any:
        return value
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        args = tuple(a for a in args if a is not type(None))
        return from_plain(next((a for a in args if isinstance(value, a)), args[0]) if len(args) > 1 else args[0], value)
    if origin in (tuple, frozenset, list):
        if origin is tuple and args[-1] is not Ellipsis:
            return tuple(from_plain(a, v) for a, v in zip(args, value, strict=True))  # type: ignore[return-value]
        return origin(from_plain(args[0], v) for v in value)
    if origin is dict:
        return {from_plain(args[0], k): from_plain(args[1], v) for k, v in value.items()}  # type: ignore[return-value]
    if dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        unknown = set(value) - set(hints)
        if unknown:
            raise UnknownFields(
                f"{kind.__name__}: unknown {sorted(unknown)}: a newer release wrote it, install that here"
            )
        try:
            return kind(**{k: from_plain(hints[k], v) for k, v in value.items()})
        except TypeError as e:
            raise ValueError(f"{kind.__name__}: {e}") from None
    if kind is int and isinstance(value, str):  # keys of JSON objects
        return int(value)  # type: ignore[return-value]
    if kind in _SCALARS and (not isinstance(value, _SCALARS[kind]) or isinstance(value, bool) is not (kind is bool)):
        raise ValueError(f"{str(value)[:40]!r} is no {kind.__name__}")
    return value


_SCALARS: dict[Any, Any] = {int: int, str: str, bool: bool, float: (int, float)}


def loads(kind: type[T], text: str | bytes) -> T:
    """Raises ValueError for whatever `dumps` of a `kind` did not write: cut off, garbage, another version's."""
    try:
        found = from_plain(kind, json.loads(text))
    except (KeyError, TypeError, AttributeError, RecursionError) as e:
        raise ValueError(f"not a {kind.__name__}: {e}") from None
    if found is None:
        raise ValueError(f"not a {kind.__name__}: null")
    return found
