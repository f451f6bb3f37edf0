"""The daily check of a pipeline: what can be proved at a bounded cost, whatever the table's age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many, those
from tidegate.core.batch.totals import Totals

EVERY_MS = 86_400_000
NEWEST_WINDOWS = 48
"""Published windows whose files are looked at."""
FULL = "the ledger does not balance: tidegate audit {name} names the ranges"


@dataclass(frozen=True)
class Flaw:
    what: str
    advice: str


@dataclass(frozen=True)
class Shown:
    """A published window: its manifest (path -> bytes) with `rows`, what its batches owe it, and what lies there (None:
    the directory is absent, and the table needs it). `marks`: what its table writes beside the files."""

    start_ms: int
    rows: int
    owed: int
    manifest: Mapping[str, int]
    listing: Mapping[str, int] | None
    marks: tuple[str, ...]


def of_sums(name: str, totals: Totals) -> list[Flaw]:
    """read = data + late + dirty + filtered + dropped, over everything that has landed and range by range."""
    found, balance = [], totals.balance
    if not balance.holds:
        found.append(Flaw(f"over all landed batches: {balance.text()}", FULL.format(name=name)))
    apart = totals.ingested.unaccounted + totals.redriven.unaccounted
    if apart:
        found.append(Flaw(f"{those(apart, 'record', 'have')} no fate, range by range", FULL.format(name=name)))
    return found


def of_window(name: str, shown: Shown) -> list[Flaw]:
    at = iso(shown.start_ms)
    advice = f"airflow tasks clear {name}.archive --yes -s {at} -e {at} verifies it, and rebuilds what is lost"
    found = []
    if shown.rows != shown.owed:
        found.append(Flaw(f"window {at} shows {many(shown.rows, 'row')}, its batches brought {shown.owed:,}", advice))
    if shown.listing is None:
        return [*found, Flaw(f"window {at}: its directory is gone", advice)]
    lost = [path for path, size in shown.manifest.items() if shown.listing.get(path) != size]
    if lost:
        gone = f"{len(lost):,} of {many(len(shown.manifest), 'file')}"
        found.append(Flaw(f"window {at}: {gone} gone or of another length, such as {min(lost)}", advice))
    return found + [Flaw(f"window {at}: {mark} is gone", advice) for mark in shown.marks if mark not in shown.listing]
