"""The demo with an Iceberg table: its checker finds damage there too, also what the demo itself does to an hour."""

from __future__ import annotations

import argparse
import json
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import StaticTable
from pyiceberg.typedef import Record

from dev.demo import check
from dev.demo.__main__ import _of_kind
from dev.demo.check_catalogues import Iceberg, table_metadata
from dev.demo.tables import IcebergTables
from tests.dev.test_demo_check import SPAN, right  # noqa: F401 - a fixture
from tidegate.spec.loader import load_file
from tidegate.targets.iceberg.definition import Definition

YAML = Path(__file__).parents[2] / "dags" / "pipelines" / "flights.yaml"
HOUR = datetime(2013, 1, 26, 17, tzinfo=UTC)


class Found(Iceberg):
    """Finds the metadata without PostgreSQL, counts without Spark."""

    def __init__(self, catalogue: Any, copy: Path | None) -> None:
        self._catalogue, self._copy = catalogue, copy
        self.miscounted = 0

    def _table(self, name: str) -> Any:
        loaded = self._catalogue.load(name)
        if loaded is None:
            return None
        return StaticTable((name,), *table_metadata(loaded.metadata_location, self._copy), NoopCatalog("tests"))

    def _ask(self, statement: str) -> list[tuple[Any, ...]]:
        assert "FROM iceberg.lake.flights GROUP BY" in statement
        rows = self._table("lake.flights").scan(selected_fields=("_window", "carrier")).to_arrow().to_pylist()
        counted = Counter((f"{r['_window']:%Y-%m-%d}", f"{r['_window']:%H}", r["carrier"]) for r in rows)
        return [(*group, n + self.miscounted) for group, n in counted.items()]


@dataclass
class Lake:
    root: Path
    tables: IcebergTables
    arguments: argparse.Namespace

    copy: Path | None = None
    miscounted: int = 0
    """By Spark, in each group."""

    def checks(self) -> list[check.Check]:
        found = Found(self.tables.catalogue, self.copy)
        found.miscounted = self.miscounted
        return check.run(self.arguments, found)[0]

    def failures(self) -> list[str]:
        return [c.name for c in self.checks() if not c.ok]


@pytest.fixture
def lake(right: Path, tmp_path: Path) -> Lake:  # noqa: F811
    """The right table of the checker's tests, as Iceberg has it."""
    root = tmp_path / "lake"
    shutil.copytree(right / "landed", root / "landed")
    (tmp_path / "flights.yaml").write_text(_of_kind("iceberg", "local", YAML.read_text()))
    pipeline = load_file(tmp_path / "flights.yaml", {"TIDEGATE_LAKE": str(root)})
    tables = IcebergTables(pipeline, f"sqlite:///{tmp_path}/catalogue.db")
    for kind, folder in (("data", "table"), ("late", "late")):
        definition = Definition(pipeline, kind)
        definition.bring_up(tables.catalogue, lambda line: None)
        table = tables.opened(definition.name)
        with table.transaction() as changed, changed.update_snapshot().fast_append() as snapshot:
            for file in sorted((right / folder).rglob("*.parquet")):
                snapshot.append_data_file(stored(table, file, root / folder / file.relative_to(right / folder)))
    for file in (root / "landed").rglob("*.parquet"):
        rows = pq.read_table(file, partitioning=None)
        pq.write_table(rows.rename_columns({"_partition": "_kafka_partition"}), file)
    arguments = argparse.Namespace(
        csv=right / "flights.csv.zip", table="lake.flights", landed=root / "landed", recorded=None,
        first=SPAN.first, last=SPAN.last,
        closed_at=SPAN.closed_at, end_offsets=json.loads((right / "ends.json").read_text()),
    )  # fmt: skip
    return Lake(root, tables, arguments)


