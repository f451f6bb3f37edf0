"""Files of a window become one: read, checked against their manifests, joined, counted again from the rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from spark_jobs.engine.encodings import choose_encoding, sample_of
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.identity import OVERFLOW, file_checksum, refuse_unknown
from spark_jobs.engine.sinks import Columns, Finished, Joiner, Unreadable, finished, format_of
from spark_jobs.engine.write import FOOTER_ROWS, IDENTITY
from tidegate.core.base.errors import PathMissing
from tidegate.core.base.plain import dumps, from_plain
from tidegate.core.batch.jobs import JobPlan
from tidegate.core.files.merge import Merge, Merged, Source, add_up
from tidegate.core.files.overflow import overflow_values
from tidegate.core.files.receipt import CHECKSUM_MODULUS, DATA, ROW_IDENTITY, PartitionRows
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import join

GROUP_ROWS, GROUP_BYTES = 250_000, 64 * 1024 * 1024


_BATCH_ROWS = 65_536


def merge_files(
    plan: JobPlan,
    open_storage: Callable[[str], Any],
    merge: Merge,
    attempt: int,
    counted: Callable[[pa.Table], None] | None = None,
) -> Merged:
    """`counted` is shown all rows as they are written. Raises JobError for sources that are not the manifest's."""
    pipeline = from_plain(Pipeline, plan.pipeline)
    storage = open_storage(plan.attempt_dir)
    path = f"{merge.stem}-{attempt}{format_of(pipeline.sink.format).extension(pipeline.sink.compression)}"
    with storage.open_new(join(plan.attempt_dir, path)) as sink:
        written = _Written(merge, pipeline, sink, counted)
        for source in merge.sources:
            content, file = opened(source, merge.columns, open_storage)
            written.add_file(content, file)
        partitions = written.close(plan)
        size = sink.tell()
    return Merged(merge.stem, path, size, written.rows, written.checksum, partitions)


def opened(source: Source, columns: Columns | None, open_storage: Callable[[str], Any]) -> tuple[bytes, Finished]:
    """Small files: each is read whole. Raises JobError if it is not the manifest's."""
    content, uri = _read(source, open_storage)
    refuse_unknown(source.entry, uri)
    with _spoilt(uri):
        file = finished(uri, pa.BufferReader(content), columns)
    if len(content) != source.entry.bytes or file.rows not in (None, source.entry.rows):
        raise refuse(
            f"{uri}: {len(content)} bytes and {file.rows} rows, "
            f"its manifest says {source.entry.bytes} and {source.entry.rows}"
        )
    return content, file


@contextlib.contextmanager
def _spoilt(uri: str) -> Iterator[None]:
    """The file is in memory: what cannot be made of its bytes now never can."""
    try:
        yield
    except Unreadable as e:
        raise refuse(f"{uri}: {e}", advice="replay the window from Kafka while it has the records") from None
    except (pa.ArrowException, OSError, ValueError) as e:
        raise refuse(f"{uri} cannot be read, its bytes are not what was written: {e}") from None


def _batches(file: Finished, uri: str) -> Iterator[pa.RecordBatch]:
    with _spoilt(uri):
        batches = iter(file.batches(_BATCH_ROWS))
    while True:
        with _spoilt(uri):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _read(source: Source, open_storage: Callable[[str], Any]) -> tuple[bytes, str]:
    for uri in source.uris:
        try:
            return open_storage(uri).read(uri), uri
        except PathMissing:
            continue  # an overtaken task has moved it on, or not yet
    raise refuse(f"{source.uris[0]}: is neither there nor in {len(source.uris) - 1} other places", retry=True)


class _Written:
    """One merged file. Files are taken as they are where that is worth it; the rows of others are gathered to row
    groups of a good size. All are counted and hashed when they are written."""

    def __init__(
        self, merge: Merge, pipeline: Pipeline, sink: BinaryIO, counted: Callable[[pa.Table], None] | None
    ) -> None:
        self._merge, self._pipeline, self._sink, self._counted = merge, pipeline, sink, counted
        self._format = format_of(pipeline.sink.format)
        # the overflow partition may be Hive's null partition too: then only some of its rows have its column
        self._beyond = merge.sources[0].entry.values == overflow_values(pipeline) != ()
        self._writer: Joiner | None = None
        self._schema: pa.Schema | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._parts: list[PartitionRows] = []
        self.rows = self.checksum = 0

    def add_file(self, content: bytes, file: Finished) -> None:
        if self._format.worth_taking(len(content), file) and self._taken(content, file):
            return
        for rows in self._tables(file):
            self._add(rows)

    def _taken(self, content: bytes, file: Finished) -> bool:
        """What waits goes on waiting: the order of rows says nothing, and small files between large ones add up."""
        if self._writer is None:
            self._open(next(self._tables(file)))
        if not self._writer.takes(content):  # type: ignore[union-attr]
            return False
        for rows in self._tables(file):
            self._count(rows)
        return True

    def _tables(self, file: Finished) -> Iterator[pa.Table]:
        for batch in _batches(file, self._merge.sources[0].uris[0]):
            rows = pa.Table.from_batches([batch]).replace_schema_metadata(None)
            if self._beyond and OVERFLOW.name not in rows.column_names:
                rows = rows.append_column(OVERFLOW, pa.nulls(len(rows), OVERFLOW.type))
            if self._schema is None:
                self._schema = rows.schema
            if rows.schema != self._schema:
                raise refuse(f"files of {self._merge.stem} have different columns: {self._schema} and {rows.schema}")
            yield rows

    def _add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._waiting_rows += len(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._flush()

    def close(self, plan: JobPlan) -> tuple[PartitionRows, ...]:
        self._flush()
        if self._writer is None:
            raise refuse(f"files of {self._merge.stem} hold no rows")
        first = self._merge.sources[0].entry
        coordinates = "_partition" in (self._schema or pa.schema([])).names
        told = self._parts if coordinates else [p for s in self._merge.sources for p in s.entry.partitions]
        partitions = add_up(told)
        self._writer.close(
            {
                FOOTER_ROWS: dumps(partitions),
                "tidegate.kind": first.kind,
                "tidegate.window_ms": str(first.window_ms),
                "tidegate.values": json.dumps(first.values),
                "tidegate.checksum": str(self.checksum),
                IDENTITY: str(ROW_IDENTITY),
                "tidegate.epoch": str(plan.epoch),
                "tidegate.merged_files": str(len(self._merge.sources)),
            }
        )
        return partitions

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        if self._writer is None:
            self._open(table)
        self._writer.write(table)  # type: ignore[union-attr]
        self._count(table)

    def _open(self, table: pa.Table) -> None:
        encoding = choose_encoding(sample_of(table))
        self._writer = self._format.join(self._sink, table.schema, encoding, self._pipeline.sink.compression)

    def _count(self, table: pa.Table) -> None:
        self.rows += len(table)
        values = self._merge.sources[0].entry.values
        self.checksum = (self.checksum + file_checksum(table, DATA, values)) % CHECKSUM_MODULUS
        self._parts += _coordinates(table)
        if self._counted is not None:
            self._counted(table)


def _coordinates(table: pa.Table) -> list[PartitionRows]:
    if "_partition" not in table.column_names:
        return []
    found = table.group_by("_partition", use_threads=False).aggregate(
        [("_offset", "count"), ("_offset", "min"), ("_offset", "max")]
    )
    columns = (found[n].to_pylist() for n in ("_partition", "_offset_count", "_offset_min", "_offset_max"))
    return [PartitionRows(*one) for one in zip(*columns, strict=True)]
