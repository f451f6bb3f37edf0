"""Windows as people name them on the command line."""

from __future__ import annotations

import click

from tidegate.core.base.errors import SpecError
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.name import NoWindow, named
from tidegate.core.window.states import WindowKey

ONE_OR_RANGE = "name one WINDOW, or a range by -s and -e"
first_option = click.option("-s", "--start", "first", metavar="WINDOW", help="The first window of a range.")
last_option = click.option(
    "-e", "--end", "last", metavar="WINDOW", help="The last one, included.  [default: that of -s]"
)


def parse_window(spec: Pipeline, text: str) -> WindowKey:
    """Raises click.BadParameter."""
    try:
        return named(spec, text)
    except NoWindow as e:
        raise click.BadParameter(str(e), param_hint="WINDOW") from None


def parse_ends(spec: Pipeline, first: str, last: str | None) -> tuple[WindowKey, WindowKey]:
    """The first and the last window of a range; both are the same without a `last`. Raises click.BadParameter."""
    begin = parse_window(spec, first)
    end = begin if last is None else parse_window(spec, last)
    if end.start_ms < begin.start_ms:
        raise click.BadParameter(f"{last!r} is before {first!r}", param_hint="-e")
    return begin, end


def parse_range(spec: Pipeline, first: str, last: str | None) -> tuple[WindowKey, ...]:
    """The windows from `first` to `last`, both included. Raises click.BadParameter."""
    from tidegate.workflow.publish.backfill import windows_between

    try:
        return windows_between(spec.windows, *parse_ends(spec, first, last))
    except SpecError as e:
        raise click.BadParameter(str(e), param_hint="-s") from None


def named_windows(spec: Pipeline, window: str | None, first: str | None, last: str | None) -> tuple[WindowKey, ...]:
    """The windows of a command that takes WINDOW, or -s and -e; none without a name. Raises click.UsageError."""
    if window is not None and first is not None:
        raise click.UsageError(ONE_OR_RANGE)
    if last is not None and first is None:
        raise click.UsageError("-e needs -s")
    begin = window or first
    return () if begin is None else parse_range(spec, begin, last)
