"""JSON messages, a chunk at a time: the C library decodes, and every message it is not sure of goes to `json_rows`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.engine import native
from spark_jobs.engine.event_time import event_ms
from spark_jobs.engine.formats import Bad, Decoded
from spark_jobs.engine.formats.assembly import first_seen
from spark_jobs.engine.formats.json_program import EVENT, Program
from spark_jobs.engine.formats.json_rows import Row, RowRules
from spark_jobs.engine.formats.known import Path
from spark_jobs.engine.slowness import Slowness
from spark_jobs.engine.strict import Unfit
from spark_jobs.engine.types import schema_of
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.files import slow_path
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import EXTRA_COLUMN, Pipeline


class JsonDecoder:
    """`vectorised=False` sends every message to the row rules: slow, the same result."""

    def __init__(
        self, pipeline: Pipeline, rules_version: int = RULES_VERSION, also_known: tuple[Path, ...] = (), *,
        vectorised: bool = True, library: Any = None,
    ) -> None:  # fmt: skip
        columns = tuple((c.name, c.type) for c in pipeline.columns)
        self._capture = pipeline.format.unknown_fields == "capture"
        self._schema = schema_of(columns + ((EXTRA_COLUMN,) if self._capture else ()))
        self._rules = RowRules(pipeline, rules_version, also_known)
        self._time = pipeline.event_time.format if pipeline.event_time.path is not None else None
        self._program: Program | None = None
        if vectorised:
            library = library or native.library()
            if library is not None:
                self._program = Program(library, pipeline, rules_version, also_known)

    def decode(self, chunk: Chunk) -> Decoded:
        values = chunk.values
        if self._program is None or not values:
            why = dict.fromkeys(range(len(values)), slow_path.LIBRARY)
            return self._patched(self._nothing(len(values)), values, why)
        batch, look = self._program.run(values)
        why = dict(zip(look, self._program.why, strict=True))
        decoded, doubted = self._finish(batch, self._program, len(look))
        if self._capture:
            decoded.unknown = first_seen(decoded.table.column(EXTRA_COLUMN[0]).chunk(0))
        if doubted:
            why = {i: why.get(i) for i in sorted({*why, *doubted})}
        return self._patched(decoded, values, why)

    def _finish(self, batch: pa.RecordBatch, program: Program, unsure: int) -> tuple[Decoded, set[int]]:
        """Convert what the library leaves to Python: columns and event times that came as text; list rows in doubt."""
        doubted: set[int] = set()
        slow = Slowness()
        columns = {name: batch.column(name) for name in batch.schema.names}
        with slow.timed():
            for name in program.texts:
                rule = self._rules.column_rule(name)
                columns[name] = _one_by_one(columns[name], self._schema.field(name).type, rule, doubted)
            times = columns.pop(EVENT, None)
            as_text = times is not None and pa.types.is_string(times.type)
            if as_text:
                times = _one_by_one(times, pa.int64(), lambda text: event_ms(text, self._time or ""), doubted)
        if program.texts or as_text:  # all but those that are counted later
            slow.count(slow_path.TYPE if program.texts else slow_path.TIME, len(batch) - unsure)
        table = pa.Table.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)
        if doubted:  # null in every column, as all others that are not sure
            order = pa.array([None if i in doubted else i for i in range(len(table))], pa.int64())
            table, times = table.take(order).combine_chunks(), None if times is None else times.take(order)
        return Decoded(table, times, slow=slow), doubted

    def _nothing(self, count: int) -> Decoded:
        table = pa.Table.from_arrays([pa.nulls(count, f.type) for f in self._schema], schema=self._schema)
        return Decoded(table, None if self._time is None else pa.nulls(count, pa.int64()))

    def _patched(self, decoded: Decoded, values: Sequence[bytes | None], doubtful: Mapping[int, str | None]) -> Decoded:
        """The row rules decide about doubtful messages; those that are rows after all are put in their places.
        `doubtful`: why each of them is, in their order; None: it has been counted."""
        if not doubtful:
            return decoded
        with decoded.slow.timed():
            return self._put(decoded, values, doubtful)

    def _put(self, decoded: Decoded, values: Sequence[bytes | None], doubtful: Mapping[int, str | None]) -> Decoded:
        patches: list[tuple[int, Row]] = []
        for i, why in doubtful.items():
            row = self._rules.read(values[i])
            if why is not None:
                decoded.slow.count(slow_path.DIRTY if isinstance(row, Bad) and why != slow_path.LIBRARY else why)
            if isinstance(row, Bad):
                decoded.bad[i] = row
                continue
            patches.append((i, row))
            for name, example in row.unknown.items():
                if decoded.unknown.get(name, (i + 1,))[0] > i:
                    decoded.unknown[name] = (i, example)
        if patches:
            added = pa.Table.from_pylist([row.values for _, row in patches], schema=self._schema)
            order = np.arange(len(values))
            order[[i for i, _ in patches]] = np.arange(len(patches)) + len(values)
            decoded.table = pa.concat_tables([decoded.table, added]).take(pa.array(order)).combine_chunks()
            if decoded.event_ms is not None:
                moments = pa.array([row.event_ms for _, row in patches], pa.int64())
                decoded.event_ms = pa.concat_arrays([decoded.event_ms, moments]).take(pa.array(order))
        return decoded


def _one_by_one(texts: pa.Array, kind: pa.DataType, rule: Callable[[str], Any], doubted: set[int]) -> pa.Array:
    """Each text by the rule; what it refuses is null and in doubt."""
    values: list[Any] = []
    for i, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else rule(text))
        except Unfit:
            values.append(None)
            doubted.add(i)
    return pa.array(values, kind)
