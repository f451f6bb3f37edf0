"""Paths of values in a message: `$.a.b`, or `$."odd name".b` for keys that are not plain words."""

from __future__ import annotations

import re

_STEP = re.compile(r'\.(?:([^."\[\]\s]+)|"((?:[^"\\]|\\.)+)")')


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
        steps.append(match.group(1) or re.sub(r"\\(.)", r"\1", match.group(2)))
        at = match.end()
    if not steps:
        raise ValueError(f"path {path!r} names no field")
    return tuple(steps)
