"""The first full copy of a mirror's source table beside Spark's JDBC source, by hand: CPU of client and server, wall
time, for equal rows.

    .venv/bin/python -m bench.source_copy [--rows 1000000] [--tasks 1 2] [--runs 3] [--only NAME ...]

A real MariaDB and a real PostgreSQL have the same table of ten columns: integers, decimals, texts in UTF-8, times,
dates, nulls. Its values follow from a seed and a row's number. Both servers run on this machine and have written
everything to the disk before they are read. Both contenders have a query for each 100,000 rows and write zstd Parquet
at one level; they have copied the whole table once before, so that no start is in any figure.

Tidegate copies by `spark_jobs.chunks`, in processes without Spark, one for each task; the bounds of chunks are asked
from the server too, and are in the figures. Its files have the mirror's own columns beside the source's. Spark is told
the least and the greatest key for nothing, and has one session, local[tasks]. Keys have no gaps, which is the best case
for Spark's ranges. In the first run the files are read by Spark and compared, by count and by an order-free checksum
over all columns: unequal ones fail it.

At the end 500,000 rows are copied with `rate: 50000`.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from bench.contenders import spark_jdbc
from bench.events import pipeline
from bench.mirror import EVENT
from bench.parts import circumstances, cpu_now
from spark_jobs import chunks
from tests.databases import servers
from tests.databases.servers import Server
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import CopyPlan
from tidegate.core.copy.jobs import ChunkPlan, CopiedColumn, CopiedTable
from tidegate.core.copy.port import ReadAfter
from tidegate.core.copy.steps import cut
from tidegate.core.spec.pipeline import Column
from tidegate.databases import kinds
from tidegate.storage.local import LocalStorage

CHUNK_ROWS, LIMITED_ROWS, RATE, SEED = 100_000, 500_000, 50_000, 7
LIMITED = f"rate: {RATE}"
TABLE, KEY = "shop.orders", "id"
COLUMNS = (
    ("id", "bigint"), ("customer", "int"), ("pieces", "int"), ("total", "decimal(12,2)"), ("weight", "decimal(18,6)"),
    ("name", "string"), ("city", "string"), ("note", "string"), ("at", "timestamp"), ("day", "date"),
)  # fmt: skip
CREATE = f"""CREATE TABLE {TABLE} (id BIGINT PRIMARY KEY, customer INT NOT NULL, pieces INT, total DECIMAL(12,2)
    NOT NULL, weight DECIMAL(18,6), name VARCHAR(60) NOT NULL, city VARCHAR(40) NOT NULL, note VARCHAR(200),
    at {{time}} NOT NULL, day DATE)"""
CITIES = ("Köln", "Lyon", "Graz", "Łódź", "São Paulo", "東京", "Αθήνα", "Boston")
FILL = f"""INSERT INTO {TABLE} SELECT n, n * 7919 % 50021, CASE WHEN n % 11 = 0 THEN NULL ELSE n * 31 % 97 END,
    (n * 104729 % 100000007) / 100.0, CASE WHEN n % 13 = 0 THEN NULL ELSE (n * 15485863 % 1000000007) / 1000000.0 END,
    CONCAT('Müller, "', SUBSTR(MD5(CONCAT('{SEED}-', n)), 1, 10), '"'),
    CASE n % {len(CITIES)} {" ".join(f"WHEN {i} THEN '{city}'" for i, city in enumerate(CITIES))} END,
    CASE WHEN n % 3 = 0 THEN NULL ELSE CONCAT('größer als ', MD5(CONCAT('{SEED}+', n)), ' – ', n % 5003) END,
    {{time}}, CASE WHEN n % 17 = 0 THEN NULL ELSE {{day}} END FROM {{numbers}}"""
SQL = {
    "mariadb": {
        "type": "DATETIME(6)", "time": "TIMESTAMP '2024-01-01 00:00:00' + INTERVAL n * 1000123 MICROSECOND",
        "day": "DATE '2020-01-01' + INTERVAL n % 1500 DAY", "numbers": "(SELECT seq AS n FROM seq_1_to_{rows}) s",
        "pid": "SELECT @@datadir, @@pid_file",
        "settle": ("ANALYZE TABLE {table}", "FLUSH TABLES {table} FOR EXPORT", "UNLOCK TABLES"),
    },
    "postgresql": {
        "type": "TIMESTAMP(6)", "time": "TIMESTAMP '2024-01-01 00:00:00' + n * 1000123 * INTERVAL '1 microsecond'",
        "day": "DATE '2020-01-01' + (n % 1500)::int", "numbers": "generate_series(1::bigint, {rows}) n",
        "pid": "SELECT current_setting('data_directory'), 'postmaster.pid'",
        "settle": ("VACUUM (ANALYZE, FREEZE) {table}", "CHECKPOINT"),
    },
}  # fmt: skip


class Cost(NamedTuple):
    """Seconds."""

    client: float
    server: float
    wall: float


@dataclass(frozen=True)
class Source:
    """A server with the table. `pid`: of its first process."""

    server: Server
    pid: int


class Chunks:
    """Tidegate's: what a task of `workflow.copy` does and what its job does, without ledger and Airflow."""

    name = "Tidegate"

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self.rate: int | None = None
        # not forked: this process has a JVM's connections
        self._pool = ProcessPoolExecutor(tasks, multiprocessing.get_context("spawn"))

    @property
    def cpu_s(self) -> float:
        """Of the workers and of this process."""
        return time.process_time() + sum(cpu_now(pid) for pid in list(self._pool._processes or ()))

    def copy(self, source: Source, rows: int, folder: Path) -> None:
        """All rows: `rows` of them."""
        connection = source.server.connection
        database = kinds.opened(connection, 60.0)
        table = database.describe(TABLE)
        most = rows // CHUNK_ROWS + 1
        ranges, _ = cut(None, database.bounds(table, None, CHUNK_ROWS, most), most)
        after = ReadAfter((database.position()[0], 0), database.in_progress())
        database.close()
        parts = [ChunkPlan(n, -n, f"chunk-{n}", f"file://{folder}/chunk-{n}", keys) for n, keys in enumerate(ranges, 1)]
        columns = tuple(CopiedColumn(name, name, kind) for name, kind in COLUMNS)
        plan = CopyPlan(
            attempt="copy", attempt_dir=f"file://{folder}", pipeline=_mirrored(f"file://{folder}"), topic="orders",
            nonce="bench", tables=(CopiedTable(table, columns),),
            chunks=tuple(parts), after=after, rate=self.rate, tasks=self._tasks,
        )  # fmt: skip
        reader = functools.partial(kinds.reader, kinds.for_workers(connection))
        chunks.carry_out(plan, LocalStorage(), self._run, local, reader)

    def _run(self, run: Callable[[Any, int], int], lanes: Sequence[Any]) -> list[int]:
        return list(self._pool.map(run, lanes, range(len(lanes))))

    def close(self) -> None:
        self._pool.shutdown()


