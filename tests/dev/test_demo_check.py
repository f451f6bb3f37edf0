"""The independent checker finds what it is there to find: each kind of damage, done by hand to a right table."""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dev.demo import check, flights
from dev.demo.check_catalogues import visible_files

SPAN = check.Span(
    datetime(2013, 1, 26, 16, tzinfo=UTC), datetime(2013, 1, 27, 15, tzinfo=UTC), datetime(2013, 1, 27, 22, tzinfo=UTC)
)
PARTITIONS = 3
RENAMED = {
    "year": ("local", "year"), "month": ("local", "month"), "day": ("local", "day"),
    "sched_dep_time": ("schedule", "dep"), "sched_arr_time": ("schedule", "arr"),
    "dep_time": ("actual", "dep"), "arr_time": ("actual", "arr"),
    "dep_delay": ("delays", "dep"), "arr_delay": ("delays", "arr"),
    "air_time": ("air", "minutes"), "distance": ("air", "miles"),
}  # fmt: skip


@dataclass
class FakeCatalogue:
    lane, listing = "_partition", "SHOW PARTITIONS"
    tables: dict[str, dict[str, Path]]
    counted: dict[check.Group, int] = field(default_factory=dict)

    def partitions(self, table: str) -> dict[str, list[Path]]:
        return {name: visible_files(folder) for name, folder in self.tables.get(table, {}).items()}

    def counts(self, table: str) -> dict[str, dict[check.Group, int]]:
        return {"SELECT count(*)": self.counted}


