"""What other DAGs are told of a generation that is in force, or of a mirror: a few plain values, whatever its size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from tidegate.core.base.partition_values import partition_path
from tidegate.core.base.wording import those
from tidegate.core.completeness.rules import WARN
from tidegate.core.mirror.applies import Told
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import time_values, window_id
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import REOPEN, GenerationKind, WindowKey

MOST_DAYS_MS = 7 * 86_400_000
"""How long after its publication an unannounced generation is still news."""
GRACE_MS = 120_000
"""What was published so lately may be announced by its own task any moment."""
LONGEST_TEXT = 1000

Value = str | int | bool | None


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A CURRENT generation, as the ledger knows it. Times are UTC ms.

    `partitions`: combinations of dynamic partition values; `late_rows`: rows of the window that came late by now,
    `taken_up` those of them that this generation holds; `rerouted_rows`: late ones that were sent into this window."""

    window: WindowKey
    number: int
    kind: GenerationKind
    rows: int
    digest: str
    location: str
    published_ms: int
    announced: bool
    files: int
    partitions: int
    first_batch: int | None
    last_batch: int | None
    batches: int
    late_rows: int
    taken_up: int
    rerouted_rows: int
    certificate: Certificate | None


class AnnouncementLedger(Protocol):
    """Read-only."""

    def notice(self, name: str, window_ms: int, number: int) -> Notice | None:
        """None if that generation is not in force (any more)."""
        ...

    def unannounced(self, name: str, published_from_ms: int, limit: int) -> list[tuple[int, int]]:
        """(window, number) of CURRENT generations that were published since then and not announced, oldest first."""
        ...


def due(notice: Notice, now_ms: int) -> bool:
    """Whether somebody else should announce it: its own task has had the time to, or there is none."""
    return not notice.announced and (notice.kind == REOPEN or notice.published_ms <= now_ms - GRACE_MS)


def extra(pipeline: Pipeline, notice: Notice) -> dict[str, Value]:
    """What a dataset event carries: JSON, flat, of bounded size. Instants are ISO 8601 in UTC, exact to the ms."""
    certificate = notice.certificate
    values = time_values(notice.window.start_ms, pipeline.time_partitions, pipeline.windows.timezone)
    return {
        "pipeline": pipeline.name,
        "table": pipeline.sink.table,
        "window": window_id(notice.window.start_ms),
        "window_start": _instant(notice.window.start_ms),
        "window_end": _instant(notice.window.end_ms),
        "partition": partition_path(values),
        "generation": notice.number,
        "kind": notice.kind,
        "rows": notice.rows,
        "files": notice.files,
        "partitions": notice.partitions,
        "digest": notice.digest,
        "location": notice.location,
        "published_at": _instant(notice.published_ms),
        "first_batch": notice.first_batch,
        "last_batch": notice.last_batch,
        "batches": notice.batches,
        "late_rows": notice.late_rows,
        "late_rows_taken_up": notice.taken_up,
        "rerouted_rows": notice.rerouted_rows,
        "watermark": None if certificate is None else _instant(certificate.watermark_ms),
        "ready_reason": None if certificate is None else _short(certificate.reason),
        "decided_at": None if certificate is None else _instant(certificate.decided_ms),
        "warning": warning(certificate, notice.taken_up),
    }


def of_mirror(pipeline: Pipeline, told: Told) -> dict[str, Value]:
    """What a dataset event of a mirror carries: the table as it is now, and since when nothing in it is older (S9'),
    where that is known; `exactly`: it is what the source had there, and no newer row is in it (S9)."""
    complete = told.copied.complete
    return {
        "pipeline": pipeline.name,
        "table": pipeline.sink.table,
        "upto": told.upto,
        "snapshot": told.snapshot,
        "rows": told.rows,
        "complete_to": None if complete is None else complete.spelled,
        "complete_at": None if complete is None else _instant(complete.at_ms),
        "exactly": complete is not None and complete.exact,
    }


def warning(certificate: Certificate | None, taken_up: int = 0) -> str | None:
    """What a reader should know before trusting the window: it was closed although another system says otherwise.

    The other system is not asked again for a window that is closed: of a generation that has `taken_up` late rows since
    it is only said that it has."""
    found = certificate and certificate.completeness
    if not found or found.action != WARN:
        return None
    since = f"; since then {those(taken_up, 'late row', 'were')} taken up" if taken_up else ""
    return _short(found.text) + since


def same(told: dict[str, Value], known: dict[str, Value]) -> bool:
    """Whether an event's extra is of this generation; content counts too, as a number can come twice in a ledger that
    lost commits."""
    return all(told.get(key) == known[key] for key in ("window_start", "generation", "digest"))


def _instant(ms: int | None) -> str | None:
    """`2013-01-05T04:00:00+00:00`, as Python and Airflow write it."""
    if ms is None:
        return None
    seconds, rest = divmod(ms, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000).isoformat()


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
