"""Mistakes in a pipeline's YAML: each becomes an error with file, line and field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidegate.core.base.errors import SpecError
from tidegate.spec.document import Node, Path, dotted


class Problem(NamedTuple):
    """Problem with the value at `path`."""

    path: Path
    message: str


def spec_error(root: Node, problems: Iterable[Problem]) -> SpecError:
    """All `problems` (at least one) as one error, a line each, in the files' order."""
    placed = sorted(problems, key=lambda p: (root.at(p.path).file != root.file, root.at(p.path).line))
    first, *others = (SpecError(p.message, where=root.at(p.path).place, field=dotted(p.path)) for p in placed)
    text = "\n".join([placed[0].message, *map(str, others)])
    return SpecError(text, where=first.where, field=first.field)
