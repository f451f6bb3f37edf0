"""Which class starts which part."""

from __future__ import annotations

from collections.abc import Collection

from dev.stack.airflow import Airflow
from dev.stack.clickhouse import ClickHouse
from dev.stack.hdfs import Hdfs
from dev.stack.hive import HiveServer2, HiveServer2Objects, SparkThrift, SparkThriftIceberg, SparkThriftObjects
from dev.stack.iceberg import IcebergRest
from dev.stack.kafka import Kafka
from dev.stack.objects import Objects
from dev.stack.parts import Part
from dev.stack.postgres import Postgres
from dev.stack.rocketmq import RocketMq
from dev.stack.yarn import Yarn

HIVES: dict[str, type[Part]] = {
    "spark": SparkThrift,
    "spark-iceberg": SparkThriftIceberg,
    "spark-objects": SparkThriftObjects,
    "hive4": HiveServer2,
    "hive4-objects": HiveServer2Objects,
}


def part_types(parts: Collection[str], hive: str) -> list[type[Part]]:
    """The classes of the parts named; `hive` is one of HIVES."""
    every: list[type[Part]] = [
        Postgres, Kafka, RocketMq, Hdfs, Yarn, HIVES[hive], IcebergRest,
        Objects, ClickHouse, Airflow,
    ]  # fmt: skip
    return [kind for kind in every if kind.name in parts]
