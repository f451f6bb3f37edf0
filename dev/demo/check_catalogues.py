"""Whom the independent checker asks where a table's files are. Imports nothing of Tidegate."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

Group = tuple[str, str, str]
"""date, hour, carrier"""


class Hive:
    """The catalogue through PyHive."""

    lane, words = "_partition", ("SHOW PARTITIONS", "SELECT count(*)")

    def __init__(self, address: str, copy: Path | None = None) -> None:
        from pyhive import hive

        host, _, port = address.rpartition(":")
        self._copy = copy
        self._cursor = hive.connect(host, port=int(port), username="checker", auth="NONE").cursor()

    def partitions(self, table: str) -> dict[str, list[Path]]:
        database, _, name = table.partition(".")
        if name not in {row[1] for row in self._ask(f"SHOW TABLES IN {database} LIKE '{name}'")}:
            return {}
        return {row[0]: visible_files(self._location(table, row[0])) for row in self._ask(f"SHOW PARTITIONS {table}")}

    def counts(self, table: str) -> dict[Group, int]:
        asked = f"SELECT `date`, `hour`, `carrier`, count(*) FROM {table} GROUP BY `date`, `hour`, `carrier`"
        return {(str(d), str(h), c): n for d, h, c, n in self._ask(asked)}

    def _location(self, table: str, partition: str) -> Path:
        spec = ", ".join(
            f"`{name}`='{value}'" for name, _, value in (unquote(part).partition("=") for part in partition.split("/"))
        )
        for row in self._ask(f"DESCRIBE FORMATTED {table} PARTITION ({spec})"):
            if str(row[0]).strip().rstrip(":") == "Location":  # the partition's; the table's comes after it
                return local_path(row[1].strip(), self._copy)
        raise RuntimeError(f"the catalogue names no location for {table} {partition}")

    def _ask(self, statement: str) -> list[tuple]:
        self._cursor.execute(statement)
        return self._cursor.fetchall()


class Iceberg:
    """The catalogue's tables in SQL, asked by psycopg2; the table's metadata through pyiceberg, rows counted by its
    own scan: PyArrow, columns by their ids."""

    lane, words = "_kafka_partition", ("partitions of the snapshot", "count by pyiceberg")

    def __init__(self, url: str) -> None:
        self._url = url

    def partitions(self, table: str) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        if (opened := self._table(table)) is None:
            return found
        fields = [field.name for field in opened.spec().fields]
        for task in opened.scan().plan_files():
            if task.delete_files:
                raise RuntimeError(f"rows of {task.file.file_path} were deleted by position or value")
            values = dict(zip(fields, task.file.partition, strict=True))
            path = local_path(task.file.file_path)
            if path.exists():  # else its rows will be missed
                found.setdefault(_name(values), []).append(path)
        return found

    def counts(self, table: str) -> dict[Group, int]:
        opened = self._table(table)
        if opened is None:
            return {}
        rows = opened.scan(selected_fields=("_window", "carrier")).to_arrow().to_pylist()
        return dict(Counter((*_date_hour(row["_window"]), row["carrier"]) for row in rows))

    def _table(self, name: str) -> Any:
        import psycopg2
        from pyiceberg.table import StaticTable

        namespace, _, table = name.rpartition(".")
        with psycopg2.connect(self._url) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = %s AND table_name = %s",
                (namespace, table),
            )
            rows = cursor.fetchall()
        if len(rows) > 1:
            raise RuntimeError(f"{name} is {len(rows)} tables")
        return StaticTable.from_metadata(rows[0][0]) if rows else None


def _name(values: dict[str, Any]) -> str:
    """As directories would be called: `date=2013-01-26/hour=16/carrier=UA`."""
    parts = {name: str(value) for name, value in values.items() if name != "_window"}
    if "_window" in values:
        date, hour = _date_hour(values["_window"])
        parts |= {"date": date, "hour": hour}
    return "/".join(f"{name}={value}" for name, value in parts.items())


def _date_hour(start: datetime | int) -> tuple[str, str]:
    """`start`: a manifest has it in us since 1970."""
    moment = start if isinstance(start, datetime) else datetime.fromtimestamp(start / 1_000_000, UTC)
    return moment.strftime("%Y-%m-%d"), moment.strftime("%H")


def visible_files(folder: Path) -> list[Path]:
    """What readers see in it. Nothing there: its rows will be missed."""
    return [f for f in folder.iterdir() if not f.name.startswith((".", "_"))] if folder.is_dir() else []


def local_path(uri: str, copy: Path | None = None) -> Path:
    """Path at which the file or directory can be read: on this disk, or, for one on HDFS, in the copy."""
    path = unquote(urlsplit(uri).path)
    return Path(path) if copy is None else copy / path.lstrip("/")


def copy_from_hdfs(uri: str, into: Path) -> None:
    """Every file below `uri`, at its full path below `into`, which is emptied first."""
    from hdfs_native import Client

    shutil.rmtree(into, ignore_errors=True)
    parts = urlsplit(uri)
    client = Client(f"{parts.scheme}://{parts.netloc}")
    for found in client.list_status(parts.path, recursive=True):
        target = into / found.path.lstrip("/")
        (target if found.isdir else target.parent).mkdir(parents=True, exist_ok=True)
        if not found.isdir:
            target.write_bytes(client.read(found.path).read())
