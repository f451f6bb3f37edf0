"""A protobuf message type that has everything, messages of it, and decoders of them."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as F
from google.protobuf.message_factory import GetMessageClass

from spark_jobs.engine.decoder import decoder_for
from tests.format_fixtures import spec
from tidegate import descriptors
from tidegate.core.spec.pipeline import Format, ProtobufFormat

KINDS = [
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool"),
    *("string", "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
]
GOOGLE = ("timestamp", "duration", "wrappers")
WRAPPERS = {"w": "Int32Value", "ws": "StringValue", "wd": "DoubleValue"}
TIMES = {"at": "Timestamp", "took": "Duration"}


def field(message: Any, name: str, kind: str, number: int, label: int = F.LABEL_OPTIONAL, **more: Any) -> None:
    message.field.add(name=name, number=number, label=label, type=getattr(F, f"TYPE_{kind.upper()}"), **more)


def everything(syntax: str) -> str:
    """All kinds: singular at 1.., repeated `r_` at 101.., and what else there is at 201.., in `t.All`."""
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="t", syntax=syntax)
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in GOOGLE)
    kind = file.enum_type.add(name="Kind")
    kind.options.allow_alias = True
    for number, name in ((0, "NONE"), (1, "ONE"), (1, "ALSO_ONE"), (-1, "MINUS")):
        kind.value.add(name=name, number=number)
    file.message_type.add(name="First")
    all_ = file.message_type.add(name="All")
    for number, name in enumerate(KINDS, 1):
        field(all_, name, name, number)
        field(all_, f"r_{name}", name, 100 + number, F.LABEL_REPEATED)
    field(all_, "e", "enum", 201, type_name=".t.Kind")
    field(all_, "es", "enum", 202, F.LABEL_REPEATED, type_name=".t.Kind")
    field(all_, "m", "message", 203, type_name=".t.All")
    field(all_, "ms", "message", 204, F.LABEL_REPEATED, type_name=".t.All")
    for number, (name, word) in enumerate({**WRAPPERS, **TIMES}.items(), 205):
        field(all_, name, "message", number, type_name=f".google.protobuf.{word}")
    for number, (name, key, value) in enumerate((("si", "string", "int32"), ("is", "int64", "string")), 211):
        entry = all_.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        field(entry, "key", key, 1)
        field(entry, "value", value, 2)
        field(all_, name, "message", number, F.LABEL_REPEATED, type_name=f".t.All.{entry.name}")
    all_.oneof_decl.add(name="choice")
    field(all_, "left", "int32", 221, oneof_index=0)
    field(all_, "right", "string", 222, oneof_index=0)
    field(all_, "from", "int32", 223)
    field(all_, "unitPrice", "int32", 224)
    field(all_, "Same", "int32", 225)
    field(all_, "sAme", "int32", 226)
    inner = all_.nested_type.add(name="Inner")
    field(inner, "x", "int32", 1)
    if syntax == "proto3":
        all_.oneof_decl.add(name="_opt")
        field(all_, "opt", "int32", 231, oneof_index=1, proto3_optional=True)
    else:
        strict = file.message_type.add(name="Strict")
        field(strict, "x", "int32", 1, F.LABEL_REQUIRED)
        field(strict, "s", "message", 2, type_name=".t.Strict")
        group = all_.nested_type.add(name="G")
        field(group, "x", "int32", 1)
        field(all_, "g", "group", 232, type_name=".t.All.G")
    return base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()


SETS = {syntax: everything(syntax) for syntax in ("proto2", "proto3")}
TYPES_OF = {syntax: GetMessageClass(descriptors.message_type(text, "t.All")) for syntax, text in SETS.items()}


def decoder(
    columns: dict[str, str],
    syntax: str = "proto3",
    time: str = "",
    form: str = "epoch_ms",
    unknown: str = "ignore",
    wire: str = "plain",
    message: str = "t.All",
):
    settings_ = ProtobufFormat(SETS[syntax], message, wire)
    return decoder_for(spec(Format("protobuf", unknown, protobuf=settings_), columns, time, form))


def varint(n: int) -> bytes:
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def tagged(number: int, wire: int, payload: bytes) -> bytes:
    return varint(number << 3 | wire) + (varint(len(payload)) if wire == 2 else b"") + payload


def put(name: str, value: Any, syntax: str = "proto3") -> bytes:
    """A field by the library: `value` is set, or given to it."""
    return TYPES_OF[syntax](**{name: value}).SerializeToString()


INT32, STRING = 5, 9
