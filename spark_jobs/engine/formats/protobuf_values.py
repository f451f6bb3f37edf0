"""Values of parsed protobuf messages as Arrow takes them for a column's type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal as Number
from keyword import iskeyword
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message

from spark_jobs.engine.formats import scalars
from spark_jobs.engine.strict import Unfit
from tidegate.core.base.hivetypes import Array, Decimal, HiveType, Map, Struct
from tidegate.descriptors import event_misfit, is_map, misfit, repeated, single, struct_field, wrapped

Convert = Callable[[Any], Any]
_NANOS = 1_000_000_000
_DURATION_SECONDS = 315_576_000_000


@dataclass(frozen=True)
class Get:
    """`fields`: the way to the value; `convert`: what makes of it what Arrow takes, None if it is that already."""

    fields: tuple[FieldDescriptor, ...]
    convert: Convert | None

    def source(self, var: str, convert: str) -> list[str]:
        """Python statements that put the value of message `m` into `var`: null if anything on the way is missing."""
        lines, place, pad = [], "m", ""
        last = self.fields[-1]
        checks = [field for field in self.fields if field.has_presence]
        if checks:
            lines.append(f"{var} = None")
        for field in self.fields[:-1]:
            lines.append(f"{pad}if {place}.HasField({field.name!r}):")
            pad += "    "
            place = f"getattr({place}, {field.name!r})"
        if last.has_presence:
            lines.append(f"{pad}if {place}.HasField({last.name!r}):")
            pad += "    "
        value = f"{place}.{last.name}" if _plain_name(last.name) else f"getattr({place}, {last.name!r})"
        if self.convert is None:
            return [*lines, f"{pad}{var} = {value}"]
        lines += [f"{pad}try:", f"{pad}    {var} = {convert}({value})"]
        return [*lines, f"{pad}except Unfit as e:", f"{pad}    {var}, bad = e, True"]


def _plain_name(name: str) -> bool:
    """Whether the name can stand in source, and is not one of the message's own methods."""
    return name.isidentifier() and name.islower() and not iskeyword(name)


def getter(fields: tuple[FieldDescriptor, ...], kind: HiveType) -> Get:
    """Raises ValueError if no value of the last field can be a `kind`."""
    reason = misfit(fields[-1], kind)
    if reason:
        raise ValueError(f"does not fit the columns: {fields[-1].full_name}: {reason}")
    return Get(fields, _whole(fields[-1], kind))


def event_getter(fields: tuple[FieldDescriptor, ...], form: str) -> Get:
    """Raises ValueError if the last field can be no event time."""
    field = fields[-1]
    reason = event_misfit(field)
    if reason:
        raise ValueError(f"does not fit the event time: {field.full_name}: {reason}")
    inner = wrapped(field)
    convert = _event(inner if inner is not None else field, form)
    return Get(fields, convert if inner is None else lambda message: convert(message.value))


def _event(field: FieldDescriptor, form: str) -> Convert:
    kind = single(field)
    if kind == "timestamp":
        return lambda value: _timestamp(value) // 1000
    if kind == "string":
        read = scalars.event_text(form)
        return lambda value: read(_valid(value))
    return scalars.event_integer(form)


def _whole(field: FieldDescriptor, kind: HiveType) -> Convert | None:
    if is_map(field) and isinstance(kind, Map):
        return _map(field, kind)
    if repeated(field) and isinstance(kind, Array):
        return _array(_one(field, kind.element))
    return _one(field, kind)


def _array(one: Convert | None) -> Convert:
    if one is None:
        return list

    def convert(found: Iterable[Any]) -> list:
        items = []
        for i, item in enumerate(found):
            try:
                items.append(one(item))
            except Unfit as e:
                raise e.below(f"[{i}]") from None
        return items

    return convert


def _map(field: FieldDescriptor, kind: Map) -> Convert:
    entry = field.message_type.fields_by_name
    key_of, value_of = _one(entry["key"], kind.key), _one(entry["value"], kind.value)

    def convert(found: Any) -> list[tuple[Any, Any]]:
        items: dict[Any, Any] = {}
        for key in found:
            try:
                name = key if key_of is None else key_of(key)
                value = found[key] if value_of is None else value_of(found[key])
            except Unfit as e:
                raise e.below(f".{key}") from None
            if name in items:  # two numbers may become one
                raise Unfit(f"duplicate key {str(name)[:80]!r}")
            items[name] = value
        return list(items.items())

    return convert


def _one(field: FieldDescriptor, kind: HiveType) -> Convert | None:
    """For one value, an element of a repeated field or not."""
    if isinstance(kind, Struct):
        return _struct(field, kind)
    inner = wrapped(field)
    if inner is not None:
        convert = _one(inner, kind)
        return (lambda message: message.value) if convert is None else (lambda message: convert(message.value))
    word = single(field)
    if word == "timestamp":
        return _timestamp
    if word == "duration" and isinstance(kind, Decimal):
        return lambda value: _duration(value, kind)
    if word in ("int32", "int64", "uint32", "uint64"):
        return scalars.integer(kind, int(word[-2:]), signed=word[0] == "i")
    if word in ("float", "double"):
        return scalars.floating(kind)
    if word == "enum":
        return _enum_name(field) if str(kind) == "string" else scalars.integer(kind, 32)
    if word == "string":
        convert = scalars.text(kind)
        if convert is None:
            return None if _checked(field) else _valid
        return lambda value: convert(_valid(value))
    return None


def _checked(field: FieldDescriptor) -> bool:
    """Whether the library itself refuses invalid UTF-8: not in proto2, where it then gives bytes."""
    file = FileDescriptorProto()
    field.file.CopyToProto(file)
    return file.syntax == "proto3"


def _valid(value: str | bytes) -> str:
    if isinstance(value, bytes):
        raise Unfit("invalid UTF-8")
    return value


def _enum_name(field: FieldDescriptor) -> Convert:
    names: dict[int, str] = {}
    for value in field.enum_type.values:
        names.setdefault(value.number, value.name)

    def convert(number: int) -> str:
        name = names.get(number)
        if name is None:
            raise Unfit(f"{number} is not a number of {field.enum_type.full_name}")
        return name

    return convert


def _struct(field: FieldDescriptor, kind: Struct) -> Convert:
    gets: list[tuple[str, FieldDescriptor | None, Convert | None]] = []
    for name, wanted in kind.fields:
        own = struct_field(field.message_type, name)
        gets.append((name, own, None if own is None else _whole(own, wanted)))

    def convert(message: Message) -> dict[str, Any]:
        values = {}
        for name, own, one in gets:
            if own is None or (own.has_presence and not message.HasField(own.name)):
                values[name] = None
                continue
            value = getattr(message, own.name)
            try:
                values[name] = value if one is None else one(value)
            except Unfit as e:
                raise e.below(f".{name}") from None
        return values

    return convert


def _timestamp(value: Any) -> int:
    """Epoch us of a google.protobuf.Timestamp; nanoseconds are cut off."""
    if not 0 <= value.nanos < _NANOS:
        raise Unfit(f"{value.nanos} nanoseconds are not within a second")
    return scalars.micros(value.seconds * 1_000_000 + value.nanos // 1000, 1, 1)


def _duration(value: Any, kind: Decimal) -> Number:
    """Seconds of a google.protobuf.Duration, exactly."""
    seconds, nanos = value.seconds, value.nanos
    if abs(nanos) >= _NANOS or abs(seconds) > _DURATION_SECONDS or seconds * nanos < 0:
        raise Unfit(f"{seconds} s and {nanos} ns are no duration")
    return scalars.scaled(seconds * _NANOS + nanos, kind, 9)
