"""Files of one partition become one: taken as they are where that is worth it, else their rows are gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa

from spark_jobs.engine.encodings import choose_encoding, sample_of
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.identity import OVERFLOW, file_checksum
from spark_jobs.engine.rewrite.sources import BATCH, Waiting, by_batch, opened, tables
from spark_jobs.engine.sinks import Finished, Joiner, format_at, format_of
from spark_jobs.engine.write import footer
from tidegate.core.base.plain import from_plain
from tidegate.core.batch.jobs import RewritePlan
from tidegate.core.files.merge import Merge, Merged, Source, add_up
from tidegate.core.files.overflow import overflow_values
from tidegate.core.files.receipt import CHECKSUM_MODULUS, DATA, BatchRows, PartitionRows
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import join
from tidegate.core.target.stored import Bounds


def join_files(
    plan: RewritePlan, open_storage: Callable[[str], Any], merge: Merge, attempt: int
) -> tuple[Merged, list[BatchRows], Bounds | None]:
    """The file, its rows by the coordinates that they carry, and its bounds if its table keeps them.

    Raises JobError for sources that are not the manifest's."""
    pipeline = from_plain(Pipeline, plan.pipeline)
    storage = open_storage(plan.attempt_dir)
    path = f"{merge.stem}-{attempt}{format_of(pipeline.sink.format).extension(pipeline.sink.compression)}"
    with storage.open_new(join(plan.attempt_dir, path)) as sink:
        joined = _Joined(merge, pipeline, sink)
        for source in merge.sources:
            joined.add_file(source.uris[0], *opened(source, merge.columns, open_storage))
        partitions = joined.close(plan.epoch)
        size = sink.tell()
    return Merged(merge.stem, path, size, joined.rows, joined.checksum, partitions), joined.batches, joined.bounds


def by_columns(merge: Merge, open_storage: Callable[[str], Any]) -> list[Merge]:
    """The merge as several, each of files with the same columns."""
    if len(merge.sources) == 1:
        return [merge]
    groups: list[tuple[pa.Schema, list[Source]]] = []
    for source in merge.sources:
        schema = opened(source, merge.columns, open_storage)[1].schema.remove_metadata()
        same = next((mine for known, mine in groups if known.equals(schema)), None)
        if same is None:
            groups.append((schema, same := []))
        same.append(source)
    return [replace(merge, stem=f"{merge.stem}.{i}", sources=tuple(g)) for i, (_, g) in enumerate(groups)]


class _Joined:
    """One file that is being written; its rows are counted and hashed when they are."""

    def __init__(self, merge: Merge, pipeline: Pipeline, sink: BinaryIO) -> None:
        self._merge, self._sink, self._codec = merge, sink, pipeline.sink.compression
        self._entry = merge.sources[0].entry
        assert {(s.entry.window_ms, s.entry.values) for s in merge.sources} == {
            (self._entry.window_ms, self._entry.values)
        }, f"files of {merge.stem} are of several partitions"
        self._format = format_at(pipeline, self._entry.kind, self._entry.window_ms, self._entry.values)
        # the overflow partition may be Hive's null partition too: then only some of its rows have its column
        self._beyond = self._entry.values == overflow_values(pipeline) != ()
        self._writer: Joiner | None = None
        self._schema: pa.Schema | None = None
        self._waiting = Waiting(self._write)
        self.batches: list[BatchRows] = []
        self.rows = self.checksum = 0

    def add_file(self, uri: str, content: bytes, file: Finished) -> None:
        if self._format.worth_taking(len(content), file) and self._taken(uri, content, file):
            return
        for rows in self._tables(uri, file):
            self._waiting.add(rows)

    def _taken(self, uri: str, content: bytes, file: Finished) -> bool:
        """What waits goes on waiting: the order of rows says nothing, and small files between large ones add up."""
        if not (self._writer or self._open(next(self._tables(uri, file)))).takes(content):
            return False
        for rows in self._tables(uri, file):
            self._count(rows)
        return True

    def _tables(self, uri: str, file: Finished) -> Iterator[pa.Table]:
        for rows in tables(file, uri):
            if self._beyond and OVERFLOW.name not in rows.column_names:
                rows = rows.append_column(OVERFLOW, pa.nulls(len(rows), OVERFLOW.type))
            if self._schema is None:
                self._schema = rows.schema
            if rows.schema != self._schema:
                raise refuse(f"files of {self._merge.stem} have different columns: {self._schema} and {rows.schema}")
            yield rows

    def _write(self, rows: pa.Table) -> None:
        (self._writer or self._open(rows)).write(rows)
        self._count(rows)

    def _open(self, rows: pa.Table) -> Joiner:
        encoding = choose_encoding(sample_of(rows))
        self._writer = self._format.join(self._sink, rows.schema, encoding, self._codec)
        return self._writer

    def _count(self, rows: pa.Table) -> None:
        self.rows += len(rows)
        self.checksum = (self.checksum + file_checksum(rows, DATA, self._entry.values)) % CHECKSUM_MODULUS
        self.batches += by_batch(rows)

    @property
    def bounds(self) -> Bounds | None:
        return None if self._writer is None else self._writer.bounds

    def close(self, epoch: int) -> tuple[PartitionRows, ...]:
        self._waiting.flush()
        if self._writer is None or self._schema is None:
            raise refuse(f"files of {self._merge.stem} hold no rows")
        if BATCH in self._schema.names:
            told = [PartitionRows(b.partition, b.rows, b.min_offset, b.max_offset) for b in self.batches]
        else:
            told = [p for s in self._merge.sources for p in s.entry.partitions]
        partitions = add_up(told)
        of = self._entry
        labels = footer(of.kind, of.window_ms, of.values, self.checksum, partitions)
        self._writer.close(
            {**labels, "tidegate.epoch": str(epoch), "tidegate.merged_files": str(len(self._merge.sources))}
        )
        return partitions
