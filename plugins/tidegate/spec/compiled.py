"""From the validated document to `core.spec.pipeline.Pipeline`, and the identity of what comes out."""

from __future__ import annotations

import hashlib
from datetime import datetime

from tidegate.core.base.fields import read_as
from tidegate.core.base.plain import dumps, to_plain
from tidegate.core.spec.change_events import EVENT_COLUMNS, NULLABLE
from tidegate.core.spec.pipeline import (
    ArchiveRun,
    Cleaning,
    Column,
    DirtyLimits,
    EventTime,
    Format,
    IngestRun,
    Merge,
    Notify,
    Pipeline,
    Reopening,
    Sink,
    Site,
    Source,
    Windows,
)
from tidegate.core.target import paths
from tidegate.core.target.port import Unit
from tidegate.kinds import source_kind, target_kind
from tidegate.spec import completeness_rules, copy_rules, deliver_rules
from tidegate.spec.by_kind import own_options
from tidegate.spec.model import ColumnSpec, PipelineSpec
from tidegate.spec.operations import ArchiveSpec, CleanSpec, IngestSpec
from tidegate.spec.rules import DEFAULT_COMPRESSION, archive_runs, epoch_ms, local_instant
from tidegate.spec.sink import SinkSection
from tidegate.spec.source import SourceSection
from tidegate.spec.values import KAFKA_TIMESTAMP

OPERATIONS = (
    "owner", "tags", "description", "ingest", "archive", "clean", "webhook_conn_id", "reopening", "completeness",
    "notify", "copy", "deliver",
)  # fmt: skip
"""Fields of a Pipeline that decide how and when it runs, not what its rows are."""
_ALWAYS_OF_COLUMNS = ("name", "type", "path", "nullable")
_WHO = "accepted"
"""Of a column: the YAML that names it later makes no new version."""
_NEVER_OF_SOURCE = ("loss_warning_ms", "sites")
_NEVER_OF_SINK = ("metastore_conn_id", "fields")
"""A connection, and what plans pin."""


def pipeline_of(spec: PipelineSpec, message_format: Format) -> Pipeline:
    """`spec` must have passed `rules.check`; `message_format` is what `formats.compile_format` made of it."""
    late = spec.late
    return read_as(
        Pipeline,
        spec,
        source=_source(spec.source, spec.windows.timezone),
        format=message_format,
        columns=(*map(_column, spec.columns), *_added(message_format)),
        event_time=_event_time(spec),
        windows=_windows(spec),
        partition_by=tuple(p.lower() for p in spec.partition_by),
        sink=_sink(spec.sink),
        ingest=_ingest(spec.ingest),
        archive=_archive(spec.archive, archive_runs(spec)),
        late_policy=late.policy,
        reopening=Reopening(late.reopen_after, late.reopen_generations, late.reopen_age, late.reopen_rows),
        dirty=DirtyLimits(spec.dirty.max_count, spec.dirty.max_ratio),
        webhook_conn_id=spec.notify.webhook_conn_id,
        notify=Notify(spec.notify.kinds, spec.notify.callback),
        clean=_clean(spec.clean),
        completeness=completeness_rules.compiled(spec),
        copy=copy_rules.compiled(spec.copy_),
        deliver=deliver_rules.compiled(spec),
    )


def fingerprint(pipeline: Pipeline) -> str:
    """SHA-256 (hex) over everything that decides which rows land where; equal ones are one version of the spec.

    Owner, schedules, pools and the like are left out: changing them makes no new version.
    """
    content = {key: value for key, value in to_plain(pipeline).items() if key not in OPERATIONS}
    # where it is read, and by which connection, changes with a failover
    content["source"] = {key: value for key, value in content["source"].items() if key not in _NEVER_OF_SOURCE}
    if pipeline.source.sites:
        content["source"]["conn_id"] = pipeline.source.sites[0].conn_id
    # when a window closes is not pinned by any plan, and this part of it is younger than registered specs
    content["windows"] = {key: value for key, value in content["windows"].items() if key != "idle_max_lag_ms"}
    content["sink"] = {key: value for key, value in content["sink"].items() if key not in _NEVER_OF_SINK}
    # what an earlier release did not know must not make a new version of each pipeline
    content["format"] = {key: value for key, value in content["format"].items() if value is not None}
    content["columns"] = [
        {key: value for key, value in column.items() if key in _ALWAYS_OF_COLUMNS or (value and key != _WHO)}
        for column in content["columns"]
    ]
    return hashlib.sha256(dumps(content).encode()).hexdigest()


