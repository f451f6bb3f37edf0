"""The first step of an apply: landed events are read, and handed over to the tasks that merge their buckets.

A task puts its events into one file, cut into runs; within a run they are in the order of their buckets, each bucket an
Arrow stream of its own, so that a task that merges neighbouring buckets reads one stretch of each run.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.engine.mirror.base import BACKUP
from spark_jobs.engine.mirror.hashing import buckets_of
from spark_jobs.engine.mirror.numbers import column_of, mask_of, numbers
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.rewrite.sources import BATCH_ROWS, spoilt
from spark_jobs.engine.sinks import finished
from spark_jobs.engine.types import filled
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.mirror.jobs import EventFile, Position, ServerLog
from tidegate.core.mirror.servers import further
from tidegate.core.spec.change_events import OPERATIONS
from tidegate.core.target.paths import HANDED, join

RUN_BYTES = 64 * 1024 * 1024
"""What waits in memory until a run of it is written."""
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class Stretch:
    """Events of one bucket in a run: bytes [start, end) of the file."""

    bucket: int
    start: int
    end: int
    rows: int


@dataclass
class Handed:
    """What one task has read. `uri`: of its file, empty without events. `runs`: each in the order of the buckets."""

    uri: str
    runs: list[list[Stretch]] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)
    """By batch."""
    first: Position | None = None
    last: Position | None = None
    newest_ms: int = 0
    servers: dict[str, ServerLog] = field(default_factory=dict)
    """What its events have said, by server, where the plan names servers."""


def hand_over(
    plan: ApplyPlan,
    open_storage: Callable[[str], Any],
    files: Sequence[EventFile],
    name: str,
    wanted: Container[int] | None = None,
) -> Handed:
    """Read the landed files of a task into a file of that name, which is the task attempt's own. `wanted`: of these
    buckets only.

    Raises JobError for files that are not the plan's, and for keys that are null."""
    shape = Shape(plan)
    handed = Handed(join(plan.attempt_dir, HANDED, f"{name}.arrow"))
    with contextlib.ExitStack() as stack:
        kept = range(plan.buckets) if wanted is None else wanted
        writer = _Runs(shape, plan.buckets, kept, handed, lambda: stack.enter_context(_new(open_storage, handed.uri)))
        for file in files:
            for rows in _read(shape, open_storage, file):
                writer.add(rows)
        writer.flush()
    if not handed.runs:
        handed.uri = ""
    return handed


def taken(open_storage: Callable[[str], Any], handed: Iterable[Handed], low: int, high: int) -> dict[int, pa.Table]:
    """All events of buckets `low` to `high`, inclusive, by bucket."""
    found: dict[int, list[pa.Table]] = {}
    for one in handed:
        wanted = [[s for s in run if low <= s.bucket <= high] for run in one.runs]
        if not any(wanted):
            continue
        with open_storage(one.uri).open_existing(one.uri) as stream:
            for run in filter(None, wanted):
                stream.seek(run[0].start)
                content = memoryview(_whole(stream, run[-1].end - run[0].start, one.uri))
                for s in run:
                    mine = content[s.start - run[0].start : s.end - run[0].start]
                    found.setdefault(s.bucket, []).append(pa.ipc.open_stream(mine).read_all())
    return {bucket: pa.concat_tables(tables) for bucket, tables in found.items()}


def only(handed: Sequence[Handed], low: int, high: int) -> list[Handed]:
    """What a task for these buckets has to be told."""
    kept = [Handed(h.uri, [[s for s in run if low <= s.bucket <= high] for run in h.runs]) for h in handed]
    return [h for h in kept if any(h.runs)]


def _new(open_storage: Callable[[str], Any], uri: str) -> Any:
    return open_storage(uri).open_new(uri)


def _whole(stream: BinaryIO, size: int, uri: str) -> bytes:
    found = stream.read(size)
    if len(found) != size:
        raise refuse(f"{uri} ends early: {len(found)} of {size} bytes", retry=True)
    return found


# ---------------------------------------------------------------- reading


def _read(shape: Shape, open_storage: Callable[[str], Any], file: EventFile) -> Iterator[pa.Table]:
    """Events in the columns of the table."""
    rows = 0
    with open_storage(file.uri).open_existing(file.uri) as stream:
        with spoilt(file.uri, BACKUP):
            batches = iter(finished(file.uri, stream).batches(BATCH_ROWS))
        while True:
            with spoilt(file.uri, BACKUP):
                batch = next(batches, None)
                events = None if batch is None else _as_rows(shape, batch, file.n)
            if events is None:
                break
            rows += len(events)
            if len(events):
                yield _checked(shape, events, file)
    if rows != file.rows:
        raise refuse(
            f"{file.uri}: {many(rows, 'event')}, its batch's manifest has {file.rows:,}", kind=RefusalKind.MIRROR_FILES
        )


def _as_rows(shape: Shape, batch: pa.RecordBatch, n: int) -> pa.Table:
    """A column that the batch did not have yet, or that the spec has dropped, is null. `N` is the file's."""
    there = {name: batch.column(of) for name, of in shape.source.items() if of in batch.schema.names}
    return filled(shape.rows, there, len(batch), {shape.n: n})


