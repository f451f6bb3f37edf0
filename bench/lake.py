"""What the contenders of `bench.lakehouse` share: the pipeline, the others' table, and what stands in a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform
from pyiceberg.types import TimestamptzType

from bench.events import HOUR, START, pipeline
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import Column, Pipeline, Sink
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.definition import Definition
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

CATALOG, TABLE = "lake", "bench.events"
COORDINATES = {
    "_topic": "_kafka_topic", "_kafka_partition": "_kafka_partition", "_offset": "_kafka_offset",
    "_kafka_ts": "_kafka_timestamp",
}  # fmt: skip
"""Tidegate's columns by the names that the others' tables have for them."""
PROPERTIES = {
    "write.format.default": "parquet", "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1", "write.distribution-mode": "none",
}  # fmt: skip
_CHECK = """
    select count(*), sum(hash(id, app, user_id, session, country, city, os, version, price, quantity, paid, url,
        referrer, note, device.model, device.memory, tags, {at}, {topic}, {partition}, {offset},
        epoch_ms({kafka_ts}))::hugeint)::varchar
    from read_parquet({files}, hive_partitioning=false) where {at} < {end}"""


@dataclass(frozen=True)
class Standing:
    """Rows before the end of the last hour, their order-free checksum; files and commits of the whole table."""

    rows: int
    checksum: str
    files: int
    commits: int


def spec(topic: str, location: str) -> Pipeline:
    """The benchmarks' pipeline into an Iceberg table by hours, with the event time as a column too."""
    made = pipeline(topic, location)
    return replace(
        made,
        columns=(*made.columns, Column(name="at", type="bigint", path="$.at")),
        partition_by=("date", "hour"),
        sink=Sink(kind="iceberg", conn_id="lake", table=TABLE, location=location, workdir=f"{location}/_tidegate"),
    )


def catalogue(database: Path) -> SqlCatalogue:
    """The catalogue on SQLite that all share."""
    return SqlCatalogue(f"sqlite:///{database}", CATALOG, LocalStorage(), 60.0)


def create(database: Path, location: str) -> None:
    """Make the others' table: Tidegate's columns but for what it notes for itself, by hours of the event time."""
    schema = others_schema(location)
    at = PartitionField(schema.find_field("at").field_id, PARTITION_FIELD_ID_START, HourTransform(), "at_hour")
    catalogue(database).create(TABLE, schema, PartitionSpec(at), location, PROPERTIES)


def others_schema(location: str) -> Schema:
    """Columns of the others' table. All are optional: Spark knows no value that is never null."""
    fields = []
    for found in Definition(spec("", location), DATA).schema().fields:
        if found.name in ("_window", "_batch_id"):
            continue
        told = {"name": COORDINATES.get(found.name, found.name), "required": False}
        if found.name == "at":
            told["field_type"] = TimestamptzType()
        fields.append(found.model_copy(update=told))
    return Schema(*fields)


def standing(database: Path, hours: int, ours: bool) -> Standing:
    """What the table's current snapshot has. `ours`: by the names of Tidegate's table."""
    loaded = catalogue(database).load(TABLE)
    snapshot = loaded and loaded.metadata.current_snapshot()
    if loaded is None or snapshot is None:
        raise SystemExit(f"{TABLE} is empty")
    manifests = snapshot.manifests(loaded.io)
    if any(m.content != ManifestContent.DATA for m in manifests):
        raise SystemExit(f"{TABLE} has delete files")
    files = [e.data_file.file_path for m in manifests for e in m.fetch_manifest_entry(loaded.io, discard_deleted=True)]
    names = {told: told if ours else other for told, other in COORDINATES.items()}
    asked = _CHECK.format(
        files=[path.removeprefix("file:") for path in files], at='"at"' if ours else 'epoch_ms("at")',
        topic=names["_topic"], partition=names["_kafka_partition"], offset=names["_offset"],
        kafka_ts=names["_kafka_ts"], end=START + hours * HOUR,
    )  # fmt: skip
    with duckdb.connect() as db:
        db.execute("set TimeZone='UTC'")
        rows, checksum = db.execute(asked).fetchone() or (0, "")
    return Standing(rows, str(checksum), len(files), len(loaded.metadata.snapshots))
