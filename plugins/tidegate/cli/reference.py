"""docs/cli.md from the commands' own help: `python -m tidegate.cli.reference` writes it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

BEGIN, END = "<!-- commands: begin -->", "<!-- commands: end -->"


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command with its whole name, in the order of `tidegate --help`."""
    from tidegate.cli.main import main

    yield from _below(main, click.Context(main, info_name="tidegate"), "tidegate")


def _below(group: click.Group, ctx: click.Context, name: str) -> Iterator[tuple[str, click.Command, click.Context]]:
    for word in group.list_commands(ctx):
        command = group.get_command(ctx, word)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=word, parent=ctx)
        if isinstance(command, click.Group):
            yield from _below(command, inner, f"{name} {word}")
        else:
            yield f"{name} {word}", command, inner


def markdown() -> str:
    """A section for each command: usage, help, options."""
    return "\n".join(_section(*found) for found in commands())


def _section(name: str, command: click.Command, ctx: click.Context) -> str:
    usage = " ".join([name, *command.collect_usage_pieces(ctx)])
    lines = [f"### {name}", "", f"    {usage}", "", *_text(inspect.cleandoc(command.help or ""))]
    options = [p for p in command.get_params(ctx) if isinstance(p, click.Option) and "--help" not in p.opts]
    records = [r for p in options if (r := p.get_help_record(ctx))]
    if records:
        lines += ["", "| option | |", "|---|---|"]
        lines += [f"| `{_cell(option)}` | {_cell(help_text)} |" for option, help_text in records]
    return "\n".join(lines) + "\n"


def _text(help_text: str) -> Iterator[str]:
    """Lines of the help as Markdown: paragraphs that click leaves unwrapped become code, exit codes excepted."""
    for number, paragraph in enumerate(help_text.split("\n\n")):
        if number:
            yield ""
        kept = paragraph.startswith("\b\n")
        rows = paragraph.removeprefix("\b\n").splitlines()
        if not kept or rows[0].startswith("Exit code"):
            yield from (row.strip() for row in rows)
        else:
            code = [row.strip() for row in rows]
            if code[0].startswith("Example"):
                yield f"{code.pop(0)}"
                yield ""
            yield from (f"    {row}" for row in code)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def renewed(page: str) -> str:
    """The page with today's commands between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{markdown()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/cli.md")
    place.write_text(renewed(place.read_text()))
