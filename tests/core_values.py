"""Values that tests of the core begin with and change with `replace`; no I/O, no adapter."""

from __future__ import annotations

from tidegate.core.spec.pipeline import (
    ArchiveRun,
    Column,
    EventTime,
    Format,
    IngestRun,
    Pipeline,
    Sink,
    Source,
    Windows,
)

HOUR = 3_600_000
T0 = 1_357_344_000_000  # 2013-01-05T00:00Z

PIPELINE = Pipeline(
    name="flights",
    owner="data",
    tags=(),
    source=Source(conn_id="kafka_default", topic="flights"),
    format=Format(),
    columns=(
        Column(name="carrier", type="string", path="$.carrier"),
        Column(name="leg", type="int", path="$.leg"),
        Column(name="fare", type="double", path="$.f"),
    ),
    event_time=EventTime("$.at"),
    windows=Windows(size_ms=HOUR, timezone="UTC", start_ms=0, watermark_delay_ms=0),
    partition_by=("date", "hour", "carrier", "leg"),
    sink=Sink(
        conn_id="hive", table="lake.flights", location="file:///lake/flights", workdir="file:///lake/flights/_tidegate"
    ),
    ingest=IngestRun(schedule=None, max_records=1, spark_conn_id="spark", spark_conf={}),
    archive=ArchiveRun(sla_ms=0),
    kafka_columns=False,
)
