"""What became of each window of a range that a command or a run works through."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.errors import CatalogueError, NotReady, SourceUnavailable, StorageError, TidegateError
from tidegate.core.window.states import WindowKey
from tidegate.workflow.base.context import Published

REFUSED, FAILED, LEFT = "refused", "failed", "left"
"""Refused: a human has to decide. Failed: the next try may heal it. Left: not begun, `why` says so."""


@dataclass(frozen=True)
class Outcome:
    """`published`: what stands in the table, where that was looked at. `why` of what is not well, with `advice`;
    `silent`: because the ledger, Kafka, Hive or storage gives no answer."""

    window: WindowKey
    what: str
    published: Published | None = None
    why: str = ""
    advice: str = ""
    silent: bool = False

    @property
    def well(self) -> bool:
        return self.what not in (REFUSED, FAILED, LEFT)


def not_done(key: WindowKey, error: TidegateError) -> Outcome:
    """REFUSED or FAILED."""
    what = FAILED if error.retry and not isinstance(error, NotReady) else REFUSED
    silent = error.retry and isinstance(error, SourceUnavailable | CatalogueError | StorageError)
    return Outcome(key, what, why=first_line(error), advice=error.advice, silent=silent)


def first_line(error: TidegateError | None) -> str:
    """The message without its advice."""
    return "" if error is None else str(error.args[0]).splitlines()[0]
