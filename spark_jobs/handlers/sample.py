"""Looks in a topic's records for fields that no column takes: asked by `tidegate schema propose`.

A request, and its answer; settings of the source's client and of the schema registry come as secrets.

    {"pipeline": {...}, "topic_id": "...", "ranges": [[partition, start, end], ...]}
    {"read": 120, "fields": {"gate": {"seen": 17, "examples": ["\\"B7\\"", ...]}, ...}, "types": {"gate": "string"}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.formats import of_messages
from spark_jobs.engine.formats.debezium_decoder import DebeziumDecoder
from spark_jobs.engine.secrets import client_secrets
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import from_plain, to_plain
from tidegate.core.batch.jobs import IngestPlan, JobPart, kind_of
from tidegate.core.source.records import Reader
from tidegate.core.spec import paths
from tidegate.core.spec.pipeline import EXTRA_COLUMN, EventTime, Pipeline
from tidegate.core.window.lateness import Floor
from tidegate.kinds import source_kind

MOST_FIELDS, MOST_EXAMPLES, EXAMPLE_CHARACTERS = 500, 200, 100_000
OpenReader = Callable[[IngestPlan, dict[str, Any]], Reader]


def handler() -> Callable[[Any], dict[str, Any]]:
    return lambda request: sample(request, open_source)


def open_source(plan: IngestPlan, settings: dict[str, Any]) -> Reader:
    """The reader of the plan's kind of source."""
    return source_kind(kind_of(plan)).reader(plan, settings)


def sample(request: dict[str, Any], open_reader: OpenReader) -> dict[str, Any]:
    """Raises JobError."""
    pipeline = from_plain(Pipeline, request["pipeline"])
    ranges = tuple(
        OffsetRange(pipeline.source.topic, p, start, end) for p, start, end in request["ranges"] if end > start
    )
    reader = open_reader(plan_of(pipeline, str(request["topic_id"]), ranges), client_secrets())
    # only what is unknown matters here: no expression, no event time, no field that may not be null
    asked = replace(
        pipeline,
        columns=tuple(replace(c, nullable=True) for c in pipeline.decoded_columns),
        format=replace(pipeline.format, unknown_fields="capture"),
        event_time=EventTime(None),
        where=None,
    )
    known = (paths.parse(pipeline.event_time.path),) if pipeline.event_time.path else ()
    found, read = _Fields(), 0
    decoder = decoder_for(asked, also_known=known)
    try:
        for wanted in ranges:
            for chunk in reader.read(wanted):
                read += len(chunk)
                table = decoder.decode(chunk).table
                if EXTRA_COLUMN[0] in table.column_names:
                    found.add(table[EXTRA_COLUMN[0]].to_pylist())
    finally:
        reader.close()
    # a schema says more than values do
    messages = of_messages(decoder)
    types = messages.row_types if isinstance(messages, DebeziumDecoder) else {}
    return {"read": read, "fields": found.told(), "types": types}


def plan_of(pipeline: Pipeline, topic_id: str, ranges: tuple[OffsetRange, ...]) -> IngestPlan:
    return IngestPlan(
        attempt="sample",
        attempt_dir="",
        pipeline=to_plain(pipeline),
        bootstrap={},
        topic=pipeline.source.topic,
        topic_id=topic_id,
        parts=(JobPart(batch_id=0, clock_ms=0, floor=Floor(0), ranges=ranges),),
        nonce="",
    )


class _Fields:
    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._examples: dict[str, dict[str, None]] = {}

    def add(self, rows: Iterable[list[tuple[str, str]] | None]) -> None:
        for row in rows:
            for name, text in row or ():
                if name not in self._seen and len(self._seen) >= MOST_FIELDS:
                    continue
                self._seen[name] = self._seen.get(name, 0) + 1
                examples = self._examples.setdefault(name, {})
                if len(examples) < MOST_EXAMPLES and text is not None and len(text) <= EXAMPLE_CHARACTERS:
                    examples.setdefault(text)

    def told(self) -> dict[str, Any]:
        return {n: {"seen": seen, "examples": list(self._examples.get(n, {}))} for n, seen in self._seen.items()}