@dataclass
class Lake:
    """A right table, late table and landing zone in `root`, made from the producer's events."""

    root: Path
    catalogue: FakeCatalogue
    arguments: argparse.Namespace

    def failures(self) -> list[str]:
        checks, _ = check.run(self.arguments, self.catalogue)
        return [c.name for c in checks if not c.ok]

    def files(self, folder: str) -> list[Path]:
        return sorted((self.root / folder).rglob("*.parquet"))


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every other flight around the published day, and all late ones, written out once."""
    root = tmp_path_factory.mktemp("right")
    rows = [r for i, r in enumerate(flights.read_january()) if r["day"] in ("26", "27") and (i % 4 == 0 or is_late(r))]
    write_csv(root / "flights.csv.zip", rows)
    placed: dict[tuple[str, check.Group], list[dict[str, object]]] = {}
    ends = [0] * PARTITIONS
    for n, report in enumerate(flights.reports(rows)):
        partition = n % PARTITIONS
        departed, reported = (moment(ms) for ms in (report.departed_ms, report.reported_ms))
        group = (departed.strftime("%Y-%m-%d"), departed.strftime("%H"), report.event["carrier"])
        kafka = {"_partition": partition, "_offset": ends[partition], "_kafka_ts": reported}
        values = flat(report.event) | kafka
        placed.setdefault((SPAN.kind(departed, reported), group), []).append(values)
        ends[partition] += 1
    write_lake(root, placed)
    (root / "ends.json").write_text(json.dumps(ends))
    return root


@pytest.fixture
def lake(right: Path, tmp_path: Path) -> Lake:
    root = tmp_path / "lake"
    shutil.copytree(right, root)
    data = {f.parent.relative_to(root / "table").as_posix(): f.parent for f in (root / "table").rglob("*.parquet")}
    late = {f.parent.relative_to(root / "late").as_posix(): f.parent for f in (root / "late").rglob("*.parquet")}
    counted = {
        (v["date"], v["hour"], v["carrier"]): pq.read_metadata(folder / "0.parquet").num_rows
        for v, folder in ((check.partition_values(name), folder) for name, folder in data.items())
    }
    arguments = argparse.Namespace(
        csv=root / "flights.csv.zip", table="lake.flights", landed=root / "landed", recorded=None,
        first=SPAN.first, last=SPAN.last,
        closed_at=SPAN.closed_at, end_offsets=json.loads((root / "ends.json").read_text()),
    )  # fmt: skip
    return Lake(root, FakeCatalogue({"lake.flights": data, "lake.flights__late": late}, counted), arguments)


def is_late(row: dict[str, str]) -> bool:
    report = flights.report(row)
    return SPAN.kind(moment(report.departed_ms), moment(report.reported_ms)) == check.LATE


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def flat(event: dict) -> dict[str, object]:
    nested = {name: event[outer][inner] for name, (outer, inner) in RENAMED.items()}
    return nested | {k: v for k, v in event.items() if not isinstance(v, dict)}


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", text.getvalue())


def write_lake(root: Path, placed: dict[tuple[str, check.Group], list[dict[str, object]]]) -> None:
    manifest = []
    for (kind, (date, hour, carrier)), rows in placed.items():
        path = f"date={date}/hour={hour}/carrier={carrier}/0.parquet"
        if kind == check.WAITING:
            start = datetime.fromisoformat(f"{date}T{hour}:00:00+00:00")
            entry = {"kind": "data", "window_ms": int(start.timestamp() * 1000), "values": [["carrier", carrier]]}
            manifest.append(entry | {"path": f"data/{path}"})
        folder = {check.DATA: "table", check.LATE: "late/_batch=2", check.WAITING: "landed/1/data"}[kind]
        kept = rows if kind == check.LATE else [{k: v for k, v in r.items() if k != "carrier"} for r in rows]
        file = root / folder / (path.replace(f"carrier={carrier}/", "") if kind == check.LATE else path)
        if file.exists():  # several carriers share a late hour
            file = file.with_name(f"{carrier}.parquet")
        write(file, kept)
    (root / "landed/1/_receipt.json").write_text(json.dumps({"files": manifest}))


def write(file: Path, rows: list[dict[str, object]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), file)


def change(file: Path, how: Callable[[list[dict]], list[dict]]) -> None:
    table = pq.read_table(file, partitioning=None)
    pq.write_table(pa.Table.from_pylist(how(table.to_pylist()), schema=table.schema), file)


def test_a_right_table_passes(lake: Lake):
    checks, found = check.run(lake.arguments, lake.catalogue)
    assert [str(c) for c in checks if not c.ok] == []
    assert len(checks) == 8
    assert found[check.LATE].rows == 3
    hours = check.summary(found, SPAN)
    assert len(hours) == 24
    assert sum(h["late"] for h in hours) == 3
    assert sum(h["rows"] for h in hours) == found[check.DATA].rows > 100


def test_one_row_missing(lake: Lake):
    change(first_with_rows(lake), lambda rows: rows[1:])
    assert lake.failures() == ["content of data", "SELECT count(*)", "coordinates", "balance"]


def test_the_only_row_of_a_partition_missing(lake: Lake):
    change(next(f for f in lake.files("table") if pq.read_metadata(f).num_rows == 1), lambda rows: [])
    assert lake.failures() == ["content of data", "SHOW PARTITIONS", "SELECT count(*)", "coordinates", "balance"]


def first_with_rows(lake: Lake) -> Path:
    """A file of the table with several rows."""
    return next(f for f in lake.files("table") if pq.read_metadata(f).num_rows > 1)


def test_one_row_doubled(lake: Lake):
    change(lake.files("table")[5], lambda rows: [*rows, rows[0]])
    assert lake.failures() == ["content of data", "SELECT count(*)", "coordinates", "balance"]


@pytest.mark.parametrize("column", check.COLUMNS)
def test_one_value_changed(lake: Lake, column: str):
    def other(value: object) -> object:
        return not value if isinstance(value, bool) else f"{value}x" if isinstance(value, str) else (value or 0) + 1

    change(lake.files("table")[5], lambda rows: [rows[0] | {column: other(rows[0][column])}, *rows[1:]])
    assert lake.failures() == ["content of data"]


def test_a_value_that_became_null(lake: Lake):
    change(lake.files("table")[5], lambda rows: [rows[0] | {"dest": None}, *rows[1:]])
    assert lake.failures() == ["content of data"]


def test_one_row_replaced_by_another_one(lake: Lake):
    """The totals still match."""
    change(first_with_rows(lake), lambda rows: [rows[1], *rows[1:]])
    assert lake.failures() == ["content of data", "coordinates"]


def test_a_row_with_the_time_of_another_message(lake: Lake):
    change(
        first_with_rows(lake), lambda rows: [rows[0] | {"_kafka_ts": rows[0]["_kafka_ts"] + timedelta(0, 1)}, *rows[1:]]
    )
    assert lake.failures() == ["content of data"]


def test_a_row_with_the_coordinates_of_another(lake: Lake):
    change(first_with_rows(lake), lambda rows: [rows[0] | {"_offset": rows[0]["_offset"] + 1}, *rows[1:]])
    assert lake.failures() == ["coordinates"]


def test_a_file_in_the_wrong_hour(lake: Lake):
    file = lake.files("table")[0]
    file.rename(next(f for f in lake.files("table") if f.parent.parent != file.parent.parent).with_name("1.parquet"))
    assert {"content of data", "SHOW PARTITIONS", "SELECT count(*)"} == set(lake.failures())


def test_a_partition_that_the_catalogue_lost(lake: Lake):
    del lake.catalogue.tables["lake.flights"][next(iter(lake.catalogue.tables["lake.flights"]))]
    assert lake.failures() == ["content of data", "SELECT count(*)", "coordinates", "balance"]


def test_a_location_that_is_gone(lake: Lake):
    shutil.rmtree(lake.files("table")[0].parent)
    assert "content of data" in lake.failures()


def test_a_partition_outside_the_published_hours(lake: Lake):
    lake.catalogue.tables["lake.flights"]["date=2013-01-28/hour=01/carrier=UA"] = lake.root / "nothing"
    assert lake.failures() == ["SHOW PARTITIONS"]


def test_a_count_by_sql_that_is_not_the_files(lake: Lake):
    lake.catalogue.counted[next(iter(lake.catalogue.counted))] += 1
    assert lake.failures() == ["SELECT count(*)"]


def test_late_rows_that_are_lost(lake: Lake):
    del lake.catalogue.tables["lake.flights__late"]
    assert lake.failures() == ["content of late", "coordinates", "balance"]


def test_a_late_row_that_went_into_its_hour(lake: Lake):
    late = lake.files("late")[0]
    rows = pq.read_table(late, partitioning=None).to_pylist()
    hour = late.parent.relative_to(lake.root / "late/_batch=2")
    folder = lake.root / "table" / hour / f"carrier={rows[0].pop('carrier')}"
    write(folder / "late.parquet", rows)
    lake.catalogue.tables["lake.flights"][folder.relative_to(lake.root / "table").as_posix()] = folder
    late.unlink()
    assert {"content of data", "content of late"} <= set(lake.failures())


def test_a_waiting_file_that_its_manifest_does_not_name_is_not_data(lake: Lake):
    file = lake.files("landed")[0]
    shutil.copy(file, file.with_name("zombie.parquet"))
    assert lake.failures() == []


def test_a_waiting_file_that_is_lost(lake: Lake):
    lake.files("landed")[0].unlink()
    assert lake.failures() == ["content of waiting", "coordinates", "balance"]


def test_records_that_only_the_broker_knows(lake: Lake):
    lake.arguments.end_offsets[1] += 1
    assert lake.failures() == ["produced", "coordinates"]


def test_nothing_late_is_not_the_demo(lake: Lake):
    found = {kind: check.Content(rows=5 if kind == check.DATA else 0) for kind in check.KINDS}
    assert not check.check_balance(found, 5).ok


def test_it_imports_nothing_of_ours():
    assert "tidegate." not in Path(check.__file__).read_text().replace("_tidegate", "")
    assert "import tidegate" not in Path(check.__file__).read_text()
