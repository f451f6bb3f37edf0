"""Between routing and files: rows wait until there are enough of them, then go to their places in one sort."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.checksum import row_hashes, total
from spark_jobs.engine.fetch import Chunk
from spark_jobs.engine.formats import Bad
from spark_jobs.engine.route import Routed
from spark_jobs.engine.sinks import format_of
from spark_jobs.engine.types import TIMESTAMP, data_schema, dirty_schema, late_schema
from spark_jobs.engine.write import DIRTY_PLACE, Encoding, Files, Place, Run
from tidegate.core.pipeline import KAFKA_COLUMNS, Pipeline
from tidegate.core.receipt import DATA, LATE

FLUSH_ROWS, FLUSH_BYTES = 250_000, 160 * 1024 * 1024
DIRTY_FLUSH_ROWS, DIRTY_FLUSH_BYTES = 20_000, 32 * 1024 * 1024
_SAMPLE_ROWS = 8_192
# names that no Hive column can have
_EVENT, _WINDOW, _LATE, _WANTED = "*event", "*window", "*late", "*wanted"
_PIECE, _PARTITION, _OFFSET = "*piece", "*partition", "*offset"
_UNWANTED = -1


class Gatherer:
    """Rows of one task on their way into `files`."""

    def __init__(self, pipeline: Pipeline, files: Files, connection: duckdb.DuckDBPyConnection) -> None:
        self._pipeline, self._files, self._connection = pipeline, files, connection
        self._format = format_of(pipeline.sink.format)
        self._data, self._late, self._dirty = data_schema(pipeline), late_schema(pipeline), dirty_schema()
        self._dynamic = pipeline.dynamic_partitions
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._bad: list[dict] = []
        self._bad_runs: list[Run] = []
        self._bad_bytes = 0
        self._encoding: Encoding | None = None

    def add(
        self,
        topic: str,
        partition: int,
        piece: int,
        batch_id: int,
        chunk: Chunk,
        rows: pa.Table,
        routed: Routed,
        keep: pa.Array,
    ) -> None:
        """The records at the indices `keep` become rows; `rows` has the decoded columns of all of the chunk."""
        if not len(keep):
            return
        count = len(keep)
        if count * 4 < len(chunk) * 3:  # a few unwanted rows are cheaper to leave out at the flush, with the sort
            wanted = pa.repeat(pa.scalar(True), count)
        else:
            wanted = _flags(len(chunk), keep)
            keep, count = pa.array(range(len(chunk)), pa.int64()), len(chunk)
        take = (lambda column: column) if count == len(chunk) else (lambda column: column.take(keep))
        offsets = take(pa.array(chunk.offsets, pa.int64()))
        stamps = pc.multiply(take(pa.array(self._stamps(chunk.timestamps), pa.int64())), 1000)
        kafka = {
            "_topic": _repeat(topic, pa.string(), count),
            "_partition": _repeat(partition, pa.int32(), count),
            "_offset": offsets,
            "_kafka_ts": stamps.cast(pa.timestamp("us")).cast(TIMESTAMP),
            "_batch_id": _repeat(batch_id, pa.int64(), count),
        }
        taken = take(rows)
        columns = dict(zip(taken.column_names, taken.columns, strict=True))
        if self._pipeline.kafka_columns:
            columns |= kafka
        columns |= {f"*{name}": take(texts) for name, texts in routed.values.items()}
        columns |= {
            _EVENT: take(routed.event),
            _WINDOW: take(routed.window),
            _LATE: take(routed.late),
            _WANTED: wanted,
            _PIECE: _repeat(piece, pa.int32(), count),
            _PARTITION: kafka["_partition"],
            _OFFSET: offsets,
        }
        self._waiting.append(pa.table(columns))
        self._rows += count
        self._bytes += taken.nbytes
        if self._rows >= FLUSH_ROWS or self._bytes >= FLUSH_BYTES:
            self.flush()

    def add_dirty(self, topic: str, partition: int, piece: int, chunk: Chunk, bad: dict[int, Bad]) -> None:
        for i in sorted(bad):
            key, value, offset = chunk.keys[i], chunk.values[i], chunk.offsets[i]
            stamp = self._format.stamp(chunk.timestamps[i])
            micros = None if stamp is None else stamp * 1000
            row = (bad[i].reason, bad[i].field, key, value, topic, partition, offset, micros)
            self._bad.append(dict(zip(self._dirty.names, row, strict=True)))
            self._bad_runs.append(Run(piece, partition, 1, offset, offset))
            self._bad_bytes += len(value or b"") + len(key or b"") + 200
            if len(self._bad) >= DIRTY_FLUSH_ROWS or self._bad_bytes >= DIRTY_FLUSH_BYTES:
                self._flush_dirty()

    def _stamps(self, stamps: list[int]) -> list[int | None]:
        return list(map(self._format.stamp, stamps)) if min(stamps) < 0 else stamps  # type: ignore[return-value]

    def flush(self) -> None:
        """Hand everything that waits to the files."""
        self._flush_dirty()
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0
        code, places = self._places(table)
        table = table.append_column("*code", code)
        table = table.append_column("*hash", row_hashes(self._connection, self._hashed(table)))
        if len(pc.unique(code)) > 1:
            order = pc.sort_indices(code)  # stable; unwanted rows come first
            table = table.take(order.slice(len(code) - pc.sum(table[_WANTED]).as_py()))
        table = table.combine_chunks()
        if self._encoding is None:
            self._encoding = choose_encoding(table.select(self._late.names).slice(0, _SAMPLE_ROWS))
        for place, start, runs in _slices(table, places):
            self._write(place, table.slice(start, sum(r.rows for r in runs)), runs)

    def _write(self, place: Place, rows: pa.Table, runs: list[Run]) -> None:
        schema = self._data if place.kind == DATA else self._late
        events = pc.min_max(rows[_EVENT]).as_py()
        encoding = self._encoding or Encoding([], [])
        kept = rows.select(schema.names).cast(schema)
        self._files.append(place, kept, encoding, total(rows["*hash"]), (events["min"], events["max"]), runs)

    def _hashed(self, table: pa.Table) -> pa.Table:
        """What identifies a row: partition values as their text, and all that its file holds but the batch."""
        names = [f"*{name}" for name in self._dynamic] + [n for n in self._data.names if n != KAFKA_COLUMNS[-1][0]]
        return table.select(names)

    def _places(self, table: pa.Table) -> tuple[pa.Array, dict[int, Place]]:
        """A number for each row, equal for rows of one place and range, and the place that each number stands for."""
        late = table[_LATE].combine_chunks()
        code = late.cast(pa.int64())
        bases, dictionaries = [], []
        for name in (_WINDOW, *(f"*{n}" for n in self._dynamic), _PIECE):
            encoded = table[name].combine_chunks().dictionary_encode()
            values = [*encoded.dictionary.to_pylist(), None]
            index = pc.fill_null(encoded.indices, len(values) - 1).cast(pa.int64())
            if name not in (_WINDOW, _PIECE):
                index = pc.if_else(late, len(values) - 1, index)  # a late file may mix dynamic values
            code = pc.add_checked(pc.multiply_checked(code, len(values)), index)
            bases.append(len(values))
            dictionaries.append(values)
        code = pc.if_else(table[_WANTED].combine_chunks(), code, _UNWANTED)
        numbers = [number for number in pc.unique(code).to_pylist() if number != _UNWANTED]
        return code, {number: self._place(number, bases, dictionaries) for number in numbers}

    def _place(self, number: int, bases: list[int], dictionaries: list[list]) -> Place:
        found = []
        for base, values in zip(reversed(bases), reversed(dictionaries), strict=True):
            number, index = divmod(number, base)
            found.append(values[index])
        window, *values = list(reversed(found))[:-1]
        if number:
            return Place(LATE, window, ())
        return Place(DATA, window, tuple(zip(self._dynamic, values, strict=True)))

    def _flush_dirty(self) -> None:
        if not self._bad:
            return
        rows = pa.Table.from_pylist(self._bad, schema=self._dirty)
        checksum = total(row_hashes(self._connection, rows))
        self._files.append(
            DIRTY_PLACE, rows, Encoding(["reason", "field", "_topic"], []), checksum, None, self._bad_runs
        )
        self._bad, self._bad_runs, self._bad_bytes = [], [], 0


def _repeat(value: int | str, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def _flags(count: int, keep: pa.Array) -> pa.Array:
    if len(keep) == count:
        return pa.repeat(pa.scalar(True), count)
    flags = [False] * count
    for i in keep.to_pylist():
        flags[i] = True
    return pa.array(flags, pa.bool_())


def _slices(table: pa.Table, places: dict[int, Place]) -> Iterator[tuple[Place, int, list[Run]]]:
    """(place, first row, its runs) of a table that is sorted by code; neighbours of the same place are joined."""
    encoded = pc.run_end_encode(table["*code"].combine_chunks())
    pieces, partitions, offsets = (table[n] for n in (_PIECE, _PARTITION, _OFFSET))
    start, begin, runs, last = 0, 0, [], None
    for end, number in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
        place = places[number]
        if runs and place != last:
            yield last, begin, runs
            begin, runs = start, []
        # within a range rows keep their order of arrival, which is that of their offsets
        first, final = offsets[start].as_py(), offsets[end - 1].as_py()
        runs.append(Run(pieces[start].as_py(), partitions[start].as_py(), end - start, first, final))
        start, last = end, place
    if runs:
        yield last, begin, runs


def choose_encoding(sample: pa.Table) -> Encoding:
    """Dictionaries pay only where values repeat; statistics where a reader can skip by them."""
    dictionary, statistics = [], []
    for name, column in zip(sample.column_names, sample.columns, strict=True):
        if pa.types.is_nested(column.type):
            continue
        repeats = pc.count_distinct(column).as_py() * 8 <= len(column)
        if repeats and not pa.types.is_boolean(column.type):
            dictionary.append(name)
        if repeats or not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            statistics.append(name)
    return Encoding(dictionary, statistics)
