"""Stock Spark: its Kafka source, from_json with an explicit schema, partitionBy; `STYLE` is batch or streaming.

With `TUNED`, what its users do for speed: the Kafka client fetches and hands over more at once, and as many tasks
write as there are cores, not one for each Kafka partition, each with a file of its own in each directory. One write and
no other action. What from_json calls corrupt goes to directories of its own, so that the clean rows can be compared
with the others'.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SCHEMA = """id string, at bigint, app string, user_id bigint, session string, country string, city string, os string,
    version string, price double, quantity int, paid boolean, url string, referrer string, note string,
    device struct<model:string,memory:int>, tags array<string>, _corrupt string"""
NAMES = [part.split()[0] for part in SCHEMA.replace("<model:string,memory:int>", "").split(",")]
DIRTY = "dirty"
FETCH = {
    "kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": "8388608",
    "kafka.fetch.max.bytes": "104857600", "kafka.receive.buffer.bytes": "1048576",
}  # fmt: skip
"""Spark's client takes 500 records a poll and 1 MB of a partition by itself."""
LEVEL = {"parquet.compression.codec.zstd.level": "1"}
"""Everybody's; Spark's own is 3, which is more work for hardly fewer bytes."""


def rows(records: DataFrame) -> DataFrame:
    """Typed columns, Kafka's coordinates, and the columns that make directories."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    value = f.from_json(f.col("value").cast("string"), SCHEMA, options)
    parsed = records.select(value.alias("e"), "topic", "partition", "offset", "timestamp")
    time = f.timestamp_millis("e.at") if hasattr(f, "timestamp_millis") else f.expr("timestamp_millis(e.at)")
    clean = f.col("e._corrupt").isNull()
    columns = [f.col(f"e.{name}").alias(name) for name in NAMES if name not in ("at", "app")]
    return parsed.select(
        *columns,
        f.col("topic").alias("_topic"),
        f.col("partition").alias("_partition"),
        f.col("offset").alias("_offset"),
        f.col("timestamp").alias("_kafka_ts"),
        f.lit(1).cast("bigint").alias("_batch_id"),
        f.when(clean, f.date_format(time, "yyyy-MM-dd")).otherwise(DIRTY).alias("date"),
        f.when(clean, f.date_format(time, "HH")).otherwise(DIRTY).alias("hour"),
        f.when(clean, f.col("e.app")).otherwise(DIRTY).alias("app"),
    )


def tuned(found: DataFrame) -> DataFrame:
    return found.coalesce(int(os.environ["CORES"])) if os.environ.get("TUNED") else found


def batch(spark: SparkSession, options: dict[str, str]) -> None:
    found = spark.read.format("kafka").options(**options, endingOffsets="latest").load()
    writer = tuned(rows(found)).write.options(**LEVEL).partitionBy("date", "hour", "app").mode("append")
    writer.parquet(os.environ["OUT_DIR"])


def streaming(spark: SparkSession, options: dict[str, str]) -> None:
    found = spark.readStream.format("kafka").options(**options).load()
    writer = tuned(rows(found)).writeStream.partitionBy("date", "hour", "app").format("parquet")
    writer = writer.options(**LEVEL, checkpointLocation=f"{os.environ['WORK_DIR']}/checkpoint")
    writer.trigger(availableNow=True).start(os.environ["OUT_DIR"]).awaitTermination()


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.parquet.compression.codec", "zstd")
    kafka = {
        "kafka.bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"],
        "subscribe": os.environ["TOPIC"],
        "startingOffsets": "earliest",
        **(FETCH if os.environ.get("TUNED") else {}),
    }
    {"batch": batch, "streaming": streaming}[os.environ["STYLE"]](session, kafka)
    session.stop()
