"""Chunks of a source table become files of rows, on Spark: each chunk is read in one transaction of its database (S2).

A chunk's `_receipt.json` is written last, and never replaced: of two tries of a task, the first one that has it counts,
with the files that it names. A failure ends the job, and `failure.json` says why; chunks that were read stay read.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.engine import secrets
from spark_jobs.engine.encodings import choose_encoding, sample_of
from spark_jobs.engine.failures import refuse, reported
from spark_jobs.engine.rewrite.sources import GROUP_BYTES, GROUP_ROWS
from spark_jobs.engine.sinks import format_of
from spark_jobs.engine.types import filled, schema_of
from tidegate.core.base.errors import PathExists
from tidegate.core.base.plain import dumps, from_plain
from tidegate.core.base.storage import Storage
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import CopyPlan
from tidegate.core.copy.jobs import ChunkPlan, ChunkReceipt
from tidegate.core.copy.port import ChunkReader, KeyRange, LogPosition
from tidegate.core.copy.rounds import ChunkFile
from tidegate.core.spec.change_events import EVENT_COLUMNS
from tidegate.core.spec.pipeline import KAFKA_COLUMNS, Pipeline, table_columns
from tidegate.core.target.paths import RECEIPT, join
from tidegate.databases.pace import paced

FORMAT = "parquet"
READ = "r"
"""Operation of a row that was read: as a snapshot's."""
NO_PARTITION = -1
"""What such a row has for a Kafka partition; its offset is its place in the chunk."""
_OP, _COMMIT, _ROW, _ = (name for name, *_ in EVENT_COLUMNS)
_TOPIC, _PARTITION, _OFFSET, _, _BATCH = (name for name, _ in KAFKA_COLUMNS)
RunTasks = Callable[..., Any]


def carry_out(
    plan: CopyPlan,
    storage: Storage,
    run_tasks: RunTasks,
    open_storage: Callable[[str], Any],
    open_reader: Callable[[], ChunkReader] | None = None,
) -> str:
    """Read the chunks of a plan; what to say of it. On any failure write `failure.json`, raise JobError.

    `open_reader`: of the source's database; None: the one that the job's secrets tell of."""
    started = time.monotonic()
    lanes = [plan.chunks[i :: plan.tasks] for i in range(min(plan.tasks, len(plan.chunks)))]
    try:
        opened = open_reader or functools.partial(_reader, plan)
        done = run_tasks(functools.partial(read_chunks, plan, open_storage, opened), lanes)
    except Exception as e:
        raise reported(storage, plan.attempt_dir, e) from e
    rows, seconds = sum(done), time.monotonic() - started
    return f"tidegate: {plan.attempt}: read {many(rows, 'row')} of {many(len(plan.chunks), 'chunk')} in {seconds:.1f} s"


def read_chunks(
    plan: CopyPlan,
    open_storage: Callable[[str], Any],
    open_reader: Callable[[], ChunkReader],
    chunks: Sequence[ChunkPlan],
    attempt: int,
) -> int:
    """Rows of the chunks of a task, which are read one after the other. Raises JobError."""
    reader, rows = open_reader(), 0
    for chunk in chunks:
        rows += read_chunk(plan, reader, open_storage, chunk, attempt).rows
    return rows


def _reader(plan: CopyPlan) -> ChunkReader:
    """Bytes become what events have of them: in JSON the text of their Base64."""
    from tidegate.databases.kinds import reader

    encoding = (plan.pipeline["format"].get("debezium") or {}).get("encoding", "json")
    return reader(secrets.copy_settings(plan.server), "bytes" if encoding == "avro" else "base64")


def read_chunk(
    plan: CopyPlan, reader: ChunkReader, open_storage: Callable[[str], Any], chunk: ChunkPlan, attempt: int
) -> ChunkReceipt:
    """Its rows as files, and their receipt. Raises JobError."""
    started = time.monotonic()
    pipeline = from_plain(Pipeline, plan.pipeline)
    source = plan.tables[chunk.table]
    wanted = [(column.of, column.type) for column in source.columns]
    with reader.read(source.table, wanted, chunk.keys, plan.after) as rows:
        batches = paced(rows.batches(), _rate(plan, chunk.keys))
        made = _as_events(plan, pipeline, chunk, rows.low, batches)
        files = tuple(_written(plan, pipeline, open_storage, chunk, made, attempt))
        receipt = ChunkReceipt(chunk.attempt, rows.low, rows.high, files, round(time.monotonic() - started, 3))
    try:
        open_storage(chunk.attempt_dir).write_new(join(chunk.attempt_dir, RECEIPT), dumps(receipt).encode())
    except PathExists:
        pass  # another try of this task was first: its files count
    return receipt


