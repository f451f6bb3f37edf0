"""Outcomes of a range's windows: lines, a summary, JSON and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.failures import CANNOT_TELL, NOT_WELL, WELL
from tidegate.cli.output import print_json
from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many

if TYPE_CHECKING:
    from tidegate.workflow.base.context import Published
    from tidegate.workflow.base.outcome import Outcome

MANY = 20
"""Most windows of one kind to print; `--json` has all."""


def exit_code(found: Sequence[Outcome]) -> int:
    """Exit code; 3 where only missing answers stood in the way."""
    from tidegate.workflow.base.outcome import REFUSED

    if all(o.well for o in found):
        return WELL
    unwell = [o for o in found if not o.well]
    down = any(o.silent for o in unwell)
    return CANNOT_TELL if down and not any(o.what == REFUSED for o in unwell) else NOT_WELL


def line(o: Outcome) -> str:
    where = "" if o.published is None else f": generation {o.published.generation}, {many(o.published.rows, 'row')}"
    why = f": {o.why}" if o.why else ""
    return f"{iso(o.window.start_ms)} {o.what}{where}{why}"


def tell(name: str, found: Sequence[Outcome], as_json: bool) -> None:
    if as_json:
        print_json({"pipeline": name, "windows": [_plain(o) for o in found]})
    else:
        _summary(found)


def published(name: str, found: Published, as_json: bool) -> None:
    if as_json:
        print_json({"pipeline": name, **vars(found)})
        return
    what = "is in force" if found.new else "stays"
    note = f" ({found.note})" if found.note else ""
    click.echo(f"generation {found.generation} {what}{note}: {many(found.rows, 'row')} at {found.location}")


def _summary(found: Sequence[Outcome]) -> None:
    counts = Counter(o.what for o in found)
    click.echo(f"{many(len(found), 'window')}: " + ", ".join(f"{n:,} {what}" for what, n in counts.items()))
    unwell = [o for o in found if not o.well]
    for o in unwell[:MANY]:
        click.echo(f"  {line(o)}")
        if o.advice:
            click.echo(f"    what to do: {o.advice}")
    if len(unwell) > MANY:
        click.echo(f"  and {len(unwell) - MANY:,} more: --json names all")


def _plain(o: Outcome) -> dict[str, Any]:
    p = o.published
    return {
        "window_start_ms": o.window.start_ms,
        "window_end_ms": o.window.end_ms,
        "outcome": o.what,
        "generation": None if p is None else p.generation,
        "rows": None if p is None else p.rows,
        "digest": None if p is None else p.digest,
        "location": None if p is None else p.location,
        "why": o.why,
        "advice": o.advice,
    }
