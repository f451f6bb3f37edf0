"""Records that are read again from dirty files: bytes, coordinates and Kafka's timestamp are all there.

Kafka is not asked, so neither its retention nor a recreated topic matters.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.sinks import Finished, finished
from tidegate.core.base.errors import PathMissing
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import from_plain
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.dirty.redrive import of_headers
from tidegate.core.files.merge import Source
from tidegate.core.source import behind
from tidegate.core.source.records import Chunk, Reader
from tidegate.core.spec.pipeline import DIRTY_COLUMNS, Pipeline

CHUNK_RECORDS, CHUNK_BYTES = 20_000, 24 * 1024 * 1024
_BATCH_ROWS = 2_048
_COORDINATES = ["_partition", "_offset"]
_COLUMNS = [*_COORDINATES, "_kafka_ts", "raw_key", "raw_value", "field", "reason"]
_RESTORE = "restore it from a backup of the filesystem"

Record = tuple[int, int, bytes | None, bytes | None, bool]
"""(offset, Kafka's timestamp in epoch ms, key, value, whether it is a copy from another site)"""


class Readers:
    """Readers of the records of each part of a plan. The source is connected to only if a part needs it."""

    def __init__(
        self, plan: ReadPlan, open_source: Callable[[ReadPlan], Reader], open_file: Callable[[str], BinaryIO]
    ) -> None:
        self._plan, self._open_source, self._open_file = plan, open_source, open_file
        self._source: Reader | None = None

    def of_part(self, number: int) -> Reader:
        sources = self._plan.parts[number].sources
        if sources:
            self._refuse_headers()
            return DirtyReader(sources, self._open_file)
        if self._source is None:
            self._source = self._open_source(self._plan)
        return self._source

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def _refuse_headers(self) -> None:
        column = of_headers(from_plain(Pipeline, self._plan.pipeline))
        if column is not None:
            raise refuse(
                f"dirty rows are kept without Kafka's headers: column {column} could not be filled for redriven rows",
                advice=f"leave {column} out, or keep the published generation",
                field=column,
            )


class DirtyReader(Reader):
    """The rows of these files, in order of their offsets, whatever order the files have them in."""

    def __init__(self, sources: Sequence[Source], open_file: Callable[[str], BinaryIO]) -> None:
        self._sources, self._open_file = sources, open_file

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        for together in clusters(self._sources, wanted):
            streams = [self._rows(source, wanted) for source in together]
            yield from _chunks(heapq.merge(*streams, key=lambda record: record[0]))

    def _rows(self, source: Source, wanted: OffsetRange) -> Iterator[Record]:
        """Read one file, in order. Raises JobError if it is not the manifest's file."""
        uri, stream = self._open(source)
        with closing(stream):
            try:
                file = finished(uri, stream, DIRTY_COLUMNS)
                coordinates = _read(file, _COORDINATES)
                if len(coordinates) != source.entry.rows:
                    found = len(coordinates)
                    raise refuse(f"{uri} has {found} rows, its manifest says {source.entry.rows}", advice=_RESTORE)
                yield from _in_order(file, coordinates, wanted)
            except (pa.ArrowException, ValueError) as e:
                raise refuse(f"{uri} cannot be read: {e}", advice=_RESTORE) from None

    def _open(self, source: Source) -> tuple[str, BinaryIO]:
        for uri in source.uris:
            try:
                return uri, self._open_file(uri)
            except PathMissing:
                continue
        raise refuse(f"dirty file lost: it is not at {', nor at '.join(source.uris)}", advice=_RESTORE)


def clusters(sources: Iterable[Source], wanted: OffsetRange) -> list[list[Source]]:
    """Files with rows of the range, in order; those whose offsets overlap are read together."""
    spans = sorted(
        ((p.min_offset, p.max_offset, i, s) for i, s in enumerate(sources) for p in s.entry.partitions
         if p.partition == wanted.partition and p.min_offset < wanted.end and wanted.start <= p.max_offset),
        key=lambda span: span[:3],
    )  # fmt: skip
    found: list[list[Source]] = []
    reach = -1
    for low, high, _, source in spans:
        if low > reach:
            found.append([])
        found[-1].append(source)
        reach = max(reach, high)
    return found


def _read(file: Finished, columns: list[str]) -> pa.Table:
    schema = pa.schema([file.schema.field(name) for name in columns])
    return pa.Table.from_batches(file.batches(_BATCH_ROWS, columns), schema)


def _in_order(file: Finished, coordinates: pa.Table, wanted: OffsetRange) -> Iterator[Record]:
    offsets = coordinates.filter(_inside(coordinates, wanted))["_offset"].to_pylist()
    if all(a < b for a, b in itertools.pairwise(offsets)):
        for batch in file.batches(_BATCH_ROWS, _COLUMNS):
            yield from _records(pa.Table.from_batches([batch]), wanted)
        return
    yield from sorted(_records(_read(file, _COLUMNS), wanted), key=lambda record: record[0])


def _inside(rows: pa.Table, wanted: OffsetRange) -> pa.ChunkedArray:
    mine = pc.and_(pc.greater_equal(rows["_offset"], wanted.start), pc.less(rows["_offset"], wanted.end))
    return pc.and_(mine, pc.equal(rows["_partition"], wanted.partition))


def _records(rows: pa.Table, wanted: OffsetRange) -> Iterator[Record]:
    rows = rows.filter(_inside(rows, wanted))
    stamps = pc.fill_null(pc.divide(rows["_kafka_ts"].cast(pa.timestamp("us")).cast(pa.int64()), 1000), -1)
    copies = pc.and_(pc.equal(rows["field"], behind.FIELD), pc.equal(rows["reason"], behind.REASON))
    columns = (rows["_offset"], stamps, rows["raw_key"], rows["raw_value"], pc.fill_null(copies, False))
    yield from zip(*(column.to_pylist() for column in columns), strict=True)


def _chunks(records: Iterable[Record]) -> Iterator[Chunk]:
    held: list[Record] = []
    size = 0
    for record in records:
        held.append(record)
        size += len(record[2] or b"") + len(record[3] or b"")
        if len(held) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
            yield _chunk(held)
            held, size = [], 0
    if held:
        yield _chunk(held)


def _chunk(records: list[Record]) -> Chunk:
    offsets, stamps, keys, values, copies = (list(column) for column in zip(*records, strict=True))
    return Chunk(offsets, stamps, keys, values, copies=copies if any(copies) else None)
