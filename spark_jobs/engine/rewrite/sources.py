"""Finished files to be read again: found where they lie now, each compared with its manifest's entry."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.identity import file_checksum, refuse_unknown
from spark_jobs.engine.sinks import Columns, Finished, Unreadable, finished
from tidegate.core.base.errors import PathMissing
from tidegate.core.base.wording import many
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import CHECKSUM_MODULUS, BatchRows
from tidegate.core.spec.pipeline import KAFKA_COLUMNS

T = TypeVar("T")
BATCH_ROWS, SAMPLE_ROWS = 65_536, 8_192
GROUP_ROWS, GROUP_BYTES = 250_000, 64 * 1024 * 1024
PARTITION, OFFSET, BATCH = KAFKA_COLUMNS[1][0], KAFKA_COLUMNS[2][0], KAFKA_COLUMNS[-1][0]
FROM_KAFKA = "replay the window from Kafka while it has the records (--from kafka); the generation in force stays"
RESTORE = "restore it from a backup of the filesystem, or replay from Kafka (--from kafka) while it has the records"


def located(source: Source, open_file: Callable[[str], T]) -> tuple[str, T]:
    """The URI at which the source lies, and what `open_file` gives for it, which raises PathMissing elsewhere."""
    for uri in source.uris:
        try:
            return uri, open_file(uri)
        except PathMissing:
            continue  # an overtaken task has moved it on, or not yet
    more = f", nor in {many(len(source.uris) - 1, 'other place')}" if len(source.uris) > 1 else ""
    raise refuse(f"{source.uris[0]} is not there any more{more}", retry=True)


def opened(source: Source, columns: Columns | None, open_storage: Callable[[str], Any]) -> tuple[bytes, Finished]:
    """The whole of a small file. Raises JobError if it is not the manifest's."""
    uri, content = located(source, lambda uri: open_storage(uri).read(uri))
    refuse_unknown(source.entry, uri)
    with spoilt(uri):
        file = finished(uri, pa.BufferReader(content), columns)
    if len(content) != source.entry.bytes or file.rows not in (None, source.entry.rows):
        raise refuse(
            f"{uri}: {len(content)} bytes and {file.rows} rows, "
            f"its manifest says {source.entry.bytes} and {source.entry.rows}"
        )
    return content, file


@contextlib.contextmanager
def spoilt(uri: str, advice: str = RESTORE) -> Iterator[None]:
    """Refuses a file of whose bytes nothing can be made, now or later; what the filesystem says passes through."""
    try:
        yield
    except Unreadable as e:
        raise refuse(f"{uri}: {e}", advice=FROM_KAFKA) from None
    except (pa.ArrowException, OSError, ValueError) as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise
        raise refuse(f"{uri} cannot be read, its bytes are not what was written: {e}", advice=advice) from None


def tables(file: Finished, uri: str) -> Iterator[pa.Table]:
    """All rows in order, without what the file says of its columns beside their types."""
    with spoilt(uri):
        batches = iter(file.batches(BATCH_ROWS))
    while True:
        with spoilt(uri):
            batch = next(batches, None)
        if batch is None:
            return
        yield pa.Table.from_batches([batch]).replace_schema_metadata(None)


def proved(
    source: Source, file: Finished, uri: str, dynamic: Sequence[str] = (), advice: str = RESTORE
) -> Iterator[pa.Table]:
    """The same. Raises JobError at their end if number or checksum are not the manifest's; until then nothing counts.

    `dynamic`: the dynamic partition columns that a late file holds as columns."""
    entry, rows, checksum = source.entry, 0, 0
    for table in tables(file, uri):
        rows += len(table)
        checksum = (checksum + file_checksum(table, entry.kind, entry.values, dynamic)) % CHECKSUM_MODULUS
        yield table
    if (rows, checksum) != (entry.rows, entry.checksum):
        raise refuse(
            f"{uri}: {rows} rows read, and they or their checksum are not the manifest's ({entry.rows} rows)",
            advice=advice,
        )


def by_batch(rows: pa.Table) -> list[BatchRows]:
    """Rows by the Kafka coordinates that they carry; nothing of rows that carry none."""
    if BATCH not in rows.column_names:
        return []
    found = rows.group_by([BATCH, PARTITION], use_threads=False).aggregate(
        [(OFFSET, "count"), (OFFSET, "min"), (OFFSET, "max")]
    )
    names = (BATCH, PARTITION, f"{OFFSET}_count", f"{OFFSET}_min", f"{OFFSET}_max")
    return [BatchRows(*one) for one in zip(*(found[n].to_pylist() for n in names), strict=True)]


class Waiting:
    """Rows that wait until they make a row group of a good size; those of one have the same columns."""

    def __init__(self, write: Callable[[pa.Table], None]) -> None:
        self._write = write
        self._tables: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, rows: pa.Table, *, whole: bool = False) -> None:
        """`whole`: they stay together with those that wait, however many there are."""
        if self._tables and self._tables[0].schema != rows.schema:
            self.flush()
        self._tables.append(rows)
        self._rows += len(rows)
        self._bytes += rows.nbytes
        if not whole and (self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES):
            self.flush()

    def flush(self) -> None:
        if self._tables:
            table = pa.concat_tables(self._tables).combine_chunks()
            self._tables, self._rows, self._bytes = [], 0, 0
            self._write(table)
