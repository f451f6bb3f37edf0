"""Tells the C library of protobuf messages: plans that fill a pipeline's columns, as `protobuf_values` does."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from spark_jobs.engine.formats import wire_program
from spark_jobs.engine.formats.known import Items, Known
from spark_jobs.engine.formats.wire_program import How, Node, Unsure, WireProgram
from spark_jobs.engine.varint import varint
from tidegate import descriptors
from tidegate.core.base.hivetypes import Array, HiveType, Map, Struct
from tidegate.core.spec.pipeline import Pipeline

_F = FieldDescriptor
_TYPES = {
    _F.TYPE_INT32: 0, _F.TYPE_INT64: 1, _F.TYPE_UINT32: 2, _F.TYPE_UINT64: 3, _F.TYPE_SINT32: 4, _F.TYPE_SINT64: 5,
    _F.TYPE_BOOL: 6, _F.TYPE_ENUM: 7, _F.TYPE_FIXED32: 8, _F.TYPE_SFIXED32: 9, _F.TYPE_FLOAT: 10, _F.TYPE_FIXED64: 11,
    _F.TYPE_SFIXED64: 12, _F.TYPE_DOUBLE: 13, _F.TYPE_STRING: 14, _F.TYPE_BYTES: 15, _F.TYPE_MESSAGE: 16,
}  # fmt: skip
_VALUE, _NAME, _PATH, _STRUCT, _STAMP, _MAP = range(6)
_NOBODY = -1
_LONGEST_HEADER = 128
_MOST_PLANS = 5_000
Target = tuple[tuple[str, ...], HiveType | None]
Wanted = tuple[tuple[str, ...], HiveType | None, Node]
"""The path below a message, the type (None: the event time), and the column."""


class ProtobufProgram(WireProgram):
    """A pipeline's columns, and the messages that fill them."""

    reads, frees = "tg_protobuf_read", "tg_protobuf_free"

    def __init__(
        self, library: ctypes.CDLL, pipeline: Pipeline, message: Descriptor, targets: Sequence[Target],
        known: Known, index: tuple[int, ...] | None,
    ) -> None:  # fmt: skip
        """`known`: fields that are no unknown ones, if that matters. `index`: message indexes that stand before each
        message, behind a schema's id; None: neither does.

        Raises Unsure."""
        super().__init__(library, pipeline)
        plans = _Plans(pipeline.event_time.format)
        wanted = [(path, kind, node) for node, (path, kind) in zip(self.nodes, targets, strict=True)]
        plans.plan(message, wanted, known)
        headers = _headers(index) if index is not None else []
        self._handle = library.tg_protobuf_new(self._address, *plans.parts(headers))
        if not self._handle:
            raise Unsure


