"""Values that have the same fields as others: copied by name, so that each is written down once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def read_as(kind: Callable[..., T], value: Any, **others: Any) -> T:
    """A `kind`, a dataclass, from the attributes of `value` of the same names; `others` are the fields that have
    another name there, or another value."""
    return kind(**{name: getattr(value, name) for name in _fields(kind) if name not in others}, **others)


def columns(value: Any, *names: str) -> dict[str, Any]:
    """These attributes, by their names."""
    return {name: getattr(value, name) for name in names}


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
