"""Rows become columns: what the decoders have in common that go message by message."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.formats import Bad, Decoded
from spark_jobs.engine.formats.json_program import Program
from spark_jobs.engine.formats.undecodable import NULL, TOMBSTONE, Malformed, Misfits, Values, first_misfit
from spark_jobs.engine.slowness import Slowness
from spark_jobs.engine.types import schema_of
from tidegate.core.base.hivetypes import HiveType, parse
from tidegate.core.files import slow_path
from tidegate.core.spec import paths
from tidegate.core.spec.pipeline import EXTRA_COLUMN, Pipeline

ByRules = Callable[[Sequence[bytes | None]], Decoded]
"""What the row rules say of messages."""


class Assembly:
    """A pipeline's columns, and its event time if that is in the message."""

    def __init__(self, pipeline: Pipeline, also_known: tuple[tuple[str, ...], ...] = ()) -> None:
        self._also_known = also_known
        self.columns = [(c.name, paths.parse(c.path), parse(c.type), c.nullable) for c in pipeline.columns]
        self.time_path = None if pipeline.event_time.path is None else paths.parse(pipeline.event_time.path)
        self.time_format = pipeline.event_time.format
        self.unknown_matter = pipeline.format.unknown_fields != "ignore"
        self.time_field = pipeline.event_time.path or ""
        self._capture = pipeline.format.unknown_fields == "capture"
        columns = tuple((c.name, c.type) for c in pipeline.columns)
        self._schema = schema_of(columns + ((EXTRA_COLUMN,) if self._capture else ()))
        self._width = len(columns) + (self.time_path is not None) + self.unknown_matter

    @property
    def targets(self) -> list[tuple[tuple[str, ...], HiveType | None]]:
        """(path, type) of each of `Values`; the event time, if there is one, has no type."""
        found: list[tuple[tuple[str, ...], HiveType | None]] = [(path, kind) for _, path, kind, _ in self.columns]
        return [*found, (self.time_path, None)] if self.time_path is not None else found

    @property
    def taken(self) -> list[tuple[tuple[str, ...], HiveType | None]]:
        """Paths that are no unknown fields, with the types that are taken there."""
        return [*self.targets, *((path, None) for path in self._also_known)]

    def decoded(self, values: Sequence[bytes | None], read: Callable[[bytes], Values]) -> Decoded:
        """`read` gives a message's values, or raises Malformed or Misfits."""
        bad: dict[int, Bad] = {}
        rows: list[Values] = []
        empty = (None,) * self._width
        names = [(name, nullable) for name, _, _, nullable in self.columns]
        for i, value in enumerate(values):
            try:
                if value is None:
                    bad[i] = TOMBSTONE
                    rows.append(empty)
                else:
                    rows.append(read(value))
            except Malformed as e:
                bad[i] = Bad(str(e))
                rows.append(empty)
            except Misfits as e:
                bad[i] = first_misfit(names, e.values, self.time_field)
                rows.append(empty)
        return self.assembled(list(zip(*rows, strict=True)) if rows else [()] * self._width, bad)

    def by_program(
        self, program: Program | None, why_not: str, values: Sequence[bytes | None], by_rules: ByRules
    ) -> Decoded:
        """Rows of the C library; without a program, or without messages, by the row rules. `why_not`: why there is no
        program."""
        if program is not None and values:
            batch, look = program.run(values)
            return self.patched(batch, look, program.why, values, by_rules)
        slow = Slowness()
        slow.count(why_not, len(values))
        with slow.timed():
            found = by_rules(values)
        found.slow = slow
        return found

    def patched(
        self,
        batch: pa.RecordBatch,
        look: Sequence[int],
        why: Sequence[str],
        values: Sequence[bytes | None],
        by_rules: ByRules,
    ) -> Decoded:
        """Rows of the C library, and by the rules those that it was not sure of, in their places. `why` it
        was not, for each of them."""
        table = pa.Table.from_arrays([batch.column(name) for name in self._schema.names], schema=self._schema)
        decoded = Decoded(table, None if self.time_path is None else batch.column(len(self._schema)))
        if self._capture:
            decoded.unknown = first_seen(batch.column(EXTRA_COLUMN[0]))
        if not look:
            return decoded
        with decoded.slow.timed():
            slow = by_rules([values[i] for i in look])
        for i, reason in enumerate(why):
            decoded.slow.count(slow_path.DIRTY if i in slow.bad else reason)
        decoded.bad = {look[i]: why for i, why in slow.bad.items()}
        for name, (i, example) in slow.unknown.items():
            if decoded.unknown.get(name, (len(values),))[0] > look[i]:
                decoded.unknown[name] = (look[i], example)
        order = np.arange(len(values))
        order[np.asarray(look)] = np.arange(len(look)) + len(values)
        decoded.table = pa.concat_tables([table, slow.table]).take(pa.array(order)).combine_chunks()
        if decoded.event_ms is not None and slow.event_ms is not None:
            decoded.event_ms = pa.concat_arrays([decoded.event_ms, slow.event_ms]).take(pa.array(order))
        return decoded

    def assembled(self, columns: Sequence[Sequence[Any]], bad: dict[int, Bad]) -> Decoded:
        """`bad` rows are null in every column, and are kept; those with a null where none may be are added."""
        decoded = Decoded(pa.table({}), None, bad)
        arrays = []
        for i in range(len(self.columns)):
            arrays.append(_array(columns[i], self._schema.field(i).type))
            self.refuse_nulls(arrays[i], i, bad)
        if self.time_path is not None:
            times = decoded.event_ms = _array(columns[len(self.columns)], pa.int64())
            for row in pc.indices_nonzero(times.is_null()).to_pylist() if times.null_count else ():
                bad.setdefault(row, Bad("no event time", self.time_field))
            if bad and times.null_count < len(bad):
                decoded.event_ms = pa.array(
                    [None if i in bad else t for i, t in enumerate(times.to_pylist())], pa.int64()
                )
        if self.unknown_matter:
            for i, fields in enumerate(columns[-1]):
                for name, text in fields or () if i not in bad else ():
                    decoded.unknown.setdefault(name, (i, text or ""))
            if self._capture:
                arrays.append(pa.array([f or () for f in columns[-1]], self._schema.field(EXTRA_COLUMN[0]).type))
        decoded.table = pa.Table.from_arrays(arrays, schema=self._schema)
        return decoded

    def refuse_nulls(self, array: pa.Array, number: int, bad: dict[int, Bad]) -> None:
        """Rows where a column that is not nullable has no value are bad."""
        name, _, _, nullable = self.columns[number]
        if not nullable and array.null_count:
            for row in pc.indices_nonzero(array.is_null()).to_pylist():
                bad.setdefault(row, Bad(NULL, name))


def first_seen(extra: pa.MapArray) -> dict[str, tuple[int, str]]:
    """Each key of a column of maps, with the first row that has it and its value there."""
    if not len(extra.keys):
        return {}
    keys = extra.keys.dictionary_encode()
    _, first = np.unique(keys.indices.to_numpy(), return_index=True)
    rows = np.searchsorted(extra.offsets.to_numpy(), first, side="right") - 1
    examples = [text or "" for text in extra.items.take(pa.array(first)).to_pylist()]
    return dict(zip(keys.dictionary.to_pylist(), zip(rows.tolist(), examples, strict=True), strict=True))


def _array(values: Sequence[Any] | pa.Array, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def as_text(value: Any) -> str:
    """An unknown field for `_extra`: compact JSON; bytes as Base64."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
