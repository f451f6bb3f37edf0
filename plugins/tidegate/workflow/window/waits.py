"""Waiting for windows to be published, for consumers: all they have is the ledger, which knows the pipelines' specs."""

from __future__ import annotations

import difflib
from typing import Protocol

from tidegate.core.base.errors import LedgerError, SpecError
from tidegate.core.base.instants import iso
from tidegate.core.spec.pipeline import Pipeline, Windows
from tidegate.core.window.cut import window_end, window_start
from tidegate.core.window.states import WindowKey
from tidegate.core.window.waits import Answer, PublishedWait, WaitLedger

MOST_WINDOWS = 100_000
"""More is a mistake in the interval."""


class SpecsInForce(Protocol):
    """The specs that pipelines work by, without their YAML."""

    def spec(self, name: str) -> Pipeline | None:
        """That of the newest batch; before the first batch, the newest that was registered."""
        ...

    def pipelines(self) -> list[str]: ...

    def of_table(self, table: str) -> list[str]:
        """Pipelines whose newest spec writes this `database.table`."""
        ...


def find(specs: SpecsInForce, name: str) -> Pipeline:
    """The pipeline of this name, or of this `database.table`.

    Raises LedgerError (retry) if the ledger knows none: it may be on its way."""
    if "." in name:
        names = specs.of_table(name)
        if len(names) > 1:
            raise SpecError(f"{name} is written by {' and by '.join(names)}", advice="name the pipeline")
        name, asked = (names or [""])[0], f"pipeline of the table {name}"
    else:
        asked = f"pipeline {name}"
    found = specs.spec(name) if name else None
    if found is not None:
        return found
    known = specs.pipelines()
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it knows {', '.join(known[:20]) or 'none'}"
    raise LedgerError(
        f"the ledger knows no {asked}; {hint}", advice="its first ingest run registers it; or fix the name here"
    )


def windows_of(spec: Windows, start_ms: int, end_ms: int) -> tuple[WindowKey, ...]:
    """Windows that overlap `[start_ms, end_ms)`, oldest first; of an empty interval the one that it lies in.

    Windows that end before `windows.start` are left out: nothing belongs there. Raises SpecError for too many."""
    found: list[WindowKey] = []
    start = window_start(max(start_ms, spec.start_ms), spec)
    while start < end_ms or start <= start_ms == end_ms:
        end = window_end(start, spec)
        found.append(WindowKey(start, end))
        if len(found) > MOST_WINDOWS:
            raise SpecError(
                f"{iso(start_ms)} to {iso(end_ms)} holds more than {MOST_WINDOWS:,} windows",
                advice="wait for a shorter interval",
            )
        start = end
    return tuple(found)


def published_wait(pipeline: str, spec: Windows, start_ms: int, end_ms: int, at_least: int) -> PublishedWait:
    """A wait for all windows of the interval. Raises SpecError."""
    keys = windows_of(spec, start_ms, end_ms)
    return PublishedWait(pipeline, spec, keys, at_least, len(keys))


def ask(waits: WaitLedger, wait: PublishedWait, now_ms: int) -> tuple[Answer, PublishedWait]:
    """One look, or more where there are more windows than one look asks for. Raises LedgerError."""
    while True:
        answer, left = wait.decide(waits.look({wait.pipeline}, wait.refs()), now_ms)
        asked = len(wait.refs())
        if answer.done or len(left.missing) > len(wait.missing) - asked:
            return answer, left
        wait = left
