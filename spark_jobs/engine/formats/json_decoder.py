"""JSON messages, a chunk at a time: DuckDB decodes, and every message it cannot be sure of goes to `json_rows`."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.checksum import connect
from spark_jobs.engine.event_time import event_ms
from spark_jobs.engine.fetch import Chunk
from spark_jobs.engine.formats import Bad, Decoded
from spark_jobs.engine.formats.json_rows import NotJson, Row, RowRules, parse_message, parse_value
from spark_jobs.engine.formats.json_sql import Query, query
from spark_jobs.engine.strict import Unfit, convert
from spark_jobs.engine.types import schema_of
from tidegate.core.hivetypes import HiveType, parse
from tidegate.core.pipeline import EXTRA_COLUMN, Pipeline

MAX_SHAPES = 10_000
"""Shapes remembered; a topic with more (keys that are data) is decoded all the same, only slower."""


@dataclass(frozen=True)
class _Shape:
    """What JSON types at the probed paths tell. `sure`: nothing is wrong; `present`: for each leaf, whether a value."""

    sure: bool
    present: tuple[bool, ...]


class JsonDecoder:
    """`vectorised=False` sends every message to the row rules: slow, the same result."""

    def __init__(self, pipeline: Pipeline, *, vectorised: bool = True) -> None:
        columns = tuple((c.name, c.type) for c in pipeline.columns)
        self._capture = pipeline.format.unknown_fields == "capture"
        self._schema = schema_of(columns + ((EXTRA_COLUMN,) if self._capture else ()))
        self._rules = RowRules(pipeline)
        self._time = pipeline.event_time.format if pipeline.event_time.path is not None else None
        self._nullable = [c.nullable for c in pipeline.columns] + [False] * (self._time is not None)
        self._kinds: list[HiveType] = [parse(c.type) for c in pipeline.columns]
        self._vectorised = vectorised and not any(c.convert for c in pipeline.columns)
        self._shapes: dict[str, _Shape] = {}
        self._known_keys: dict[str, bool] = {}
        self._query: Query = query(pipeline)
        self._connection = connect()

    def decode(self, chunk: Chunk) -> Decoded:
        values = chunk.values
        if not self._vectorised or not values:
            return self._patched(self._nothing(len(values)), None, values, range(len(values)))
        found = self._run(values)
        sure = self._believable(found, values)
        table, times, doubted = self._finish(found)
        doubtful = pc.indices_nonzero(pc.invert(sure)).to_pylist()
        doubtful = sorted({*doubtful, *doubted}) if doubted else doubtful
        return self._patched(table, times, values, doubtful)

    def _run(self, values: Sequence[bytes | None]) -> pa.Table:
        rows = pa.table({"i": pa.array(range(len(values)), pa.int32()), "v": _text(values)})
        self._connection.register("input", rows)
        try:
            found = self._connection.sql(self._query.sql).to_arrow_table().combine_chunks()
        finally:
            self._connection.unregister("input")
        # one message is one row, whatever its bytes: never trust an engine's order without looking
        if not found["i"].combine_chunks().equals(rows["i"].combine_chunks()):
            raise AssertionError(f"decoding shifted rows: {len(found)} results for {len(values)} messages")
        return found

    def _believable(self, found: pa.Table, values: Sequence[bytes | None]) -> pa.Array:
        """A boolean per message: shape and keys are right, and every value that the shape promises is there."""
        types = found["types"].combine_chunks().dictionary_encode()
        shapes = [self._shape(text) for text in types.dictionary.to_pylist()]
        sure = _pick([s.sure for s in shapes], types.indices)
        keys = found["keys"].combine_chunks().dictionary_encode()
        good = [
            self._keys_are_good(text, keys.indices, i, values) for i, text in enumerate(keys.dictionary.to_pylist())
        ]
        if not all(good):
            sure = pc.and_(sure, _pick(good, keys.indices))
        for i in range(len(self._query.leaves)):
            column = found[f"v{i}"].combine_chunks()
            if column.null_count:
                promised = _pick([s.present[i] for s in shapes], types.indices)
                sure = pc.and_(sure, pc.invert(pc.and_(promised, column.is_null())))
        return pc.fill_null(sure, False)

    def _shape(self, text: str | None) -> _Shape:
        if text is None:  # not JSON at all
            return _Shape(False, (False,) * len(self._query.leaves))
        shape = self._shapes.get(text)
        if shape is None:
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            shape = self._shapes[text] = self._judge(text)
        return shape

    def _judge(self, text: str) -> _Shape:
        words = [word.strip("' ") for word in text.strip("[]").split(",")]
        types = dict(zip(self._query.probes, words, strict=True))
        sure = all(types.get(path, "OBJECT") in ("OBJECT", "NULL") for path in self._query.objects)
        present = []
        for leaf, nullable in zip(self._query.leaves, self._nullable, strict=True):
            found = types[leaf.path]
            present.append(found in leaf.accepts)
            sure = sure and (found in leaf.accepts or (found == "NULL" and nullable))
        return _Shape(sure, tuple(present))

    def _keys_are_good(self, text: str | None, indices: pa.Array, number: int, values: Sequence[bytes | None]) -> bool:
        """No key twice where a column looks, and none that is unknown if those matter."""
        if text is None:
            return False
        good = self._known_keys.get(text)
        if good is None:
            try:
                message = parse_message(values[pc.index(indices, number).as_py()])
            except (NotJson, RecursionError):  # says something about this message, not about its keys
                return False
            if len(self._known_keys) >= MAX_SHAPES:
                self._known_keys.clear()
            good = self._known_keys[text] = self._check_keys(message)
        return good

    def _check_keys(self, message: dict) -> bool:
        for path in self._query.objects:
            place: Any = message
            for key in path:
                place = place.get(key) if isinstance(place, dict) else None
            if isinstance(place, dict) and getattr(place, "twice", None):
                return False
        return self._rules.unknown_fields == "ignore" or all(key in self._rules.known for key in message)

    def _finish(self, found: pa.Table) -> tuple[pa.Table, pa.Array | None, set[int]]:
        """Columns in their final types, event times, and the rows whose nested values or patterns are in doubt."""
        doubted: set[int] = set()
        columns, times = [], None
        for i, leaf in enumerate(self._query.leaves):
            column = found[f"v{i}"].combine_chunks()
            if i == len(self._kinds):
                times = self._pattern_times(column, doubted) if leaf.text else column.cast(pa.int64())
            elif leaf.text:
                columns.append(self._nested(column, self._kinds[i], self._schema.field(i).type, doubted))
            else:
                columns.append(column.cast(self._schema.field(i).type))
        if self._capture:
            empty = pa.scalar([], self._schema.field(EXTRA_COLUMN[0]).type)
            columns.append(pa.repeat(empty, len(found)))
        return pa.Table.from_arrays(columns, schema=self._schema), times, doubted

    def _nested(self, column: pa.Array, kind: HiveType, target: pa.DataType, doubted: set[int]) -> pa.Array:
        values: list = []
        exact = "decimal" not in str(kind)  # DuckDB has read numbers as doubles: good enough for all but decimals
        for i, text in enumerate(column.to_pylist()):
            value = None
            if text is not None:
                try:
                    value = convert(parse_value(text), kind)
                    if not exact:
                        doubted.add(i)
                except (Unfit, NotJson, RecursionError):
                    doubted.add(i)
            values.append(value)
        return pa.array(values, target)

    def _pattern_times(self, column: pa.Array, doubted: set[int]) -> pa.Array:
        times: list[int | None] = []
        for i, text in enumerate(column.to_pylist()):
            try:
                times.append(None if text is None else event_ms(text, self._time or ""))
            except Unfit:
                times.append(None)
                doubted.add(i)
        return pa.array(times, pa.int64())

    def _nothing(self, count: int) -> pa.Table:
        return pa.Table.from_arrays([pa.nulls(count, f.type) for f in self._schema], schema=self._schema)

    def _patched(
        self, table: pa.Table, times: pa.Array | None, values: Sequence[bytes | None], doubtful: Sequence[int]
    ) -> Decoded:
        """The row rules decide about doubtful messages; those that are rows after all are put in their places."""
        decoded = Decoded(table, times)
        patches: list[tuple[int, Row]] = []
        for i in doubtful:
            row = self._rules.read(values[i])
            if isinstance(row, Bad):
                decoded.bad[i] = row
                continue
            patches.append((i, row))
            for name, example in row.unknown.items():
                decoded.unknown.setdefault(name, (i, example))
        if self._time is None:
            decoded.event_ms = None
        else:
            moments = [None] * len(values) if times is None else times.to_pylist() if patches or decoded.bad else None
            if moments is not None:
                for i in decoded.bad:
                    moments[i] = None
                for i, row in patches:
                    moments[i] = row.event_ms
                decoded.event_ms = pa.array(moments, pa.int64())
        if patches:
            added = pa.Table.from_pylist([row.values for _, row in patches], schema=self._schema)
            order = list(range(len(values)))
            for at, (i, _) in enumerate(patches):
                order[i] = len(values) + at
            decoded.table = pa.concat_tables([table, added]).take(pa.array(order, pa.int64())).combine_chunks()
        return decoded


def _pick(flags: list[bool], indices: pa.Array) -> pa.Array:
    """`flags` by dictionary index; null where the index is."""
    if flags and all(flags) and not indices.null_count:
        return pa.repeat(pa.scalar(True), len(indices))
    return pa.array(flags, pa.bool_()).take(indices)


def _text(values: Sequence[bytes | None]) -> pa.Array:
    """As UTF-8 strings; null for what is none."""
    try:
        if None in values:
            return pa.array(values, pa.binary()).cast(pa.string())
        ends = array("i", itertools.accumulate(map(len, values), initial=0))  # type: ignore[arg-type]
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]  # type: ignore[arg-type]
        return pa.Array.from_buffers(pa.binary(), len(values), buffers).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([v if v is not None and _is_utf8(v) else None for v in values], pa.binary()).cast(pa.string())


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