def stored(table: Any, source: Path, file: Path) -> DataFile:
    """The file with the columns that an Iceberg table is partitioned by, and field ids."""
    names = check.partition_values("/".join(part for part in source.parts if "=" in part))
    start = datetime.fromisoformat(f"{names['date']}T{names['hour']}:00:00+00:00")
    constant = {"_window": start, "_batch": int(names.get("_batch", 1))} | {
        k: names[k] for k in ("carrier",) if k in names
    }
    rows = [constant | row for row in pq.read_table(source, partitioning=None).to_pylist()]
    for row in rows:
        row["_kafka_partition"] = row.pop("_partition")
    file.parent.mkdir(parents=True, exist_ok=True)
    schema = table.schema().as_arrow()
    wanted = pa.schema([field.with_nullable(True) for field in schema])
    pq.write_table(pa.Table.from_pylist(rows, schema=wanted), file)
    values = [constant[field.name] for field in table.spec().fields]
    made = DataFile.from_args(
        content=DataFileContent.DATA, file_path=f"file://{file}", file_format=FileFormat.PARQUET,
        partition=Record(*(int(v.timestamp()) * 1_000_000 if isinstance(v, datetime) else v for v in values)),
        record_count=len(rows), file_size_in_bytes=file.stat().st_size,
    )  # fmt: skip
    made.spec_id = table.spec().spec_id
    return made


def test_a_right_table_passes_and_each_damage_is_found(lake: Lake) -> None:
    assert [str(c) for c in lake.checks() if not c.ok] == []
    assert len(lake.checks()) == 9
    lake.miscounted = 1
    assert lake.failures() == ["count by PyHive"]
    lake.miscounted = 0

    file = next(f for f in sorted((lake.root / "table").rglob("*.parquet")) if pq.read_metadata(f).num_rows > 1)
    whole = file.read_bytes()
    pq.write_table(pq.read_table(file, partitioning=None).slice(1), file)
    assert {"content of data", "coordinates", "balance"} <= set(lake.failures())
    file.write_bytes(whole)

    name = sorted(lake.tables.partitions(HOUR))[0]
    assert lake.tables.drop(HOUR, name).startswith(
        "DELETE FROM lake.flights WHERE _window=2013-01-26T17:00 AND carrier="
    )
    assert name not in lake.tables.partitions(HOUR)
    assert lake.failures() == ["content of data", "coordinates", "balance"]


def test_a_file_in_the_wrong_part_and_one_that_stands_twice_are_found(lake: Lake) -> None:
    table = lake.tables.opened("lake.flights")
    one, other = (lake.tables.partitions(HOUR)[name][0] for name in sorted(lake.tables.partitions(HOUR))[:2])
    files = {f.file_path: f for f in (task.file for task in table.scan().plan_files())}
    again, wrong = files[f"file://{one}"], files[f"file://{other}"]
    append(table, again)
    assert lake.failures() == ["count by pyiceberg", "count by PyHive"]
    lake.tables.drop(HOUR, sorted(lake.tables.partitions(HOUR))[1])
    wrong._data[3] = again.partition
    append(lake.tables.opened("lake.flights"), wrong)
    assert {"content of data", "count by pyiceberg"} <= set(lake.failures())


def test_a_copy_is_read_in_place_of_what_was_copied(lake: Lake, tmp_path: Path) -> None:
    """As `copy_table` makes it of HDFS's: each file at its full path."""
    lake.copy = tmp_path / "copy"
    copied = lake.copy / str(lake.root).lstrip("/")
    shutil.copytree(lake.root, copied)
    lake.arguments.landed = copied / "landed"
    for file in [*lake.root.rglob("*.parquet"), *lake.root.rglob("*.avro")]:
        file.unlink()
    assert lake.failures() == []
    next(copied.rglob("landed/**/*.parquet")).unlink()
    assert lake.failures() == ["content of waiting", "coordinates", "balance"]


def append(table: Any, file: DataFile) -> None:
    with table.transaction() as changed, changed.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(file)
