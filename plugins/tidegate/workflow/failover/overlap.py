"""What has landed of the records whose copies are counted from a known pair on (F2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.core.base.errors import FailoverRefused
from tidegate.core.base.offsets import Interval, without
from tidegate.core.batch.states import LANDED
from tidegate.core.failover.counting import Landed, Row
from tidegate.core.failover.crossing import Pair
from tidegate.core.look.fate import DROPPED, FILTERED
from tidegate.core.look.port import LedgerReads
from tidegate.core.look.sighting import Life, RowReader
from tidegate.core.look.views import BatchRow, RangeRow
from tidegate.workflow.base.context import Context
from tidegate.workflow.look.where import where_all


@dataclass(frozen=True)
class Known:
    """The pairs that a person knows, by partition, and who looks for what has landed."""

    reads: LedgerReads
    rows: RowReader
    pairs: Mapping[int, Pair] = field(default_factory=dict)


def landed_from(ctx: Context, reads: LedgerReads, topic_id: str, partition: int, start: int, end: int) -> Landed:
    """At which offsets of `[start, end)` batches of that topic found a record."""
    found: list[Interval] = []
    at = end
    while at > start:
        row = _range_with(ctx, reads, topic_id, partition, at - 1)
        if row is None:
            return Landed(
                (), f"offset {at - 1} is in no batch that has landed: whether there was a record is not known"
            )
        low = max(start, row.range.start)
        found = [*without((Interval(low, at),), row.gaps), *found]
        at = low
    return Landed(tuple(found))


def _range_with(ctx: Context, reads: LedgerReads, topic_id: str, partition: int, offset: int) -> RangeRow | None:
    """As it was read, whether or not its dirty rows have been redriven since."""
    (facts,) = reads.offsets(ctx.name, [(partition, offset)]) or (None,)
    life = next((one for one in facts.lives if one.topic_id == topic_id), None) if facts is not None else None
    batch = None if life is None else _first_batch(life)
    if batch is None or batch.state != LANDED:
        return None
    return next((r for r in batch.ranges if r.range.partition == partition), None)


def _first_batch(life: Life) -> BatchRow | None:
    return life.earlier[0].batch if life.earlier else life.batch


def rows_of(ctx: Context, known: Known, topic_id: str, partition: int, places: Sequence[tuple[int, int]]) -> list[Row]:
    """Those of (index, offset) that have a row; records that were filtered or dropped have none.

    Raises FailoverRefused where a row should be, and is not found."""
    answers = where_all(ctx, known.reads, known.rows, [(partition, offset) for _, offset in places])
    found = []
    for (index, offset), answer in zip(places, answers, strict=True):
        fate = next((one for one in answer.fates if one.topic_id == topic_id), None)
        if fate is not None and fate.kafka_ms is not None:
            found.append(Row(index, offset, fate.kafka_ms))
        elif fate is None or not (fate.file or fate.kind in (FILTERED, DROPPED)):
            told = "nothing is known of it" if fate is None else fate.words
            raise FailoverRefused(
                f"{ctx.name}: the row of partition {partition}, offset {offset} is not found: {told}",
                advice=f"tidegate where {ctx.name} {partition} {offset}",
            )
    return found
