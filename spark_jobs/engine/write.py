"""Files of one task: rows are gathered, sorted by where they go, and appended to the file of that place."""

from __future__ import annotations

import functools
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow as pa

from spark_jobs.engine.encodings import fitting
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.sinks import Encoding, Writer, format_at, format_of
from spark_jobs.engine.streams import Stream
from tidegate.core.base.partition_values import PartitionValues, partition_path
from tidegate.core.base.plain import dumps
from tidegate.core.files.receipt import CHECKSUM_MODULUS, DIRTY, ROW_IDENTITY, FileEntry, PartitionRows
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import BOUNDS, join
from tidegate.core.target.stored import Bounds
from tidegate.core.window.cut import time_values

MAX_WRITERS, MAX_GROUPS = 4_096, 16_384
"""Files that are written at once, and what was appended to them: each time some kilobytes of a footer."""
MAX_WAITING, MAX_OPEN = 64 * 1024 * 1024, 64
"""Bytes of written files that wait in memory, and files that are open on the filesystem: a directory more costs no
file handle until its rows are many."""
MAX_CLOSING = 32
"""Files that are closed at once: HDFS needs half a second for a small one, a disk some milliseconds to sync."""
ROWS_PER_FILE = 20_000_000
HELD_BYTES = 256 * 1024 * 1024
"""What open files may keep in memory, of formats that cannot write their rows at once."""
FOOTER_ROWS, IDENTITY, BATCH_LABEL = "tidegate.rows", "tidegate.identity", "tidegate.batch_id"


@dataclass(frozen=True)
class Place:
    """Rows that may share a file. `values` are dynamic partition values, for data only; `window_ms` is None for dirty.

    `overflow`: rows whose own values have no partition; their files have a column more."""

    kind: str
    window_ms: int | None
    values: PartitionValues
    overflow: bool = False


@dataclass
class Run:
    """Neighbouring rows that come from one planned range: counted when they are written. Offsets inclusive."""

    piece: int
    partition: int
    rows: int
    min_offset: int
    max_offset: int


@dataclass(kw_only=True)
class _OpenFile:
    place: Place
    path: str
    sink: Stream
    writer: Writer
    rows: int = 0
    groups: int = 0
    checksum: int = 0
    events: tuple[int, int] | None = None
    partitions: dict[int, PartitionRows] = field(default_factory=dict)


