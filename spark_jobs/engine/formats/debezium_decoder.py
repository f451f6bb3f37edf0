"""Debezium's change events: each is a row, by the row rules of JSON. Message by message, in Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_jobs.engine import paths
from spark_jobs.engine.formats import Bad, Decoded, Paths
from spark_jobs.engine.formats.change_event import TOMBSTONE, NoEvent, view
from spark_jobs.engine.formats.json_rows import Row, RowRules
from spark_jobs.engine.types import schema_of
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.source.records import Chunk
from tidegate.core.spec.change_events import FLAT, RESERVED
from tidegate.core.spec.pipeline import EXTRA_COLUMN, DebeziumFormat, Pipeline


class DebeziumDecoder:
    """Tombstones behind deletes are filtered, where none can have lost its delete.

    That is so unless the messages are flat, whose deletes may be tombstones, or the topic may have gaps: a compacted
    one keeps a tombstone longer than the delete. There they are dirty."""

    def __init__(self, pipeline: Pipeline, rules_version: int = RULES_VERSION, also_known: Paths = ()) -> None:
        self._flat = (pipeline.format.debezium or DebeziumFormat()).envelope == FLAT
        self._filters = not self._flat and pipeline.source.gaps == "forbid"
        self._rules = RowRules(pipeline, rules_version, (*also_known, *((name,) for name in RESERVED)))
        capture = (EXTRA_COLUMN,) if pipeline.format.unknown_fields == "capture" else ()
        self._schema = schema_of(tuple((c.name, c.type) for c in pipeline.columns) + capture)
        self._timed = pipeline.event_time.path is not None
        tops = {paths.parse(c.path)[0] for c in pipeline.columns}
        self._taken = tuple(sorted(tops.difference(RESERVED)))

    def decode(self, chunk: Chunk) -> Decoded:
        bad: dict[int, Bad] = {}
        unknown: dict[str, tuple[int, str]] = {}
        rows: list[dict[str, Any]] = []
        times: list[int | None] = []
        kept: list[bool] = []
        for i, (key, value) in enumerate(zip(chunk.keys, chunk.values, strict=True)):
            found = self._read(key, value)
            kept.append(found is not None)
            if isinstance(found, Row):
                rows.append(found.values)
                times.append(found.event_ms)
                for name, example in found.unknown.items():
                    unknown.setdefault(name, (i, example))
                continue
            if found is not None:
                bad[i] = found
            rows.append({})
            times.append(None)
        table = pa.Table.from_pylist(rows, schema=self._schema)
        moments = pa.array(times, pa.int64()) if self._timed else None
        return Decoded(table, moments, bad, unknown, None if all(kept) else pa.array(kept, pa.bool_()))

    def _read(self, key: bytes | None, value: bytes | None) -> Row | Bad | None:
        """None for a message that says nothing new."""
        if value is None:
            return None if self._filters else TOMBSTONE
        try:
            return self._rules.row(view(key, value, self._flat, self._taken))
        except NoEvent as e:
            return e.bad
