"""A mirror's merge beside Spark's MERGE INTO on Iceberg, written by hand, and Hudi's upsert: CPU of a change, for equal
rows.

    .venv/bin/python -m bench.mirror_merge [--rows 1000000] [--buckets 64] [--runs 3] [--only NAME ...]

All begin with the same rows and take the same Parquet of events, for 1, 10 and 100 % of the keys, anywhere or side by
side. There are 1.2 events for each key that changes: a tenth for new keys, a tenth second ones; a tenth of all are
deletes. Each merge is one commit in a catalogue on SQLite, on this disk; then the table goes back to where it began. In
the first run the rows that readers see are compared, by count and by an order-free checksum over all columns: unequal
ones fail it.

Tidegate merges in this process, without Spark, in one task; MERGE in one session, local[2]. Both have merged before, so
that no start is in any figure. MERGE takes the newest event of each key by a row_number and trusts the events: one that
is sent again later would win. Its tables have zstd and as many parts: by bucket(id), with copy-on-write or with
merge-on-read, which leaves the rest to readers and to a compaction, or by ranges of the key, for keys side by side.
Hudi writes in the same session, copy-on-write with a bucket index over as many buckets.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from bench.contenders import hudi_upsert
from bench.events import pipeline
from bench.lake import CATALOG, catalogue
from bench.mirror import EVENT, LOGICAL, OWN, cpu, land, landed
from bench.parts import TreeCpu, circumstances
from dev.stack.jars import ensure_jars
from dev.stack.java import find_java
from dev.stack.places import Places
from spark_jobs import apply
from tidegate.core.base.plain import loads
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.mirror.jobs import ApplyReceipt, EventFile
from tidegate.core.spec.pipeline import Column, Pipeline, Sink
from tidegate.core.target.paths import RECEIPT, join
from tidegate.core.target.prefix import Merged
from tidegate.storage.local import LocalStorage
from tidegate.targets.mirror.table import MirrorTable

NEW, AGAIN, DELETES = 0.1, 0.1, 0.1
COLUMNS = [("_kafka_partition" if name == "_partition" else name, name) for name, _ in LOGICAL]
"""Columns of the tables, and of the events: Iceberg has a `_partition` of its own."""
NAMES, TAKEN = ", ".join(name for name, _ in COLUMNS), ", ".join(f"{of} AS {name}" for name, of in COLUMNS)
CREATE = f"""CREATE TABLE {{table}} USING iceberg PARTITIONED BY ({{parts}}) TBLPROPERTIES ('format-version'='2',
    'write.merge.mode'='{{mode}}', 'write.parquet.compression-codec'='zstd', 'write.parquet.compression-level'='1')
    AS SELECT {TAKEN} FROM parquet.`{{events}}`"""
MERGE = f"""MERGE INTO {{table}} t USING (SELECT {NAMES} FROM (SELECT {TAKEN}, row_number() OVER (
        PARTITION BY id ORDER BY _position_commit DESC, _position_row DESC) AS newest FROM parquet.`{{events}}`)
        WHERE newest = 1) s ON t.id = s.id
    WHEN MATCHED AND s._op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED AND s._op <> 'd' THEN INSERT *"""


class Mirror:
    """Tidegate's: the job and its commit, as `workflow.apply` has them, without ledger and log."""

    name = "Tidegate"

    def __init__(self, folder: Path, buckets: int, spark: SparkSession) -> None:
        self._folder, self._database, self._spark, self._tries = folder, folder / "catalogue.db", spark, 0
        folder.mkdir()
        site: Any = SimpleNamespace(
            pipeline=_mirrored(f"file://{folder}/orders", buckets), storage=LocalStorage(), clock=None,
            request_ttl_ms=0, say=lambda line: None,
        )  # fmt: skip
        self._table = MirrorTable(site, catalogue(self._database))

    def begin(self, file: EventFile) -> None:
        self._table.prepare()
        self.merge(file)
        with sqlite3.connect(self._database) as db:
            self._first = db.execute("SELECT metadata_location FROM iceberg_tables").fetchone()

    def go_back(self) -> None:
        with sqlite3.connect(self._database) as db:
            db.execute("UPDATE iceberg_tables SET metadata_location = ?", self._first)

    def merge(self, file: EventFile) -> float:
        """CPU seconds."""
        before, table, batch = cpu(), self._table, file.batch_id
        self._tries += 1
        prefix, base = table.base()
        attempt = f"{batch}-{batch}.{self._tries}-bench"
        plan = ApplyPlan(
            attempt=attempt, attempt_dir=f"file://{self._folder}/apply/{attempt}", nonce="bench", topic="orders",
            pipeline={"sink": {"compression": "zstd"}}, first=batch, last=batch, key=table.key, buckets=table.buckets,
            events=(file,), base=base, columns=table.columns(), fields=table.fields(), newest_ms=prefix.newest_ms,
        )  # fmt: skip
        apply.carry_out(plan, LocalStorage())
        receipt = loads(ApplyReceipt, LocalStorage().read(join(plan.attempt_dir, RECEIPT)))
        table.apply(prefix, Merged(batch, batch, attempt, plan.attempt_dir, receipt), lambda: True)
        return cpu() - before

    def rows(self) -> DataFrame:
        """Those that readers see."""
        files = [f.uri for bucket in self._table.base()[1] for f in bucket.files]
        return self._spark.read.parquet(*files).where("_op <> 'd'")


