"""Parquet: the labels are the footer's key-value metadata, so a file says what it holds."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.engine.sinks.base import Encoding, FileFormat, Finished
from spark_jobs.engine.sinks.parquet_join import Joined, large_groups
from spark_jobs.engine.streams import KeptOpen

_LEVELS = {"gzip": 6}
"""Of codecs whose own choice does not pay: pyarrow's, for gzip, is 9, ten times the work for 1 % of the bytes."""

_BUFFER_BYTES = 16 * 1024

_CALENDAR = {"org.apache.spark.version": "3.5.0", "writer.date.proleptic": "true"}
"""What Spark and Hive go by: dates are those of the Gregorian calendar, however early. Without it Spark refuses a file
with dates before 1582 or times before 1900, and Hive shows such dates days off."""


class Parquet(FileFormat):
    def extension(self, codec: str) -> str:
        return ".parquet"

    def open(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> _Writer:
        return _Writer(stream, schema, encoding, codec)

    def join(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> Joined:
        return Joined(stream, schema, encoding, codec, self)

    def worth_taking(self, size: int, file: Finished) -> bool:
        return large_groups(size, file.rows or 0, file.groups())

    def read(self, stream: BinaryIO, name: str, schema: pa.Schema | None) -> _Finished:
        return _Finished(pq.ParquetFile(stream))


class _PassedOn(KeptOpen):
    def __init__(self, stream: BinaryIO) -> None:
        self.write, self.tell = stream.write, stream.tell


class _Writer:
    bounds = None

    def __init__(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> None:
        self._footer: list[pq.FileMetaData] = []
        self.footer: pq.FileMetaData | None = None
        # a page's header and its bytes come one by one, and each call into Python costs as much as some rows
        self._buffered = pa.output_stream(_PassedOn(stream), buffer_size=_BUFFER_BYTES)
        self._writer = pq.ParquetWriter(
            self._buffered,
            schema,
            **_compression(schema, encoding.small, codec),
            use_dictionary=encoding.dictionary or False,
            write_statistics=encoding.statistics or False,
            store_schema=False,
            metadata_collector=self._footer,
        )
        self.size = stream.tell

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._buffered.flush()

    def held(self) -> int:
        return 0  # each table is a row group, and written at once

    def close(self, labels: Mapping[str, str]) -> int:
        self._writer.add_key_value_metadata(_CALENDAR | dict(labels))
        self._writer.close()
        self._buffered.flush()
        (self.footer,) = self._footer
        return self.footer.num_rows


@functools.lru_cache(maxsize=64)
def _compression(schema: pa.Schema, small: tuple[str, ...], codec: str) -> dict[str, Any]:
    """Setting up a compressor costs more than it is worth for a column of a few bytes in each row group."""
    level = _LEVELS.get(codec)
    if not small:
        return {"compression": codec, "compression_level": level}
    leaves = [path for path in _leaves(schema) if path not in small]
    levels = None if level is None else dict.fromkeys(leaves, level)
    return {"compression": dict.fromkeys(small, "none") | dict.fromkeys(leaves, codec), "compression_level": levels}


def _leaves(schema: pa.Schema) -> list[str]:
    """Paths of the columns as the file spells them."""
    stream = io.BytesIO()
    pq.write_table(schema.empty_table(), stream)
    found = pq.read_metadata(stream).schema
    return [found.column(i).path for i in range(len(found))]


class _Finished:
    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self._metadata = file.metadata
        told = {k.decode(): v.decode() for k, v in (self._metadata.metadata or {}).items()}
        self.labels = {k: v for k, v in told.items() if k not in _CALENDAR}
        self.rows = self._metadata.num_rows
        self.schema = file.schema_arrow

    def groups(self) -> int:
        return self._metadata.num_row_groups

    def spans(self, group: int) -> Mapping[str, tuple[Any, Any]]:
        columns = (self._metadata.row_group(group).column(at) for at in range(self._metadata.num_columns))
        known = (c for c in columns if c.statistics is not None and c.statistics.has_min_max)
        return {c.path_in_schema: (c.statistics.min, c.statistics.max) for c in known}

    def group(self, group: int, columns: Sequence[str]) -> pa.Table:
        return self._file.read_row_group(group, columns=list(columns))

    def batches(self, size: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        names = None if columns is None else list(columns)
        if self.rows > size:
            yield from self._file.iter_batches(size, columns=names)
        else:  # a thread for each column, and an iterator, cost more than a few rows do
            yield from self._file.read(columns=names, use_threads=False).to_batches()
