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
    source=Source("kafka_default", "flights"),
    format=Format(),
    columns=(Column("carrier", "string", "$.carrier"), Column("leg", "int", "$.leg"), Column("fare", "double", "$.f")),
    event_time=EventTime("$.at"),
    windows=Windows(HOUR, "UTC", 0, 0),
    partition_by=("date", "hour", "carrier", "leg"),
    sink=Sink("hive", "lake.flights", "file:///lake/flights", "file:///lake/flights/_tidegate"),
    ingest=IngestRun(None, 1, "spark", {}),
    archive=ArchiveRun(0),
    kafka_columns=False,
)
