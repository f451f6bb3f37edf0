"""Rows of finished files go to the files of their places: copies of a replay, and late rows of a reopening."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.encodings import choose_encoding
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.identity import OVERFLOW, by_kind, file_checksum, refuse_unknown, without_values
from spark_jobs.engine.places import Places, TaskOverflow
from spark_jobs.engine.rewrite.sources import (
    BATCH,
    PARTITION,
    SAMPLE_ROWS,
    Waiting,
    by_batch,
    located,
    opened,
    proved,
    spoilt,
)
from spark_jobs.engine.sinks import finished
from spark_jobs.engine.types import data_schema
from spark_jobs.engine.write import BATCH_LABEL, Files, Place, Run
from tidegate.core.base.plain import from_plain
from tidegate.core.batch.jobs import Copy, ReopenPlan
from tidegate.core.files.merge import Merge, Source, add_up
from tidegate.core.files.overflow import overflow_values
from tidegate.core.files.receipt import DATA, BatchRows, FileEntry
from tidegate.core.spec.pipeline import Pipeline

Events = tuple[int, int] | None
_NO_PIECE = -1
"""Rows of files belong to no range that is read; their counts are told apart from those of ranges."""


def _append(files: Files, place: Place, data: pa.Table, events: Events, counts: Sequence[BatchRows]) -> None:
    runs = [Run(_NO_PIECE, c.partition, c.rows, c.min_offset, c.max_offset) for c in counts]
    encoding = choose_encoding(data.slice(0, SAMPLE_ROWS))
    files.append(place, data, encoding, file_checksum(data, place.kind, place.values), events, runs)


class Copier:
    """Copies files of a window, or some of their rows, into `files` of a replay. `open_file` raises PathMissing."""

    def __init__(self, pipeline: Pipeline, files: Files, open_file: Callable[[str], Any]) -> None:
        self._files, self._open_file = files, open_file
        self._schema, self._beyond = data_schema(pipeline), overflow_values(pipeline)

    def copy(self, copy: Copy) -> list[BatchRows]:
        """Rows that were taken, by batch and Kafka partition. Raises JobError for a file that is not the manifest's."""
        uri, stream = located(copy.source, self._open_file)
        with stream:
            refuse_unknown(copy.source.entry, uri)
            with spoilt(uri):
                file = finished(uri, stream, copy.columns)
            counts: list[BatchRows] = []
            waiting = Waiting(lambda rows: counts.extend(self._write(rows, copy, uri)))
            for rows in proved(copy.source, file, uri):
                # rows that do not carry their coordinates stay together: only their file's manifest says them
                coordinates = BATCH in rows.column_names
                for mine in by_kind(_wanted(rows, copy)) if coordinates else [rows]:
                    if len(mine):
                        waiting.add(mine, whole=not coordinates)
            waiting.flush()
            return counts

    def _write(self, rows: pa.Table, copy: Copy, uri: str) -> list[BatchRows]:
        entry, overflow = copy.source.entry, OVERFLOW.name in rows.column_names
        with spoilt(uri):
            data = rows.select(self._schema.names).cast(self._schema)
        if overflow:
            data = data.append_column(OVERFLOW, rows[OVERFLOW.name])
        place = Place(DATA, copy.window_ms, self._beyond if overflow else entry.values, overflow)
        counts = _counts(rows, copy)
        _append(self._files, place, data, _bounds([entry]), counts)
        return counts


def _wanted(table: pa.Table, copy: Copy) -> pa.Table:
    if copy.wanted is None:
        return table
    mask = pa.repeat(pa.scalar(False), len(table))
    partitions: dict[int, list[int]] = {}
    for batch_id, partition in copy.wanted:
        partitions.setdefault(batch_id, []).append(partition)
    for batch_id, mine in partitions.items():
        one = pc.and_(pc.equal(table[BATCH], batch_id), pc.is_in(table[PARTITION], pa.array(mine, pa.int32())))
        mask = pc.or_(mask, one)
    return table.filter(mask)


def _counts(rows: pa.Table, copy: Copy) -> list[BatchRows]:
    entry = copy.source.entry
    if BATCH in rows.column_names:
        return by_batch(rows)
    if len(rows) != entry.rows:
        raise refuse(f"{copy.source.uris[0]}: rows without Kafka columns can only be taken as a whole")
    return [BatchRows(0, p.partition, p.rows, p.min_offset, p.max_offset) for p in entry.partitions]


