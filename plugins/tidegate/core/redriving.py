"""Dirty rows that become data after the spec was mended: which are taken up, and what a redrive must show.

A redrive is a batch of its own. It takes whole batches' dirty rows, with their original coordinates, from their files:
what decodes by now is data (or late), what still does not is a dirty row of the redrive. So every row has one owner:
the batch that read it, or the redrive that took it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.batch import DirtySource, Plan
from tidegate.core.offsets import Interval, OffsetRange, subtract
from tidegate.core.pipeline import Pipeline
from tidegate.core.receipt import PartitionRows, Receipt
from tidegate.core.wording import many

_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|[\w.:+-]*\d[\w.:+-]*")
_HEADERS = ("$.headers", "$['headers']", '$["headers"]')
KINDS = ("data", "late", "dirty", "filtered", "dropped", "rerouted")
"""What a redrive counts its rows as; the rerouted ones are data."""
MOST_ROWS, MOST_BATCHES = 250_000, 1_000
"""Of one redrive, unless a single batch has more: its coordinates stand in the ledger."""


@dataclass(frozen=True)
class DirtyBatch:
    """A LANDED batch whose dirty rows are its own. `settled`: they are in the dirty table, by the ledger."""

    batch_id: int
    topic: str
    topic_id: str
    settled: bool
    rows: tuple[DirtySource, ...]

    @property
    def count(self) -> int:
        return sum(r.rows for r in self.rows)


class RedriveLedger(Protocol):
    """Who owns dirty rows. A redrive takes those of whole batches when it lands, in the same transaction."""

    def dirty_batches(self, name: str) -> list[DirtyBatch]:
        """LANDED batches with dirty rows that no redrive has taken up, oldest first."""
        ...

    def counts(self, name: str, batch_id: int) -> dict[str, int]:
        """Rows of a LANDED redrive by what they are: data, late, dirty, filtered, dropped; of the data the rerouted."""
        ...

    def duties(self, name: str) -> list[tuple[int, int]]:
        """(batch, redrive that owns its dirty rows) where the files have not left the dirty table yet."""
        ...

    def cleared(self, name: str, batch_id: int) -> None:
        """The batch's dirty files have left the dirty table; done if it is marked."""
        ...


@dataclass(frozen=True)
class Choice:
    """`chosen` share a topic id, oldest first. `left`: batches that further redrives have to take up."""

    chosen: tuple[DirtyBatch, ...]
    left: tuple[int, ...] = ()

    @property
    def sources(self) -> tuple[DirtySource, ...]:
        return tuple(sorted(r for b in self.chosen for r in b.rows))


def choose(
    found: Iterable[DirtyBatch], wanted: Sequence[int] | None = None, below: int | None = None, most: int = MOST_ROWS
) -> Choice:
    """What one redrive takes up: the oldest batches of one topic id, with at most about `most` rows.

    `wanted`: only these batches; `below`: only ids below this one, so that a redrive never takes up its own rows."""
    asked = None if wanted is None else set(wanted)
    eligible = [
        b for b in sorted(found, key=lambda b: b.batch_id)
        if (asked is None or b.batch_id in asked) and (below is None or b.batch_id < below)
    ]  # fmt: skip
    chosen: list[DirtyBatch] = []
    rows = 0
    for b in eligible:
        if b.topic_id != eligible[0].topic_id or b.topic != eligible[0].topic:
            continue
        if chosen and (rows + b.count > most or len(chosen) == MOST_BATCHES):
            break
        chosen.append(b)
        rows += b.count
    taken = {b.batch_id for b in chosen}
    return Choice(tuple(chosen), tuple(b.batch_id for b in eligible if b.batch_id not in taken))


def add_up(batch_id: int, parts: Iterable[PartitionRows]) -> tuple[DirtySource, ...]:
    """By Kafka partition, of what a batch's dirty files say."""
    found: dict[int, DirtySource] = {}
    for p in parts:
        old = found.get(p.partition)
        rows, low, high = (0, p.min_offset, p.max_offset) if old is None else (old.rows, old.min_offset, old.max_offset)
        low, high = min(low, p.min_offset), max(high, p.max_offset)
        found[p.partition] = DirtySource(batch_id, p.partition, rows + p.rows, low, high)
    return tuple(found[p] for p in sorted(found))


