"""Whether a window holds what another system says that it should, and what follows from that.

The other system (an audit topic, a table of counts, a service) is asked once the watermark has passed the window's end.
An answer carries our own count, taken **before** the question: only rows that had landed by then are compared with it.
So "complete" means that everything the other system knew of at some instant had landed by that instant. Rows that land
after the question cannot stand in for ones that are missing, and need not: a closed window takes the rows of every
batch planned before. An answer that says so is asked for again only if more lands for the window while it is open; any
other one after `poll`, as either count may have grown.

A window that is not known to be complete is never called so. `policy: wait` holds the window until it is complete,
somebody accepts what is there, or `patience` is over, counted from the first question; `policy: warn` publishes at
once. Either way the certificate carries the warning. A window with more rows than expected has nothing to wait for but
another count (the other system may be slower than we are), so it waits for an hour at most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegate.core.base.instants import iso, span
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.spec.pipeline import Completeness
from tidegate.core.window.answer import Answer, Comparison
from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    from tidegate.core.window.readiness import Certificate

COMPLETE, SHORT, OVER, UNKNOWN = "complete", "short", "over", "unknown"
HOLD, PUBLISH, WARN = "hold", "publish", "warn"
OVER_PATIENCE_MS = 3_600_000
"""The longest that a window with more rows than expected waits for another answer."""
LARGEST_COUNT = 2**63 - 1
_EXACT_FLOAT = 2**53
NAMED_PARAMETER = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")
"""What a query names to be bound; `::`, as in a cast, is something else."""


def counted_kinds(settings: Completeness) -> tuple[str, ...]:
    """The kinds of our rows that are compared."""
    return (DATA, LATE) if settings.late_too else (DATA,)


def parameters(window: WindowKey) -> dict[str, str | int]:
    """Values for `COUNT_PARAMETERS`; instants as ISO 8601 text in UTC."""
    return {
        "start": _instant(window.start_ms),
        "end": _instant(window.end_ms),
        "start_ms": window.start_ms,
        "end_ms": window.end_ms,
    }


def _instant(ms: int) -> str:
    return (datetime(1970, 1, 1) + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%SZ")


def due(settings: Completeness, answer: Answer | None, rows: int, now_ms: int) -> bool:
    """Whether to ask (again), when `rows` of the window have landed by now.

    What was accepted is settled, and what is complete as long as nothing more lands for the window."""
    if answer is None:
        return True
    if answer.accepted is not None:
        return False
    if answer.source != settings.source_name:
        return True
    settled = rows == answer.rows and _verdict(settings, answer) == COMPLETE
    return not settled and abs(now_ms - answer.asked_ms) >= settings.poll_ms


def compare(settings: Completeness, answer: Answer | None, now_ms: int) -> Comparison:
    """What the answer means for its window at `now_ms`; without one, the other system was not asked."""
    source = settings.source_name
    if answer is not None and answer.accepted is None and answer.source != source:
        answer = None  # the spec names another system since
    verdict = UNKNOWN if answer is None else _verdict(settings, answer)
    if answer is None:
        words = f"unknown: {source} has not been asked"
    else:
        source, words = answer.source, _words(verdict, answer)
    action, until_ms, then = _consequence(settings, verdict, answer, now_ms)
    text = f"{words}; {then}" if then else words
    if answer is None:
        return Comparison(verdict=verdict, action=action, text=text, source=source)
    return Comparison(
        verdict=verdict,
        action=action,
        text=text,
        source=source,
        rows=answer.rows,
        expected=answer.expected,
        asked_ms=answer.asked_ms,
        until_ms=until_ms,
        accepted=answer.accepted,
    )


@dataclass(frozen=True)
class Held:
    """An OPEN window that another system's count holds since it was first asked. Times are UTC ms."""

    window_ms: int
    since_ms: int
    comparison: Comparison


