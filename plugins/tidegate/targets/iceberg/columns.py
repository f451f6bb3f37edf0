"""What Iceberg's files hold, and of which types: names that Iceberg keeps for itself, types that it lacks, and the
columns by which the tables are partitioned (C7). Without any library: executors ask for it."""

from __future__ import annotations

from tidegate.core.base.hivetypes import Array, HiveType, Map, Primitive, Struct, parse
from tidegate.core.files.receipt import DATA, DIRTY, LATE
from tidegate.core.spec.pipeline import KAFKA_COLUMNS, Pipeline
from tidegate.core.target.port import BATCH
from tidegate.core.target.stored import Origin, StoredColumn, StoredForm

WINDOW = "_window"
"""Name of the column with the start of the window that a file's rows belong to."""
RESERVED = ("_partition", "_file", "_pos", "_deleted", "_spec_id", "_row_id", "_last_updated_sequence_number")
"""Readers take a column by such a name for one of Iceberg's own, and fail."""
_RENAMED = {KAFKA_COLUMNS[1][0]: "_kafka_partition"}
_NARROW = ("tinyint", "smallint")
"""Iceberg's smallest integer has 32 bits."""


def problems(pipeline: Pipeline) -> list[tuple[tuple[str | int, ...], str]]:
    """(path in the YAML, what is wrong): names that are taken, and keys that mean nothing here."""
    taken = {**dict.fromkeys(RESERVED, "Iceberg"), **dict.fromkeys((WINDOW, BATCH, *_RENAMED.values()), "Tidegate")}
    found: list[tuple[tuple[str | int, ...], str]] = [
        (
            ("columns", n, "name"),
            f"{c.name} is a name that {taken[c.name]} keeps for itself; give the column another one",
        )
        for n, c in enumerate(pipeline.columns)
        if c.name in taken and not c.hidden
    ]
    if pipeline.archive.on_publish:
        found.append((("archive", "on_publish"), "an Iceberg catalogue takes no statements; leave it out"))
    if pipeline.archive.swap == "directory":
        what = "files of an Iceberg table stay where they landed, and a window turns at once; leave it out"
        found.append((("archive", "swap"), what))
    if dict(pipeline.sink.options).get("object_store_conn_id") and not pipeline.sink.location.startswith("s3://"):
        found.append(
            (("sink", "object_store_conn_id"), "is for a location in an object store (s3://...); leave it out")
        )
    return found


def _constants(pipeline: Pipeline, kind: str) -> tuple[StoredColumn, ...]:
    window = StoredColumn(WINDOW, "timestamp", Origin.WINDOW)
    batch = StoredColumn(BATCH, "bigint", Origin.BATCH)
    if kind == DATA:
        return (window, *(_value(pipeline, name) for name in pipeline.dynamic_partitions))
    return {LATE: (batch, window), DIRTY: (batch,)}[kind]


def _value(pipeline: Pipeline, name: str) -> StoredColumn:
    """A partition column as late rows have it: what its directory's name would spell is exact for all its types."""
    stored = _logical(name, pipeline.column(name).type)
    return StoredColumn(stored.name, stored.type, Origin.VALUE, name)


def _logical(name: str, text: str) -> StoredColumn:
    return StoredColumn(_RENAMED.get(name, name), str(_stored(parse(text))), Origin.LOGICAL, name)


def _stored(kind: HiveType) -> HiveType:
    """The type table; what is not named here is stored as it is. Timestamps are instants in microseconds."""
    if isinstance(kind, Array):
        return Array(_stored(kind.element))
    if isinstance(kind, Map):
        return Map(_stored(kind.key), _stored(kind.value))
    if isinstance(kind, Struct):
        return Struct(tuple((name, _stored(field)) for name, field in kind.fields))
    return Primitive("int") if isinstance(kind, Primitive) and kind.name in _NARROW else kind


FORM = StoredForm(_constants, _logical)