class ByHand:
    """MERGE INTO a table with these parts."""

    def __init__(self, spark: SparkSession, mode: str, parts: str, told: str = "") -> None:
        self.name, self._spark, self._mode, self._parts = f"MERGE, {mode}{told}", spark, mode, parts
        self._name = "bench." + "".join(c for c in self.name if c.isalpha()).lower()
        self._table = f"{CATALOG}.{self._name}"

    def begin(self, file: EventFile) -> None:
        self._spark.sql(CREATE.format(table=self._table, parts=self._parts, mode=self._mode, events=file.uri))
        self._first = self._spark.sql(f"SELECT snapshot_id FROM {self._table}.snapshots").collect()[0][0]

    def go_back(self) -> None:
        self._spark.sql(f"CALL {CATALOG}.system.rollback_to_snapshot('{self._name}', {self._first})")

    def merge(self, file: EventFile) -> float:
        """CPU seconds of the JVM."""
        with TreeCpu(self._spark.sparkContext._gateway.proc.pid) as used:
            self._spark.sql(MERGE.format(table=self._table, events=file.uri))
        return used.cpu_s

    def rows(self) -> DataFrame:
        """Those that readers see."""
        return self._spark.table(self._table)


Contender = Mirror | ByHand | hudi_upsert.Upsert


def _mirrored(location: str, buckets: int) -> Pipeline:
    columns = tuple(Column(name=name, type=kind, path=f"$.{name}") for name, kind in (*OWN, *EVENT))
    sink = Sink(
        kind="mirror", conn_id="lake", table="bench.orders", location=location, workdir=f"{location}/_tidegate",
        options=(("buckets", str(buckets)), ("key", "id")),
    )  # fmt: skip
    return replace(pipeline("orders", location), columns=columns, partition_by=(), sink=sink)


