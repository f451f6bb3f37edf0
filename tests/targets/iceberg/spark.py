"""Spark SQL with Iceberg's own classes, in a process of its own: one statement a line in, its rows a line out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dev.stack.jars import ensure_jars
from dev.stack.java import find_java
from dev.stack.places import Places

_CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


class SparkFailed(Exception):
    """A statement was refused; the message is Spark's first words."""


class Spark:
    """One session. `folder`: where it works and logs."""

    def __init__(self, folder: Path) -> None:
        jars = sorted(ensure_jars("iceberg-spark", Places.of_checkout()).glob("*.jar"))
        conf = {**_CONF, "spark.jars": ",".join(map(str, jars)), "spark.sql.warehouse.dir": f"file://{folder}/none"}
        self._log = (folder / "spark.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(conf)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._log, env={**os.environ, "JAVA_HOME": str(find_java().home), "TZ": "UTC"},
            cwd=Places.of_checkout().checkout,
        )  # fmt: skip
        self._catalogs = 0

    def __call__(self, statement: str) -> list[dict[str, Any]]:
        """Rows, by column. Raises SparkFailed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SparkFailed(f"the session has ended; see {self._log.name}")
        answer = json.loads(line)
        if isinstance(answer, str):
            raise SparkFailed(answer)
        assert isinstance(answer, list)
        return answer

    def catalog(self, name: str, **options: str) -> None:
        """Add a catalogue by this name, without a cache. Options with `_` for `-`."""
        of = f"spark.sql.catalog.{name}"
        self(f"SET `{of}`=org.apache.iceberg.spark.SparkCatalog")
        for key, value in {"cache_enabled": "false", **options}.items():
            self(f"SET `{of}.{key.replace('_', '-')}`=`{value}`")

    def close(self) -> None:
        """End the session and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()


def _main(conf: dict[str, str]) -> None:
    from pyspark.sql import SparkSession

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is said goes to the log
    builder = SparkSession.builder.master("local[1]").appName("readers")  # type: ignore[attr-defined]
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    for line in sys.stdin:
        answers.write(json.dumps(_answer(session, json.loads(line)), default=str) + "\n")
        answers.flush()
    session.stop()


def _answer(session: Any, statement: str) -> list[dict[str, Any]] | str:
    try:
        return [row.asDict(recursive=True) for row in session.sql(statement).collect()]
    except Exception as e:
        print(statement, e, file=sys.stderr)
        return " ".join(str(e).strip().splitlines()[:2])  # the second one is of Java's exception


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