def held(settings: Completeness | None, answers: Mapping[int, Answer], now_ms: int) -> tuple[Held, ...]:
    """OPEN windows that the known answers hold (start, UTC ms), oldest first."""
    if settings is None:
        return ()
    compared = ((start, a.since_ms, compare(settings, a, now_ms)) for start, a in sorted(answers.items()))
    return tuple(Held(*one) for one in compared if one[2].action == HOLD)


def remedy(name: str, window_ms: int) -> str:
    """The command that publishes a held window as it is."""
    return f"tidegate complete {name} {iso(window_ms)} --why '...'"


def longest_wait_ms(settings: Completeness) -> int:
    """How long after the first question a window may still be held, as far as that is known."""
    if settings.policy == "warn":
        return 0
    return OVER_PATIENCE_MS if settings.patience_ms is None else settings.patience_ms


def weighed(certificate: Certificate, comparison: Comparison) -> Certificate:
    """The certificate of a window that its watermark lets close, held or let through by the comparison."""
    if comparison.action == HOLD:
        return replace(certificate, ready=False, reason=comparison.text, completeness=comparison)
    return replace(certificate, reason=f"{certificate.reason}; {comparison.text}", completeness=comparison)


def count_of(value: object) -> int | None:
    """A count as another system gives it; None stays None: it does not know the window yet.

    Raises ValueError that says what the value is instead."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"{_shown(value)} is not a number")
    if value != value or value in (math.inf, -math.inf):
        raise ValueError(f"{_shown(value)} is not a whole number")
    if not 0 <= value <= LARGEST_COUNT:  # before it is made an integer: 1e999999999 would take hours
        raise ValueError(f"{_shown(value)} is not a count of rows")
    whole = int(value)
    if whole != value or (isinstance(value, float) and whole > _EXACT_FLOAT):
        raise ValueError(f"{_shown(value)} is not a whole number")
    return whole


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, int | float | Decimal) else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _verdict(settings: Completeness, answer: Answer) -> str:
    if answer.expected is None:
        return UNKNOWN
    difference = answer.rows - answer.expected
    if abs(difference) <= Fraction(str(settings.tolerance)) * answer.expected:
        return COMPLETE
    return SHORT if difference < 0 else OVER


def _words(verdict: str, answer: Answer) -> str:
    if answer.expected is None:
        why = answer.problem or "it has no count for this window yet"
        return f"unknown: {why}" if why.startswith(answer.source) else f"unknown: {answer.source}: {why}"
    found = f"{verdict}: {answer.rows:,} of {answer.expected:,} by {answer.source}"
    off = answer.rows - answer.expected
    if not off:
        return found
    detail = f"{abs(off):,} {'missing' if off < 0 else 'too many'}"
    if answer.expected:
        share = 100 * abs(off) / answer.expected
        detail += f", {share:.2f} %" if share >= 0.01 else ", below 0.01 %"
    return f"{found} ({detail}{', within the tolerance' if verdict == COMPLETE else ''})"


def _consequence(
    settings: Completeness, verdict: str, answer: Answer | None, now_ms: int
) -> tuple[str, int | None, str]:
    """(action, held until, in words)."""
    if verdict == COMPLETE:
        return PUBLISH, None, ""
    if answer is not None and answer.accepted is not None:
        return WARN, None, f"accepted: {answer.accepted}"
    if settings.policy == "warn":
        return WARN, None, "published with a warning"
    if answer is None:
        return HOLD, None, "waits for an answer"
    patience = settings.patience_ms
    if verdict == OVER:
        patience = OVER_PATIENCE_MS if patience is None else min(patience, OVER_PATIENCE_MS)
    if patience is None:
        return HOLD, None, "waits until it is complete or somebody accepts it"
    until_ms = answer.since_ms + patience
    if now_ms < until_ms:
        return HOLD, until_ms, f"waits until {iso(until_ms)}"
    return WARN, None, f"published with a warning after {span(patience)}"
