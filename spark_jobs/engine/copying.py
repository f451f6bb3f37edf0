"""Rows of files in force that become rows of a window's next generation without being decoded again.

Each file is held against its manifest, row by row, before any of it counts: number, checksum. What is written is
counted by batch and Kafka partition, as the rows themselves say it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.gather import choose_encoding
from spark_jobs.engine.identity import OVERFLOW, by_kind, file_checksum, refuse_unknown
from spark_jobs.engine.sinks import Finished, Unreadable, finished
from spark_jobs.engine.types import data_schema
from spark_jobs.engine.write import Files, Place, Run
from tidegate.core.base.errors import PathMissing
from tidegate.core.batch.jobs import Copy
from tidegate.core.files.overflow import overflow_values
from tidegate.core.files.receipt import CHECKSUM_MODULUS, DATA, Copied
from tidegate.core.spec.pipeline import KAFKA_COLUMNS, Pipeline

_BATCH_ROWS, _SAMPLE_ROWS = 65_536, 8_192
GROUP_ROWS, GROUP_BYTES = 250_000, 64 * 1024 * 1024
_PARTITION, _OFFSET, _BATCH = KAFKA_COLUMNS[1][0], KAFKA_COLUMNS[2][0], KAFKA_COLUMNS[-1][0]
_COPIED_PIECE = -1
_FROM_KAFKA = "replay from Kafka while it has the records (--from kafka); the generation in force stays"
_RESTORE = "restore it from a backup of the filesystem, or replay from Kafka (--from kafka) while it has the records"


class Copier:
    """Copies into `files`. `open_file` raises PathMissing."""

    def __init__(self, pipeline: Pipeline, files: Files, open_file: Callable[[str], Any]) -> None:
        self._pipeline, self._files, self._open_file = pipeline, files, open_file
        self._schema = data_schema(pipeline)

    def copy(self, copy: Copy) -> list[Copied]:
        """What was taken, by batch and Kafka partition. Raises JobError for a file that is not the manifest's."""
        uri, stream = self._open(copy)
        try:
            with stream:
                return self._copied(uri, finished(uri, stream, copy.columns), copy)
        except Unreadable as e:
            raise refuse(f"{uri}: {e}", advice=_FROM_KAFKA) from None
        except (pa.ArrowException, ValueError, OSError) as e:
            if isinstance(e, OSError) and e.errno is not None:
                raise  # the filesystem's, where the others are the file's
            raise refuse(f"{uri} cannot be read: {e}", advice=_RESTORE) from None

    def _copied(self, uri: str, file: Finished, copy: Copy) -> list[Copied]:
        refuse_unknown(copy.source.entry, uri)
        found: list[Copied] = []
        rows = checksum = 0
        waiting: list[pa.Table] = []
        for batch in file.batches(_BATCH_ROWS):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
            rows += len(table)
            checksum = (checksum + file_checksum(table, DATA, copy.source.entry.values)) % CHECKSUM_MODULUS
            for mine in by_kind(_wanted(table, copy)) if _BATCH in table.column_names else [table]:
                if waiting and waiting[0].schema != mine.schema:
                    found += self._write(waiting, copy)
                    waiting = []
                if len(mine):
                    waiting.append(mine)
                if _enough(waiting):
                    found += self._write(waiting, copy)
                    waiting = []
        if waiting:
            found += self._write(waiting, copy)
        due = copy.source.entry
        if (rows, checksum) != (due.rows, due.checksum):
            raise refuse(
                f"{uri}: {rows} rows read, and they or their checksum are not the manifest's ({due.rows} rows)",
                advice=_RESTORE,
            )
        return found

    def _open(self, copy: Copy) -> tuple[str, Any]:
        for uri in copy.source.uris:
            try:
                return uri, self._open_file(uri)
            except PathMissing:
                continue
        # it was there when the plan was made: another task has moved it on
        raise refuse(f"{copy.source.uris[0]} is not there any more", retry=True)

    def _write(self, waiting: list[pa.Table], copy: Copy) -> list[Copied]:
        table = pa.concat_tables(waiting).combine_chunks()
        entry = copy.source.entry
        overflow = OVERFLOW.name in table.column_names
        data = table.select(self._schema.names).cast(self._schema)
        if overflow:
            data = data.append_column(OVERFLOW, table[OVERFLOW.name])
        counts = _counts(table, copy)
        runs = [Run(_COPIED_PIECE, c.partition, c.rows, c.min_offset, c.max_offset) for c in counts]
        bounds = (entry.min_event_ms, entry.max_event_ms)
        values = overflow_values(self._pipeline) if overflow else entry.values
        self._files.append(
            Place(DATA, copy.window_ms, values, overflow),
            data,
            choose_encoding(data.slice(0, _SAMPLE_ROWS)),
            file_checksum(data, DATA, values),
            None if None in bounds else bounds,  # type: ignore[arg-type]
            runs,
        )
        return counts


def _enough(waiting: list[pa.Table]) -> bool:
    """Rows that do not carry their coordinates stay together: only their file's manifest says them."""
    if not waiting or _BATCH not in waiting[0].column_names:
        return False
    return sum(map(len, waiting)) >= GROUP_ROWS or sum(t.nbytes for t in waiting) >= GROUP_BYTES


def _wanted(table: pa.Table, copy: Copy) -> pa.Table:
    if copy.wanted is None:
        return table
    mask = pa.repeat(pa.scalar(False), len(table))
    partitions: dict[int, list[int]] = {}
    for batch_id, partition in copy.wanted:
        partitions.setdefault(batch_id, []).append(partition)
    for batch_id, mine in partitions.items():
        one = pc.and_(pc.equal(table[_BATCH], batch_id), pc.is_in(table[_PARTITION], pa.array(mine, pa.int32())))
        mask = pc.or_(mask, one)
    return table.filter(mask)


def _counts(table: pa.Table, copy: Copy) -> list[Copied]:
    if _BATCH not in table.column_names:
        entry = copy.source.entry
        if len(table) != entry.rows:
            raise refuse(f"{copy.source.uris[0]}: rows without Kafka columns can only be taken as a whole")
        return [Copied(0, p.partition, p.rows, p.min_offset, p.max_offset) for p in entry.partitions]
    found = table.group_by([_BATCH, _PARTITION]).aggregate([(_OFFSET, "count"), (_OFFSET, "min"), (_OFFSET, "max")])
    names = (_BATCH, _PARTITION, f"{_OFFSET}_count", f"{_OFFSET}_min", f"{_OFFSET}_max")
    return [Copied(*one) for one in zip(*(found[n].to_pylist() for n in names), strict=True)]
