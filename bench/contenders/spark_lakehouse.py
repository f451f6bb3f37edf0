"""Stock Spark, hours from topic to an Iceberg table: Structured Streaming, AvailableNow, batches of BATCH records.

As somebody runs it who knows it: `spark_sql.FETCH`, as many writing tasks as cores, a writer for each hour side by side
instead of a shuffle and a sort. What from_json calls corrupt is left out.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.contenders.spark_sql import FETCH, NAMES, SCHEMA

CORRUPT = "_corrupt"


def rows(records: DataFrame) -> DataFrame:
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    value = f.from_json(f.col("value").cast("string"), SCHEMA, options)
    parsed = records.select(value.alias("e"), "topic", "partition", "offset", "timestamp")
    columns = [f.col(f"e.{name}").alias(name) for name in NAMES if name not in ("at", CORRUPT)]
    return parsed.where(f.col(f"e.{CORRUPT}").isNull()).select(
        *columns,
        f.expr("timestamp_millis(e.at)").alias("at"),
        *(f.col(name).alias(f"_kafka_{name}") for name in ("topic", "partition", "offset", "timestamp")),
    )


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    options = {
        "kafka.bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"], "subscribe": os.environ["TOPIC"],
        "startingOffsets": "earliest", "maxOffsetsPerTrigger": os.environ["BATCH"], **FETCH,
    }  # fmt: skip
    found = rows(spark.readStream.format("kafka").options(**options).load())
    writer = found.coalesce(spark.sparkContext.defaultParallelism).writeStream.format("iceberg").outputMode("append")
    writer = writer.option("fanout-enabled", "true").option(
        "checkpointLocation", f"{os.environ['WORK_DIR']}/checkpoint"
    )
    query = writer.trigger(availableNow=True).toTable(f"{os.environ['CATALOG']}.{os.environ['TABLE']}")
    query.awaitTermination()
    batches = sum(1 for progress in query.recentProgress if progress["numInputRows"])
    Path(os.environ["WORK_DIR"], "told.json").write_text(json.dumps({"commits": batches}))
    spark.stop()


if __name__ == "__main__":
    main()