def _added(message_format: Format) -> tuple[Column, ...]:
    """Columns that a format brings along."""
    if message_format.debezium is None:
        return ()
    return tuple(
        Column(name=name, type=kind, path=path, nullable=name in NULLABLE) for name, kind, path in EVENT_COLUMNS
    )


def _column(spec: ColumnSpec) -> Column:
    path = "" if spec.expr is not None else spec.from_ or f"$.{spec.name}"
    return read_as(Column, spec, name=spec.name.lower(), path=path, accepted=False)


def _source(spec: SourceSection, timezone: str) -> Source:
    """The compiled section; without transactions every record is committed, without keys for gaps there are none."""
    start = epoch_ms(local_instant(spec.start, timezone)) if isinstance(spec.start, datetime) else spec.start
    return read_as(
        Source,
        spec,
        start=start,
        isolation=getattr(spec, "isolation", "read_committed"),
        gaps=getattr(spec, "gaps", "forbid"),
        loss_warning_ms=spec.loss_warning,
        options=own_options(spec, SourceSection, ("isolation", "gaps", "sites")),
        sites=tuple(read_as(Site, site) for site in getattr(spec, "sites", ())),
    )


def _event_time(spec: PipelineSpec) -> EventTime:
    event_time = spec.event_time
    path = None if event_time.from_ == KAFKA_TIMESTAMP else event_time.from_
    return EventTime(path, event_time.format, event_time.future_skew, event_time.future)


def _windows(spec: PipelineSpec) -> Windows:
    windows, kind = spec.windows, target_kind(spec.sink.kind)
    return Windows(
        size_ms=windows.size,
        timezone=windows.timezone,
        start_ms=epoch_ms(local_instant(windows.start, windows.timezone)),
        watermark_delay_ms=windows.watermark_delay,
        max_age_ms=windows.max_age,
        idle=windows.idle,
        topic_silence_ms=windows.topic_silence,
        on_silence=windows.on_silence,
        idle_max_lag_ms=windows.idle_max_lag,
        closes=kind.unit is Unit.WINDOW,
        follows=kind.follows,
        copied=kind.follows and spec.copy_ is not None,
        read_whole=source_kind(spec.source.kind).traits.windowed,
    )


def _sink(spec: SinkSection) -> Sink:
    return read_as(
        Sink,
        spec,
        workdir=spec.workdir or paths.usual_workdir(spec.location),
        compression=spec.compression or DEFAULT_COMPRESSION[spec.format],
        metastore_conn_id=getattr(spec, "metastore_conn_id", None),
        fields=(),
        options=own_options(spec, SinkSection, ("metastore_conn_id",)),
    )


def _ingest(spec: IngestSpec) -> IngestRun:
    spark = {"spark_conn_id": spec.spark.conn_id, "spark_conf": dict(spec.spark.conf)}
    return read_as(IngestRun, spec, **spark, spark_session=spec.spark.session)


def _archive(spec: ArchiveSpec, max_active_runs: int) -> ArchiveRun:
    merge = Merge(spec.merge.min_files, spec.merge.local_size)
    return read_as(ArchiveRun, spec, sla_ms=spec.sla, max_active_runs=max_active_runs, merge=merge)


def _clean(spec: CleanSpec) -> Cleaning:
    return Cleaning(spec.attempts, spec.landed, spec.generations, spec.quarantine)
