"""Rows of a published generation as further systems get them: each column of the delivered table, from files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine import identity
from spark_jobs.engine.identity import OVERFLOW, refuse_unknown
from spark_jobs.engine.rewrite.sources import located, proved, spoilt, tables
from spark_jobs.engine.sinks import Columns, finished
from spark_jobs.engine.types import filled, schema_of
from tidegate.core.deliver.port import WINDOW_COLUMN
from tidegate.core.files.merge import Source

RESTORE = "restore it from a backup of the filesystem, or rebuild the window: tidegate replay"


class DeliveredRows:
    """Implements `core.deliver.port.Rows`. `open_file` raises PathMissing where there is none."""

    def __init__(
        self,
        columns: Sequence[tuple[str, str]],
        window_ms: int,
        sources: Sequence[Source],
        told: Columns | None,
        open_file: Callable[[str], Any],
    ) -> None:
        self._schema = schema_of(tuple(columns))
        self._window = pa.scalar(window_ms * 1000, pa.int64()).cast(self._schema.field(WINDOW_COLUMN[0]).type)
        self._sources, self._told, self._open_file = sources, told, open_file

    def batches(self) -> Iterator[pa.RecordBatch]:
        for source in self._sources:
            uri, stream = located(source, self._open_file)
            with stream:
                for rows in self._proved(source, uri, stream):
                    with spoilt(uri, RESTORE):
                        made = self._made(rows, dict(source.entry.values))
                    yield from made.to_batches()

    @property
    def files(self) -> tuple[Source, ...]:
        """The manifest's files."""
        return tuple(self._sources)

    def opened(self, file: Source) -> BinaryIO:
        """The bytes of a file. Raises JobError where it is missing."""
        found: BinaryIO = located(file, self._open_file)[1]
        return found

    def prove(self, file: Source, copy: BinaryIO) -> None:
        """Read the rows of a copy. Raises JobError unless number and checksum are the manifest's."""
        for _ in self._proved(file, file.uris[0], copy):
            pass

    def count(self, path: str, copy: BinaryIO) -> int:
        """Rows of a file that is in no manifest, by its name's format. Raises JobError where it cannot be read."""
        with spoilt(path):
            file = finished(path, copy, self._told)
        return sum(map(len, tables(file, path))) if file.rows is None else file.rows

    def _proved(self, source: Source, uri: str, stream: BinaryIO) -> Iterator[pa.Table]:
        refuse_unknown(source.entry, uri)
        with spoilt(uri, RESTORE):
            file = finished(uri, stream, self._told)
        return proved(source, file, uri, advice=RESTORE)

    def _made(self, rows: pa.Table, values: dict[str, str | None]) -> pa.Table:
        """A column that an older file lacks is null."""
        there: dict[str, Any] = {name: rows[name] for name in rows.column_names}
        there |= {name: _texts(rows, name, value) for name, value in values.items() if name in self._schema.names}
        there[WINDOW_COLUMN[0]] = pa.repeat(self._window, len(rows))
        return filled(self._schema, there, len(rows)).combine_chunks()


def checksum(batch: pa.RecordBatch) -> int:
    """Implements `core.deliver.port.Checksum`: by the row identity, over all columns."""
    plain = pa.table(batch.columns, [str(i) for i in range(batch.num_columns)])
    return identity.checksum(plain, {})


def _texts(rows: pa.Table, name: str, value: str | None) -> pa.Array:
    """The partition's value as text; of rows in the overflow partition the one that they had."""
    own = pa.repeat(pa.scalar(value, pa.string()), len(rows))
    if OVERFLOW.name not in rows.column_names:
        return own
    found = rows[OVERFLOW.name].combine_chunks()
    if pa.types.is_string(found.type):
        texts = pa.array([None if t is None else json.loads(t).get(name) for t in found.to_pylist()], pa.string())
    else:
        texts = pc.map_lookup(found, pa.scalar(name, pa.string()), "first")
    return pc.if_else(found.is_valid(), texts, own)
