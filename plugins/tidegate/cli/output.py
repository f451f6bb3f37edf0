"""Output of commands: one JSON document, or tables and lines for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tidegate.core.base.instants import iso
from tidegate.core.base.plain import to_plain

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 120
LABEL = 11


def stripped(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    """Callback of an option: its text without blanks around it, so that blanks are no reason."""
    return text.strip()


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
why_option = click.option("--why", default="", metavar="TEXT", callback=stripped, help="Why, for the event log.")
yes_option = click.option("--yes", is_flag=True, help="Don't ask.")
WHY_NEEDED = "--why is needed: it goes into the event log"


def sure(why: str, yes: bool, question: str) -> None:
    """Ask, unless `yes`. Raises click.UsageError without a reason, click.Abort for a no."""
    if not why:
        raise click.UsageError(WHY_NEEDED)
    if not yes:
        click.confirm(question, abort=True)


def print_json(value: Any) -> None:
    """Print it on one line: dataclasses as objects, instants (`..._ms`) as ISO 8601 under the name without `_ms`.

    Where standard output is not Unicode, other characters are written as JSON escapes."""
    narrow = not (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    click.echo(json.dumps(_instants(to_plain(value)), ensure_ascii=narrow, separators=(",", ":")))


def let_any_text_through() -> None:
    """Print escapes instead of failing on a terminal that is not Unicode."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _instants(value: Any) -> Any:
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
    """Console for tables; a pipe, which has no width, gets a wide one."""
    from rich.console import Console

    found = Console(highlight=False, soft_wrap=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, width=PIPED_WIDTH)
    return found


def progress(line: str) -> None:
    """Say on standard error how far long work is."""
    click.echo(line, err=True)


def paragraph(out: Console, label: str, text: str, style: str = "") -> None:
    """Print `label`, and the text wrapped beside it."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style="bold"), Text(text, style=style))
    out.print(grid)


def paragraphs(out: Console, label: str, texts: Iterable[str], style: str = "") -> None:
    """Print `label` once, and each text beside it."""
    for n, text in enumerate(texts):
        paragraph(out, "" if n else label, text, style)


def advice(out: Console, label: str, text: str) -> None:
    """Print it in one line, without wrapping: it holds commands to copy."""
    from rich.text import Text

    out.print(Text(label.ljust(LABEL + 2), style="bold") + Text(text, style="not bold"), soft_wrap=True)
