"""What goes without an event: tombstones below a position, by a purge (M5); landed events say which position that is
(M6). And all that is older than a reading of the whole source table, by the sweep that ends it (S5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
from tidegate.core.mirror.parts import KeyPart, holds
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
    return _without(shape, rows, going(shape, rows, below))


def swept(shape: Shape, rows: pa.Table, below: Position, part: KeyPart | None) -> Merged:
    """The bucket without anything below the position; of a part, without its keys below."""
    return _without(shape, rows, _older(shape, rows, below, part))


def without_older(shape: Shape, rows: pa.Table, plan: ApplyPlan) -> pa.Table:
    """The rows that a plan's sweep leaves."""
    left = swept(shape, rows, plan.swept_below, plan.part).rows
    return rows if left is None else left


def _without(shape: Shape, rows: pa.Table, gone: Numbers) -> Merged:
    deleted = numbers(shape.deleted(rows))
    tombstones, count, of_them = int(deleted.sum()), int(gone.sum()), int((gone & deleted).sum())
    if not count:
        return Merged(Counts(), None, tombstones, tombstones)
    left = rows.filter(mask_of(~gone))
    return Merged(Counts(), left, tombstones - of_them, tombstones, purged=of_them, swept=count - of_them)


def going(shape: Shape, rows: pa.Table, below: Position) -> Numbers:
    """Which rows a purge drops."""
    found = versions_of(shape, rows)
    return found.deleted & is_below(found, below)


def _older(shape: Shape, rows: pa.Table, below: Position, part: KeyPart | None) -> Numbers:
    """Which rows a sweep drops."""
    older = is_below(versions_of(shape, rows), below)
    return older if part is None else older & holds(part, shape.key_values(rows, part))


def has_any(
    shape: Shape, ids: Mapping[str, int], open_storage: Callable[[str], Any], bucket: Bucket, plan: ApplyPlan
) -> bool:
    """Whether the bucket has anything that goes: four columns are read of it, and those of the key where a part goes. A
    file that lacks a value there was not written by Tidegate: the merge, which reads all of it, refuses it."""
    wanted: Sequence[str] = (shape.op, shape.commit, shape.row, shape.n)
    if plan.part is not None:
        wanted = (*wanted, *shape.key)

    def drops(rows: pa.Table) -> Numbers:
        if plan.sweep:
            return _older(shape, rows, plan.swept_below, plan.part)
        return going(shape, rows, plan.purged_below)

    found = (read_columns(shape, ids, open_storage, file, wanted) for file in bucket.files)
    return any(any(c.null_count for c in rows.columns) or drops(rows).any() for rows in found)


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
