"""Rows of small places, in sorted runs on the local disk until the task has read everything: then each file is written
at once, in one row group, which costs as much as some hundred rows.

A run is an Arrow stream in a file without a name: however the process ends, nothing is left of it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.engine.write import Place, Run
from tidegate.core.files.receipt import CHECKSUM_MODULUS

GROUP_BYTES = 16 * 1024 * 1024
"""Rows of one place that are brought back together, at most: they become a row group."""
RESIDENT_BYTES = 32 * 1024 * 1024
"""So much is brought back before the pages of all runs are given back: they would count as this process's memory."""


@dataclass(frozen=True)
class Part:
    """Neighbouring rows of one place: `count` from `at` on, with what `Files.append` wants to know of them."""

    at: int
    count: int
    checksum: int
    events: tuple[int, int] | None
    runs: list[Run]


@dataclass(frozen=True)
class _Run:
    rows: pa.Table
    row_bytes: float


class Spill:
    """The parts of each place, in the order in which they came."""

    def __init__(self) -> None:
        self._parts: dict[Place, list[tuple[_Run, Part]]] = {}
        self._maps: list[mmap.mmap] = []
        self._brought_back = 0.0
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def places(self) -> list[Place]:
        return list(self._parts)

    def write(self, rows: pa.Table, parts: Sequence[tuple[Place, Part]]) -> None:
        """A run on the disk. Raises OSError, and then holds nothing of it."""
        with tempfile.TemporaryFile(dir=folder(), buffering=1 << 20) as file:
            with pa.ipc.new_stream(file, rows.schema) as stream:
                stream.write_table(rows)
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        self.bytes += len(mapped)
        self.keep(pa.ipc.open_stream(pa.py_buffer(mapped)).read_all(), parts)

    def keep(self, rows: pa.Table, parts: Sequence[tuple[Place, Part]]) -> None:
        """A run that stays in memory: the last one, which is brought back at once."""
        run = _Run(rows, rows.nbytes / max(1, len(rows)))
        for place, part in parts:
            self._parts.setdefault(place, []).append((run, part))

    def take(self, place: Place) -> Iterator[tuple[pa.Table, Part]]:
        """The place's rows in their order, as few row groups as may be; nothing is held of it any more."""
        together: list[tuple[pa.Table, Part]] = []
        size = 0.0
        for run, part in self._parts.pop(place, ()):
            together.append((run.rows.slice(part.at, part.count), part))
            size += run.row_bytes * part.count
            if size >= GROUP_BYTES:
                yield _joined(together)
                self._give_back(size)
                together, size = [], 0.0
        if together:
            yield _joined(together)
            self._give_back(size)
        if not self._parts:
            self._maps, self.bytes = [], 0

    def _give_back(self, size: float) -> None:
        self._brought_back += size
        if self._brought_back >= RESIDENT_BYTES:
            self._brought_back = 0.0
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)


def folder() -> str | None:
    """The first of Spark's local directories, which a task's process is told; None: the system's for such files."""
    return next((f for f in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.path.isdir(f)), None)


def _joined(together: Sequence[tuple[pa.Table, Part]]) -> tuple[pa.Table, Part]:
    if len(together) == 1:
        return together[0]
    parts = [part for _, part in together]
    known = [part.events for part in parts if part.events is not None]
    events = (min(low for low, _ in known), max(high for _, high in known)) if known else None
    checksum = sum(part.checksum for part in parts) % CHECKSUM_MODULUS
    runs = [run for part in parts for run in part.runs]
    rows = pa.concat_tables([found for found, _ in together]).combine_chunks()
    return rows, Part(0, len(rows), checksum, events, runs)
