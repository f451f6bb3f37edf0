"""ORC: timestamps without a zone, since neither Spark nor Hive reads the type for instants; their digits are UTC's.

What pyarrow cannot write there, labels and the calendar, is added to the footer: see `orc_tail`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.sinks.base import NANOSECONDS_END_MS, Encoding, FileFormat, Joiner, Unreadable
from spark_jobs.engine.sinks.orc_tail import with_labels
from spark_jobs.engine.streams import Tap
from spark_jobs.engine.types import TIMESTAMP

STRIPE_BYTES, COLUMN_BYTES = 8 * 1024 * 1024, 1024 * 1024
"""What an encoder keeps in memory: a stripe, and buffers for each column. Rows wait outside until there are as many."""
_EXPECTED_RATIO = 4
_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "zlib", "none": "uncompressed"}
_LOCAL = pa.timestamp("us")


class Orc(FileFormat):
    def extension(self, codec: str) -> str:
        return ".orc"

    def open(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> _Writer:
        return _Writer(stream, schema, codec)

    join = open

    def read(self, stream: BinaryIO, name: str, schema: pa.Schema | None) -> _Finished:
        return _Finished(po.ORCFile(stream))

    def unfit(self, rows: pa.Table) -> dict[int, tuple[str, str]]:
        reason = "ORC cannot keep a time before 1970 that has a fraction of a second"
        found: dict[int, tuple[str, str]] = {}
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if _has_times(column.type):
                found |= {i: (name, reason) for i in _early(column.combine_chunks()) if i not in found}
        return found

    def stamp(self, ms: int) -> int | None:
        return None if (ms < 0 and ms % 1000) or abs(ms) > NANOSECONDS_END_MS else ms


class _Writer(Joiner):
    def __init__(self, stream: BinaryIO, schema: pa.Schema, codec: str) -> None:
        self._stream, self._end = stream, _End(stream)
        self._schema, self._codec = _without_zone(schema), codec
        self._encoder: po.ORCWriter | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = self._bytes = self._rows = 0
        self._encoder_bytes = STRIPE_BYTES + COLUMN_BYTES * sum(map(_leaves, schema.types))

    def write(self, rows: pa.Table) -> None:
        rows = rows.cast(self._schema)
        waits = self._encoder is None and self._waiting_bytes + rows.nbytes < self._encoder_bytes
        rows = _copied(rows, all_columns=waits)  # a slice that waits would keep all of its table in memory
        self._rows += len(rows)
        self._bytes += rows.nbytes
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._encoder is not None or self._waiting_bytes >= self._encoder_bytes:
            self._encode()

    def size(self) -> int:
        return max(self._stream.tell(), self._bytes // _EXPECTED_RATIO)

    def held(self) -> int:
        return self._waiting_bytes if self._encoder is None else self._encoder_bytes

    def close(self, labels: Mapping[str, str]) -> int:
        self._encode()
        assert self._encoder is not None
        self._end.keep()
        self._encoder.close()
        return self._end.release(labels)

    def _encode(self) -> None:
        if self._encoder is None:
            self._encoder = po.ORCWriter(self._end, compression=_CODECS[self._codec], stripe_size=STRIPE_BYTES)
            if not self._waiting:
                self._waiting = [self._schema.empty_table()]
        for rows in self._waiting:
            if unwritable := ORC.unfit(rows):
                raise refuse("; ".join(map(": ".join, set(unwritable.values()))))
            self._encoder.write(rows)
        self._waiting, self._waiting_bytes = [], 0


class _End(Tap):
    def release(self, labels: Mapping[str, str]) -> int:
        """Write what was kept, with the labels in it. Returns the rows that it tells of."""
        end = with_labels(b"".join(self.kept), labels)
        told = po.ORCFile(pa.BufferReader(end))  # a reader looks for the footer from the end of a file
        if _labels(told) != dict(labels):
            raise refuse("an ORC footer does not say what was written into it", retry=True)
        self.stream.write(end)
        return told.nrows


class _Finished:
    """Its groups are stripes."""

    def __init__(self, file: po.ORCFile) -> None:
        self._file = file
        self.labels = _labels(file)
        self.rows = file.nrows
        self.schema = pa.schema([pa.field(f.name, _mapped(f.type, TIMESTAMP)) for f in file.schema])

    def groups(self) -> int:
        return self._file.nstripes

    def spans(self, group: int) -> Mapping[str, tuple[Any, Any]]:
        return {}  # pyarrow does not show them

    def group(self, group: int, columns: Sequence[str]) -> pa.Table:
        try:
            return self._restored(self._file.read_stripe(group, columns=list(columns)), columns)
        except pa.ArrowInvalid as e:
            if "out of range for nanosecond" in str(e):
                raise Unreadable("ORC files with times before 1677 or after 2262 can be queried, not copied") from None
            raise

    def batches(self, size: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        names = self.schema.names if columns is None else columns
        for stripe in range(self._file.nstripes):
            yield from self.group(stripe, names).to_batches(size)

    def _restored(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.Table:
        """pyarrow reads timestamps as nanoseconds without a zone."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches([batch]).select(list(columns)).cast(schema)


