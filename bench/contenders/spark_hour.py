"""Stock Spark, an hour from topic to compacted hour: Structured Streaming with batches of BATCH records, then one file
for each directory of the hour. One session for all: none of its starts but the first is counted.

As somebody runs it who knows it: the Kafka client of `spark_sql.FETCH`, as many writing tasks as cores (one for each
Kafka partition would write 8 x 31 files a batch), open files side by side instead of a sort, zstd at everybody's level.
`STOCK` in the environment leaves all but the level out."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from bench.contenders.spark_sql import FETCH, LEVEL, rows


def cpu_s() -> float:
    """Of Spark's JVM, which has started this process, and of all below it."""
    jvm = psutil.Process().parent() or psutil.Process()
    return sum(sum(p.cpu_times()[:2]) for p in (jvm, *jvm.children(recursive=True)))


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    spark.range(1000).selectExpr("sum(id)").collect()
    cores, stock = spark.sparkContext.defaultParallelism, bool(os.environ.get("STOCK"))
    if not stock:
        spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", "64")
        spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    start = cpu_s()
    small, out = f"{os.environ['WORK_DIR']}/small", f"{os.environ['OUT_DIR']}/events"
    options = {
        "kafka.bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"], "subscribe": os.environ["TOPIC"],
        "startingOffsets": "earliest", "maxOffsetsPerTrigger": os.environ["BATCH"],
        **({} if stock else FETCH),
    }  # fmt: skip
    found = rows(spark.readStream.format("kafka").options(**options).load())
    found = found if stock else found.coalesce(cores)
    writer = found.writeStream.partitionBy("date", "hour", "app").format("parquet").trigger(availableNow=True)
    query = writer.options(**LEVEL).option("checkpointLocation", f"{os.environ['WORK_DIR']}/checkpoint").start(small)
    query.awaitTermination()
    batches = len(query.recentProgress)
    streamed = cpu_s()
    hour = "date=2024-01-01/hour=00"
    read = spark.read.option("basePath", small).parquet(f"{small}/{hour}")
    placed = read.repartition("app").sortWithinPartitions("app")
    placed.drop("date", "hour").write.options(**LEVEL).partitionBy("app").parquet(f"{out}/{hour}")
    compacted = cpu_s()
    told = {
        "batches": batches, "start": start, "folder": f"{out}/{hour}",
        "files": sum(1 for _ in Path(out).rglob("*.parquet")),
        "steps": {"streaming": streamed - start, "compaction": compacted - streamed},
    }  # fmt: skip
    Path(os.environ["WORK_DIR"], "told.json").write_text(json.dumps(told))
    time.sleep(0.05)
    spark.stop()


if __name__ == "__main__":
    main()