def _checked(shape: Shape, events: pa.Table, file: EventFile) -> pa.Table:
    for name in shape.never_null:
        if events[name].null_count:
            raise _without(shape, events, name, file)
    unknown = pc.invert(pc.is_in(events[shape.op], pa.array(OPERATIONS, events[shape.op].type)))
    if pc.any(unknown).as_py():
        what = f"{file.uri}: an event has an unknown operation"
        raise _refused(shape, events.filter(unknown), what, shape.op, RefusalKind.MIRROR_FILES)
    if file.batch_id and not pc.all(pc.equal(events[shape.batch], file.batch_id)).as_py():
        raise refuse(
            f"{file.uri}: it holds events of another batch than {file.batch_id}", kind=RefusalKind.MIRROR_FILES
        )
    return _bare(shape, events)


def _bare(shape: Shape, events: pa.Table) -> pa.Table:
    """A delete says nothing but its key, whatever stands beside it."""
    deleted = shape.deleted(events)
    rest = [name for name in shape.content if name not in shape.key]
    if not pc.any(deleted).as_py() or all(not pc.any(pc.and_(deleted, events[n].is_valid())).as_py() for n in rest):
        return events
    at = pc.if_else(deleted, pa.scalar(None, pa.int64()), column_of(np.arange(len(events))))
    for name in rest:
        i = events.schema.get_field_index(name)
        events = events.set_column(i, events.schema.field(i), events[name].take(at))
    return events


def _without(shape: Shape, events: pa.Table, name: str, file: EventFile) -> JobError:
    of_key = name in shape.key
    what = "a column of the mirror's key" if of_key else "which says what happened, where and when"
    kind = RefusalKind.NULL_KEY if of_key else RefusalKind.MIRROR_FILES
    return _refused(
        shape, events.filter(events[name].is_null()), f"{file.uri}: an event has no {name}, {what}", name, kind
    )


def _refused(shape: Shape, events: pa.Table, what: str, column: str, kind: RefusalKind) -> JobError:
    """The refusal of the first of `events`."""
    advice = "look at the message: each change event names its row's key, its operation and its position"
    partition, offset = events[shape.partition][0].as_py(), events[shape.offset][0].as_py()
    return refuse(what, advice=advice, partition=partition, offset=offset, field=column, kind=kind)


# ---------------------------------------------------------------- writing


class _Runs:
    """Events that wait until a run of them is written."""

    def __init__(
        self,
        shape: Shape,
        buckets: int,
        wanted: Container[int],
        handed: Handed,
        begin: Callable[[], BinaryIO],
    ) -> None:
        self._shape, self._buckets, self._wanted, self._handed, self._begin = shape, buckets, wanted, handed, begin
        self._stream: BinaryIO | None = None
        self._waiting: list[pa.Table] = []
        self._bytes = self._at = 0

    def add(self, events: pa.Table) -> None:
        self._waiting.append(events)
        self._bytes += events.nbytes
        if self._bytes >= RUN_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        events = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting, self._bytes = [], 0
        self._count(events)
        bucket = buckets_of([events[name] for name in self._shape.key], self._buckets)
        order = np.argsort(bucket, kind="stable")
        bucket, events = bucket[order], events.take(column_of(order))
        starts = np.flatnonzero(np.diff(bucket, prepend=-1)).tolist()
        ends = [*starts[1:], len(bucket)] if starts else []
        self._handed.runs.append(
            [
                self._put(int(bucket[a]), events.slice(a, b - a))
                for a, b in zip(starts, ends, strict=True)
                if int(bucket[a]) in self._wanted
            ]
        )

    def _put(self, bucket: int, events: pa.Table) -> Stretch:
        if self._stream is None:
            self._stream = self._begin()
        made = io.BytesIO()
        with pa.ipc.new_stream(made, events.schema, options=_OPTIONS) as stream:
            stream.write_table(events)
        content = made.getbuffer()
        self._stream.write(content)
        start, self._at = self._at, self._at + len(content)
        return Stretch(bucket, start, self._at, len(events))

    def _count(self, events: pa.Table) -> None:
        handed, shape = self._handed, self._shape
        for log in _said(shape, events):
            handed.servers[log.name] = further(handed.servers.get(log.name, log), log)
        for one in pc.value_counts(events[shape.batch].combine_chunks()).to_pylist():
            handed.rows[one["values"]] = handed.rows.get(one["values"], 0) + one["counts"]
        first, last = ends_of(shape, events)
        handed.first = first if handed.first is None else min(first, handed.first)
        handed.last = last if handed.last is None else max(last, handed.last)
        if shape.source_ms is not None:
            handed.newest_ms = max(handed.newest_ms, pc.max(events[shape.source_ms]).as_py() or 0)


def _said(shape: Shape, events: pa.Table) -> Iterator[ServerLog]:
    """The greatest position and the newest time of each server's events (S11)."""
    if shape.servers is None:
        return
    places = shape.places_of_servers(events)
    for place, log in enumerate(shape.servers.logs):
        mine = events.filter(mask_of(places == place))
        if len(mine):
            newest_ms = 0 if shape.source_ms is None else pc.max(mine[shape.source_ms]).as_py() or 0
            yield ServerLog(log.name, last=ends_of(shape, mine)[1], newest_ms=newest_ms)


def ends_of(shape: Shape, events: pa.Table) -> tuple[Position, Position]:
    """Smallest and largest position of rows, at least one."""
    columns = [numbers(events[name]) for name in (shape.commit, shape.row, shape.n)]
    found = []
    for pick in (np.min, np.max):
        left = np.ones(len(events), np.bool_)
        position = []
        for column in columns:
            value = pick(column[left])
            left &= column == value
            position.append(int(value))
        found.append((position[0], position[1], position[2]))
    return found[0], found[1]
