"""Progress of long work on standard error: a bar in a terminal, a line for each step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.cli.output import progress


class Following:
    """A line for each step."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0

    def next(self, line: str) -> None:
        """Count a step as done and print `line`, its outcome, unless that is empty."""
        self._done += 1
        if line:
            progress(f"[{self._done:,} of {self._total:,}] {line}")

    def say(self, line: str) -> None:
        """Print what happens within a step."""
        progress(line)


@contextmanager
def following(what: str, total: int) -> Iterator[Following]:
    if not sys.stderr.isatty():
        yield Following(total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as bar:
        yield _Bar(bar, bar.add_task(what, total=total))


class _Bar(Following):
    def __init__(self, bar: Any, task: Any) -> None:
        self._progress, self._task = bar, task

    def next(self, line: str) -> None:
        if line:
            self._progress.console.print(line, markup=False)
        self._progress.advance(self._task)

    def say(self, line: str) -> None:
        self._progress.console.print(line, markup=False, style="dim")
