"""Apache Hudi's upsert into a copy-on-write table with a bucket index: what Hudi Streamer does with each batch.

The writer of its Spark bundle is called as a session of Spark calls it. Of two events of a key the one at the higher
position wins, as in a mirror, and deletes remove their row; so equal rows are expected.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.parts import LOCKS, TreeCpu
from dev.stack.jars import ensure_jars
from dev.stack.places import Places
from tidegate.core.mirror.jobs import EventFile

CONF = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
}
"""What Hudi asks of a session."""
_ORDER = "_position_commit * 4294967296 + _position_row AS _order"


def jars() -> list[Path]:
    """Its Spark bundle; fetched and verified the first time."""
    return sorted(ensure_jars("hudi", Places.of_checkout(), locks=LOCKS).glob("*.jar"))


class Upsert:
    """A table of what is `taken` (expressions over the events) in `folder`."""

    name = "Hudi, upsert"

    def __init__(self, spark: SparkSession, folder: Path, buckets: int, taken: str) -> None:
        self._spark, self._path, self._first = spark, folder / "table", folder / "first"
        self._taken = taken.split(", ")
        self._options = {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "_order",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": str(buckets),
            "hoodie.bucket.index.hash.field": "id",
            "hoodie.parquet.compression.codec": "zstd",
        }

    def begin(self, file: EventFile) -> None:
        self.merge(file)
        shutil.copytree(self._path, self._first)

    def go_back(self) -> None:
        shutil.rmtree(self._path)
        shutil.copytree(self._first, self._path)

    def merge(self, file: EventFile) -> float:
        """CPU seconds of the JVM."""
        events = self._spark.read.parquet(file.uri).selectExpr(*self._taken, _ORDER, "_op = 'd' AS _hoodie_is_deleted")
        with TreeCpu(self._spark.sparkContext._gateway.proc.pid) as used:
            events.write.format("hudi").options(**self._options).mode("append").save(str(self._path))
        return used.cpu_s

    def rows(self) -> DataFrame:
        """Those that readers see."""
        return self._spark.read.format("hudi").load(str(self._path))
