"""The event log of one pipeline, page by page."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tidegate.board.reach import Reach
from tidegate.core.look.views import Event
from tidegate.core.tell.subjects import meant, said

PAGE = 100
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Page:
    """`older`: pages go on below this event's number; None: these are the last. `first`: nothing newer was left out."""

    name: str
    events: tuple[Event, ...]
    subject: str
    older: int | None
    first: bool
    now_ms: int


def gather(reach: Reach, name: str, subject: str, before: int | None) -> Page:
    """Raises UnknownPipeline, NotRegistered, LedgerError."""
    reach.pipeline(name)
    upto = None if before is None else min(before, LARGEST)
    found = reach.ledger().reads.event_page(name, PAGE + 1, upto, meant(subject) or None)
    shown = found[:PAGE]
    older = shown[-1].id if len(found) > PAGE else None
    return Page(name, tuple(shown), said(subject), older, before is None, time.time_ns() // 1_000_000)
