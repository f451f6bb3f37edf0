"""What readers of the demo's table meet of an hour, and how somebody takes a part of it away from them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from dev.demo.remote_paths import HdfsPath, S3Path
from tidegate.core.base.instants import HOUR_MS
from tidegate.core.base.partition_values import parse_partition_path, partition_path
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.cut import time_values
from tidegate.core.window.states import WindowKey
from tidegate.storage import for_uri
from tidegate.targets.hive.catalogue import PyHiveCatalogue

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

    from tidegate.targets.iceberg.catalogue import Loaded
    from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

Place = Path | HdfsPath | S3Path
_ANSWERS_S = 60.0


class Tables(Protocol):
    """The pipeline's table as its catalogue has it."""

    def partitions(self, hour: datetime) -> dict[str, list[Place]]:
        """Files of each of the hour's partitions, by the partition's name."""
        ...

    def drop(self, hour: datetime, name: str) -> str:
        """Take a partition away behind Tidegate's back; the statement that does it."""
        ...


class HiveTables:
    """By HiveQL."""

    def __init__(self, pipeline: Pipeline, host: str, port: int) -> None:
        self._pipeline, self._catalogue = pipeline, PyHiveCatalogue(host, port)

    def partitions(self, hour: datetime) -> dict[str, list[Place]]:
        prefix = time_values(window_of(hour).start_ms, self._pipeline.time_partitions, self._pipeline.windows.timezone)
        found = self._catalogue.partitions(self._pipeline.sink.table, prefix)
        return {partition_path(values): _visible_files(place(uri)) for values, uri in found.items()}

    def drop(self, hour: datetime, name: str) -> str:
        table = self._pipeline.sink.table
        self._catalogue.drop_partitions(table, [parse_partition_path(name)])
        return f"ALTER TABLE {table} DROP PARTITION ({name.replace('/', ', ')})"


class IcebergTables:
    """By pyiceberg, whose own catalogue in SQL needs a newer SQLAlchemy than Airflow has: by Tidegate's."""

    def __init__(self, pipeline: Pipeline, url: str) -> None:
        from tidegate.targets.iceberg.opening import CATALOG
        from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

        self._name = pipeline.sink.table
        self.catalogue = SqlCatalogue(url, CATALOG, for_uri(pipeline.sink.location), _ANSWERS_S)

    def partitions(self, hour: datetime) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for name, task in self._files(self.opened(self._name), hour):
            if (file := place(task.file.file_path)).exists():
                found.setdefault(name, []).append(file)
        return {name: sorted(files) for name, files in found.items()}

    def drop(self, hour: datetime, name: str) -> str:
        table = self.opened(self._name)
        gone = [task.file for found, task in self._files(table, hour) if found == name]
        with table.transaction() as changed, changed.update_snapshot().overwrite() as snapshot:
            for file in gone:
                snapshot.delete_data_file(file)
        return f"DELETE FROM {self._name} WHERE {name.replace('/', ' AND ')}"

    def _files(self, table: Table, hour: datetime) -> list[tuple[str, FileScanTask]]:
        from pyiceberg.expressions import EqualTo

        tasks = table.scan(EqualTo("_window", hour.isoformat())).plan_files()
        return [(f"_window={hour:%Y-%m-%dT%H:%M}/carrier={task.file.partition[1]}", task) for task in tasks]

    def opened(self, name: str) -> Table:
        """A table of the catalogue; commits of it go through Tidegate's catalogue. Raises LookupError."""
        from pyiceberg.table import Table

        loaded = self.catalogue.load(name)
        if loaded is None:
            raise LookupError(f"{name} does not exist")
        committing: Any = _Committing(self.catalogue, loaded)
        return Table(tuple(name.split(".")), loaded.metadata, loaded.metadata_location, loaded.io, committing)


class _Committing:
    """As much of pyiceberg's catalogue as a scan and a commit need."""

    def __init__(self, catalogue: SqlCatalogue, loaded: Loaded) -> None:
        self._catalogue, self._loaded = catalogue, loaded

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> Loaded:
        return self._catalogue.commit(self._loaded, requirements, updates)

    def supports_server_side_planning(self) -> bool:
        return False

    def _delete_old_metadata(self, *_given: Any) -> None:
        """The catalogue keeps the files."""


def _visible_files(folder: Place) -> list[Place]:
    """Files that a reader of the table sees in a partition's directory."""
    return sorted(f for f in folder.iterdir() if not f.name.startswith((".", "_"))) if folder.is_dir() else []


def window_of(hour: datetime) -> WindowKey:
    start = int(hour.timestamp()) * 1000
    return WindowKey(start, start + HOUR_MS)


def place(uri: str) -> Place:
    """What a `file:`, `hdfs:` or `s3:` URI names."""
    if uri.startswith("s3:"):
        return S3Path.of(uri)
    return HdfsPath.of(uri) if uri.startswith("hdfs:") else Path(unquote(urlsplit(uri).path))
