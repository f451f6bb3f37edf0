"""What read-only queries share: a snapshot, and rows of the ledger as views."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from tidegate.core.base.offsets import Interval, OffsetRange, union
from tidegate.core.base.plain import from_plain, loads
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.batch.states import BatchKind, BatchState
from tidegate.core.files.balance import Balance
from tidegate.core.files.receipt import DIRTY, LATE
from tidegate.core.look.views import BatchRow, Event, GenerationRow, RangeRow, WindowRow, WindowTotal
from tidegate.core.window.lateness import Floor
from tidegate.core.window.states import WindowKey
from tidegate.ledger import schema
from tidegate.ledger.store import Part, asked, read_as

COUNTS = ("read", "data", "late", "dirty", "filtered", "dropped", "rerouted")
K = TypeVar("K")
of_batch = attrgetter("pipeline", "batch_id")
_DETAILS = ("ranges", "ends", "log_starts", "sources", "redriven_by", "set_aside", "floor")


class Snapshots(Part):
    """The base of everything that only reads."""

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        """One instant for all that is asked inside. PostgreSQL's default would be an instant for each statement."""
        with self._store.begin() as c:
            if c.dialect.name == "postgresql":
                c.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield c


def select_rows(c: Connection, table: Any, *where: Any) -> list[Any]:
    """Rows in primary-key order."""
    return list(c.execute(select(table).where(*where).order_by(*table.primary_key.columns)))


def batches(c: Connection, name: str, first: int, last: int) -> list[BatchRow]:
    """Batches with ids `[first, last]`, with their ranges and partitions."""

    def between(table: Any, *columns: Any) -> list[Any]:
        mine = (table.c.pipeline == name, table.c.batch_id.between(first, last))
        return list(c.execute(select(*(columns or [table])).where(*mine).order_by(*table.primary_key.columns)))

    return [row for _, row in _batches(between)]


def batches_of(c: Connection, pairs: Sequence[tuple[str, int]]) -> dict[tuple[str, int], BatchRow]:
    """These (pipeline, batch id), of many pipelines: five statements."""

    def these(table: Any, *columns: Any) -> list[Any]:
        key = ", ".join(f't."{x.name}"' for x in table.primary_key.columns)
        shown = ", ".join(f't."{x.name}"' for x in columns or table.c)
        return asked(
            c,
            f"WITH asked(pipeline, batch_id) AS (VALUES {{rows}}) SELECT {shown} FROM asked AS a "
            f"JOIN {table.name} AS t ON t.pipeline = a.pipeline AND t.batch_id = a.batch_id ORDER BY {key}",
            pairs,
        )

    return {(name, row.batch_id): row for name, row in _batches(these)}


def _batches(rows_of: Callable[..., list[Any]]) -> Iterator[tuple[str, BatchRow]]:
    """`rows_of(table, columns, if not all)`: the rows that belong to the batches."""
    b = schema.batches
    columns = [b.c[field] for field in BatchRow.__dataclass_fields__ if field not in _DETAILS]  # not the receipt
    found = rows_of(b, b.c.pipeline, *columns, b.c.floor)
    tables = (schema.batch_ranges, schema.batch_partitions, schema.batch_sources)
    ranges, parts, sources = (grouped(rows_of(table), of_batch) for table in tables)
    owners = {of_batch(row): row for row in rows_of(schema.row_owners) if row.kind == DIRTY}
    for row in found:
        i = of_batch(row)
        yield (
            row.pipeline,
            replace(
                batch_row(row, ranges.get(i, []), parts.get(i, [])),
                sources=tuple(sorted({x.source for x in sources.get(i, [])})),
                floor=_floor(row.floor),
                redriven_by=owners[i].owner if i in owners else None,
                set_aside=i in owners and bool(owners[i].cleared),
            ),
        )


def _floor(text: str) -> Floor | None:
    """A damaged row must not stop the audit that is there to report it."""
    try:
        return loads(Floor, text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def grouped(items: Iterable[Any], key: Callable[[Any], K]) -> dict[K, list[Any]]:
    groups: dict[K, list[Any]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def batch_row(row: Any, ranges: list[Any], parts: list[Any]) -> BatchRow:
    values = {name: getattr(row, name) for name in BatchRow.__dataclass_fields__ if name not in _DETAILS}
    values |= {"side_moved": bool(row.side_moved), "side_registered": bool(row.side_registered)}
    values |= {"state": BatchState.known(row.state), "kind": BatchKind.known(row.kind)}
    if row.refused_kind is not None:
        values["refused_kind"] = RefusalKind.known(row.refused_kind, RefusalKind.OTHER)
    return BatchRow(
        **values,
        ranges=tuple(range_row(row.topic, x) for x in ranges),
        ends={p.partition: p.planned_end for p in parts},
        log_starts={p.partition: p.log_start for p in parts},
    )


def range_row(topic: str, row: Any) -> RangeRow:
    # a damaged row must not stop the audit that is there to report it
    planned = OffsetRange(topic, row.partition, row.start, max(row.start, row.end))
    if row.read is None:
        return RangeRow(planned, None)
    gaps = union(from_plain(Interval, i) for i in json.loads(row.gaps or "[]"))
    counts = {k: getattr(row, k) or 0 for k in COUNTS}
    return RangeRow(planned, Balance(offsets=planned.count, gaps=sum(map(len, gaps)), **counts), gaps)


def window_row(row: Any) -> WindowRow:
    return WindowRow(WindowKey(row.start_ms, row.end_ms), row.state, row.closing_batch, row.closed_ms, row.blocked)


def window_total(row: Any) -> WindowTotal:
    return read_as(WindowTotal, row)


def generation_row(row: Any, made: Iterable[Any] = (), files: Iterable[Any] = ()) -> GenerationRow:
    """`made`: its rows of generation_batches."""
    made = tuple(made)
    late = [x for x in made if x.kind == LATE]
    return read_as(
        GenerationRow,
        row,
        batches=tuple(x.batch_id for x in made),
        files=tuple(files),
        late=tuple(x.batch_id for x in late),
        set_aside=tuple(x.batch_id for x in late if x.cleared),
    )


def events(c: Connection, name: str, limit: int, subject: str | None = None, before: int | None = None) -> list[Event]:
    """The newest of those before this id, newest first."""
    e = schema.events
    mine = [e.c.pipeline == name]
    mine += [e.c.id < before] if before is not None else []
    mine += [e.c.subject == subject] if subject else []
    return [event(x) for x in c.execute(select(e).where(*mine).order_by(e.c.id.desc()).limit(limit))]


def event(row: Any) -> Event:
    return read_as(Event, row, detail=json.loads(row.detail))


def newest_event(c: Connection, name: str) -> int:
    e = schema.events
    return int(c.scalar(select(func.max(e.c.id)).where(e.c.pipeline == name)) or 0)
