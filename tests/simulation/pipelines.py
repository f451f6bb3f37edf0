"""The pipeline and the calendar of a simulated life."""

from __future__ import annotations

from tests.simulation.calendar import Calendar
from tests.simulation.settings import Setting
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

TOPIC, TOPIC_ID = "readings", "id-1"


def pipeline_of(s: Setting) -> Pipeline:
    windows = Windows(
        size_ms=s.size,
        timezone=s.zone,
        start_ms=s.start,
        watermark_delay_ms=s.delay,
        max_age_ms=s.max_age,
        idle=s.idle,
        topic_silence_ms=s.silence,
        on_silence=s.on_silence,
        idle_max_lag_ms=s.max_lag,
    )
    gaps = "allow" if s.gaps or s.transactions else "forbid"
    return Pipeline(
        name="readings",
        owner="tests",
        tags=(),
        source=Source(conn_id="kafka", topic=TOPIC, start=s.source_start, gaps=gaps, on_data_loss=s.on_data_loss),
        format=Format(),
        columns=(Column(name="id", type="string", path="$.id"),),
        event_time=EventTime("$.at", future_skew_ms=s.skew, future=s.future),
        windows=windows,
        partition_by=("date", "hour", "minute"),
        sink=Sink(conn_id="hive", table="lake.readings", location="file:///lake", workdir="file:///lake/_tidegate"),
        ingest=IngestRun(schedule=None, max_records=s.max_records, spark_conn_id="spark", spark_conf={}),
        archive=ArchiveRun(sla_ms=0),
        late_policy=s.late,
    )


def calendar_of(s: Setting) -> Calendar:
    """For events up to a year from either end of a life."""
    return _calendar(s.size, s.zone, s.start)


_CALENDARS: dict[tuple[int, str, int], Calendar] = {}


def _calendar(size: int, zone: str, start: int) -> Calendar:
    key = (size, zone, start)
    if key not in _CALENDARS:
        _CALENDARS[key] = Calendar(size, zone, start, start - 420 * 86_400_000, start + 520 * 86_400_000)
    return _CALENDARS[key]