class Files:
    """The open and closed files of one task. `written` counts rows by (piece, kind) as they are written.

    `homes`: directories (URIs) of windows whose files do not go to `attempt_dir`; `shares` counts their rows by (piece,
    window)."""

    def __init__(
        self,
        pipeline: Pipeline,
        attempt_dir: str,
        name: str,
        labels: dict[str, str],
        open_new: Callable[[str], BinaryIO],
        homes: Mapping[int, str] | None = None,
    ) -> None:
        self._homes = homes or {}
        self.shares: dict[tuple[int, int], int] = {}
        self._pipeline, self._sink = pipeline, pipeline.sink
        self._bounds: dict[str, dict[str, Bounds]] = {}
        self._extension = format_of(self._sink.format).extension(self._sink.compression)
        self._batch_id = int(labels.get(BATCH_LABEL, 0))
        self._attempt_dir, self._name, self._labels, self._open_new = attempt_dir, name, labels, open_new
        self._open: OrderedDict[Place, _OpenFile] = OrderedDict()
        self._closers = ThreadPoolExecutor(MAX_CLOSING, "close")
        self._closing: deque[Future[None]] = deque()
        self._number = self._held = self._waiting = self._spilled = self._groups = 0
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
        file = self._open.get(place) or self._create(place, rows.schema, fitting(encoding, rows))
        self._open.move_to_end(place)
        held, waiting = file.writer.held(), file.sink.waiting
        file.writer.write(rows)
        self._held += file.writer.held() - held
        self._waiting += file.sink.waiting - waiting
        file.groups += 1
        self._groups += 1
        file.rows += rows.num_rows
        file.checksum = (file.checksum + checksum) % CHECKSUM_MODULUS
        if events is not None:
            file.events = (
                events if file.events is None else (min(file.events[0], events[0]), max(file.events[1], events[1]))
            )
        for run in runs:
            self.written[run.piece, place.kind] = self.written.get((run.piece, place.kind), 0) + run.rows
            if place.window_ms in self._homes:
                share = (run.piece, place.window_ms)
                self.shares[share] = self.shares.get(share, 0) + run.rows
            _count(file.partitions, run)
        if file.writer.size() >= self._sink.target_file_size or file.rows >= ROWS_PER_FILE:
            self._close(place)
        self._make_room()

    def _make_room(self) -> None:
        """The largest go to the filesystem first, the coldest are closed first."""
        while self._held > HELD_BYTES:
            self._close(max(self._open, key=lambda p: self._open[p].writer.held()))
        if self._waiting > MAX_WAITING:
            for file in sorted(self._open.values(), key=lambda f: -f.sink.waiting):
                self._spill(file)
                if self._waiting * 2 <= MAX_WAITING:
                    break
        while self._spilled > MAX_OPEN:
            self._close(next(place for place, file in self._open.items() if file.sink.spilled))
        while self._groups > MAX_GROUPS:
            self._close(next(iter(self._open)))

    def _spill(self, file: _OpenFile) -> None:
        self._waiting -= file.sink.waiting
        self._spilled += not file.sink.spilled
        file.sink.spill()

    def finish(self, place: Place) -> None:
        """No more rows come for this place: its file is closed while others are still being written."""
        if place in self._open:
            self._close(place)

    def close(self) -> list[FileEntry]:
        """All of them are written and closed when this returns."""
        for place in list(self._open):
            self._close(place)
        self._wait_for_closing(0)
        self._closers.shutdown()
        for home, found in self._bounds.items():
            with self._open_new(bounds_uri(home, self._name)) as sink:
                sink.write(dumps(found).encode())
        return self.entries

    def abandon(self) -> None:
        """Let go of open files after an error; what they hold is not in any receipt."""
        self._closers.shutdown(wait=False, cancel_futures=True)
        for file in self._open.values():
            try:
                file.writer.close({})
                file.sink.abandon()
            except Exception:  # the error that led here is the one to report
                continue
        self._open.clear()

    def _create(self, place: Place, schema: pa.Schema, encoding: Encoding) -> _OpenFile:
        while len(self._open) >= MAX_WRITERS:
            self._close(next(iter(self._open)))
        name = f"part-{self._name}-{self._number:04d}{self._extension}"
        path = "/".join(p for p in (place.kind, self._directory(place), name) if p)
        self._number += 1
        sink = Stream(functools.partial(self._open_new, join(self._home(place), path)))
        file_format = format_at(self._pipeline, place.kind, place.window_ms, place.values, self._batch_id)
        writer = file_format.open(sink, schema, encoding, self._sink.compression)
        self._held += writer.held()
        self._open[place] = file = _OpenFile(place=place, path=path, sink=sink, writer=writer)
        return file

    def _home(self, place: Place) -> str:
        return self._attempt_dir if place.window_ms is None else self._homes.get(place.window_ms, self._attempt_dir)

    def _directory(self, place: Place) -> str:
        if place.window_ms is None:
            return ""
        time = time_values(place.window_ms, self._pipeline.time_partitions, self._pipeline.windows.timezone)
        return partition_path(time + place.values)

    def _close(self, place: Place) -> None:
        file = self._open.pop(place)
        partitions = tuple(sorted(file.partitions.values()))
        self._held -= file.writer.held()
        self._waiting -= file.sink.waiting
        self._spilled -= file.sink.spilled
        self._groups -= file.groups
        told = file.writer.close(
            {**footer(place.kind, place.window_ms, place.values, file.checksum, partitions), **self._labels}
        )
        if file.writer.bounds is not None:
            self._bounds.setdefault(self._home(place), {})[file.path] = file.writer.bounds
        size = file.sink.tell()
        self._closing.append(self._closers.submit(file.sink.spill().close))
        self._wait_for_closing(MAX_CLOSING)
        if told is not None and told != file.rows:
            raise refuse(f"{file.path}: {told} rows in the file, {file.rows} written", retry=True)
        low, high = file.events or (None, None)
        self.entries.append(
            FileEntry(
                path=file.path,
                kind=place.kind,
                window_ms=place.window_ms,
                values=place.values,
                rows=file.rows,
                bytes=size,
                min_event_ms=low,
                max_event_ms=high,
                checksum=file.checksum,
                partitions=partitions,
            )
        )

    def _wait_for_closing(self, most: int) -> None:
        """Until at most so many are still being closed. Raises what a close raised."""
        while len(self._closing) > most:
            self._closing.popleft().result()


def bounds_uri(directory: str, name: str) -> str:
    """Where bounds of files that were written together stand."""
    return join(directory, BOUNDS, f"{name}.json")


def footer(
    kind: str, window_ms: int | None, values: PartitionValues, checksum: int, partitions: tuple[PartitionRows, ...]
) -> dict[str, str]:
    """Entries of a file's footer about its rows, where the format has room for them."""
    return {
        FOOTER_ROWS: dumps(partitions),
        "tidegate.kind": kind,
        "tidegate.window_ms": "" if window_ms is None else str(window_ms),
        "tidegate.values": json.dumps(values),
        "tidegate.checksum": str(checksum),
        IDENTITY: str(ROW_IDENTITY),
    }


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
