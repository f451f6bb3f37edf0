"""All pipelines at a glance."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.board.reach import Reach


@dataclass(frozen=True)
class Line:
    """One pipeline; `error` says why its YAML is none."""

    name: str
    error: str | None


@dataclass(frozen=True)
class Page:
    lines: tuple[Line, ...]


def gather(reach: Reach) -> Page:
    """Raises LedgerError."""
    specs = reach.folder().specs
    names = sorted({*specs, *reach.ledger().reads.names()})
    return Page(
        tuple(Line(name, str(specs[name].error) if name in specs and specs[name].error else None) for name in names)
    )
