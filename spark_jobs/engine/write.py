"""Files of one task: rows are gathered, sorted by where they go, and appended to the file of that place."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow as pa

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.sinks import Encoding, Writer, format_of
from tidegate.core.layout import PartitionValues, join, partition_path, time_values
from tidegate.core.pipeline import Pipeline
from tidegate.core.plain import dumps
from tidegate.core.receipt import CHECKSUM_MODULUS, DATA, DIRTY, FileEntry, PartitionRows

MAX_OPEN = 64
MAX_CLOSING = 32
"""Files that are closed at once: HDFS needs half a second for a small one, a disk some milliseconds to sync."""
ROWS_PER_FILE = 20_000_000
HELD_BYTES = 256 * 1024 * 1024
"""What open files may keep in memory, of formats that cannot write their rows at once."""
FOOTER_ROWS = "tidegate.rows"


@dataclass(frozen=True)
class Place:
    """What one file may hold. `values` are dynamic partition values, for data only; `window_ms` is None for dirty."""

    kind: str
    window_ms: int | None
    values: PartitionValues


@dataclass
class Run:
    """Neighbouring rows that come from one planned range: counted when they are written. Offsets inclusive."""

    piece: int
    partition: int
    rows: int
    min_offset: int
    max_offset: int


@dataclass
class _OpenFile:
    place: Place
    path: str
    sink: BinaryIO
    writer: Writer
    rows: int = 0
    checksum: int = 0
    events: tuple[int, int] | None = None
    partitions: dict[int, PartitionRows] = field(default_factory=dict)


class Files:
    """The open and closed files of one task. `written` counts rows by (piece, kind) as they are written."""

    def __init__(
        self,
        pipeline: Pipeline,
        attempt_dir: str,
        name: str,
        labels: dict[str, str],
        open_new: Callable[[str], BinaryIO],
    ) -> None:
        self._pipeline, self._sink = pipeline, pipeline.sink
        self._format = format_of(self._sink.format)
        self._extension = self._format.extension(self._sink.compression)
        self._attempt_dir, self._name, self._labels, self._open_new = attempt_dir, name, labels, open_new
        self._open: OrderedDict[Place, _OpenFile] = OrderedDict()
        self._closers = ThreadPoolExecutor(MAX_CLOSING, "close")
        self._closing: deque[Future[None]] = deque()
        self._number = self._held = 0
        self._values: dict[int | None, set[PartitionValues]] = {}
        self.entries: list[FileEntry] = []
        self.written: dict[tuple[int, str], int] = {}

    def append(
        self,
        place: Place,
        rows: pa.Table,
        encoding: Encoding,
        checksum: int,
        events: tuple[int, int] | None,
        runs: list[Run],
    ) -> None:
        """Write rows of one place. `checksum` is their hashes' sum, `events` their smallest and largest event ms."""
        file = self._open.get(place) or self._create(place, rows.schema, encoding)
        self._open.move_to_end(place)
        held = file.writer.held()
        file.writer.write(rows)
        self._held += file.writer.held() - held
        file.rows += rows.num_rows
        file.checksum = (file.checksum + checksum) % CHECKSUM_MODULUS
        if events is not None:
            file.events = (
                events if file.events is None else (min(file.events[0], events[0]), max(file.events[1], events[1]))
            )
        for run in runs:
            self.written[run.piece, place.kind] = self.written.get((run.piece, place.kind), 0) + run.rows
            _count(file.partitions, run)
        if file.writer.size() >= self._sink.target_file_size or file.rows >= ROWS_PER_FILE:
            self._close(place)
        while self._held > HELD_BYTES:
            self._close(max(self._open, key=lambda p: self._open[p].writer.held()))

    def close(self) -> list[FileEntry]:
        """All of them are written and closed when this returns."""
        for place in list(self._open):
            self._close(place)
        self._wait_for_closing(0)
        self._closers.shutdown()
        return self.entries

    def abandon(self) -> None:
        """Let go of open files after an error; what they hold is not in any receipt."""
        self._closers.shutdown(wait=False, cancel_futures=True)
        for file in self._open.values():
            try:
                file.writer.close({})
                file.sink.close()
            except Exception:  # the error that led here is the one to report
                continue
        self._open.clear()

    def _create(self, place: Place, schema: pa.Schema, encoding: Encoding) -> _OpenFile:
        self._check_explosion(place)
        while len(self._open) >= MAX_OPEN:
            self._close(next(iter(self._open)))
        name = f"part-{self._name}-{self._number:04d}{self._extension}"
        path = "/".join(p for p in (place.kind, self._directory(place), name) if p)
        self._number += 1
        sink = self._open_new(join(self._attempt_dir, path))
        writer = self._format.open(sink, schema, encoding, self._sink.compression)
        self._open[place] = file = _OpenFile(place, path, sink, writer)
        return file

    def _directory(self, place: Place) -> str:
        if place.window_ms is None:
            return ""
        time = time_values(place.window_ms, self._pipeline.time_partitions, self._pipeline.windows.timezone)
        return partition_path(time + place.values)

    def _check_explosion(self, place: Place) -> None:
        if place.kind == DATA and place.values:
            values = self._values.setdefault(place.window_ms, set())
            values.add(place.values)
            check_explosion(self._pipeline, place.window_ms, values)

    def _close(self, place: Place) -> None:
        file = self._open.pop(place)
        partitions = tuple(sorted(file.partitions.values()))
        self._held -= file.writer.held()
        told = file.writer.close(self._labels_of(file, partitions))
        size = file.sink.tell()
        self._closing.append(self._closers.submit(file.sink.close))
        self._wait_for_closing(MAX_CLOSING)
        if told is not None and told != file.rows:
            raise refuse(f"{file.path}: {told} rows in the file, {file.rows} written", retry=True)
        low, high = file.events or (None, None)
        self.entries.append(
            FileEntry(
                file.path,
                place.kind,
                place.window_ms,
                place.values,
                file.rows,
                size,
                low,
                high,
                file.checksum,
                partitions,
            )
        )

    def _wait_for_closing(self, most: int) -> None:
        """Until at most so many are still being closed. Raises what a close raised."""
        while len(self._closing) > most:
            self._closing.popleft().result()

    def _labels_of(self, file: _OpenFile, partitions: tuple[PartitionRows, ...]) -> dict[str, str]:
        window = "" if file.place.window_ms is None else str(file.place.window_ms)
        return {
            FOOTER_ROWS: dumps(partitions),
            "tidegate.kind": file.place.kind,
            "tidegate.window_ms": window,
            "tidegate.values": json.dumps(file.place.values),
            "tidegate.checksum": str(file.checksum),
            **self._labels,
        }


def check_explosion(pipeline: Pipeline, window_ms: int | None, values: set[PartitionValues]) -> None:
    """Raises JobError when a window has more distinct dynamic values than `sink.max_partitions`."""
    limit = pipeline.sink.max_partitions
    if len(values) <= limit:
        return
    names = ", ".join(pipeline.dynamic_partitions)
    samples = ", ".join(partition_path(v) for v in sorted(values, key=str)[:5])
    raise refuse(
        f"more than {limit} distinct values of {names} in the window starting at {window_ms} ms, such as {samples}",
        advice="partition by a column with fewer values, or raise sink.max_partitions",
        field=names,
    )


def _count(partitions: dict[int, PartitionRows], run: Run) -> None:
    old = partitions.get(run.partition)
    partitions[run.partition] = (
        PartitionRows(run.partition, run.rows, run.min_offset, run.max_offset)
        if old is None
        else PartitionRows(
            run.partition, old.rows + run.rows, min(old.min_offset, run.min_offset), max(old.max_offset, run.max_offset)
        )
    )


DIRTY_PLACE = Place(DIRTY, None, ())
