"""Columns of text become columns of a type: Arrow converts what is sure, `text_rules` decide about all else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.strict import MAX_MS, MIN_MS, Unfit
from spark_jobs.engine.text_rules import convert_text, text_event_ms
from spark_jobs.engine.types import INTEGER_BITS, TIMESTAMP, arrow_type
from tidegate.core.base.hivetypes import Decimal, HiveType

Vectorised = Callable[[pa.Array], pa.Array | None]
"""Null where a text is in doubt; None if all of them are."""
_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
# so short that it is finite as a double
_NUMBER = r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,2})?$"
_DATE = r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?Z?$"


class TextColumn:
    """For one column's type, or for the event time (`kind` None) in `form`."""

    def __init__(self, kind: HiveType | None, form: str = "") -> None:
        if kind is None:
            self._type: pa.DataType = pa.int64()
            self._slow: Callable[[str], Any] = lambda text: text_event_ms(text, form)
            self._fast = _EVENTS.get(form, _nothing)
        else:
            self._type = arrow_type(kind)
            self._slow = lambda text: convert_text(text, kind)
            self._fast = _decimals(kind) if isinstance(kind, Decimal) else _FAST[str(kind)]

    def convert(self, texts: Sequence[str | None]) -> tuple[pa.Array, dict[int, Unfit]]:
        """The column, and what was refused, which is null in it."""
        given = pa.array(texts, pa.string())
        found = self._tried(given)
        if found.null_count == given.null_count:
            return found, {}
        doubtful = pc.and_(found.is_null(), given.is_valid())
        refused: dict[int, Unfit] = {}
        decided = []
        for i in pc.indices_nonzero(doubtful).to_pylist():
            try:
                decided.append(self._slow(texts[i]))  # type: ignore[arg-type]
            except Unfit as e:
                refused[i] = e
                decided.append(None)
        return pc.replace_with_mask(found, doubtful, pa.array(decided, self._type)), refused

    def _tried(self, given: pa.Array) -> pa.Array:
        try:
            found = self._fast(given)
        except pa.ArrowInvalid:  # one value that cannot be is enough
            found = None
        return pa.nulls(len(given), self._type) if found is None else found


def _nothing(given: pa.Array) -> None:
    return None


def _matching(given: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(given, pattern), given, None)


def _where(sure: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(sure, values, pa.scalar(None, values.type))


def _integers(name: str) -> Vectorised:
    def fast(given: pa.Array) -> pa.Array:
        values = _matching(given, _INTEGER).cast(pa.int64())
        half = 1 << (INTEGER_BITS[name] - 1)
        if name != "bigint":
            values = _where(pc.and_(pc.greater_equal(values, -half), pc.less(values, half)), values)
        return values.cast(pa.int64() if name == "bigint" else _INTEGER_TYPES[name])

    return fast


_INTEGER_TYPES = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32()}


def _doubles(given: pa.Array) -> pa.Array:
    return _matching(given, _NUMBER).cast(pa.float64())


def _floats(given: pa.Array) -> pa.Array:
    values = _doubles(given).cast(pa.float32())
    return _where(pc.is_finite(values), values)


def _decimals(kind: Decimal) -> Vectorised:
    whole = kind.precision - kind.scale
    integer = f"(0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
    fraction = rf"(\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
    return lambda given: _matching(given, f"^-?{integer}{fraction}$").cast(arrow_type(kind))


def _booleans(given: pa.Array) -> pa.Array:
    values = pc.equal(given, "true")
    return _where(pc.or_(values, pc.equal(given, "false")), values)


def _micros(given: pa.Array) -> pa.Array:
    return pc.utf8_rtrim(_matching(given, _TIME), "Z").cast(pa.timestamp("us"))


def _epochs(given: pa.Array, factor: int) -> pa.Array:
    values = _matching(given, _INTEGER).cast(pa.int64())
    inside = pc.and_(pc.greater_equal(values, MIN_MS // factor), pc.less_equal(values, MAX_MS // factor))
    return pc.multiply(_where(inside, values), factor)


def _iso_events(given: pa.Array) -> pa.Array:
    micros = _micros(given).cast(pa.int64())
    rest = pc.subtract(micros, pc.multiply(pc.divide(micros, 1000), 1000))
    floor = pc.if_else(pc.less(rest, 0), pc.add(rest, 1000), rest)  # division cuts towards zero
    return pc.divide(pc.subtract(micros, floor), 1000)


_FAST: dict[str, Vectorised] = {
    **{name: _integers(name) for name in INTEGER_BITS},
    "boolean": _booleans,
    "float": _floats,
    "double": _doubles,
    "string": lambda given: given,
    "binary": lambda given: given.cast(pa.binary()),
    "date": lambda given: _matching(given, _DATE).cast(pa.date32()),
    "timestamp": lambda given: _micros(given).cast(TIMESTAMP),
}
_EVENTS: dict[str, Vectorised] = {
    "epoch_ms": lambda given: _epochs(given, 1),
    "epoch_s": lambda given: _epochs(given, 1000),
    "iso8601": _iso_events,
}
