"""A second reading of a table without a log, for a window that is published: when there may be one, what it must be,
and which reading the rows of a generation are of.

A second reading is another snapshot: its rows are compared with nothing of the first one, and never lie beside them.
Its generation's manifest is all that is owed by it; whatever is made of that generation owes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from tidegate.core.base.instants import iso
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.wording import many
from tidegate.core.files.landed import OwedSpan
from tidegate.core.files.receipt import DATA, FileEntry, ReadingNote, Receipt, arithmetic_errors
from tidegate.core.replay.origin import KEPT, Refusal
from tidegate.core.source.port import Traits
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.kinds import of_kind
from tidegate.core.window.states import DISCARDED, GenerationKind, GenerationState, WindowKey

SOURCE = "source"
"""Where an operator wants rows to come from: a second reading of the source."""
NOTED = "reading"
"""What the event log calls the words about a second reading."""
_OWN = "make a pipeline of its own, which reads its windows as the table is now"


class Line(Protocol):
    """A generation of a window, as the ledger lists it. `origin`: of a rollback, whose rows it holds."""

    @property
    def number(self) -> int: ...
    @property
    def state(self) -> GenerationState: ...
    @property
    def kind(self) -> GenerationKind: ...
    @property
    def origin(self) -> int | None: ...


L = TypeVar("L", bound=Line)


def reading_of(generations: Iterable[Line], number: int) -> int | None:
    """The generation that read the table for the rows of generation `number`; None: they are of the first reading,
    which the window's batch has landed.

    What is rebuilt from files has the rows of the generation that was in force before it."""
    known = {g.number: g for g in generations if g.state != DISCARDED}
    while (one := known.pop(number, None)) is not None:  # each once: an audit of a damaged ledger has an end
        if of_kind(one.kind).rereads:
            return number
        before = max((n for n in known if n < number), default=0)
        number = one.origin if one.origin is not None else before
    return None


def read_by(generations: Sequence[L], number: int) -> L | None:
    """The same generation itself."""
    found = reading_of(generations, number)
    return next((g for g in generations if g.number == found), None)


def owed(batch_id: int, files: Iterable[FileEntry]) -> tuple[OwedSpan, ...]:
    """What a window owes whose rows are of a second reading: the rows in force, which its manifest counts."""
    found: dict[int, OwedSpan] = {}
    for p in (p for f in files for p in f.partitions):
        old = found.get(p.partition, OwedSpan(batch_id, p.partition, 0, p.min_offset, p.max_offset))
        low, high = min(old.min_offset, p.min_offset), max(old.max_offset, p.max_offset)
        found[p.partition] = OwedSpan(batch_id, p.partition, old.rows + p.rows, low, high)
    return tuple(found[partition] for partition in sorted(found))


def unreadable(pipeline: Pipeline, traits: Traits) -> Refusal | None:
    """Why no window of the pipeline is read a second time."""
    if not traits.windowed:
        why = f"topic {pipeline.source.topic} has a log: its records can be read again as they were"
        return Refusal(why, "leave --from out, or say --from kafka")
    if dict(pipeline.source.options).get("column") is not None:
        why = f"{pipeline.source.topic} is read by column: rows that have changed since are in a later window by now"
        return Refusal(f"{why}, and a second reading would lose them here", _OWN)
    return None


def mixed(window: WindowKey, batch_id: int, first: Receipt | None, batches: Sequence[int]) -> Refusal | None:
    """Why rows of the window's first reading may lie, or come to lie, beside those of a second one. `first`: its
    manifest; `batches`: those whose rows the generation in force holds."""
    at = iso(window.start_ms)
    if first is None:
        why = f"{at}: storage has no record of batch {batch_id}: nobody knows how many rows its reading had"
        return Refusal(why, KEPT)
    dirty = sum(r.dirty for r in first.ranges)
    if dirty or set(batches) - {batch_id}:
        why = f"{at}: {many(dirty, 'row')} of the first reading were dirty (batch {batch_id}): a redrive may bring "
        return Refusal(f"{why}them to this window, beside rows of another snapshot", f"redrive them; or {_OWN}")
    return None


def wrong(receipt: Receipt, window: WindowKey, ranges: Sequence[OffsetRange]) -> str | None:
    """Why a second reading is no generation of the window."""
    errors = arithmetic_errors(receipt, ranges, "allow")
    if errors:
        return f"the second reading does not add up: {'; '.join(errors[:3])}"
    dirty = sum(r.dirty for r in receipt.ranges)
    if dirty:
        samples = "; ".join(f"{s.field or 'record'}: {s.reason}: {s.raw}" for s in receipt.samples[:3])
        return f"{many(dirty, 'row')} of the second reading do not fit the columns: {samples}"
    strange = [f.path for f in receipt.files if (f.kind, f.window_ms) != (DATA, window.start_ms)]
    if strange or any(r.late or r.dropped or r.rerouted for r in receipt.ranges):
        return f"the second reading has rows of other windows: {', '.join(strange[:3])}"
    return None


def words(note: ReadingNote, rows: int, first: int) -> str:
    """What a certificate says of it."""
    when = f"from {iso(note.began_ms)} to {iso(note.ended_ms)}"
    what = f"second reading of table {note.table} of {note.server}, {many(note.chunks, 'chunk')} {when}, "
    return f"{what}{many(rows, 'row')}: another snapshot; the first had {many(first, 'row')}"
