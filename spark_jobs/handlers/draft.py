"""Samples a topic's messages and tries a drafted pipeline on them: asked by `tidegate init`.

A request, and its answer. The first one reads; the others look at what it has read:

    {"pipeline": {...}, "topic_id": "...", "ranges": [[partition, start, end], ...]}
    {"read": 120, "gaps": 0, "cut": "", "kind": "json", "values": ["...", ...]}
    {"fields": {...a pipeline that captures everything...}}
    {"messages": [[partition, offset, kafka_ms, {"field": "text", ...} or null], ...], "bad": ["reason", ...]}
    {"check": {...the drafted pipeline...}, "clock_ms": 0}
    {"rows": 118, "late": 1, "dirty": [[field, reason, count, partition, offset], ...]}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.route import Router
from spark_jobs.engine.secrets import client_secrets
from spark_jobs.handlers.sample import OpenReader, open_source, plan_of
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import from_plain
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import EXTRA_COLUMN, Pipeline
from tidegate.core.window.lateness import Floor

MOST_BYTES, MOST_SECONDS = 64 * 1024 * 1024, 30.0
"""A sample is cut there: a look at a topic must not take a worker's memory, nor a user's patience."""
FIELD_CHARACTERS, MOST_REASONS, SHOWN = 20_000, 200, 3


def handler() -> Callable[[Any], dict[str, Any]]:
    return Look(open_source).answer


class Look:
    """Holds the sample between the requests: what is drafted and what is checked are the same messages."""

    def __init__(self, open_reader: OpenReader) -> None:
        self._open = open_reader
        self._chunks: list[tuple[int, Chunk]] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Raises JobError."""
        if "fields" in request:
            return self._fields(from_plain(Pipeline, request["fields"]))
        if "check" in request:
            return self._check(from_plain(Pipeline, request["check"]), request["clock_ms"])
        return self._read(request)

    def _read(self, request: dict[str, Any]) -> dict[str, Any]:
        pipeline = from_plain(Pipeline, request["pipeline"])
        ranges = tuple(OffsetRange(pipeline.source.topic, *r) for r in request["ranges"])
        reader = self._open(plan_of(pipeline, str(request["topic_id"]), ranges), client_secrets())
        size, gaps, cut, until = 0, 0, "", time.monotonic() + MOST_SECONDS
        try:
            for wanted in ranges:
                read = 0
                for chunk in reader.read(wanted):
                    self._chunks.append((wanted.partition, chunk))
                    read, size = read + len(chunk), size + chunk.bytes
                    if size > MOST_BYTES or time.monotonic() > until:
                        cut = f"after {size:,} bytes"
                        break
                if cut:
                    break
                gaps += wanted.end - wanted.start - read
        finally:
            reader.close()
        values = [v for _, chunk in self._chunks for v in chunk.values]
        shown = [v[:200].decode("utf-8", "backslashreplace") for v in values[:SHOWN] if v is not None]
        return {"read": len(values), "gaps": gaps, "cut": cut, "kind": kind_of(values), "values": shown}

    def _fields(self, pipeline: Pipeline) -> dict[str, Any]:
        messages, bad = [], []
        for partition, chunk, decoded in self._decoded(pipeline):
            kept = EXTRA_COLUMN[0] in decoded.table.column_names  # a raw message has no fields
            extra = decoded.table[EXTRA_COLUMN[0]].to_pylist() if kept else [()] * len(chunk)
            for i, (offset, at) in enumerate(zip(chunk.offsets, chunk.timestamps, strict=True)):
                reason = decoded.bad.get(i)
                if reason is not None:
                    bad.append(f"{reason.reason} (partition {partition}, offset {offset})")
                fields = None if reason is not None else {name: _short(text) for name, text in extra[i] or ()}
                messages.append([partition, offset, at, fields])
        return {"messages": messages, "bad": bad[:MOST_REASONS]}

    def _check(self, pipeline: Pipeline, clock_ms: int) -> dict[str, Any]:
        dirty: dict[tuple[str, str], list[int]] = {}
        rows = late = 0
        router = Router(pipeline, Floor(pipeline.windows.start_ms), clock_ms)
        for partition, chunk, decoded in self._decoded(pipeline):
            routed = router.route(chunk, decoded)
            for i, bad in routed.bad.items():
                found = dirty.setdefault((bad.field, bad.reason), [0, partition, chunk.offsets[i]])
                found[0] += 1
            is_late = routed.late.to_pylist()
            late += sum(is_late[i] for i in range(len(chunk)) if i not in routed.bad)
            rows += len(chunk) - len(routed.bad)
        told = [[*key, *found] for key, found in sorted(dirty.items(), key=lambda item: -item[1][0])]
        return {"rows": rows, "late": late, "dirty": told[:MOST_REASONS]}

    def _decoded(self, pipeline: Pipeline) -> Iterator[tuple[int, Chunk, Any]]:
        decoder = decoder_for(pipeline)
        for partition, chunk in self._chunks:
            yield partition, chunk, decoder.decode(chunk)


def _short(text: str | None) -> str | None:
    """A value that is too long to be looked at is a text like any other."""
    return text if text is None or len(text) <= FIELD_CHARACTERS else '"(too long to be shown)"'


def kind_of(values: list[bytes | None]) -> str:
    """The format that most messages seem to have: json, confluent (Avro or protobuf with a schema's id), csv, raw."""
    counts: dict[str, int] = {}
    for value in values[:1000]:
        if value is not None:
            kind = _kind_of(value)
            counts[kind] = counts.get(kind, 0) + 1
    best = max(counts, key=lambda k: counts[k], default="raw")
    return best if counts.get(best, 0) > sum(counts.values()) / 2 else "raw"


def _kind_of(value: bytes) -> str:
    if value[:1] == b"\x00" and len(value) > 5:
        return "confluent"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "raw"
    if text.lstrip()[:1] == "{":
        return "json"
    printable = all(c.isprintable() or c in "\t\r\n" for c in text[:1000])
    return "csv" if printable and any(mark in text for mark in ",;\t|") else "raw"
