"""What commands print: one JSON document, or tables and lines for people."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 120
LABEL = 11

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")


def print_json(value: Any) -> None:
    """On one line. Dataclasses become objects, instants (`..._ms`) ISO 8601 text under the name without `_ms`.

    Where standard output is not Unicode, other characters are written as JSON escapes."""
    from tidegate.core.base.plain import to_plain

    narrow = not (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    click.echo(json.dumps(_instants(to_plain(value)), ensure_ascii=narrow, separators=(",", ":")))


def let_any_text_through() -> None:
    """A terminal that is not Unicode gets escapes for what it cannot show, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _instants(value: Any) -> Any:
    from tidegate.core.base.instants import iso

    if isinstance(value, list):
        return [_instants(v) for v in value]
    if not isinstance(value, dict):
        return value
    plain = {}
    for key, v in value.items():
        if key.endswith("_ms") and (v is None or isinstance(v, int)):
            plain[key.removesuffix("_ms")] = None if v is None else iso(v)
        else:
            plain[key] = _instants(v)
    return plain


def console() -> Console:
    """For tables; a pipe has no width of its own and gets a wide one."""
    from rich.console import Console

    found = Console(highlight=False, soft_wrap=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, width=PIPED_WIDTH)
    return found


def progress(line: str) -> None:
    """Long work says on standard error how far it is."""
    click.echo(line, err=True)


def paragraph(out: Console, label: str, text: str, style: str = "") -> None:
    """`label` in a column of its own, the text wrapped beside it."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style="bold"), Text(text, style=style))
    out.print(grid)


def advice(out: Console, label: str, text: str) -> None:
    """Not wrapped: what holds a command must be copied in one piece."""
    from rich.text import Text

    out.print(Text(label.ljust(LABEL + 2), style="bold") + Text(text, style="not bold"), soft_wrap=True)
