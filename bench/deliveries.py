"""A published hour into further systems, beside the plainest way to bring the same rows there by hand.

    .venv/bin/python -m bench.deliveries [--rows 1000000] [--runs 3] [--only cluster ...]

The hour is one file of zstd Parquet with ten columns. Wall time, and CPU seconds of the process that sends, for a
million rows; servers run on the same machine, and their CPU time is not counted. By hand nothing is proven: `cp` for a
copy to another cluster; COPY of the same rows as CSV into PostgreSQL, INSERTs of 1,000 rows into MariaDB, one INSERT of
the same CSV into ClickHouse, into an empty table. A delivery reads the file by its manifest, compares, sends, reads
back and compares again, each time for another hour. Of a copy it is the file alone: its catalogue takes the same time
whatever the file has.
"""

from __future__ import annotations

import argparse
import io
import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from bench.parts import circumstances
from dev.stack.stack import Stack
from spark_jobs.engine.delivered import DeliveredRows, checksum
from spark_jobs.engine.identity import file_checksum
from spark_jobs.engine.types import schema_of
from tests.clickhouse.places import real
from tests.databases import servers
from tidegate.core.deliver.port import WINDOW_COLUMN, Attempt, FurtherSystem, Table
from tidegate.core.files.merge import Source
from tidegate.core.files.receipt import DATA, FileEntry
from tidegate.core.target.port import Token
from tidegate.databases.kinds import for_workers
from tidegate.kinds import delivery_kind
from tidegate.storage.local import LocalStorage
from tidegate.targets.clickhouse.table import ClickHouseTable
from tidegate.targets.cluster.copying import Copying, Pace

T0, HOUR_MS, SEED = 1_357_344_000_000, 3_600_000, 7
COLUMNS = (
    ("id", "bigint"), ("customer", "int"), ("total", "decimal(12,2)"), ("weight", "double"), ("name", "string"),
    ("city", "string"), ("note", "string"), ("at", "timestamp"), ("day", "date"), ("paid", "boolean"),
)  # fmt: skip
OURS = (WINDOW_COLUMN, *COLUMNS)
Way = Callable[[], None]
"""Brings the hour there once more."""