class _Plans:
    def __init__(self, time_format: str) -> None:
        self._form = time_format
        self._plans: list[tuple[int, int, int, int] | None] = []
        self._fields: list[tuple[int, ...]] = []
        self._takers: list[tuple[int, ...]] = []
        self._pool: list[int] = []
        self._names = bytearray()
        self._unwanted: dict[str, int] = {}
        self._enums: dict[str, tuple[int, int]] = {}

    def parts(self, headers: list[bytes]) -> tuple[Any]:
        """`struct parts` of protobuf_plans.c."""
        plans = array("i", [n for plan in self._plans for n in plan or ()])
        fields = array("i", [n for field in self._fields for n in field])
        takers = array("i", [n for taker in self._takers for n in taker])
        pool, names = array("i", self._pool), bytes(self._names)
        self._kept = (plans, fields, takers, pool, names, headers)
        both = [*headers, b"", b""][:2]
        sizes = (len(self._plans), len(self._fields), len(self._takers), len(pool), len(names))
        made = _Parts(
            *sizes, *(each.buffer_info()[0] for each in (plans, fields, takers, pool)), names,
            (ctypes.c_int64 * 2)(*map(len, both)), (ctypes.c_char_p * 2)(*both),
        )  # fmt: skip
        return (ctypes.byref(made),)

    def plan(self, message: Descriptor, wanted: Sequence[Wanted], known: Known = None) -> int:
        """The number of a plan for messages that fill these columns. `known`: what is no unknown field in them; with
        any other, and with what only another plan looks into, they are not sure."""
        fields = known if isinstance(known, dict) else None
        if message.is_extendable or len(self._plans) >= _MOST_PLANS:
            raise Unsure
        number = self._reserve()
        by_name: dict[str, list[Wanted]] = {}
        for path, kind, node in wanted:
            by_name.setdefault(path[0], []).append((path[1:], kind, node))
        rows, slots, oneofs = [], 0, {}
        for field in message.fields:
            if field.name in by_name and field.containing_oneof is not None:
                oneofs.setdefault(field.containing_oneof.name, -1)
        for field in sorted(message.fields, key=lambda f: f.number):
            mine = by_name.get(field.name, ())
            inner = fields.get(field.name) if fields is not None else None
            takers = [self._taker(field, kind, node, inner) for rest, kind, node in mine if not rest]
            below = [each for each in mine if each[0]]
            if below:
                takers.append((_PATH, _NOBODY, 0, 0, 0, self.plan(field.message_type, below, inner), _NOBODY))
            slot = oneof = _NOBODY
            if takers:
                slot, slots = slots, slots + 1
            if field.containing_oneof is not None and field.containing_oneof.name in oneofs:
                name = field.containing_oneof.name
                if oneofs[name] < 0:
                    oneofs[name], slots = slots, slots + 1
                oneof = oneofs[name]
            passed = fields is not None and field.name in fields and inner is None and _stays_known(field)
            rows.append((*self._field(field, slot, oneof, takers)[:-1], passed))
        self._finish(number, rows, slots, fields is not None)
        return number

    def _reserve(self) -> int:
        self._plans.append(None)
        return len(self._plans) - 1

    def _finish(self, number: int, rows: list[tuple[int, ...]], slots: int, all_known: bool = False) -> None:
        self._plans[number] = (len(self._fields), len(rows), slots, all_known)
        self._fields += rows

    def _field(self, field: FieldDescriptor, slot: int, oneof: int, takers: list[tuple[int, ...]]) -> tuple[int, ...]:
        if field.type not in _TYPES:  # groups
            raise Unsure
        kind, names, count, closed = _TYPES[field.type], 0, 0, False
        plan = self._any(field.message_type) if field.message_type is not None and not takers else _NOBODY
        if field.enum_type is not None and takers:
            names, count = self._enum(field.enum_type)
            closed = bool(getattr(field.enum_type, "is_closed", True))
        at = len(self._takers)
        self._takers += takers
        return (
            field.number, kind, descriptors.repeated(field), field.has_presence, slot, oneof, at, len(takers), plan,
            names, count, closed, False,
        )  # fmt: skip

    def _any(self, message: Descriptor) -> int:
        """A plan for messages that nobody wants."""
        if message.full_name not in self._unwanted:
            if message.is_extendable or len(self._plans) >= _MOST_PLANS:
                raise Unsure
            number = self._unwanted[message.full_name] = self._reserve()
            fields = sorted(message.fields, key=lambda f: f.number)
            self._finish(number, [self._field(f, _NOBODY, _NOBODY, []) for f in fields], 0)
        return self._unwanted[message.full_name]

    def _enum(self, enum: Any) -> tuple[int, int]:
        if enum.full_name not in self._enums:
            names: dict[int, str] = {}
            for value in enum.values:
                names.setdefault(value.number, value.name)
            at = len(self._pool)
            for number, name in sorted(names.items()):
                self._pool += (number, len(self._names), len(self._names) + len(name.encode()))
                self._names += name.encode()
            self._enums[enum.full_name] = at, len(names)
        return self._enums[enum.full_name]

    # ------------------------------------------------------------ what becomes of a field

    def _taker(self, field: FieldDescriptor, kind: HiveType | None, node: Node, known: Known) -> tuple[int, ...]:
        each = known.each if isinstance(known, Items) else None
        if descriptors.is_map(field):
            assert isinstance(kind, Map)
            entry = field.message_type
            wanted: list[Wanted] = [(("key",), kind.key, node.children[0]), (("value",), kind.value, node.children[1])]
            return _MAP, node.number, 0, 0, 0, self._without_presence(entry, wanted, each, all_known=True), node.number
        if descriptors.repeated(field):
            assert isinstance(kind, Array)
            return (*self._one(field, kind.element, node.children[0], each), node.number)
        return (*self._one(field, kind, node, known), _NOBODY)

    def _without_presence(
        self, message: Descriptor, wanted: list[Wanted], known: Known = None, all_known: bool = False
    ) -> int:
        """Of a wrapper, or a map's entry: what is missing in it is its default. `known`: of the entry's value."""
        number, rows = self._reserve(), []
        fields = sorted(message.fields, key=lambda f: f.number)
        for slot, field in enumerate(fields):
            takers = [self._taker(field, kind, node, known) for path, kind, node in wanted if path == (field.name,)]
            row = list(self._field(field, slot, _NOBODY, takers))
            row[3] = False
            rows.append(tuple(row))
        self._finish(number, rows, len(fields), all_known)
        return number

    def _one(self, field: FieldDescriptor, kind: HiveType | None, node: Node, known: Known) -> tuple[int, ...]:
        """For one value, an element of a repeated field or not: purpose, column, how, a, b, plan."""
        inner = descriptors.wrapped(field)
        if isinstance(kind, Struct):
            return _STRUCT, node.number, 0, 0, 0, self._struct(field.message_type, kind, node, known)
        if inner is not None:
            return _PATH, _NOBODY, 0, 0, 0, self._without_presence(field.message_type, [(("value",), kind, node)])
        word = descriptors.single(field)
        if word in ("timestamp", "duration"):
            how = wire_program.EVENT if kind is None else wire_program.INSTANT
            how = wire_program.DECIMAL if word == "duration" else how
            return _STAMP, node.number, how, 1, 1, self._stamp(field.message_type)
        purpose = _NAME if word == "enum" and str(kind) == "string" else _VALUE
        return purpose, node.number, *_conversion(word, kind, self._form), _NOBODY

    def _struct(self, message: Descriptor, kind: Struct, node: Node, known: Known) -> int:
        wanted: list[Wanted] = []
        for (name, inner), child in zip(kind.fields, node.children, strict=True):
            own = descriptors.struct_field(message, name)
            if own is not None:
                wanted.append(((own.name,), inner, child))
        return self.plan(message, wanted, known)

    def _stamp(self, message: Descriptor) -> int:
        """Seconds and nanoseconds, in the first two slots."""
        number = self._reserve()
        fields = sorted(message.fields, key=lambda f: f.number)
        if [(f.name, f.number) for f in fields] != [("seconds", 1), ("nanos", 2)]:
            raise Unsure
        self._finish(number, [self._field(f, i, _NOBODY, []) for i, f in enumerate(fields)], 2)
        return number


