"""Paths of values in a message: `$.a.b`, or `$."odd name".b` for keys that are not plain words."""

from __future__ import annotations

import re
from collections.abc import Iterable

PLAIN = r"""[^\s.\[\]"'*$?()]+"""
"""A key that stands in a path as it is."""
PATH = rf"""\$(\.({PLAIN}|"([^"\\]|\\.)+"))+"""
"""A path as authors write it."""
RULE = """must be a path into the message such as $.a.b or $."odd name".b"""
_STEP = re.compile(r'\.(?:([^."\[\]\s]+)|"((?:[^"\\]|\\.)+)")', re.DOTALL)
_PLAIN = re.compile(PLAIN)


def parse(path: str) -> tuple[str, ...]:
    """The keys from the top of the message down. Raises ValueError for anything else (array positions, wildcards)."""
    if not path.startswith("$"):
        raise ValueError(f"path {path!r} must start with $")
    steps: list[str] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if not match:
            raise ValueError(f'path {path!r}: expected .name or ."name" at {path[at:]!r}')
        steps.append(match.group(1) or unquoted(match.group(2)))
        at = match.end()
    if not steps:
        raise ValueError(f"path {path!r} names no field")
    return tuple(steps)


def path_of(keys: Iterable[str]) -> str:
    """The inverse of `parse`, of keys that are not empty."""
    return "$" + "".join(f".{key if is_plain(key) else quoted(key)}" for key in keys)


def is_plain(key: str) -> bool:
    """Whether the key stands in a path without quotes."""
    return _PLAIN.fullmatch(key) is not None


def quoted(key: str) -> str:
    """Any key as a step."""
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def unquoted(text: str) -> str:
    """What `quoted` has made, between its quotes."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