def session(folder: Path) -> SparkSession:
    """Spark as `bench.lakehouse` sets it up."""
    os.environ |= {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    jars = [*sorted(ensure_jars("iceberg-spark", Places.of_checkout()).glob("*.jar")), *hudi_upsert.jars()]
    known = f"spark.sql.catalog.{CATALOG}"
    conf = hudi_upsert.CONF | {
        "spark.jars": ",".join(map(str, jars)), "spark.driver.memory": "3g", "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC", "spark.local.dir": f"{folder}/local",
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2", known: "org.apache.iceberg.spark.SparkCatalog", f"{known}.type": "jdbc",
        f"{known}.uri": f"jdbc:sqlite:{folder}/spark.db", f"{known}.warehouse": f"file://{folder}/warehouse",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }  # fmt: skip
    return SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()


def cases(folder: Path, rows: int, percents: list[int]) -> dict[str, EventFile]:
    """What is merged; all keys are the same ones anywhere and side by side, so that 100 % is there once."""
    rng, found = np.random.default_rng(7), {}
    for percent in percents:
        count = rows * percent // 100
        for where in ("anywhere", "side by side")[: 1 if percent == 100 else 2]:
            known = rng.choice(rows, count, replace=False) if where == "anywhere" else np.arange(rows - count, rows)
            new, again = rows + np.arange(int(count * NEW)), rng.choice(known, int(count * AGAIN), replace=False)
            keys = rng.permutation(np.concatenate([known, new, again]))
            events = landed(rng, keys, 2, rows, DELETES)
            found[f"{percent:3} %, {where:12}"] = land(f"{folder}/{percent}-{where[:4]}", 2, events)
    return found


def standing(rows: DataFrame) -> tuple[int, str]:
    """How many there are, and their checksum."""
    told = rows.selectExpr(f"CAST(xxhash64({NAMES}) AS DECIMAL(38, 0)) AS told")
    count, checksum = told.selectExpr("count(told)", "CAST(sum(told) AS STRING)").collect()[0]
    return count, checksum


def contenders(folder: Path, asked: argparse.Namespace, spark: SparkSession) -> list[Contender]:
    bucket, ranges = f"bucket({asked.buckets}, id)", f"truncate({-(-asked.rows // asked.buckets)}, id)"
    found: list[Contender] = [
        Mirror(folder / "mirror", asked.buckets, spark),
        ByHand(spark, "copy-on-write", bucket),
        ByHand(spark, "merge-on-read", bucket),
        ByHand(spark, "copy-on-write", ranges, ", by ranges"),
        hudi_upsert.Upsert(spark, folder / "hudi", asked.buckets, TAKEN),
    ]
    return [c for c in found if not asked.only or c.name in asked.only]


def compare(folder: Path, asked: argparse.Namespace, spark: SparkSession) -> None:
    """Print the CPU of each merge, interleaved, and all of them after each run. Raises SystemExit for unequal rows."""
    rng = np.random.default_rng(1)
    first = land(str(folder), 1, landed(rng, rng.permutation(asked.rows), 1, 0, 0))
    merged, taking = cases(folder, asked.rows, asked.percents), contenders(folder, asked, spark)
    spent: dict[str, dict[str, list[float]]] = {
        case: {one.name: [] for one in taking if "ranges" not in one.name or "side" in case} for case in merged
    }
    truth: dict[str, tuple[int, str]] = {}
    for one in taking:
        one.begin(first)
        one.merge(list(merged.values())[-1])  # the largest makes it warm
        one.go_back()
    for run in range(1, asked.runs + 1):
        for case, file in merged.items():
            for one in (c for c in taking if c.name in spent[case]):
                spent[case][one.name].append(seconds := one.merge(file))
                if run == 1 and (left := standing(one.rows())) != truth.setdefault(case, left):
                    raise SystemExit(f"{one.name}, {case}: left {left}, expected {truth[case]}")
                one.go_back()
                print(f"run {run}: {case} {one.name:32}{seconds:8.2f} CPU-s", flush=True)
        print(table(spent, merged), flush=True)
    print(f"equal for all: {[f'{rows:,} rows, {checksum}' for rows, checksum in truth.values()]}")


def table(spent: dict[str, dict[str, list[float]]], merged: dict[str, EventFile]) -> str:
    """CPU microseconds of a change: medians, minima and maxima; and how medians stand to the first contender's."""
    lines = []
    for case, told in spent.items():
        base = statistics.median(next(iter(told.values())))
        for name, found in told.items():
            low, middle, high = (of(found) / merged[case].rows * 1e6 for of in (min, statistics.median, max))
            ratio = statistics.median(found) / base
            lines.append(f"{case} {name:32}{middle:10.1f} us a change ({low:.1f} to {high:.1f}){ratio:8.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--percents", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--buckets", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="leave the others out")
    asked, folder = parser.parse_args(), Path(tempfile.mkdtemp(prefix="tidegate-merge-"))
    print(f"before: {circumstances()}", flush=True)
    spark = session(folder)
    try:
        compare(folder, asked, spark)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"after: {circumstances()}")


if __name__ == "__main__":
    main()
