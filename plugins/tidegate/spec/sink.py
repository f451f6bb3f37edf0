"""The section `sink`: the keys that every kind of table has. Each kind's folder adds its own, in a derived section."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from tidegate.core.spec.pipeline import HIVE
from tidegate.kinds import TARGETS
from tidegate.spec.by_kind import WORD, ByKind
from tidegate.spec.section import Section, key
from tidegate.spec.values import ConnectionId, Count, HdfsUser, Location, NotYet, OneOf, Size, Table

SINK = ByKind(TARGETS, HIVE)
FileFormat = Annotated[Literal["parquet", "orc", "text"], OneOf()]
Compression = Annotated[Literal["zstd", "snappy", "gzip", "none"], OneOf()]
Kind = Annotated[str, BeforeValidator(SINK.installed), WORD]


class SinkSection(Section):
    """The table and its files."""

    kind: Kind = key(
        "Kind of table. Packages can bring more by an entry point of the group `tidegate.targets`. It stays, as the "
        "table does.",
        HIVE,
    )
    conn_id: ConnectionId = key("Airflow connection that the table is reached by.")
    table: Table = key("The table; Tidegate creates it if it is missing.")
    location: Location = key(
        "Directory of the table, `file:///...`, `hdfs://...` or, for Iceberg tables, `s3://...`. No two pipelines may "
        "share one."
    )
    user: HdfsUser | None = key(
        "User that reads and writes files on HDFS, where permissions are by name; null: the user of Airflow's "
        "workers. The user of the table's catalogue and of the Spark job itself is that of their connections.",
        None,
    )
    format: FileFormat = key(
        "Format of the files. `text` (Hive's LazySimpleSerDe) has no nested columns; see [types](types.md#files).",
        "parquet",
    )
    compression: Compression | None = key(
        "Compression within the files; of text only `gzip` and `none` are read by all readers.",
        None,
        shown="`zstd`; `gzip` for `text`",
    )
    target_file_size: Size = key("A file is finished when it has about this size.", "256MB")
    max_partitions: Count = key(
        "Distinct dynamic values that a window may have; rows of others go to its overflow partition.",
        2000,
        unit="values",
    )
    permissions: NotYet = key("Mode, owner and group of files and directories.", None)
    workdir: Location | None = key(
        "Work directory, on the same filesystem as `location`. Below `location` its name begins with `_` or `.`, which "
        "hides it from Hive and Spark.",
        None,
        shown="`<location>/_tidegate`",
    )
