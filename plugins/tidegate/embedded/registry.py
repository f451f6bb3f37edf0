"""Which class starts which part."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.embedded.airflow import Airflow
from tidegate.embedded.hdfs import Hdfs
from tidegate.embedded.hive import HiveServer2, SparkThrift
from tidegate.embedded.kafka import Kafka
from tidegate.embedded.parts import Part
from tidegate.embedded.postgres import Postgres
from tidegate.embedded.yarn import Yarn


def part_types(parts: Collection[str], hive: str) -> list[type[Part]]:
    """The classes of the parts named; `hive` is `spark` or `hive4`."""
    every: list[type[Part]] = [Postgres, Kafka, Hdfs, Yarn, HiveServer2 if hive == "hive4" else SparkThrift, Airflow]
    return [kind for kind in every if kind.name in parts]
