"""What the workflow needs from the outside. Adapters implement these; `tests/contract` holds every adapter to them.

Each changing call ends in one of three ways: it returns (done), raises a definite error (refused, nothing changed), or
raises `OutcomeUnknown` / `CatalogueUnsure` / `LedgerError` (unknown: the caller looks before it does anything else).
The ledger's port is in `core.ledger`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tidegate.core.layout import PartitionValues


class Clock(Protocol):
    def now_ms(self) -> int:
        """UTC ms."""
        ...


# ---------------------------------------------------------------- Kafka


@dataclass(frozen=True)
class PartitionOffsets:
    """Offsets exclusive: the next record's. The last stable offset is what a read_committed reader can reach.

    `leader_epoch`: of the leader that told the ends; every record below them is of it or an earlier one."""

    log_start: int
    last_stable_offset: int
    high_watermark: int
    leader_epoch: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TopicState:
    """`retention_ms` and `retention_bytes` (of one partition) are None where nothing is deleted for that reason.

    `deletes`: whether retention deletes at all (a topic may only be compacted); None: we may not read the topic's
    settings, and the other fields say nothing. `segment_bytes`: Kafka deletes whole segments."""

    topic: str
    topic_id: str
    partitions: dict[int, PartitionOffsets]
    retention_ms: int | None = None
    retention_bytes: int | None = None
    deletes: bool | None = True
    segment_bytes: int | None = None


class Source(Protocol):
    def describe(self, topic: str) -> TopicState:
        """Raises SourceUnavailable (retry), SourceError if the topic does not exist."""
        ...

    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """First offset at or after the Kafka timestamp, for each partition; the high watermark where there is none."""
        ...

    def cuts(self, topic: str, ends: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Of partitions with (end, leader epoch): where the records of later leaders begin, if that is below the end.

        Partitions whose log was not cut there, or of which the broker cannot tell, are left out."""
        ...

    def commit_group(self, group: str, topic: str, offsets: dict[int, int], mark: str = "") -> None:
        """Tell Kafka's own tools how far we are. Informational: the ledger alone decides. `mark` says whose it is."""
        ...

    def committed_group(self, group: str, topic: str, mark: str = "") -> dict[int, int]:
        """Offsets (exclusive) that were last committed with this `mark`, by partition; others are left out."""
        ...

    def client_settings(self) -> dict[str, str]:
        """librdkafka settings for workers, without secrets."""
        ...


# ---------------------------------------------------------------- storage


@dataclass(frozen=True, order=True)
class FileStat:
    """`path` is relative to the listed directory; `modified_ms` is informational."""

    path: str
    bytes: int
    modified_ms: int = 0


@runtime_checkable
class Storage(Protocol):
    """Paths are URIs (`file:///...`, `hdfs://...`)."""

    def list_files(self, directory: str) -> list[FileStat] | None:
        """Every file below, sorted by path; None if the directory is absent, [] if it holds no file."""
        ...

    def list_names(self, directory: str) -> list[str] | None:
        """Names of the direct children, sorted; None if the directory is absent."""
        ...

    def exists(self, path: str) -> bool: ...

    def make_dirs(self, directory: str) -> None:
        """With parents; done if it is there."""
        ...

    def rename_no_replace(self, source: str, destination: str) -> None:
        """Move a file or directory; never onto, into or over something. The destination's parent must be there.

        Raises PathMissing, PathExists (both definite), OutcomeUnknown."""
        ...

    def delete(self, path: str) -> None:
        """A file, or a directory with all below it; done if it is absent."""
        ...

    def read(self, path: str) -> bytes:
        """A small file whole. Raises PathMissing."""
        ...

    def write_new(self, path: str, content: bytes) -> None:
        """A small file that appears whole or not at all, with parents. Raises PathExists."""
        ...


# ---------------------------------------------------------------- Hive


@dataclass(frozen=True)
class TableDef:
    """An external table. Columns are (name, Hive type) in order; partition columns likewise."""

    name: str  # database.table
    columns: tuple[tuple[str, str], ...]
    partitions: tuple[tuple[str, str], ...]
    location: str
    format: str = "parquet"
    comment: str = ""
    properties: tuple[tuple[str, str], ...] = ()


class Catalogue(Protocol):
    """Raises CatalogueError (definite) or CatalogueUnsure (may still be executed)."""

    def keeping_sessions(self) -> AbstractContextManager[None]:
        """Inside, a call may use the connection of the one before; each means what it means outside."""
        ...

    def ensure_table(self, table: TableDef) -> None:
        """Create database and table if absent. Raises CatalogueMismatch when the table is another one.

        Columns that are no longer asked for may be there."""
        ...

    def evolve_table(self, table: TableDef) -> list[str]:
        """Give the table that is there the columns of `table`, its partitions too; what was changed, in words.

        It looks first, so that it can be made again. Raises CatalogueMismatch, with nothing changed, when readers could
        not read the table's old files so (core.evolution), when it differs in more, or the endpoint cannot change it.
        """
        ...

    def partitions(self, table: str, prefix: PartitionValues = ()) -> dict[PartitionValues, str]:
        """Location (URI) of every partition whose first values are `prefix`."""
        ...

    def add_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        """ADD IF NOT EXISTS, several in one statement; one that exists keeps its location."""
        ...

    def set_location(self, table: str, values: PartitionValues, location: str) -> None: ...

    def drop_partitions(self, table: str, values: list[PartitionValues]) -> None:
        """Metadata only; done if absent."""
        ...

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """An operator's own statement (`archive.on_publish`)."""
        ...


class PartitionSwitch(Protocol):
    """A whole window at once; there if the spec names a connection to Hive's metastore."""

    def switch_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        """Point partitions at other locations, in one transaction: all of them, or none.

        Raises CatalogueError (refused, nothing changed; also when one of them is not there), CatalogueUnsure."""
        ...


# ---------------------------------------------------------------- Spark


class Launcher(Protocol):
    def run(self, plan_path: str) -> None:
        """Run `land.py` on a plan until it ends; whether it succeeded is in the attempt's directory, not here.

        Raises JobFailed (retry) when the job could not be started or ended with an error."""
        ...
