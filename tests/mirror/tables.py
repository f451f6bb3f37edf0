"""Plans, landed files and tables of a mirror, for tests of the job that merges them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.mirror.compare import compare, folded
from spark_jobs.engine.mirror.hashing import buckets_of
from spark_jobs.engine.mirror.merge import Merged, merge_bucket
from spark_jobs.engine.mirror.numbers import mask_of, numbers
from spark_jobs.engine.mirror.purge import purged
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.types import schema_of
from tests.engine_fixtures import pipeline
from tests.field_paths import field_paths
from tests.mirror.histories import Event, Position
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.mirror.comparison import Compared, Kind
from tidegate.core.mirror.counts import Counts, add_up
from tidegate.core.mirror.jobs import BUCKET, START, N, TableColumn
from tidegate.core.mirror.purge import marker
from tidegate.core.spec.pipeline import KAFKA_COLUMNS

TOPIC = "shop.public.orders"
CONTENT = (("word", "string"), ("number", "int"))
EVENT = (("_op", "string"), ("_position_commit", "bigint"), ("_position_row", "bigint"), ("_source_ms", "bigint"))
_RENAMED = {"_partition": "_kafka_partition"}


def logical(kinds: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """What landed files of events hold."""
    return (*((f"k{i}", kind) for i, kind in enumerate(kinds)), *CONTENT, *EVENT, *KAFKA_COLUMNS)


def columns(kinds: Sequence[str]) -> tuple[TableColumn, ...]:
    """The mirror's table: as `targets/iceberg` will have it."""
    own = [TableColumn(_RENAMED.get(name, name), kind, name) for name, kind in logical(kinds)]
    at = 1 + [c.name for c in own].index("_position_row")
    return (TableColumn(BUCKET, "int"), *own[:at], TableColumn(N, "bigint"), *own[at:])


def plan_of(kinds: Sequence[str], buckets: int, directory: str = "memory:", **changes: Any) -> ApplyPlan:
    table = changes.pop("columns", columns(kinds))
    paths = [path for c in table for path in field_paths(c.name, c.type)]
    values: dict[str, Any] = {
        "attempt": "1-1.1-abc",
        "attempt_dir": f"{directory}/apply/1-1.1-abc",
        "pipeline": to_plain(pipeline("/nowhere")),
        "topic": TOPIC,
        "nonce": "abc",
        "epoch": 1,
        "first": 1,
        "last": 1,
        "key": tuple(f"k{i}" for i in range(len(kinds))),
        "buckets": buckets,
        "events": (),
        "base": (),
        "columns": table,
        "fields": tuple((path, n) for n, path in enumerate(paths, 1)),
    }
    return ApplyPlan(**values | changes)


def landed(kinds: Sequence[str], events: Iterable[Event]) -> pa.Table:
    """Events as their batch's files hold them."""
    rows = []
    for e in events:
        content = e.content or (None, None)
        stamp = 1_700_000_000_000_000 + e.offset
        key = [_value(k, v) for k, v in zip(kinds, e.key, strict=True)]
        rows.append((*key, *content, e.op, *e.position[:2], e.ms, TOPIC, e.partition, e.offset, stamp, e.batch))
    schema = schema_of(logical(kinds))
    return pa.Table.from_arrays(
        [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(schema)], schema=schema
    )


def rows_of(shape: Shape, events: pa.Table) -> pa.Table:
    """Landed events in the columns of the table."""
    found = [
        events[shape.source[f.name]].cast(f.type) if shape.source[f.name] else pa.repeat(0, len(events)).cast(f.type)
        for f in shape.rows
    ]
    return pa.Table.from_arrays(found, schema=shape.rows)


def read_back(kinds: Sequence[str], shape: Shape, rows: pa.Table) -> list[Event]:
    """Rows of a table as the events that made them."""
    found = []
    for row in rows.to_pylist():
        key = tuple(_plain(row[name]) for name in shape.key)
        content = None if row["_op"] == "d" else (row["word"], row["number"])
        position = (row["_position_commit"], row["_position_row"], row["_position_n"])
        found.append(
            Event(key, position, row["_op"], content, row["_batch_id"], row["_kafka_partition"], row["_offset"])
        )
    return found


