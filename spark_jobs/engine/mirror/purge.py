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
from tidegate.core.mirror.jobs import Bucket, EventFile, Position, ServerLog
from tidegate.core.mirror.order import is_below
from tidegate.core.mirror.parts import KeyPart, holds
from tidegate.core.mirror.purge import marker

_NAMES = ["commit", "server"]


def limited(plan: ApplyPlan, open_storage: Callable[[str], Any]) -> ApplyPlan:
    """The plan of a purge, with the position below which it drops tombstones, of each server where there are several.
    Raises JobError."""
    if not plan.settled:
        return plan
    shape, of, found = Shape(plan), plan.servers, dict[str, int]()
    names = [shape.source[shape.commit], *([] if of is None else [of.column])]
    for one in (_greatest(names, open_storage, file) for file in plan.settled if file.rows):
        found = {name: max(one.get(name, 0), found.get(name, 0)) for name in {*one, *found}}
    for name in plan.held:
        found.pop(name, None)
    if of is None:
        return replace(plan, purged_below=marker(plan.purged_below, (found.get("", 0), 0, 0)))
    logs = (replace(log, purged_below=marker(log.purged_below, (found.get(log.name, 0), 0, 0))) for log in of.logs)
    return replace(plan, servers=replace(of, logs=tuple(logs)))


def markers(plan: ApplyPlan) -> tuple[ServerLog, ...]:
    """Where a purge's tombstones end, of each server."""
    logs = plan.servers.logs if plan.settled and plan.servers is not None else ()
    return tuple(ServerLog(log.name, purged_below=log.purged_below) for log in logs)


def purged(shape: Shape, rows: pa.Table, below: tuple[Any, Any, Any]) -> Merged:
    """The bucket without its tombstones below the position, one of all or that of each row."""
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


def going(shape: Shape, rows: pa.Table, below: tuple[Any, Any, Any]) -> Numbers:
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
    """Whether the bucket has anything that goes: four columns are read of it, and those of the key where a part goes,
    or what goes is another of each server. A file that lacks a value there was not written by Tidegate: the merge,
    which reads all of it, refuses it."""
    wanted: Sequence[str] = (shape.op, shape.commit, shape.row, shape.n)
    if plan.part is not None or plan.servers is not None:
        wanted = (*wanted, *shape.key)

    def drops(rows: pa.Table) -> Numbers:
        if plan.sweep:
            return _older(shape, rows, plan.swept_below, plan.part)
        return going(shape, rows, shape.purged_below(rows))

    found = (read_columns(shape, ids, open_storage, file, wanted) for file in bucket.files)
    return any(any(c.null_count for c in rows.columns) or drops(rows).any() for rows in found)


def _greatest(columns: list[str], open_storage: Callable[[str], Any], file: EventFile) -> dict[str, int]:
    """Greatest commit of a landed file, by the server; of the only one, empty. `columns`: of the commit, and of the
    server where there are several."""
    rows, found = 0, dict[str, int]()
    with there(open_storage(file.uri), file.uri, BACKUP) as stream, spoilt(file.uri, BACKUP):
        parquet = pq.ParquetFile(stream)
        for group in range(parquet.num_row_groups):
            some = parquet.read_row_group(group, columns=columns, use_threads=False)
            some = some.rename_columns(_NAMES[: len(columns)])
            rows += len(some)
            by_server = some.group_by(some.column_names[1:], use_threads=False).aggregate([("commit", "max")])
            for one in by_server.to_pylist():
                name = one.get("server", "")
                found[name] = max(found.get(name, 0), one["commit_max"])
    if rows != file.rows:
        what = f"{file.uri}: {many(rows, 'event')}, its batch's manifest has {file.rows:,}"
        raise refuse(what, kind=RefusalKind.MIRROR_FILES)
    return found