def _rate(plan: CopyPlan, keys: KeyRange) -> float | None:
    """Rows a second that a task may have. For each one of some groups the database looks at many more."""
    share = 1.0 if keys.groups is None else keys.groups.share
    return None if plan.rate is None else plan.rate / plan.tasks * share


def _as_events(
    plan: CopyPlan, pipeline: Pipeline, chunk: ChunkPlan, low: LogPosition, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Rows as landed events have them (S1): at LOW, by no message of the topic. What the source lacks is null."""
    whole = schema_of(table_columns(pipeline))
    decoded = schema_of(tuple((c.name, c.type) for c in pipeline.decoded_columns))
    said = {_OP: READ, _COMMIT: low[0], _ROW: low[1], _TOPIC: plan.topic, _PARTITION: NO_PARTITION}
    said[_BATCH] = chunk.batch_id
    source = plan.tables[chunk.table]
    said |= dict(source.said)
    compute, count = _computing(pipeline), 0
    for batch in batches:
        read = {column.name: batch.column(i) for i, column in enumerate(source.columns)}
        rows = compute(filled(decoded, read, len(batch), said))
        mine = {name: rows[name] for name in rows.column_names}
        mine[_OFFSET] = pa.array(range(count, count + len(batch)), pa.int64())
        count += len(batch)
        yield filled(whole, mine, len(batch), said)


def _computing(pipeline: Pipeline) -> Callable[[pa.Table], pa.Table]:
    """What computes the columns that have an `expr`, as a decoder does it for messages."""
    if not pipeline.has_expressions and not any(c.hidden for c in pipeline.columns):
        return lambda rows: rows
    from spark_jobs.engine.expressions import Expressions  # it imports DuckDB, which most pipelines do without

    expressions = Expressions(pipeline)

    def compute(rows: pa.Table) -> pa.Table:
        found = expressions.compute(rows)
        for row, (column, reason) in sorted(found.failed.items())[:1]:
            key = ", ".join(f"{n}={rows[n][row]}" for n in rows.column_names[:3])
            raise refuse(f"column {column} of a row cannot be computed: {reason} ({key}, ...)", field=column)
        return found.table

    return compute


def _written(
    plan: CopyPlan,
    pipeline: Pipeline,
    open_storage: Callable[[str], Any],
    chunk: ChunkPlan,
    rows: Iterator[pa.Table],
    attempt: int,
) -> Iterator[ChunkFile]:
    """The chunk's files: a further one once one has reached the spec's size; none of an empty chunk."""
    storage, groups = open_storage(chunk.attempt_dir), _row_groups(rows)
    number, first = 0, next(groups, None)
    while first is not None:
        path = f"rows-{attempt}-{number:04d}{format_of(FORMAT).extension(pipeline.sink.compression)}"
        with storage.open_new(join(chunk.attempt_dir, path)) as sink:
            count, first = _file(plan, pipeline, chunk, path, sink, first, groups)
            size = sink.tell()
        yield ChunkFile(path, count, size)
        number += 1


def _file(
    plan: CopyPlan,
    pipeline: Pipeline,
    chunk: ChunkPlan,
    path: str,
    sink: Any,
    first: pa.Table,
    groups: Iterator[pa.Table],
) -> tuple[int, pa.Table | None]:
    """Rows of the file, and the first group that is left; None: none is."""
    writer = format_of(FORMAT).open(sink, first.schema, choose_encoding(sample_of(first)), pipeline.sink.compression)
    count, following = 0, first
    while following is not None and (not count or writer.size() < pipeline.sink.target_file_size):
        writer.write(following)
        count += len(following)
        following = next(groups, None)
    told = writer.close({"tidegate.kind": "copy", "tidegate.attempt": chunk.attempt})
    if told != count:
        raise refuse(f"{path}: {told} rows in the file, {count} written", retry=True)
    return count, following


def _row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Tables joined until they are worth a row group; none without rows."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        if not len(table):
            continue
        waiting.append(table)
        rows, size = rows + len(table), size + table.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()