def spelled(kinds: Sequence[str], events: Iterable[Event]) -> set[Event]:
    """Events with their keys as `read_back` has them."""
    rows = list(events)
    keys = landed(kinds, rows).select([f"k{i}" for i in range(len(kinds))]).to_pylist()
    return {
        Event(tuple(map(_plain, key.values())), e.position, e.op, e.content, e.batch, e.partition, e.offset)
        for key, e in zip(keys, rows, strict=True)
    }


def _value(kind: str, value: Any) -> Any:
    return Decimal(value) if kind.startswith("decimal") else value


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


@dataclass
class InMemory:
    """A mirror without files: its buckets, by the code that merges one."""

    kinds: tuple[str, ...]
    buckets: int
    tables: dict[int, pa.Table] = field(default_factory=dict)
    purged_below: Position = START
    purged: int = 0
    newest_ms: int = 0

    def __post_init__(self) -> None:
        self.shape = Shape(plan_of(self.kinds, self.buckets))

    def merge(self, events: Sequence[Event]) -> Counts:
        """Merge events of whole batches; what is not committed is `copy`'s to forget."""
        rows = rows_of(self.shape, landed(self.kinds, events))
        found = buckets_of([rows[name] for name in self.shape.key], self.buckets)
        done: list[Merged] = []
        for number in sorted(set(found.tolist())):
            mine = rows.filter(pa.array(found == number))
            base = self.tables.get(number, self.shape.empty())
            merged = merge_bucket(self.shape, base, mine, self.purged_below)
            if merged.rows is not None:
                self.tables[number] = merged.rows
            done.append(merged)
        return add_up(m.counts for m in done)

    def copy(self) -> InMemory:
        return InMemory(self.kinds, self.buckets, dict(self.tables), self.purged_below, self.purged, self.newest_ms)

    def purge(self, below: Position) -> None:
        """M5, in one step: tombstones go, the marker stays."""
        for number, rows in self.tables.items():
            done = purged(self.shape, rows, below)
            self.purged += done.purged
            self.tables[number] = rows if done.rows is None else done.rows
        self.purged_below = marker(self.purged_below, below)

    def compared(self, events: Sequence[Event], until: int) -> list[Compared]:
        """As a deep audit does it, bucket by bucket, in two runs of events: up to a batch, and after it."""
        rows = rows_of(self.shape, landed(self.kinds, events))
        found = buckets_of([rows[name] for name in self.shape.key], self.buckets)
        done = []
        for number in range(self.buckets):
            mine = rows.filter(pa.array(found == number))
            batches = numbers(mine[self.shape.batch])
            runs = [mine.filter(mask_of(part)) for part in (batches <= until, batches > until) if part.any()]
            made = folded(self.shape, runs)
            held = self.tables.get(number, self.shape.empty())
            done.append(compare(self.shape, number, made, held, self.purged_below))
        return done

    def harmed(self, rows: pa.Table, at: int, kind: Kind) -> pa.Table:
        """The rows of a bucket after somebody has changed the one at that place."""
        one = rows.slice(at, 1)
        if kind is Kind.DOUBLED:
            return pa.concat_tables([rows, one])
        rest = pa.concat_tables([rows.slice(0, at), rows.slice(at + 1)])
        if kind is Kind.LACKING:
            return rest
        i = rows.schema.get_field_index("_offset")
        other = one.set_column(i, rows.schema.field(i), pc.add(one["_offset"], 1).cast(rows.schema.field(i).type))
        return pa.concat_tables([rest, other])

    def is_below(self, rows: pa.Table, at: int) -> bool:
        """Whether it is older than the purge."""
        (row,) = rows.slice(at, 1).to_pylist()
        position = (row["_position_commit"], row["_position_row"], row["_position_n"])
        return position < self.purged_below

    def standing(self) -> list[Event]:
        return [e for rows in self.tables.values() for e in read_back(self.kinds, self.shape, rows)]


def cut_at_random(rng: random.Random, batches: int) -> list[tuple[int, int]]:
    """Batches 1 to the last one as ranges, inclusive."""
    ends = sorted({batches, *(n for n in range(1, batches) if rng.random() < 0.5)})
    return [(a + 1, b) for a, b in zip([0, *ends], ends, strict=False)]
