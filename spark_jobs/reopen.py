"""A plan of mode `reopen`: the files of the generation in force are copied, late rows come to them by their partition
values. Nothing is read from Kafka.

What is copied are merges of one file or of several small ones (see `spark_jobs.merge`). Late rows are split by one
task: they are few beside a window's, and so the limit of partition values is kept without asking others. Every row is
counted by batch and Kafka partition as it is written; each file's rows are held against its manifest's checksum.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.failures import refuse, reported
from spark_jobs.engine.gather import choose_encoding
from spark_jobs.engine.identity import checksum, without_values
from spark_jobs.engine.merge import GROUP_BYTES, GROUP_ROWS, merge_files, opened
from spark_jobs.engine.places import Places, TaskOverflow, combined
from spark_jobs.engine.types import arrow_type
from spark_jobs.engine.write import Files, Run
from tidegate.core.base.hivetypes import parse
from tidegate.core.base.plain import dumps, from_plain
from tidegate.core.base.storage import Storage
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import JobPlan
from tidegate.core.files.merge import Merge, Source, sum_of
from tidegate.core.files.overflow import OVERFLOW_COLUMN
from tidegate.core.files.receipt import CHECKSUM_MODULUS, FileEntry
from tidegate.core.late.reopen import BatchRows, ReopenReceipt, counted
from tidegate.core.spec.pipeline import KAFKA_COLUMNS, Pipeline
from tidegate.core.target.paths import RECEIPT, join

_BATCH_ROWS, _SAMPLE_ROWS = 65_536, 8_192
_PARTITION, _OFFSET, _BATCH = KAFKA_COLUMNS[1][0], KAFKA_COLUMNS[2][0], KAFKA_COLUMNS[-1][0]
_REPLAY = "rebuild the window from Kafka first (its replay DAG), then reopen it"


@dataclass(frozen=True)
class Work:
    """One task: a copy, or (`late`) all late files."""

    merges: tuple[Merge, ...]
    late: bool = False


@dataclass(frozen=True)
class Done:
    files: tuple[FileEntry, ...]
    batches: tuple[BatchRows, ...]
    late: bool
    overflow: tuple[TaskOverflow, ...] = ()


def run_reopening(
    plan: JobPlan,
    storage: Storage,
    run: Callable[..., Iterable[Done]] | None = None,
    open_storage: Callable[[str], Any] | None = None,
) -> ReopenReceipt:
    """Carry out a plan and write its receipt; on any failure write `failure.json` and raise JobError.

    Without `run` everything happens in this process, on `storage`, which then needs `open_new`."""
    started = time.monotonic()
    try:
        one = functools.partial(carry_out, plan, open_storage or (lambda uri: storage))
        work = [Work((merge,)) for merge in plan.merges] + ([Work(plan.late, late=True)] if plan.late else [])
        done = list((run or _here)(one, work))
        receipt = ReopenReceipt(
            plan.attempt,
            tuple(f for d in done if not d.late for f in d.files),
            tuple(f for d in done if d.late for f in d.files),
            counted(b for d in done for b in d.batches),
            combined([o for d in done for o in d.overflow]),
            round(time.monotonic() - started, 3),
        )
        storage.write_new(join(plan.attempt_dir, RECEIPT), dumps(receipt).encode())
    except Exception as e:
        raise reported(storage, plan.attempt_dir, e) from e
    return receipt


def summary(plan: JobPlan, receipt: ReopenReceipt) -> str:
    """For the log."""
    added, copied = (sum(f.rows for f in files) for files in (receipt.added, receipt.copied))
    words = f"copied {many(copied, 'row')}, added {many(added, 'late row')}, in {many(len(receipt.files), 'file')}"
    return f"tidegate: {plan.attempt}: {words}"


def _here(one: Callable[[Work, int], Done], work: Sequence[Work]) -> list[Done]:
    return [one(w, 0) for w in work]


def carry_out(plan: JobPlan, open_storage: Callable[[str], Any], work: Work, attempt: int) -> Done:
    if work.late:
        return _Split(plan, open_storage, attempt).run(work.merges)
    (merge,) = work.merges
    return _copied(plan, open_storage, merge, attempt)


# ---------------------------------------------------------------- the generation in force


def _copied(plan: JobPlan, open_storage: Callable[[str], Any], merge: Merge, attempt: int) -> Done:
    files, rows = [], list[BatchRows]()
    for one in _by_columns(merge, open_storage):
        made = merge_files(plan, open_storage, one, attempt, lambda table: rows.extend(_batch_rows(table)))
        due = sum_of(one.sources, made.path, made.bytes)
        if (made.rows, made.checksum, made.partitions) != (due.rows, due.checksum, due.partitions):
            raise refuse(
                f"{one.sources[0].uris[0]}: {made.rows} rows read, and their checksum or coordinates are not the "
                f"manifest's ({due.rows} rows)",
                advice=_REPLAY,
            )
        files.append(due)
    return Done(tuple(files), counted(rows), late=False)


def _by_columns(merge: Merge, open_storage: Callable[[str], Any]) -> list[Merge]:
    """Only files of the same columns are merged with each other."""
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


# ---------------------------------------------------------------- late rows


class _Split:
    """Late rows on their way into files of data. `_texts`: partition values of the rows that wait."""

    def __init__(self, plan: JobPlan, open_storage: Callable[[str], Any], attempt: int) -> None:
        assert plan.window_ms is not None
        self._plan, self._open_storage, self._attempt, self._window = plan, open_storage, attempt, plan.window_ms
        self._pipeline = from_plain(Pipeline, plan.pipeline)
        self._names = self._pipeline.dynamic_partitions
        self._places = Places(self._pipeline, plan.known.by_window())
        self._files: list[tuple[pa.Schema, Files]] = []
        self._waiting: list[pa.Table] = []
        self._rows: list[BatchRows] = []
        self._events: tuple[int, int] | None = None

    def run(self, groups: Sequence[Merge]) -> Done:
        self._events = _events(s.entry for group in groups for s in group.sources)
        try:
            for group in groups:
                for source in group.sources:
                    self._read(source, group)
                self._flush()
            entries = [entry for _, files in self._files for entry in files.close()]
        except BaseException:
            for _, files in self._files:
                files.abandon()
            raise
        return Done(tuple(entries), counted(self._rows), late=True, overflow=self._places.told())

    def _read(self, source: Source, group: Merge) -> None:
        _, file = opened(source, group.columns, self._open_storage)
        rows = found = 0
        for batch in file.batches(_BATCH_ROWS):
            table = pa.Table.from_batches([batch]).replace_schema_metadata(None)
            _refuse_without_coordinates(table, source)
            rows += len(table)
            found = (found + checksum(*without_values(table, self._names))) % CHECKSUM_MODULUS
            if self._waiting and self._waiting[0].schema != table.schema:
                self._flush()
            self._waiting.append(table)
            if sum(map(len, self._waiting)) >= GROUP_ROWS or sum(t.nbytes for t in self._waiting) >= GROUP_BYTES:
                self._flush()
        if (rows, found) != (source.entry.rows, source.entry.checksum):
            raise refuse(
                f"{source.uris[0]}: {rows} rows read, and they or their checksum are not the manifest's "
                f"({source.entry.rows} rows)",
                advice="restore the file from a backup of the filesystem",
            )

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting = []
        count = len(table)
        window, late = pa.repeat(pa.scalar(self._window, pa.int64()), count), pa.repeat(pa.scalar(False), count)
        numbers = self._places.number(window, late, without_values(table, self._names)[1], None)
        targets = self._places.targets
        ranks = {place: i for i, place in enumerate(dict.fromkeys(targets))}
        rank = pa.array([ranks[place] for place in targets], pa.int32()).take(numbers)
        order = pc.sort_indices(rank)
        table, numbers, rank = table.take(order), numbers.take(order), rank.take(order)
        files = self._files_of(without_values(table.slice(0, 0), self._names)[0].schema)
        ends = pc.run_end_encode(rank).run_ends.to_pylist()
        for start, end in pairwise([0, *ends]):
            self._write(files, table.slice(start, end - start).combine_chunks(), numbers.slice(start, end - start))
        if self._places.many:
            self._places.forget()

    def _write(self, files: Files, rows: pa.Table, numbers: pa.Array) -> None:
        """Rows of one place."""
        place, (data, _) = self._places.targets[numbers[0].as_py()], without_values(rows, self._names)
        texts = {name: self._places.texts(name, numbers, beyond=place.overflow) for name in self._names}
        if place.overflow:
            kind = arrow_type(parse(OVERFLOW_COLUMN[1]))
            data = data.append_column(OVERFLOW_COLUMN[0], self._places.originals(numbers, kind))
            self._places.overflowed(self._window, numbers)
        counts = _batch_rows(data)
        runs = [Run(0, b.partition, b.rows, b.min_offset, b.max_offset) for b in counts]
        encoding = choose_encoding(data.slice(0, _SAMPLE_ROWS))
        files.append(place, data, encoding, checksum(data, texts), self._events, runs)
        self._rows += counts

    def _files_of(self, schema: pa.Schema) -> Files:
        """Rows of batches with other columns go to files of their own."""
        for known, files in self._files:
            if known.equals(schema):
                return files
        labels = {"tidegate.batch_id": "0", "tidegate.epoch": str(self._plan.epoch)}
        name = f"late{len(self._files)}-{self._attempt}"
        open_new = self._open_storage(self._plan.attempt_dir).open_new
        files = Files(self._pipeline, self._plan.attempt_dir, name, labels, open_new)
        self._files.append((schema, files))
        return files


def _events(entries: Iterable[FileEntry]) -> tuple[int, int] | None:
    """Late files do not say each row's event time: bounds of all of them are bounds of each."""
    known = [(e.min_event_ms, e.max_event_ms) for e in entries]
    lows = [low for low, _ in known if low is not None]
    highs = [high for _, high in known if high is not None]
    return (min(lows), max(highs)) if lows and highs else None


def _refuse_without_coordinates(table: pa.Table, source: Source) -> None:
    if _BATCH not in table.column_names:
        raise refuse(f"{source.uris[0]} has no Kafka columns: nobody could tell its rows from doubles")


def _batch_rows(table: pa.Table) -> list[BatchRows]:
    if _BATCH not in table.column_names:
        raise refuse("files of the generation in force have no Kafka columns: their rows cannot be proved")
    found = table.group_by([_BATCH, _PARTITION]).aggregate([(_OFFSET, "count"), (_OFFSET, "min"), (_OFFSET, "max")])
    names = (_BATCH, _PARTITION, f"{_OFFSET}_count", f"{_OFFSET}_min", f"{_OFFSET}_max")
    return [BatchRows(*one) for one in zip(*(found[n].to_pylist() for n in names), strict=True)]