class Splitter:
    """Late rows become data of the plan's window, in the partitions that they belong to. One task takes all of them:
    they are few beside a window's, and so the limit of partition values is kept without asking others."""

    def __init__(self, plan: ReopenPlan, open_storage: Callable[[str], Any], attempt: int) -> None:
        self._plan, self._open_storage, self._attempt, self._window = plan, open_storage, attempt, plan.window_ms
        self._pipeline = from_plain(Pipeline, plan.pipeline)
        self._names = self._pipeline.dynamic_partitions
        self._places = Places(self._pipeline, plan.known.by_window())
        self._files: list[tuple[pa.Schema, Files]] = []
        self._waiting = Waiting(self._split)
        self._counts: list[BatchRows] = []
        self._events: Events = None

    def run(self, groups: Sequence[Merge]) -> tuple[list[FileEntry], tuple[BatchRows, ...], tuple[TaskOverflow, ...]]:
        """Files written, their rows by batch and Kafka partition, and what went to the overflow partition."""
        # late files do not say each row's event time: bounds of all of them are bounds of each
        self._events = _bounds([s.entry for group in groups for s in group.sources])
        try:
            for group in groups:
                for source in group.sources:
                    for rows in self._rows_of(source, group):
                        self._waiting.add(rows)
                self._waiting.flush()
            entries = [entry for _, files in self._files for entry in files.close()]
        except BaseException:
            for _, files in self._files:
                files.abandon()
            raise
        return entries, add_up(self._counts), self._places.told()

    def _rows_of(self, source: Source, group: Merge) -> Iterator[pa.Table]:
        _, file = opened(source, group.columns, self._open_storage)
        advice = "restore the file from a backup of the filesystem"
        for rows in proved(source, file, source.uris[0], self._names, advice):
            if BATCH not in rows.column_names:
                raise refuse(f"{source.uris[0]} has no Kafka columns: its rows could not be told from doubles")
            yield rows

    def _split(self, rows: pa.Table) -> None:
        count = len(rows)
        window, late = pa.repeat(pa.scalar(self._window, pa.int64()), count), pa.repeat(pa.scalar(False), count)
        rows, texts = without_values(rows, self._names)
        numbers = self._places.number(window, late, texts, None)
        ranks = {place: i for i, place in enumerate(dict.fromkeys(self._places.targets))}
        rank = pa.array([ranks[place] for place in self._places.targets], pa.int32()).take(numbers)
        order = pc.sort_indices(rank)
        rows, numbers, rank = rows.take(order), numbers.take(order), rank.take(order)
        files = self._files_of(rows.schema)
        for start, end in pairwise([0, *pc.run_end_encode(rank).run_ends.to_pylist()]):
            self._write(files, rows.slice(start, end - start).combine_chunks(), numbers.slice(start, end - start))
        if self._places.many:
            self._places.forget()

    def _write(self, files: Files, data: pa.Table, numbers: pa.Array) -> None:
        """Rows of one place."""
        place, counts = self._places.targets[numbers[0].as_py()], by_batch(data)
        if place.overflow:
            data = data.append_column(OVERFLOW, self._places.originals(numbers, OVERFLOW.type))
            self._places.overflowed(self._window, numbers)
        _append(files, place, data, self._events, counts)
        self._counts += counts

    def _files_of(self, schema: pa.Schema) -> Files:
        """Rows of batches with other columns go to files of their own."""
        for known, files in self._files:
            if known.equals(schema):
                return files
        labels = {BATCH_LABEL: "0", "tidegate.epoch": str(self._plan.epoch)}
        name = f"late{len(self._files)}-{self._attempt}"
        open_new = self._open_storage(self._plan.attempt_dir).open_new
        files = Files(self._pipeline, self._plan.attempt_dir, name, labels, open_new)
        self._files.append((schema, files))
        return files


def _bounds(entries: Sequence[FileEntry]) -> Events:
    lows = [e.min_event_ms for e in entries if e.min_event_ms is not None]
    highs = [e.max_event_ms for e in entries if e.max_event_ms is not None]
    return (min(lows), max(highs)) if lows and highs else None
