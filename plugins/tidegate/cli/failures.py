"""Exit codes, and errors as clear messages instead of stack traces (TIDEGATE_DEBUG=1 shows those).

0  well
1  not well: something needs a human, or the answer to the question is no
2  wrong usage, or a pipeline's YAML is wrong
3  cannot tell: the ledger, Kafka or Hive gives no answer, or a connection is missing; or a defect of Tidegate
130  Ctrl-C
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tidegate.adapters.connections import ConnectionMissing
from tidegate.core.base.errors import (
    GOES_ON,
    CatalogueError,
    CatalogueMismatch,
    LedgerError,
    SourceUnavailable,
    SpecError,
    StepMissing,
    TidegateError,
)
from tidegate.core.base.wording import first_line

WELL, NOT_WELL, WRONG, CANNOT_TELL = 0, 1, 2, 3
INTERRUPTED = 130


class Failed(click.ClickException):
    """Shown by click as `Error: ...`; ends with `exit_code`."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Commands(click.Group):
    """A group that turns Tidegate's errors into messages; TIDEGATE_DEBUG=1 lets them through with their traces."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except Exception as e:
            if os.environ.get("TIDEGATE_DEBUG"):
                raise
            raise _failed(e) from e


@contextmanager
def named(pipeline: str) -> Iterator[None]:
    """Put the pipeline's name before the words of a step that is missing."""
    try:
        yield
    except StepMissing as e:
        raise Failed(f"{pipeline}: {e}", NOT_WELL) from None


def _failed(error: Exception) -> Failed:
    if isinstance(error, TidegateError):
        words = str(error).replace(f"what to do: {GOES_ON}", "what to do: run it again")  # no scheduler does it
        return Failed(words.replace(GOES_ON, "then run it again"), _exit_code(error))
    first = first_line(error)
    what = f"{type(error).__name__}: {first}" if first else type(error).__name__
    if isinstance(error, OSError):
        return Failed(what, CANNOT_TELL)
    advice = "run it again with TIDEGATE_DEBUG=1, and report what it prints"
    return Failed(f"a defect of Tidegate: {what}\n  what to do: {advice}", CANNOT_TELL)


def _exit_code(error: TidegateError) -> int:
    if isinstance(error, SpecError):
        return WRONG
    if isinstance(error, CatalogueMismatch):
        return NOT_WELL
    if isinstance(error, LedgerError | SourceUnavailable | CatalogueError | ConnectionMissing):
        return CANNOT_TELL
    return NOT_WELL