class ByHand:
    """Spark's JDBC source in a session of so many tasks."""

    name = "Spark, JDBC source"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def cpu_s(self) -> float:
        """Of the JVM and of this process."""
        return time.process_time() + cpu_now(self._spark.sparkContext._gateway.proc.pid)

    def copy(self, source: Source, rows: int, folder: Path) -> None:
        parts = -(-rows // CHUNK_ROWS)
        spark_jdbc.copy(self._spark, source.server.connection, TABLE, KEY, rows, parts, folder)

    def close(self) -> None:
        pass


Contender = Chunks | ByHand


def local(uri: str) -> LocalStorage:
    """What opens the storage of a URI, in any process."""
    return LocalStorage()


def _mirrored(location: str) -> dict[str, Any]:
    columns = [(name, kind) for name, kind in (*COLUMNS, *EVENT)]
    made = replace(
        pipeline("orders", location), columns=tuple(Column(name=n, type=k, path=f"$.{n}") for n, k in columns),
        partition_by=(),
    )  # fmt: skip
    return to_plain(made)  # type: ignore[no-any-return]


@contextmanager
def sources(folder: Path, rows: int) -> Iterator[dict[str, Source]]:
    """Both servers, with so many rows."""
    with ExitStack() as stack:
        found = {}
        for kind, start in (("mariadb", servers.mariadb), ("postgresql", servers.postgresql)):
            server, sql = stack.enter_context(start(folder / kind)), SQL[kind]
            numbers = str(sql["numbers"]).format(rows=rows)
            settle = [each.format(table=TABLE) for each in sql["settle"]]
            fill = FILL.format(time=sql["time"], day=sql["day"], numbers=numbers)
            server.run(CREATE.format(time=sql["type"]), fill, *settle)
            found[kind] = Source(server, first_process(server))
        yield found


def first_process(server: Server) -> int:
    """MariaDB has one alone; PostgreSQL has one for each session, below the first."""
    folder, name = server.run(str(SQL[server.kind]["pid"]))[0]
    return int(Path(folder, name).read_text().split()[0])


def measured(one: Contender, source: Source, rows: int, folder: Path) -> Cost:
    before, started = (one.cpu_s, cpu_now(source.pid)), time.monotonic()
    one.copy(source, rows, folder)
    wall = time.monotonic() - started
    return Cost(one.cpu_s - before[0], cpu_now(source.pid) - before[1], wall)


def standing(spark: SparkSession, folder: Path) -> tuple[int, str]:
    """How many rows the files have, and their checksum in the types of the mirror."""
    names = [name for name, _ in COLUMNS]
    found = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet").parquet(f"{folder}")
    typed = found.selectExpr(*(f"CAST({name} AS {kind}) AS {name}" for name, kind in COLUMNS))
    told = typed.selectExpr(f"CAST(xxhash64({', '.join(names)}) AS DECIMAL(38, 0)) AS told")
    count, checksum = told.selectExpr("count(told)", "CAST(sum(told) AS STRING)").collect()[0]
    return count, checksum


def compare(folder: Path, asked: argparse.Namespace, found: dict[str, Source]) -> None:
    """Print the cost of each copy, interleaved, and all of them at the end. Raises SystemExit for unequal rows."""
    truth: set[tuple[int, str]] = set()
    for tasks in asked.tasks:
        spent: dict[tuple[str, str], list[Cost]] = defaultdict(list)
        spark = spark_jdbc.session(folder, tasks)
        taking = [c for c in (Chunks(tasks), ByHand(spark)) if not asked.only or c.name in asked.only]
        for run in range(asked.runs + 1):  # the first one makes them warm
            for kind, source in found.items():
                for one in taking:
                    out = folder / "out"
                    cost = measured(one, source, asked.rows, out)
                    if run:
                        spent[kind, one.name].append(cost)
                        print(f"{tasks} tasks, run {run}: {told(kind, one.name, asked.rows, [cost])}", flush=True)
                    else:
                        truth.add(standing(spark, out))
                    shutil.rmtree(out)
            if len(truth) > 1:
                raise SystemExit(f"the rows are not equal: {truth}")
        print(
            f"\nmedians, {tasks} tasks\n" + "\n".join(told(*names, asked.rows, all_) for names, all_ in spent.items())
        )
        print(f"{circumstances()}\n", flush=True)
        for one in taking:
            one.close()
        spark.stop()
    print(f"equal for all, of both servers: {[f'{rows:,} rows, {checksum}' for rows, checksum in truth]}")


def told(kind: str, name: str, rows: int, spent: Sequence[Cost]) -> str:
    """One line of medians, with minima and maxima."""
    client, server, wall = zip(*spent, strict=True)
    speed = [rows / each / 1000 for each in client]

    def spread(values: Sequence[float], digits: int) -> str:
        low, middle, high = (of(values) for of in (min, statistics.median, max))
        return f"{middle:.{digits}f}" + (f" ({low:.{digits}f} to {high:.{digits}f})" if len(values) > 1 else "")

    return (
        f"{kind:10} {name:18} {spread(speed, 0)} thousand rows/s a client core, client {spread(client, 2)} CPU-s, "
        f"server {spread(server, 2)} CPU-s, wall {spread(wall, 2)} s"
    )


def limited(folder: Path, rows: int, found: dict[str, Source]) -> None:
    """Print how long a copy with a rate takes."""
    for kind, source in found.items():
        one = Chunks(1)
        for one.rate in (None, RATE):  # the first one makes it warm
            cost = measured(one, source, rows, folder / "out")
            shutil.rmtree(folder / "out")
        one.close()
        print(f"{kind}, {LIMITED}: {rows:,} rows in {cost.wall:.1f} s, {rows / cost.wall:,.0f} a second; server "
              f"{cost.server:.2f} CPU-s, {cost.server / cost.wall * 100:.0f} % of a core")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="leave the others out")
    asked, folder = parser.parse_args(), Path(tempfile.mkdtemp(prefix="tidegate-copy-"))
    os.chmod(folder, 0o755)  # PostgreSQL is another user where this one is root
    print(f"before: {circumstances()}", flush=True)
    try:
        with sources(folder, asked.rows) as found:
            compare(folder, asked, found)
        with sources(folder / "limited", min(asked.rows, LIMITED_ROWS)) as found:
            limited(folder, min(asked.rows, LIMITED_ROWS), found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"after: {circumstances()}")


if __name__ == "__main__":
    main()
