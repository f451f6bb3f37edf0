"""What a pipeline into a keyed table by days must be like."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.base.instants import DAY_MS
from tidegate.core.spec.pipeline import Pipeline
from tidegate.targets.hive import kind as hive
from tidegate.targets.mirror.rules import Problem, of_events, of_key


def problems(pipeline: Pipeline) -> list[Problem]:
    """(path in the YAML, what is wrong) of a pipeline that no such table can take."""
    return [
        *hive.problems(pipeline, "set sink.store: iceberg"),
        *of_events(pipeline),
        *of_key(pipeline),
        *_days(pipeline),
    ]


def _days(pipeline: Pipeline) -> Iterator[Problem]:
    if pipeline.windows.size_ms != DAY_MS:
        yield ("windows", "size"), "a table by days has windows of a day: set it to 1d"
    if pipeline.partition_by != ("date",):
        yield ("partition_by",), "a table by days is partitioned by the day alone: set it to [date]"
    if pipeline.event_time.path is None:
        yield ("event_time", "from"), "a day is one of the source: set it to $._source.ts_ms, the commit's time"
    if pipeline.late_policy != "reroute":
        yield ("late", "policy"), "no event may be left out: set it to reroute, into the oldest open day"
    if pipeline.dirty.max_count != 0:
        yield ("dirty", "max_count"), "no event may be left out: set it to 0"
    if pipeline.sink.format != "parquet":
        yield ("sink", "format"), "rows of a mirror are merged in parquet alone"
