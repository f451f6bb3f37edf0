"""Dirty rows that become data after the spec was fixed: which are taken up, and what a redrive must show.

A redrive is a batch of its own. It takes whole batches' dirty rows, with their original coordinates, from their files:
what decodes by now is data (or late), what still does not is a dirty row of the redrive. So every row has one owner:
the batch that read it, or the redrive that took it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.base.instants import MINUTE_MS, iso
from tidegate.core.base.offsets import Interval, OffsetRange, subtract
from tidegate.core.base.wording import many
from tidegate.core.batch.states import BatchState, DirtySource, Plan
from tidegate.core.files.receipt import PartitionRows, Receipt
from tidegate.core.spec.pipeline import Pipeline

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


ASK_LASTS_MS = 90_000
"""A command that waits for its turn says so again within this time; one that was killed holds nothing up for longer."""


@dataclass(frozen=True)
class Ask:
    """A redrive that waits behind an open batch: the next ingest run gives way to it until `until_ms` (UTC, by the
    ledger's clock). `id` is that of the event which says so."""

    id: int
    asked_ms: int
    by: str
    until_ms: int

    def words(self) -> str:
        """`a redrive goes first, asked for 2026-11-22T02:13Z by anna@host`"""
        by = self.by.removeprefix("tidegate command, ")
        return f"a redrive goes first, asked for {iso(self.asked_ms // MINUTE_MS * MINUTE_MS)} by {by}"


@dataclass(frozen=True)
class InTheWay:
    """The open batch. `runs`: bound to it (`<dag id>/<run id>`); `since_ms`: when it was planned, or its attempt began;
    `blocked`: why it waits for a human, or ""."""

    batch_id: int
    state: BatchState
    epoch: int
    since_ms: int
    runs: tuple[str, ...]
    blocked: str = ""


@dataclass(frozen=True)
class IngestFacts:
    """What Airflow says of a pipeline's ingest DAG. `states`: of the runs (ids) that were asked for; `alive`: whether a
    scheduler beats."""

    paused: bool
    states: Mapping[str, str]
    alive: bool = True


def waits_for(name: str, found: InTheWay, airflow: IngestFacts | None) -> tuple[str, str]:
    """What a redrive of pipeline `name` waits for, and what an operator does about it. `airflow`: None where it cannot
    be asked."""
    epoch = f" (epoch {found.epoch})" if found.epoch else ""
    what = f"batch {found.batch_id} is {found.state}{epoch} since {iso(found.since_ms // 1000 * 1000)}"
    dag = f"{name}.ingest"
    mine = [run.removeprefix(f"{dag}/") for run in found.runs if run.startswith(f"{dag}/")]
    if found.blocked:
        return f"{what} and blocked: {found.blocked}", f"tidegate repair {name}"
    if airflow is None:
        by = f", by run {mine[-1]}" if mine else ""
        return what + by, f"is {dag} paused? tidegate unpause {name}; has its run failed? airflow dags trigger {dag}"
    if airflow.paused:
        return f"{what} and {dag} is paused", f"tidegate unpause {name}"
    if not airflow.alive:
        return f"{what} and no scheduler of Airflow beats", "start Airflow's scheduler; tidegate doctor"
    active = [run for run in mine if airflow.states.get(run) in ("running", "queued", "restarting")]
    if active:
        return f"{what}, its run {active[-1]} is {airflow.states[active[-1]]}", "it lands by itself"
    ended = f", its run {mine[-1]} is {airflow.states.get(mine[-1], 'gone')}" if mine else ", no run works on it"
    return what + ended, f"the next run of {dag} goes on with it; at once: airflow dags trigger {dag}"


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

    def in_the_way(self, name: str) -> InTheWay | None:
        """The open batch, for people."""
        ...

    def asked(self, name: str) -> Ask | None:
        """The oldest ask that stands."""
        ...

    def ask(self, name: str, old: Ask | None) -> Ask:
        """Ask for the next turn, or prolong `old`. Raises LostComparison for one that lapsed, or was withdrawn."""
        ...

    def withdraw(self, name: str, ask: Ask) -> None:
        """The redrive is planned, or waits no more; done if it was withdrawn."""
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
    """Sources by Kafka partition, from what a batch's dirty files say."""
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


# ---------------------------------------------------------------- what to fix


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


@dataclass(frozen=True, kw_only=True)
class Change:
    """Rows that are dirty for one reason in one field, and what a redrive makes of them: `readable` of them are dirty
    no more, the others are for the reasons in `still` (field, reason, rows). `examples`: of readable rows, if any."""

    field: str
    reason: str
    rows: int
    readable: int
    still: tuple[tuple[str, str, int], ...] = ()
    examples: tuple[Example, ...] = ()
    varies: bool = False


class DirtyReader(Protocol):
    """Looks into dirty files. Raises TidegateError when it cannot work at all."""

    def changes(self, before: Mapping[int, Sequence[Sequence[str]]], after: Sequence[str]) -> tuple[list[Change], str]:
        """The most frequent first, of the files of some batches (each with the places where it can be) and the dirty
        files (URIs) that a redrive of them has written; and why not all could be read, or ""."""
        ...

    def causes(self, batch_id: int, files: Sequence[Sequence[str]]) -> tuple[list[Cause], str]:
        """Causes in files of one batch, each with the places (URIs) where it can be; and why not all could be read, or
        ""."""
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
