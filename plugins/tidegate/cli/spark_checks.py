"""`tidegate doctor`: errors in Spark connections, found without starting a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import JobFailed
from tidegate.core.doctor.findings import WRONG, Finding
from tidegate.core.spec.pipeline import Pipeline
from tidegate.spark.connection import SparkConnection


def impossible_jobs(pipelines: Iterable[Pipeline], connections: Mapping[str, Connection | None]) -> list[Finding]:
    """Findings for connections and settings with which no job can succeed, each once."""
    found = {}
    for p in pipelines:
        connection = connections.get(p.ingest.spark_conn_id)
        try:
            if connection is not None:
                SparkConnection.of(connection, p.ingest.spark_conf).check(p.ingest.spark_conf)
        except JobFailed as e:
            what = str(e).partition("\n")[0]
            found[what] = Finding("spark", WRONG, what, "no batch can be written", e.advice, p.name)
    return list(found.values())
