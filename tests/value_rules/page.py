"""docs/types.md as data: the ids of its rows, and the examples that stand in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/types.md"
DIRTY = "dirty"
_ROW = re.compile(r"^\| `([A-Z]-[a-z0-9-]+)` \|(.*)\|\s*$", re.MULTILINE)
_EXAMPLE = re.compile(r"`([^`]*)`(?: as `([^`]+)`)? → (?:`([^`]*)`|(dirty))")
_DEFAULT = re.compile(r"^Examples: `([^`]+)`", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """`literal` is what the message holds; `kind` a type or an event time's format, or empty where the section says;
    `expected` is DIRTY or the value as the page writes it."""

    row: str
    literal: str
    kind: str
    expected: str


def rows() -> dict[str, str]:
    """Row id -> the rest of its line. Raises ValueError for an id that is there twice."""
    found: dict[str, str] = {}
    for name, rest in _ROW.findall(PAGE.read_text()):
        if name in found:
            raise ValueError(f"docs/types.md: row {name} is there twice")
        found[name] = rest
    return found


def examples(prefix: str) -> list[Example]:
    """The examples in the rows whose ids begin with `prefix`."""
    found = []
    for section in re.split(r"^(?=###? )", PAGE.read_text(), flags=re.MULTILINE):
        default = _DEFAULT.search(section)
        for name, rest in _ROW.findall(section):
            if not name.startswith(prefix):
                continue
            cell = rest.rsplit(" | ", 1)[-1]
            for literal, kind, value, dirty in _EXAMPLE.findall(cell):
                found.append(Example(name, literal, kind or (default.group(1) if default else ""), dirty or value))
    return found
