"""Whom the independent checker asks where a table's files are. Imports nothing of Tidegate."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

Group = tuple[str, str, str]
"""date, hour, carrier"""


class Hive:
    """The catalogue through PyHive."""

    lane, listing = "_partition", "SHOW PARTITIONS"

    def __init__(self, address: str, copy: Path | None = None) -> None:
        self._copy, self._ask = copy, _pyhive(address)

    def partitions(self, table: str) -> dict[str, list[Path]]:
        database, _, name = table.partition(".")
        if name not in {row[1] for row in self._ask(f"SHOW TABLES IN {database} LIKE '{name}'")}:
            return {}
        return {row[0]: visible_files(self._location(table, row[0])) for row in self._ask(f"SHOW PARTITIONS {table}")}

    def counts(self, table: str) -> dict[str, dict[Group, int]]:
        asked = f"SELECT `date`, `hour`, `carrier`, count(*) FROM {table} GROUP BY `date`, `hour`, `carrier`"
        return {"SELECT count(*)": {(str(d), str(h), c): n for d, h, c, n in self._ask(asked)}}

    def _location(self, table: str, partition: str) -> Path:
        spec = ", ".join(
            f"`{name}`='{value}'" for name, _, value in (unquote(part).partition("=") for part in partition.split("/"))
        )
        for row in self._ask(f"DESCRIBE FORMATTED {table} PARTITION ({spec})"):
            if str(row[0]).strip().rstrip(":") == "Location":  # the partition's; the table's comes after it
                return local_path(row[1].strip(), self._copy)
        raise RuntimeError(f"the catalogue names no location for {table} {partition}")


class Iceberg:
    """The catalogue's tables in SQL, asked by psycopg2; the table's metadata through pyiceberg. Rows are counted by its
    own scan (PyArrow, columns by their ids), and by Spark, which finds the table and reads it in its own way."""

    lane, listing = "_kafka_partition", "partitions of the snapshot"

    def __init__(self, url: str, address: str, copy: Path | None = None) -> None:
        """`address`: of a Thrift server whose catalogue `iceberg` is the one at `url`."""
        self._url, self._copy, self._ask = url, copy, _pyhive(address)

    def partitions(self, table: str) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        if (opened := self._table(table)) is None:
            return found
        fields = [field.name for field in opened.spec().fields]
        for task in opened.scan().plan_files():
            if task.delete_files:
                raise RuntimeError(f"rows of {task.file.file_path} were deleted by position or value")
            values = dict(zip(fields, task.file.partition, strict=True))
            path = local_path(task.file.file_path, self._copy)
            if path.exists():  # else its rows will be missed
                found.setdefault(_name(values), []).append(path)
        return found

    def counts(self, table: str) -> dict[str, dict[Group, int]]:
        opened = self._table(table)
        if opened is None:
            return {}
        rows = opened.scan(selected_fields=("_window", "carrier")).to_arrow().to_pylist()
        counted = Counter((*_date_hour(row["_window"]), row["carrier"]) for row in rows)
        asked = f"""SELECT date_format(_window, 'yyyy-MM-dd'), date_format(_window, 'HH'), carrier, count(*)
            FROM iceberg.{table} GROUP BY 1, 2, 3"""
        by_spark = {(d, h, c): n for d, h, c, n in self._ask(asked)}
        return {"count by pyiceberg": dict(counted), "count by PyHive": by_spark}

    def _table(self, name: str) -> Any:
        return sql_table(self._url, name, self._copy)


def sql_table(url: str, name: str, copy: Path | None = None) -> Any:
    """A table of the catalogue in SQL at `url`, for reading by pyiceberg; from the copy, where it was copied. None if
    there is no such table."""
    import psycopg2
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.table import StaticTable

    namespace, _, table = name.rpartition(".")
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = %s AND table_name = %s",
            (namespace, table),
        )
        rows = cursor.fetchall()
    if len(rows) > 1:
        raise RuntimeError(f"{name} is {len(rows)} tables")
    return StaticTable("demo", *table_metadata(rows[0][0], copy), NoopCatalog("demo")) if rows else None


def table_metadata(location: str, copy: Path | None) -> tuple[Any, str, Any]:
    """A table's metadata, where it is, and what reads its files."""
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.serializers import FromInputFile

    io = PyArrowFileIO()
    if copy is not None:
        copied = SubTreeFileSystem(str(copy), LocalFileSystem())
        io.fs_by_scheme = lambda *_: copied
    return FromInputFile.table_metadata(io.new_input(location)), location, io


def _pyhive(address: str) -> Callable[[str], list[tuple]]:
    """Rows of each statement, by PyHive."""
    from pyhive import hive

    host, _, port = address.rpartition(":")
    cursor = hive.connect(host, port=int(port), username="checker", auth="NONE").cursor()

    def ask(statement: str) -> list[tuple]:
        cursor.execute(statement)
        return cursor.fetchall()

    return ask


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
    """Path at which the file or directory can be read: on this disk, or, for one on HDFS or in S3, in the copy."""
    if copy is not None and uri.startswith("s3://"):
        return copy / uri.removeprefix("s3://")  # nothing in it is an escape
    path = unquote(urlsplit(uri).path)
    return Path(path) if copy is None else copy / path.lstrip("/")


def copy_table(uri: str, into: Path) -> None:
    """Every file below `uri`, at its full path (in S3 with its bucket) below `into`, which is emptied first."""
    shutil.rmtree(into, ignore_errors=True)
    (_copy_from_s3 if uri.startswith("s3://") else _copy_from_hdfs)(uri, into)


def _copy_from_s3(uri: str, into: Path) -> None:
    """By PyArrow; who asks, and where, is in the environment."""
    from pyarrow import fs

    endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"])
    store = fs.S3FileSystem(endpoint_override=endpoint.netloc, scheme=endpoint.scheme, region="us-east-1")
    for found in store.get_file_info(fs.FileSelector(uri.removeprefix("s3://"), recursive=True)):
        if found.is_file:
            target = into / found.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with store.open_input_stream(found.path) as content:
                target.write_bytes(content.read())


def _copy_from_hdfs(uri: str, into: Path) -> None:
    from hdfs_native import Client

    parts = urlsplit(uri)
    client = Client(f"{parts.scheme}://{parts.netloc}")
    for found in client.list_status(parts.path, recursive=True):
        target = into / found.path.lstrip("/")
        (target if found.isdir else target.parent).mkdir(parents=True, exist_ok=True)
        if not found.isdir:
            target.write_bytes(client.read(found.path).read())
