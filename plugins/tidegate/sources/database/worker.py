"""Chunks of a table as ranges of offsets: the rows of one query, numbered in the order in which they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import from_plain
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.batch.readings import Reading
from tidegate.core.copy.port import ChunkReader, KeyRange
from tidegate.core.files.failure import refuse
from tidegate.core.source.records import Chunk, Reader
from tidegate.core.spec.paths import parse
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.databases import kinds
from tidegate.databases.pace import paced
from tidegate.sources.database.records import records_of


class TableReader(Reader):
    """`database`: instead of the one that the settings tell of. Jobs that read files alone have no settings."""

    def __init__(self, plan: ReadPlan, settings: dict[str, Any], database: ChunkReader | None = None) -> None:
        self._plan, self._settings, self._database = plan, settings, database
        self._parts = [(part.ranges[0], part.reading) for part in plan.parts if part.reading is not None]

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        reading, keys = self._chunk(wanted)
        columns = self._columns()
        names, at, stamp = [name for name, _ in columns], wanted.start, reading.window.start_ms
        database = self._database or kinds.reader(self._settings, "base64")
        with database.read(reading.table, columns, keys, None, reading.times) as rows:
            for batch in paced(rows.batches(), reading.rate and reading.rate / reading.tasks):
                values, end = records_of(batch, names), at + len(batch)
                if not values:
                    continue
                if end > wanted.end:
                    raise refuse(f"a chunk has more than {wanted.count} rows", advice="lower source.chunk_rows")
                yield Chunk(list(range(at, end)), [stamp] * len(values), [None] * len(values), list(values))
                at = end

    def _columns(self) -> list[tuple[str, str]]:
        """(name in the source, type wanted); of two columns that take the same one both have its type."""
        columns: tuple[Column, ...] = from_plain(Pipeline, self._plan.pipeline).decoded_columns
        return list({parse(c.path)[0]: c.type for c in columns}.items())

    def _chunk(self, wanted: OffsetRange) -> tuple[Reading, KeyRange]:
        if not self._parts:
            raise refuse("rows of a table are read by its ingest runs only", advice="look at the table itself")
        for whole, reading in self._parts:
            for number, keys in enumerate(reading.chunks):
                if reading.part(whole, number) == wanted:
                    return reading, keys
        raise refuse(
            f"offsets [{wanted.start}, {wanted.end}) of {wanted.topic} are no chunk of this reading",
            advice="run workers and control plane from the same release",
        )
