"""A database's table into Parquet by Spark's JDBC source, as one writes it by hand: a query for each range of keys."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from bench.contenders.spark_sql import LEVEL
from bench.parts import LOCKS
from dev.stack.jars import ensure_jars
from dev.stack.java import find_java
from dev.stack.places import Places
from tidegate.core.base.connection import Connection

FETCH = "10000"
"""Rows that a driver takes at once."""
_URLS = {
    "mysql": "jdbc:mysql://{at.host}:{at.port}/{at.schema}?permitMysqlScheme",
    "postgres": "jdbc:postgresql://{at.host}:{at.port}/{at.schema}",
}
"""Spark 3.5 has no dialect for URLs of MariaDB: without MySQL's it would read the names of columns, not the columns."""
_DRIVERS = {"mysql": "org.mariadb.jdbc.Driver", "postgres": "org.postgresql.Driver"}


def session(folder: Path, tasks: int) -> SparkSession:
    """With so many tasks at once. A further session of a process keeps its JVM, warm as it is."""
    os.environ |= {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    jars = sorted(ensure_jars("jdbc", Places.of_checkout(), locks=LOCKS).glob("*.jar"))
    conf = {
        "spark.jars": ",".join(map(str, jars)), "spark.driver.memory": "3g", "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -Duser.timezone=UTC", "spark.local.dir": f"{folder}/local",
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }  # fmt: skip
    return SparkSession.builder.master(f"local[{tasks}]").config(map=conf).getOrCreate()


def copy(spark: SparkSession, at: Connection, table: str, key: str, rows: int, parts: int, folder: Path) -> None:
    """`rows`: the greatest key; the smallest one is 1."""
    kind = at.conn_type or ""
    options = {
        "url": _URLS[kind].format(at=at), "driver": _DRIVERS[kind], "dbtable": table, "fetchsize": FETCH,
        "user": at.login, "password": at.password or "", "partitionColumn": key, "lowerBound": "1",
        "upperBound": str(rows), "numPartitions": str(parts),
    }  # fmt: skip
    spark.read.format("jdbc").options(**options).load().write.options(**LEVEL).parquet(f"file://{folder}")