class Hour:
    """The file, and what its manifest says."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.path, self.rows = folder / "hour.parquet", rows
        made = _made(rows)
        pq.write_table(made, self.path, compression="zstd", row_group_size=250_000)
        self.bytes = self.path.stat().st_size
        self.table = made
        entry = FileEntry(
            path="hour.parquet", kind=DATA, window_ms=T0, values=(), rows=rows, bytes=self.bytes, min_event_ms=T0,
            max_event_ms=T0, checksum=file_checksum(made, DATA, ()), partitions=(),
        )  # fmt: skip
        self.source = Source(0, entry, (f"file://{self.path}",))

    def delivered(self, window_ms: int = T0) -> DeliveredRows:
        return DeliveredRows(OURS, window_ms, [self.source], None, LocalStorage().open_existing)

    def csv(self) -> bytes:
        """As it goes in by hand: read from the file, and spelled by pyarrow."""
        buffer = io.BytesIO()
        csv.write_csv(pq.read_table(self.path), buffer, csv.WriteOptions(include_header=False))
        return buffer.getvalue()


def _made(rows: int) -> pa.Table:
    rng = np.random.default_rng(SEED)
    number = np.arange(rows)
    texts = pa.array([f"größer als {i} – {i * 7919 % 50021}" for i in range(5003)])
    cities = pa.array(["Köln", "Lyon", "Graz", "Łódź", "São Paulo", "東京", "Αθήνα", "Boston"])
    arrays = [
        pa.array(number),
        pa.array(rng.integers(0, 50_000, rows), pa.int32()),
        pa.array(rng.integers(0, 10**8, rows)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
        pa.array(rng.random(rows)),
        pa.array([f'Müller, "{i:x}"' for i in rng.integers(0, 2**40, rows).tolist()]),
        cities.take(pa.array(rng.integers(0, 8, rows))),
        texts.take(pa.array(rng.integers(0, 5003, rows), mask=rng.random(rows) < 0.3)),
        pa.array(T0 * 1000 + number * 3_600).cast(pa.timestamp("us", "UTC")),
        pa.array(rng.integers(14_000, 16_000, rows), pa.int32()).cast(pa.date32()),
        pa.array(rng.random(rows) < 0.5),
    ]
    return pa.Table.from_arrays(arrays, schema=schema_of(COLUMNS))


def delivering(system: FurtherSystem, hour: Hour) -> Way:
    """Each time another hour: one that made way for it is not waited for."""
    system.prepare()
    numbers = itertools.count(1)

    def send() -> None:
        window_ms = T0 + next(numbers) * HOUR_MS
        token = Token(pipeline="bench", unit=window_ms, generation=1, epoch=1, digest="")
        attempt = Attempt(token=token, nonce="b", rows=hour.rows)
        sent = system.send(attempt, hour.delivered(window_ms), lambda: True)
        assert sent.content.rows == hour.rows

    return send


def table(name: str) -> Table:
    """Of a system with tables."""
    return Table(pipeline="bench", delivery="bench", name=name, columns=OURS)


# ---------------------------------------------------------------- each system


@contextmanager
def cluster(folder: Path, hour: Hour) -> Iterator[tuple[Way, Way]]:
    """From a disk to the same disk."""
    there = LocalStorage()

    def copy() -> None:
        (folder / "copy").unlink(missing_ok=True)
        Copying(there, hour.delivered(), Pace(None)).copy(hour.source, f"file://{folder}/copy")

    yield copy, lambda: [shutil.copyfile(hour.path, folder / "by-hand")].clear()


@contextmanager
def postgresql(folder: Path, hour: Hour) -> Iterator[tuple[Way, Way]]:
    """By COPY."""
    with servers.postgresql(folder) as server:
        system = delivery_kind("postgresql").opened(for_workers(server.connection), table("shop.hour"), checksum, 600.0)
        way = delivering(system, hour)
        server.run("CREATE TABLE shop.by_hand (LIKE shop.hour)", "ALTER TABLE shop.by_hand DROP COLUMN _window")

        def by_hand() -> None:
            server.run("TRUNCATE shop.by_hand")
            session = server.session()
            with session.cursor() as cursor:
                cursor.copy_expert("COPY shop.by_hand FROM STDIN (FORMAT csv)", io.BytesIO(hour.csv()))

        yield way, by_hand
        system.close()


@contextmanager
def mariadb(folder: Path, hour: Hour) -> Iterator[tuple[Way, Way]]:
    """By INSERTs."""
    with servers.mariadb(folder) as server:
        system = delivery_kind("mariadb").opened(for_workers(server.connection), table("shop.hour"), checksum, 600.0)
        way = delivering(system, hour)
        server.run("CREATE TABLE shop.by_hand LIKE shop.hour", "ALTER TABLE shop.by_hand DROP COLUMN _window")
        places = ", ".join(["%s"] * len(COLUMNS))

        def by_hand() -> None:
            server.run("TRUNCATE shop.by_hand")
            session = server.session(autocommit=False)
            with session.cursor() as cursor:
                for batch in pq.ParquetFile(hour.path).iter_batches(1000):
                    rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
                    cursor.executemany(f"INSERT INTO shop.by_hand VALUES ({places})", rows)
            session.commit()

        yield way, by_hand
        system.close()


@contextmanager
def clickhouse(folder: Path, hour: Hour) -> Iterator[tuple[Way, Way]]:
    """Debian's 18.16, one server."""
    with Stack(folder, parts=("clickhouse",)) as info:
        place = real(info, 1)
        (client,) = place.clients()
        way = delivering(ClickHouseTable([client], table("hour"), 600.0), hour)
        kinds = ("Int64", "Int32", "Decimal(12, 2)", "Float64", "String", "String", "Nullable(String)", "String",
                 "Date", "String")  # fmt: skip
        names = ", ".join(f"{name} {kind}" for (name, _), kind in zip(COLUMNS, kinds, strict=True))

        def by_hand() -> None:
            client.do("DROP TABLE IF EXISTS by_hand")
            client.do(f"CREATE TABLE by_hand ({names}) ENGINE = MergeTree ORDER BY tuple()")
            client.do("INSERT INTO by_hand FORMAT CSV", hour.csv())

        yield way, by_hand


SYSTEMS = {one.__name__: one for one in (cluster, postgresql, mariadb, clickhouse)}


def measured(way: Way) -> tuple[float, float]:
    """Wall and CPU seconds."""
    began, cpu = time.monotonic(), time.process_time()
    way()
    return time.monotonic() - began, time.process_time() - cpu


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    asked = parser.parse_args()
    print(circumstances())
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        hour = Hour(Path(name), asked.rows)
        print(f"{hour.rows:,} rows, {hour.bytes / 1e6:.1f} MB; medians of {asked.runs} after one that is not counted")
        print(f"{'system':12}{'':10}{'wall s':>9}{'MB/s':>9}{'CPU s / million rows':>23}")
        for system in asked.only:
            folder = Path(name) / system
            folder.mkdir()
            with SYSTEMS[system](folder, hour) as ways:
                told(system, ways, hour, asked.runs)


def told(system: str, ways: tuple[Way, Way], hour: Hour, runs: int) -> None:
    """Both ways in turn."""
    seen: dict[str, list[tuple[float, float]]] = {"Tidegate": [], "by hand": []}
    for _ in range(runs + 1):
        for name, way in zip(seen, ways, strict=True):
            seen[name].append(measured(way))
    for name, costs in seen.items():
        wall, cpu = (statistics.median(cost[at] for cost in costs[1:]) for at in (0, 1))
        rate, each = hour.bytes / 1e6 / wall, cpu / hour.rows * 1e6
        print(f"{system:12}{name:10}{wall:9.2f}{rate:9.1f}{each:23.2f}", flush=True)


if __name__ == "__main__":
    main()
