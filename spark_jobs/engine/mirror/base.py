"""The files of a bucket in the snapshot that the plan has loaded, as rows: by field ids, where others may write files
too, else by the columns' names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.engine.failures import JobError, refuse
from spark_jobs.engine.mirror.hashing import buckets_of
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.rewrite.sources import spoilt
from spark_jobs.engine.sinks.stored import FIELD_ID
from tidegate.core.base.errors import PathMissing
from tidegate.core.base.wording import many
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.mirror.jobs import BaseFile, Bucket

BACKUP = "restore the file from a backup of the filesystem"
_BUILD_ANEW = "move the file away, if it is there, and clear the publish task of its day, which builds it anew"
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
    rows = pa.concat_tables([read_columns(shape, ids, open_storage, file) for file in bucket.files])
    _check(shape, rows, bucket, buckets)
    return rows


def foreign(what: str) -> JobError:
    """The refusal of a table that does not hold what its merges have put there."""
    return refuse(what, advice=_ADVICE, kind=RefusalKind.MIRROR_FILES)


def read_columns(
    shape: Shape,
    ids: Mapping[str, int],
    open_storage: Callable[[str], Any],
    file: BaseFile,
    only: Container[str] | None = None,
) -> pa.Table:
    """The file's rows in the table's columns; `only`: in these of them. Raises JobError."""
    rows = shape.rows if only is None else pa.schema([f for f in shape.rows if f.name in only])
    advice = _BUILD_ANEW if shape.by_days else BACKUP
    with there(open_storage(file.uri), file.uri, advice) as stream, spoilt(file.uri, advice):
        parquet = pq.ParquetFile(stream)
        count = parquet.metadata.num_rows
        if count != file.rows:
            raise foreign(f"{file.uri}: {many(count, 'row')}, the table says {file.rows:,}")
        names = _names(parquet.schema_arrow, rows, ids)
        wanted = [name for name in names.values() if name is not None]
        found = parquet.read(columns=wanted, use_threads=False)
        columns = [
            pa.nulls(count, f.type) if names[f.name] is None else found[names[f.name]].cast(f.type) for f in rows
        ]
    return pa.Table.from_arrays(columns, schema=rows)


@contextlib.contextmanager
def there(storage: Any, uri: str, advice: str) -> Iterator[BinaryIO]:
    """The file's bytes. Raises JobError where it is missing, which may be over by the next try."""
    try:
        stream = storage.open_existing(uri)
    except PathMissing:
        raise refuse(f"{uri} is not there", advice=advice, retry=True) from None
    with stream:
        yield stream


def _names(file: pa.Schema, rows: pa.Schema, ids: Mapping[str, int]) -> dict[str, str | None]:
    """What the file calls each column; None for one that it does not have. Without `ids` names are names."""
    if not ids:
        return {f.name: f.name if f.name in file.names else None for f in rows}
    named = {int(f.metadata[FIELD_ID.encode()]): f.name for f in file if f.metadata and FIELD_ID.encode() in f.metadata}
    return {f.name: named.get(ids.get(f.name, -1)) for f in rows}


def _check(shape: Shape, rows: pa.Table, bucket: Bucket, buckets: int) -> None:
    for name in shape.never_null:
        if rows[name].null_count:
            raise foreign(f"bucket {bucket.number}: a row of the table has no {name}")
    if (buckets_of([rows[name] for name in shape.key], buckets) != bucket.number).any():
        raise foreign(f"bucket {bucket.number}: files of it hold keys of other buckets")
