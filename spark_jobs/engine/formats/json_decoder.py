"""JSON messages, a chunk at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from tidegate.core.pipeline import EXTRA_COLUMN, Pipeline

from spark_jobs.engine.formats import Bad, Decoded
from spark_jobs.engine.formats.json_rows import RowRules
from spark_jobs.engine.types import schema_of


class JsonDecoder:
    def __init__(self, pipeline: Pipeline) -> None:
        columns = tuple((c.name, c.type) for c in pipeline.columns)
        if pipeline.format.unknown_fields == "capture":
            columns += (EXTRA_COLUMN,)
        self._schema = schema_of(columns)
        self._rules = RowRules(pipeline)
        self._has_time = pipeline.event_time.path is not None

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        rows, times = [], []
        decoded = Decoded(self._schema.empty_table(), None)
        empty: dict = {}
        for i, value in enumerate(values):
            row = self._rules.read(value)
            if isinstance(row, Bad):
                decoded.bad[i] = row
                rows.append(empty)
                times.append(None)
                continue
            for name, example in row.unknown.items():
                decoded.unknown.setdefault(name, (i, example))
            rows.append(row.values)
            times.append(row.event_ms)
        decoded.table = pa.Table.from_pylist(rows, schema=self._schema)
        decoded.event_ms = pa.array(times, pa.int64()) if self._has_time else None
        return decoded
