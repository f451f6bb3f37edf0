"""Between routing and files: rows wait until there are enough of them, then go to their places in one sort.

Memory: at most `ingest.task_buffer` waits, less while there are few places, and one sorted copy is made, column by
column. Rows of places with few of them go on to the local disk, until all has been read: see `spill`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.encodings import choose_encoding, sample_of
from spark_jobs.engine.formats import Bad
from spark_jobs.engine.identity import checksum, row_hashes, total
from spark_jobs.engine.order import ENOUGH_ROWS, Order
from spark_jobs.engine.places import Places, TaskOverflow
from spark_jobs.engine.route import Routed
from spark_jobs.engine.sinks import format_of
from spark_jobs.engine.sinks.base import NANOSECONDS_END_MS
from spark_jobs.engine.spill import Part, Spill
from spark_jobs.engine.strict import MAX_MS, MIN_MS
from spark_jobs.engine.together import Spans
from spark_jobs.engine.types import TIMESTAMP, arrow_type, data_schema, dirty_schema, late_schema
from spark_jobs.engine.write import DIRTY_PLACE, Encoding, Files, Place, Run
from tidegate.core.base.hivetypes import parse
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.files.overflow import OVERFLOW_COLUMN
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import KAFKA_COLUMNS, Pipeline

BUFFER_ROWS = 1_000_000
PLACE_BYTES, SMALLEST_BUFFER = 2 * 1024 * 1024, 32 * 1024 * 1024
"""Rows wait until each place has so much on average: a row group costs as much as some hundred rows."""
SPILLED_BYTES = 2 * 1024 * 1024 * 1024
"""What may lie on the local disk: beyond it all of it is written to the files, which get a row group more."""
DIRTY_FLUSH_ROWS, DIRTY_FLUSH_BYTES = 20_000, 32 * 1024 * 1024
_TOPIC, _PARTITION, _OFFSET, _KAFKA_TS, _BATCH = (name for name, _ in KAFKA_COLUMNS)
# names that no Hive column can have
_EVENT, _NUMBER, _PIECE = "*event", "*number", "*piece"


class Gatherer:
    """Rows of one task on their way into `files`. `sources`: Kafka partition and batch of each piece that is read."""

    def __init__(
        self,
        pipeline: Pipeline,
        files: Files,
        topic: str,
        sources: Sequence[tuple[int, int]],
        known: Mapping[int, set[PartitionValues]],
    ) -> None:
        self._files, self._topic = files, topic
        self._format = format_of(pipeline.sink.format)
        self._data, self._late, self._dirty = data_schema(pipeline), late_schema(pipeline), dirty_schema()
        self._dynamic = pipeline.dynamic_partitions
        self._most = pipeline.ingest.task_buffer
        self._places = Places(pipeline, known)
        self._partitions = pa.array([p for p, _ in sources], pa.int32())
        self._batches = pa.array([b for _, b in sources], pa.int64())
        self._encoding = Encoding([], [])
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._spill: Spill | None = Spill()
        self.notes: tuple[str, ...] = ()
        self._bad: list[dict] = []
        self._bad_runs: list[Run] = []
        self._bad_bytes = 0

    def add(self, chunk: Chunk, spans: Spans, rows: pa.Table, routed: Routed, wanted: pa.Array) -> None:
        """The `wanted` records become rows; `rows` has the decoded columns of all of the chunk."""
        count = pc.sum(wanted).as_py()
        if not count:
            return
        columns = {name: _one(column) for name, column in zip(rows.column_names, rows.columns, strict=True)}
        columns[_OFFSET] = pa.array(chunk.offsets, pa.int64())
        stamps = pc.multiply(pa.array(self._stamps(chunk.timestamps), pa.int64()), 1000)
        columns[_KAFKA_TS] = stamps.cast(pa.timestamp("us")).cast(TIMESTAMP)
        columns[_EVENT], columns[_PIECE] = routed.event, spans.pieces()
        some = wanted if count < len(chunk) else None
        columns[_NUMBER] = self._places.number(routed.window, routed.late, routed.values, some)
        batch = pa.record_batch(columns)
        # a few unwanted rows are cheaper to leave out at the flush, with the sort
        self._wait(batch.filter(wanted) if count * 4 < len(chunk) * 3 else batch)
        enough = max(SMALLEST_BUFFER, len(self._places.targets) * PLACE_BYTES)
        if self._rows >= BUFFER_ROWS or self._bytes >= min(self._most, enough):
            self._flush_rows()

    def add_dirty(self, chunk: Chunk, spans: Spans, bad: dict[int, Bad]) -> None:
        for i in sorted(bad):
            key, value, offset, span = chunk.keys[i], chunk.values[i], chunk.offsets[i], spans.of(i)
            stamp = self._stamp(chunk.timestamps[i])
            micros = None if stamp is None else stamp * 1000
            partition = span.range.partition
            row = (bad[i].reason, bad[i].field, key, value, span.range.topic, partition, offset, micros)
            self._bad.append(dict(zip(self._dirty.names, row, strict=True)))
            self._bad_runs.append(Run(span.piece, partition, 1, offset, offset))
            self._bad_bytes += len(value or b"") + len(key or b"") + 200
            if len(self._bad) >= DIRTY_FLUSH_ROWS or self._bad_bytes >= DIRTY_FLUSH_BYTES:
                self._flush_dirty()

    def _stamps(self, stamps: list[int]) -> list[int | None]:
        usual = min(stamps) >= 0 and max(stamps) <= NANOSECONDS_END_MS
        return stamps if usual else list(map(self._stamp, stamps))  # type: ignore[return-value]

    def _stamp(self, ms: int) -> int | None:
        """A producer may send any number: nanoseconds, too."""
        return self._format.stamp(ms) if MIN_MS <= ms <= MAX_MS else None

    def flush(self) -> None:
        """Hand everything that waits to the files."""
        self._flush_dirty()
        self._flush_rows(last=True)
        self._bring_back(last=True)

    def abandon(self) -> None:
        """Let go of everything that waits."""
        self._waiting, self._spill = [], None

    def overflowed(self) -> tuple[TaskOverflow, ...]:
        """Rows that were written to overflow partitions."""
        return self._places.told()

    def _flush_rows(self, *, last: bool = False) -> None:
        if not self._rows:
            return
        waiting, self._waiting = self._waiting, []
        self._rows = self._bytes = 0
        columns = {name: [batch.column(name) for batch in waiting] for name in waiting[0].schema.names}
        del waiting
        order = Order(columns[_NUMBER], columns[_PIECE], self._places.targets)
        # each is let go as soon as it has been taken
        self._write(order, {name: _taken(columns.pop(name), order.rows) for name in list(columns)}, last)
        if self._places.many:
            self._places.forget()

    def _wait(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._rows += len(rows)
        self._bytes += rows.nbytes

    def _write(self, order: Order, columns: dict[str, pa.Array], last: bool) -> None:
        numbers, pieces, events = columns.pop(_NUMBER), columns.pop(_PIECE), columns.pop(_EVENT)
        if not len(numbers):
            return
        runs = order.runs(self._partitions.to_pylist(), columns[_OFFSET])
        columns[_TOPIC] = pa.repeat(pa.scalar(self._topic, pa.string()), len(numbers))
        columns[_PARTITION], columns[_BATCH] = self._partitions.take(pieces), self._batches.take(pieces)
        rows = pa.table(columns)
        self._encoding = choose_encoding(sample_of(rows.select(self._late.names)))
        beyond = sum(1 for place, _ in order.spans if place.overflow)  # these come first
        cut = sum(count for _, count in order.spans[:beyond])
        if beyond:
            texts = {name: self._places.texts(name, numbers.slice(0, cut), beyond=True) for name in self._dynamic}
            kind = arrow_type(parse(OVERFLOW_COLUMN[1]))
            originals = self._places.originals(numbers.slice(0, cut), kind)
            data = rows.slice(0, cut).select(self._data.names).cast(self._data)
            data = data.append_column(OVERFLOW_COLUMN[0], originals)
            self._append(order.spans[:beyond], runs[:beyond], {DATA: data}, texts, events, numbers, last)
        if cut < len(rows):
            rows, numbers = rows.slice(cut), numbers.slice(cut)
            tables = {DATA: rows.select(self._data.names).cast(self._data)}
            if any(place.kind == LATE for place, _ in order.spans):
                tables[LATE] = rows.select(self._late.names).cast(self._late)
            texts = {name: self._places.texts(name, numbers) for name in self._dynamic}
            self._append(order.spans[beyond:], runs[beyond:], tables, texts, events.slice(cut), numbers, last)

    def _append(
        self,
        spans: Sequence[tuple[Place, int]],
        runs: Sequence[list[Run]],
        tables: Mapping[str, pa.Table],
        texts: Mapping[str, pa.Array],
        events: pa.Array,
        numbers: pa.Array,
        last: bool,
    ) -> None:
        """`tables`: the rows of all spans as each kind of file holds them; `texts`: their partition values."""
        hashes = row_hashes(tables[DATA], texts)
        small: list[tuple[Place, Part]] = []
        enough = self._enough_rows(tables[DATA], last)
        at = 0
        for (place, count), mine in zip(spans, runs, strict=True):
            span = pc.min_max(events.slice(at, count)).as_py()
            part = Part(at, count, total(hashes.slice(at, count)), (span["min"], span["max"]), mine)
            if place.kind == DATA and not place.overflow and count < enough:
                small.append((place, part))
            else:
                self._bring_back_place(place)  # rows keep the order in which they came
                self._put(place, tables[place.kind].slice(at, count), part)
            if place.overflow:
                self._places.overflowed(place.window_ms or 0, numbers.slice(at, count))
            at += count
        if small:
            start = small[0][1].at  # they come last, but for late ones among them
            self._keep(tables[DATA].slice(start), [(p, replace(x, at=x.at - start)) for p, x in small], last)

    def _enough_rows(self, rows: pa.Table, last: bool) -> int:
        """A place with fewer rows goes to the local disk; the last ones only to where others wait for them."""
        if self._spill is None or (last and not self._spill):
            return 0
        return min(ENOUGH_ROWS, PLACE_BYTES * len(rows) // max(1, rows.nbytes))

    def _put(self, place: Place, rows: pa.Table, part: Part) -> None:
        self._files.append(place, rows, self._encoding, part.checksum, part.events, part.runs)

    def _keep(self, rows: pa.Table, parts: list[tuple[Place, Part]], last: bool) -> None:
        assert self._spill is not None
        if last:
            self._spill.keep(rows, parts)
            return
        try:
            self._spill.write(rows, parts)
        except OSError as e:
            self.notes = (f"small partitions get more row groups than usual, no room on the local disk: {e}",)
            self._bring_back()
            self._spill = None
            for place, part in parts:
                self._put(place, rows.slice(part.at, part.count), part)
        else:
            if self._spill.bytes > SPILLED_BYTES:
                self._bring_back()

    def _bring_back(self, *, last: bool = False) -> None:
        """Everything on the local disk into the files."""
        for place in self._spill.places if self._spill else ():
            self._bring_back_place(place)
            if last:
                self._files.finish(place)

    def _bring_back_place(self, place: Place) -> None:
        if self._spill:
            for rows, part in self._spill.take(place):
                self._put(place, rows, part)

    def _flush_dirty(self) -> None:
        if not self._bad:
            return
        rows = pa.Table.from_pylist(self._bad, schema=self._dirty)
        encoding = Encoding(["reason", "field", _TOPIC], [])
        self._files.append(DIRTY_PLACE, rows, encoding, checksum(rows, {}), None, self._bad_runs)
        self._bad, self._bad_runs, self._bad_bytes = [], [], 0


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _taken(chunks: list[pa.Array], indices: pa.Array) -> pa.Array:
    return pa.concat_arrays(chunks).take(indices)  # cheaper than out of chunks
