"""A purge: tombstones below a position go (M5). Which position that is, landed events say (M6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.mirror.base import BACKUP, read_columns, there
from spark_jobs.engine.mirror.merge import Merged, versions_of
from spark_jobs.engine.mirror.numbers import Numbers, mask_of, numbers
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.rewrite.sources import spoilt
from tidegate.core.base.wording import many
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.mirror.counts import Counts
from tidegate.core.mirror.jobs import Bucket, EventFile, Position
from tidegate.core.mirror.order import is_below
from tidegate.core.mirror.purge import marker


def limited(plan: ApplyPlan, open_storage: Callable[[str], Any]) -> ApplyPlan:
    """The plan of a purge, with the position below which it drops tombstones. Raises JobError."""
    if not plan.settled:
        return plan
    shape = Shape(plan)
    commits = [_greatest(shape.source[shape.commit], open_storage, file) for file in plan.settled if file.rows]
    below: Position = (max(commits, default=0), 0, 0)
    return replace(plan, purged_below=marker(plan.purged_below, below))


def purged(shape: Shape, rows: pa.Table, below: Position) -> Merged:
    """The bucket without its tombstones below the position."""
    tombstones = int(numbers(shape.deleted(rows)).sum())
    gone = going(shape, rows, below)
    count = int(gone.sum())
    if not count:
        return Merged(Counts(), None, tombstones, tombstones)
    return Merged(Counts(), rows.filter(mask_of(~gone)), tombstones - count, tombstones, purged=count)


def going(shape: Shape, rows: pa.Table, below: Position) -> Numbers:
    """Which rows a purge drops."""
    found = versions_of(shape, rows, np.zeros(len(rows), np.uint64))
    return found.deleted & is_below(found, below)


def has_any(
    shape: Shape, ids: Mapping[str, int], open_storage: Callable[[str], Any], bucket: Bucket, below: Position
) -> bool:
    """Whether the bucket has a tombstone below the position: four columns are read of it. A file that lacks a value
    there was not written by Tidegate: the merge, which reads all of it, refuses it."""
    wanted: Sequence[str] = (shape.op, shape.commit, shape.row, shape.n)
    found = (read_columns(shape, ids, open_storage, file, wanted) for file in bucket.files)
    return any(any(c.null_count for c in rows.columns) or going(shape, rows, below).any() for rows in found)


def _greatest(column: str, open_storage: Callable[[str], Any], file: EventFile) -> int:
    """Greatest commit of a landed file."""
    rows, found = 0, 0
    with there(open_storage(file.uri), file.uri, BACKUP) as stream, spoilt(file.uri, BACKUP):
        parquet = pq.ParquetFile(stream)
        for group in range(parquet.num_row_groups):
            commits = parquet.read_row_group(group, columns=[column], use_threads=False)[column]
            rows += len(commits)
            found = max(found, int(numbers(commits).max()) if len(commits) else 0)
    if rows != file.rows:
        what = f"{file.uri}: {many(rows, 'event')}, its batch's manifest has {file.rows:,}"
        raise refuse(what, kind=RefusalKind.MIRROR_FILES)
    return found
