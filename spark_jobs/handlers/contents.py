"""The rows of one file, read once: their Kafka coordinates, and the checksum over all that they hold.

The checksum is computed again as the engine did when it wrote the rows: what identifies a row covers its coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from spark_jobs.engine.identity import file_checksum
from spark_jobs.engine.sinks import Finished, Unreadable
from tidegate.core.files.receipt import CHECKSUM_MODULUS
from tidegate.core.spec.pipeline import KAFKA_COLUMNS

COORDINATE_ROWS, WHOLE_ROWS = 262_144, 16_384
"""Rows that are in memory at once: their coordinates, or all that they hold."""
_NONE = (2**63, -1)
_BATCH = KAFKA_COLUMNS[-1][0]
_ROW = ("_partition", "_offset", _BATCH)


@dataclass(frozen=True)
class Manifest:
    """What its manifest says of a file's rows. `values`: its dynamic partition values; `dynamic`: the columns that a
    late file has of them."""

    kind: str
    values: tuple[tuple[str, str | None], ...] = ()
    dynamic: tuple[str, ...] = ()

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Manifest:
        return cls(plain["kind"], tuple((n, v) for n, v in plain["values"]), tuple(plain["dynamic"]))


class Rows(Protocol):
    """Takes the coordinates of rows as they are read."""

    def add(self, path: str, partitions: np.ndarray, offsets: np.ndarray, batches: np.ndarray) -> None: ...


def checksum(rows: pa.Table, manifest: Manifest) -> int:
    """Checksum of these rows, as the engine computed it when it wrote them."""
    return file_checksum(rows.replace_schema_metadata(None), manifest.kind, manifest.values, manifest.dynamic)


class Reading:
    """One file. `batch`: whose rows these are, where they do not say it themselves; `rows` takes their coordinates,
    where there is somebody to take them."""

    def __init__(self, path: str, file: Finished, batch: int | None, rows: Rows | None) -> None:
        self._path, self._file, self._batch, self._rows = path, file, batch, rows
        names = set(file.schema.names)
        self._columns = [name for name in _ROW if name in names]
        self._located = {"_partition", "_offset"} <= names and (batch is not None or _BATCH in names)
        self._told: dict[int, list[int]] = {}
        self._low, self._high = _NONE
        self._read = 0

    def coordinates(self) -> dict[str, Any]:
        """Read nothing else."""
        if self._located:
            for found in self._file.batches(COORDINATE_ROWS, self._columns):
                self._count(found)
        return self._answer()

    def whole(self, manifest: Manifest) -> dict[str, Any]:
        """`content` is the checksum of the rows, None where other readers can read them and we cannot; `read` is how
        many they are."""
        if self._path.endswith(".orc"):  # a stripe with a time that pyarrow cannot hold: its coordinates can be read
            try:
                content = self._summed(manifest, count=False)
            except Unreadable:
                content = None
            return self.coordinates() | {"content": content, "read": self._file.rows}
        content = self._summed(manifest, count=self._located)
        return self._answer() | {"content": content, "read": self._read}

    def _summed(self, manifest: Manifest, *, count: bool) -> int:
        content = 0
        for found in self._file.batches(WHOLE_ROWS):
            self._read += len(found)
            content = (content + checksum(pa.Table.from_batches([found]), manifest)) % CHECKSUM_MODULUS
            if count:
                self._count(found.select(self._columns))
        return content

    def _count(self, found: pa.RecordBatch) -> None:
        def column(name: str) -> np.ndarray:
            return found.column(self._columns.index(name)).to_numpy(zero_copy_only=False)

        partitions, offsets = column("_partition"), column("_offset")
        batches = column(_BATCH) if _BATCH in self._columns else np.full(len(offsets), self._batch, np.int64)
        for partition in np.unique(partitions).tolist():
            mine = offsets[partitions == partition]
            low, high = int(mine.min()), int(mine.max())
            entry = self._told.setdefault(int(partition), [0, low, high])
            entry[0] += len(mine)
            entry[1], entry[2] = min(entry[1], low), max(entry[2], high)
        if len(batches):
            self._low, self._high = min(self._low, int(batches.min())), max(self._high, int(batches.max()))
        if self._rows is not None:
            self._rows.add(self._path, partitions.astype(np.int64), offsets, batches)

    def _answer(self) -> dict[str, Any]:
        """Answer for all rows of all batches: `coordinates`, Kafka partition -> [rows, min offset, max offset], and
        `batches`, [min, max]; None for a file without Kafka's columns."""
        if not self._located:
            return {"coordinates": None, "batches": None}
        return {"coordinates": self._told, "batches": [self._low, self._high] if self._told else None}