ORC = Orc()


def _has_times(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or any(_has_times(kind.field(i).type) for i in range(kind.num_fields))


def _early(column: pa.Array) -> list[int]:
    """Rows with a time before 1970 that is no whole second: pyarrow writes others for them, which no reader reads."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        micros = column.cast(_LOCAL).cast(pa.int64())
        if (pc.min(micros).as_py() or 0) >= 0:
            return []
        values = pc.fill_null(micros, 0)
        seconds = pc.multiply(pc.divide(values, 1_000_000), 1_000_000)
        early = pc.and_(pc.less(values, 0), pc.not_equal(values, seconds))
        return pc.indices_nonzero(early).to_pylist()
    if pa.types.is_struct(kind):
        fields = (pc.struct_field(column, [i]) for i in range(kind.num_fields) if _has_times(kind.field(i).type))
        return sorted({i for field in fields for i in _early(field)})
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([pa.field("k", kind.key_type), pa.field("v", kind.item_type)])))
    if not _has_times(kind):
        return []
    parents = pc.list_parent_indices(column).to_pylist()
    return sorted({parents[i] for i in _early(pc.list_flatten(column))})


def _copied(rows: pa.Table, *, all_columns: bool) -> pa.Table:
    """At least the columns with structs: of a slice of a struct with nulls pyarrow writes the values of other rows."""
    every = pc.indices_nonzero(pa.repeat(pa.scalar(True), len(rows)))
    for at, column in enumerate(rows.columns):
        if all_columns or _has_structs(column.type):
            rows = rows.set_column(at, rows.field(at), column.take(every))
    return rows


def _has_structs(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or any(_has_structs(kind.field(i).type) for i in range(kind.num_fields))


def _labels(file: po.ORCFile) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (file.metadata or {}).items()}


def _leaves(kind: pa.DataType) -> int:
    """Columns of the file, as ORC counts them."""
    return 1 + sum(_leaves(kind.field(i).type) for i in range(kind.num_fields))


def _without_zone(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, _mapped(f.type, _LOCAL)) for f in schema])


def _mapped(kind: pa.DataType, timestamp: pa.DataType) -> pa.DataType:
    """`kind` with that type in place of each timestamp."""
    if pa.types.is_timestamp(kind):
        return timestamp
    if pa.types.is_map(kind):
        return pa.map_(_mapped(kind.key_type, timestamp), _mapped(kind.item_type, timestamp))
    if pa.types.is_list(kind):
        return pa.list_(_mapped(kind.value_type, timestamp))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _mapped(f.type, timestamp)) for f in kind])
    return kind
