"""The files of a bucket in the snapshot that the plan has loaded, as rows, by field ids: others may write files too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.engine.mirror.hashing import buckets_of
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.rewrite.sources import spoilt
from spark_jobs.engine.sinks.stored import FIELD_ID
from tidegate.core.base.wording import many
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.mirror.jobs import BaseFile, Bucket

BACKUP = "restore the file from a backup of the filesystem"
_ADVICE = (
    "nothing was changed; look which other writer changes the table (its snapshots say so), take it away, and clear "
    "the task: the merge is made anew on what stands then"
)


def read_base(
    shape: Shape, ids: Mapping[str, int], open_storage: Callable[[str], Any], bucket: Bucket | None, buckets: int
) -> pa.Table:
    """Rows and tombstones of a bucket. Raises JobError for a file that does not hold what the plan says of it."""
    if bucket is None or not bucket.files:
        return shape.empty()
    rows = pa.concat_tables([_read(shape, ids, open_storage, file) for file in bucket.files])
    _check(shape, rows, bucket, buckets)
    return rows


def foreign(what: str) -> JobError:
    """The refusal of a table that does not hold what its merges have put there."""
    return refuse(what, advice=_ADVICE, kind=RefusalKind.MIRROR_FILES)


def _read(shape: Shape, ids: Mapping[str, int], open_storage: Callable[[str], Any], file: BaseFile) -> pa.Table:
    with open_storage(file.uri).open_existing(file.uri) as stream, spoilt(file.uri, BACKUP):
        parquet = pq.ParquetFile(stream)
        there = parquet.metadata.num_rows
        if there != file.rows:
            raise foreign(f"{file.uri}: {many(there, 'row')}, the table says {file.rows:,}")
        named = {
            int(f.metadata[FIELD_ID.encode()]): f.name
            for f in parquet.schema_arrow
            if f.metadata and FIELD_ID.encode() in f.metadata
        }
        names = {f.name: named.get(ids.get(f.name, -1)) for f in shape.rows}
        wanted = [name for name in names.values() if name is not None]
        found = parquet.read(columns=wanted, use_threads=False)
        columns = [
            pa.nulls(there, f.type) if names[f.name] is None else found[names[f.name]].cast(f.type) for f in shape.rows
        ]
    return pa.Table.from_arrays(columns, schema=shape.rows)


def _check(shape: Shape, rows: pa.Table, bucket: Bucket, buckets: int) -> None:
    for name in shape.never_null:
        if rows[name].null_count:
            raise foreign(f"bucket {bucket.number}: a row of the table has no {name}")
    if (buckets_of([rows[name] for name in shape.key], buckets) != bucket.number).any():
        raise foreign(f"bucket {bucket.number}: files of it hold keys of other buckets")