def _stays_known(field: FieldDescriptor) -> bool:
    """Entries that are odd, and numbers that a closed enum does not have, are unknown fields of the message."""
    return not descriptors.is_map(field) and (
        field.enum_type is None or not getattr(field.enum_type, "is_closed", True)
    )


def _conversion(word: str, kind: HiveType | None, form: str) -> How:
    if kind is None:
        return wire_program.event_text(form) if word == "string" else wire_program.event_integer(form)
    if word in ("bool", "float", "double"):
        return (wire_program.BOOLEAN if word == "bool" else wire_program.REAL), 0, 0
    if word == "string":
        return wire_program.text(kind)
    if word == "bytes":
        return wire_program.BYTES, 0, 0
    if word == "enum":
        return (wire_program.TEXT if str(kind) == "string" else wire_program.NUMBER), 0, 0
    return wire_program.integer(kind)


class _Parts(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("plans", "fields", "takers", "pool", "name_bytes")),
        *((name, ctypes.c_void_p) for name in ("plan", "field", "taker", "numbers")),
        ("names", ctypes.c_char_p),
        ("header_lengths", ctypes.c_int64 * 2),
        ("headers", ctypes.c_char_p * 2),
    )


def _headers(index: tuple[int, ...]) -> list[bytes]:
    """Usual spelling of an index path; others are not sure."""
    whole = b"".join(varint(n << 1) for n in (len(index), *index))
    if len(whole) > _LONGEST_HEADER:
        raise Unsure
    return [whole, b"\0"] if index == (0,) else [whole]


def program_for(
    pipeline: Pipeline,
    message: Descriptor,
    targets: Sequence[Target],
    known: Known,
    index: tuple[int, ...] | None,
) -> ProtobufProgram | None:
    """Program for the pipeline; None without a library, or where it cannot read such messages."""
    library = wire_program.library_for(pipeline)
    if library is None:
        return None
    try:
        return ProtobufProgram(library, pipeline, message, targets, known, index)
    except (Unsure, RecursionError):
        return None