def of_headers(pipeline: Pipeline) -> str | None:
    """A column that is made of what dirty rows do not keep."""
    if pipeline.format.type != "raw":
        return None
    return next((c.name for c in pipeline.columns if c.path in _HEADERS), None)


# ---------------------------------------------------------------- what to mend


@dataclass(frozen=True)
class Example:
    """A dirty record, for people: `raw` is escaped and bounded."""

    batch_id: int
    partition: int
    offset: int
    raw: str


@dataclass(frozen=True)
class Cause:
    """Rows that are dirty for one reason in one field ("" for the record as a whole), with a few of them.

    `reason` is that of the first row; `varies` where others say the same of another value."""

    field: str
    reason: str
    rows: int
    batches: tuple[int, ...]
    examples: tuple[Example, ...] = ()
    varies: bool = False


class DirtyReader(Protocol):
    """Looks into dirty files. Raises TidegateError when it cannot work at all."""

    def causes(self, batch_id: int, files: Sequence[Sequence[str]]) -> tuple[list[Cause], str]:
        """Of files of one batch, each with the places (URIs) where it can be; and why not all could be read, or ""."""
        ...


def shape(reason: str) -> str:
    """The same for reasons that differ only in the value that they tell of: numbers, times, quoted text."""
    return _VALUE.sub("…", reason)


def together(causes: Iterable[Cause], examples: int = 3) -> list[Cause]:
    """One for each field and shape of reason, the most frequent first."""
    found: dict[tuple[str, str], Cause] = {}
    for c in causes:
        old = found.setdefault((c.field, shape(c.reason)), Cause(c.field, c.reason, 0, ()))
        batches = tuple(sorted({*old.batches, *c.batches}))
        kept = (*old.examples, *c.examples)[:examples]
        varies = old.varies or c.varies or c.reason != old.reason
        found[c.field, shape(c.reason)] = Cause(c.field, old.reason, old.rows + c.rows, batches, kept, varies)
    return sorted(found.values(), key=lambda c: (-c.rows, c.field, c.reason))


# ---------------------------------------------------------------- a redrive's plan and receipt


def source_batches(plan: Plan) -> tuple[int, ...]:
    """Batches whose dirty rows the redrive takes up."""
    return tuple(sorted({s.batch_id for s in plan.sources}))


def errors(plan: Plan, receipt: Receipt) -> list[str]:
    """Why the receipt cannot be this redrive's: every row of its sources was read, and no other."""
    due: dict[int, int] = {}
    for s in plan.sources:
        due[s.partition] = due.get(s.partition, 0) + s.rows
    read = {r.range.partition: r.read for r in receipt.ranges}
    return [
        f"partition {p}: {many(read.get(p, 0), 'row')} read, its sources hold {due.get(p, 0)}"
        for p in sorted(due.keys() | read.keys())
        if read.get(p, 0) != due.get(p, 0)
    ]


def in_vain(receipt: Receipt) -> str | None:
    """Why landing it would change nothing; None if any row became readable."""
    if receipt.dirty_rows < receipt.read_rows:
        return None
    first = receipt.samples[0] if receipt.samples else None
    example = "" if first is None else (
        f", for example partition {first.partition} offset {first.offset}: {first.field or 'record'}: {first.reason}"
    )  # fmt: skip
    return f"none of the {many(receipt.read_rows, 'dirty row')} became readable{example}"


def coordinates(range_: OffsetRange, gaps: Iterable[Interval]) -> tuple[Interval, ...]:
    """The offsets of a redrive's range that are its rows, as intervals."""
    return subtract(Interval(range_.start, range_.end), gaps)


def outcome(receipt: Receipt) -> str:
    """`312 data, 5 late, 7 still dirty`"""
    return counted({k: sum(getattr(r, k) for r in receipt.ranges) for k in KINDS})


def counted(rows: Mapping[str, int]) -> str:
    """Rows of a redrive by what they are now, in words."""
    rerouted = f" ({rows['rerouted']:,} of them rerouted)" if rows["rerouted"] else ""
    words = [f"{rows['data']:,} data{rerouted}", f"{rows['late']:,} late", f"{rows['dirty']:,} still dirty"]
    return ", ".join([*words, *(f"{rows[k]:,} {k}" for k in ("filtered", "dropped") if rows[k])])
