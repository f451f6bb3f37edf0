"""The oracle for JSON messages: a spec as plain data and a message give a row, or why it is dirty.

Written from docs/types.md; imports nothing of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.value_rules.oracle_plain_text import from_text
from tests.value_rules.oracle_text import Dirty, Number, Object, read_message, write_text
from tests.value_rules.oracle_times import event_ms
from tests.value_rules.oracle_unknown import Looking
from tests.value_rules.oracle_values import Kind, convert, kind_of


@dataclass(frozen=True)
class PlainColumn:
    """`path`: keys from the top down."""

    name: str
    type: str
    path: tuple[str, ...]
    nullable: bool = True
    convert: str | None = None


@dataclass(frozen=True)
class PlainSpec:
    """`time`: keys of the event time's path, None for Kafka's timestamp; `unknown`: ignore | capture | fail;
    `settings`: what other formats than JSON need."""

    columns: tuple[PlainColumn, ...]
    time: tuple[str, ...] | None = None
    time_format: str = "epoch_ms"
    unknown: str = "ignore"
    settings: Any = None


@dataclass(frozen=True)
class Row:
    """Values by column; `extra` is what `_extra` holds, `unknown` what an operator is told of."""

    values: dict[str, Any]
    event_ms: int | None
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """The record is dirty. `category` is for counting; `field` empty: the message as a whole."""

    category: str
    field: str


def read(spec: PlainSpec, message: bytes | None) -> Row | Refused:
    try:
        top = read_message(message)
        values = {column.name: _column(top, column) for column in spec.columns}
        event = None if spec.time is None else _event(top, spec)
    except Dirty as e:
        return Refused(e.category, e.field)
    looking = Looking(lambda v: v.pairs if isinstance(v, Object) else (), _elements, write_text)
    return Row(values, event, {} if spec.unknown == "ignore" else looking.unknown(spec, top))


def _elements(value: Any) -> list[Any]:
    return [item for _, item in value.pairs] if isinstance(value, Object) else value if isinstance(value, list) else []


def _column(top: Object, column: PlainColumn) -> Any:
    try:
        rule = _opted if column.convert == "text" else convert
        value = rule(_at(top, column.path), kind_of(column.type))
    except Dirty as e:
        raise Dirty(e.category, column.name + e.field) from None
    if value is None and not column.nullable:
        raise Dirty("null", column.name)
    return value


def _opted(value: Any, kind: Kind) -> Any:
    """With `convert: text`."""
    if kind[0] == "string" and isinstance(value, Number | bool):
        return write_text(value)
    if isinstance(value, str) and kind[0] not in ("array", "map", "struct"):
        return from_text(value, kind)
    return convert(value, kind)


def _at(top: Object, path: tuple[str, ...]) -> Any:
    place: Any = top
    for key in path:
        if place is None:
            return None
        if not isinstance(place, Object):
            raise Dirty("path")
        if place.twice():
            raise Dirty("duplicate")
        place = place.get(key)
    return place


def _event(top: Object, spec: PlainSpec) -> int:
    field_name = "$" + "".join(f".{key}" for key in spec.time or ())
    try:
        return event_ms(_at(top, spec.time or ()), spec.time_format)
    except Dirty as e:
        raise Dirty("event time: " + e.category, field_name) from None


def routed(spec: PlainSpec, answer: Row | Refused) -> Row | Refused:
    """What the tables hold: the first and the last two days of the calendar are dirty (`J-time-calendar`)."""
    if isinstance(answer, Refused) or answer.event_ms is None:
        return answer
    two_days = 2 * 86_400_000
    if not -62_135_596_800_000 + two_days <= answer.event_ms <= 253_402_300_799_999 - two_days:
        return Refused("event time: calendar", "$" + "".join(f".{key}" for key in spec.time or ()))
    return Row(answer.values, None, answer.unknown)
