"""For each protobuf row of the page: descriptors, columns, and random messages of them."""

from __future__ import annotations

from random import Random

from tests.value_rules import page
from tests.value_rules.encode_protobuf import (
    Declared,
    DeclaredFile,
    DeclaredMessage,
    descriptor_set,
    scalar,
    tag,
    varint,
    wire_of,
)
from tests.value_rules.oracle_json import PlainColumn, PlainSpec
from tests.value_rules.oracle_protobuf import INTEGERS, ProtobufSettings
from tests.value_rules.seeds_json import Seed

_HIVE_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_WRAPPED = {"Double": "double", "Float": "float", "Int64": "int64", "UInt64": "uint64", "Int32": "int32",
            "UInt32": "uint32", "Bool": "bool", "String": "string", "Bytes": "bytes"}  # fmt: skip
_GOOGLE = (
    DeclaredFile(
        "google.protobuf",
        tuple(DeclaredMessage(f"{name}Value", (Declared("value", 1, kind),)) for name, kind in _WRAPPED.items()),
        name="google/protobuf/wrappers.proto",
    ),
    DeclaredFile(
        "google.protobuf",
        (DeclaredMessage("Timestamp", (Declared("seconds", 1, "int64"), Declared("nanos", 2, "int32"))),),
        name="google/protobuf/timestamp.proto",
    ),
    DeclaredFile(
        "google.protobuf",
        (DeclaredMessage("Duration", (Declared("seconds", 1, "int64"), Declared("nanos", 2, "int32"))),),
        name="google/protobuf/duration.proto",
    ),
)
_NEEDS = tuple(file.name for file in _GOOGLE)
_COLOURS = (("Colour", (("RED", 0), ("GREEN", 1), ("ALSO_GREEN", 1), ("MINUS", -5))),)
_ENTRIES = {
    "text": ("string", "int64", ""), "number": ("int32", "string", ""), "flag": ("bool", "double", ""),
    "part": ("uint64", "message", "t.Part"), "colour": ("string", "enum", "t.Colour"), "fine": ("int64", "string", ""),
}  # fmt: skip


def _file(fields: tuple[Declared, ...], proto3: bool) -> DeclaredFile:
    """Messages `t.Top` with the fields, `t.Part`, and an entry for each sort of map; enum `t.Colour`."""
    entries = tuple(
        DeclaredMessage(f"{key.capitalize()}Entry", (Declared("key", 1, k), Declared("value", 2, v, of)), True)
        for key, (k, v, of) in _ENTRIES.items()
    )
    part = (Declared("a", 1, "int32"), Declared("B", 2, "string"), Declared("p", 3, "message", "t.Part"),
            Declared("c", 4, "enum", "t.Colour"), Declared("dD", 5, "int64"), Declared("DD", 6, "int64"))  # fmt: skip
    if not proto3:
        part += (Declared("must", 7, "int32", label="required"),)
    messages = (
        DeclaredMessage("First", ()),
        DeclaredMessage("Top", fields, nested=entries),
        DeclaredMessage("Part", part),
    )
    return DeclaredFile("t", messages, _COLOURS, proto3, needs=_NEEDS)


def settings(fields: tuple[Declared, ...], proto3: bool = True, confluent: bool = False) -> ProtobufSettings:
    return ProtobufSettings(descriptor_set(*_GOOGLE, _file(fields, proto3)), "t.Top", confluent)


def part(rng: Random, depth: int = 0) -> bytes:
    out = b""
    if rng.random() < 0.7:
        out += tag(1, 0) + scalar("int32", rng)
    if rng.random() < 0.6:
        out += tag(2, 2) + scalar("string", rng)
    if rng.random() < 0.4 and depth < 3:
        inner = part(rng, depth + 1)
        out += tag(3, 2) + varint(len(inner)) + inner
    if rng.random() < 0.4:
        out += tag(4, 0) + varint(rng.choice((0, 1, 1, 2, 7)))
    if rng.random() < 0.2:
        out += tag(rng.choice((5, 6)), 0) + scalar("int64", rng)
    return out + (tag(7, 0) + b"\x01" if rng.random() < 0.9 else b"")


def stamp(rng: Random) -> bytes:
    seconds = rng.choice(
        (0, 1_357_358_706, -62_135_596_800, 253_402_300_799, -1, 315_576_000_000, rng.randint(-(10**12), 10**12))
    )
    nanos = rng.choice((0, 1, 123_456_789, 999_999_999, -1, 10**9))
    mask = (1 << 64) - 1
    out = tag(1, 0) + varint(seconds & mask) if rng.random() < 0.8 else b""
    return out + (tag(2, 0) + varint(nanos & mask) if rng.random() < 0.6 else b"")


def value(field: Declared, rng: Random) -> bytes:
    """One occurrence of the field, with its tag."""
    if field.kind == "group":
        return tag(field.number, 3) + part(rng) + tag(field.number, 4)
    if field.kind != "message":
        if field.label == "repeated" and wire_of(field.kind) != 2 and rng.random() < 0.6:
            packed = b"".join(scalar(field.kind, rng) for _ in range(rng.randint(0, 3)))
            return tag(field.number, 2) + varint(len(packed)) + packed
        return tag(field.number, wire_of(field.kind)) + scalar(field.kind, rng)
    name = field.of.rpartition(".")[2]
    if name in ("Timestamp", "Duration"):
        inner = stamp(rng)
    elif name.endswith("Value"):
        kind = _WRAPPED[name.removesuffix("Value")]
        inner = tag(1, wire_of(kind)) + scalar(kind, rng) if rng.random() < 0.8 else b""
    elif name.endswith("Entry"):
        key, held, of = _ENTRIES[name.removesuffix("Entry").lower()]
        inner = tag(1, wire_of(key)) + scalar(key, rng) if rng.random() < 0.9 else b""
        inner += value(Declared("value", 2, held, of), rng) if rng.random() < 0.9 else b""
    else:
        inner = part(rng)
    return tag(field.number, 2) + varint(len(inner)) + inner


def seed(
    fields: tuple[Declared, ...],
    columns: list[tuple[str, tuple[str, ...]]],
    *,
    proto3: bool = True,
    confluent: bool = False,
    **spec: object,
) -> Seed:
    """`columns`: (type, path) pairs."""
    fields = (*fields, Declared("zz", 1000, "int32"))
    made = tuple(PlainColumn(f"c{i}", kind, path) for i, (kind, path) in enumerate(columns))
    plain = PlainSpec(made, settings=settings(fields, proto3, confluent), **spec)  # type: ignore[arg-type]

    def make(rng: Random) -> bytes | None:
        if rng.random() < 0.005:
            return None
        body = b"".join(value(rng.choice(fields), rng) for _ in range(rng.choice((0, 1, 1, 2, 3, 5))))
        if rng.random() < 0.1:
            body += rng.choice(
                (tag(77, 0) + b"\x05", tag(78, 3) + tag(1, 0) + b"\x01" + tag(78, 4), tag(79, 2) + b"\x01x")
            )
        if confluent:
            body = (
                b"\x00\x00\x00\x00\x07"
                + rng.choice((b"\x02\x02", b"\x02\x02", b"\x00", b"\x02\x00", b"\x04\x02\x02"))
                + body
            )
        return body

    return plain, make


def _one(kind: str, types: tuple[str, ...], of: str = "", **declared: object) -> list[Seed]:
    """A field of the kind, for proto3, proto3's optional, and proto2."""
    columns = [(each, ("v",)) for each in types]
    found = []
    for proto3, presence in ((True, False), (True, True), (False, False)):
        if presence and (declared or kind in ("message", "group")):
            continue
        if kind == "group" and proto3:
            continue
        field = Declared("v", 1, kind, of, presence=presence, **declared)  # type: ignore[arg-type]
        found.append(seed((field,), columns, proto3=proto3))
    return found


_REAL, _DECIMALS = ("float", "double"), ("decimal(5,2)", "decimal(20,0)", "decimal(38,10)")
_PLAIN = {
    "bool": (("bool",), ("boolean",)), "integer": (INTEGERS, _HIVE_INTEGERS), "integer-float": (INTEGERS, _REAL),
    "integer-decimal": (INTEGERS, _DECIMALS), "integer-timestamp": (INTEGERS, ("timestamp",)),
    "float": (("float",), _REAL), "double": (("double",), _REAL), "string": (("string",), ("string",)),
    "string-binary": (("string",), ("binary",)), "string-date": (("string",), ("date",)),
    "string-timestamp": (("string",), ("timestamp",)), "bytes": (("bytes",), ("binary",)),
    "enum": (("enum",), ("string",)), "enum-number": (("enum",), _HIVE_INTEGERS),
}  # fmt: skip
_PART = "struct<a:int,b:string,c:string,p:struct<a:tinyint,b:binary>>"
MANY = (
    Declared("i", 1, "int64"), Declared("s", 2, "string"), Declared("r", 3, "sint32", label="repeated"),
    Declared("p", 4, "message", "t.Part"), Declared("e", 5, "enum", "t.Colour"),
    Declared("es", 6, "enum", "t.Colour", "repeated"), Declared("x", 7, "message", "t.Top.TextEntry", "repeated"),
    Declared("one", 8, "int32", oneof=True), Declared("two", 9, "message", "t.Part", oneof=True),
    Declared("y", 10, "bytes"), Declared("f", 11, "float"), Declared("u", 12, "fixed64", label="repeated"),
    Declared("m", 13, "message", "t.Top.ColourEntry", "repeated"),
    Declared("w", 14, "message", "google.protobuf.Timestamp"),
    Declared("ss", 15, "string", label="repeated"), Declared("b", 16, "bool"), Declared("up", 17, "uint32"),
    Declared("fl", 18, "message", "t.Top.FlagEntry", "repeated"), Declared("g", 19, "double", presence=True),
)  # fmt: skip


def many_seeds(unknown: str = "ignore", confluent: bool = False) -> list[Seed]:
    some = [("bigint", ("i",)), ("string", ("s",)), ("array<int>", ("r",)), ("string", ("p", "B")), ("boolean", ("b",))]
    more = [
        ("int", ("one",)),
        (_PART, ("two",)),
        ("array<string>", ("es",)),
        ("array<bigint>", ("u",)),
        ("string", ("e",)),
    ]
    rest = [("int", ("p", "p", "a")), ("map<string,bigint>", ("x",)), ("int", ("up",)), ("array<string>", ("ss",))]
    return [
        seed(MANY, columns, proto3=proto3, unknown=unknown, confluent=confluent)
        for columns in (some, more, rest)
        for proto3 in (True, False)
    ]


def map_seeds() -> list[Seed]:
    columns = {
        "text": ("map<string,int>", "map<string,timestamp>"), "number": ("map<int,string>", "map<float,string>"),
        "flag": ("map<boolean,double>",), "part": (f"map<bigint,{_PART}>",), "colour": ("map<string,string>",),
        "fine": ("map<float,string>", "map<timestamp,binary>"),
    }  # fmt: skip
    return [
        found
        for key, types in columns.items()
        for found in _one("message", types, f"t.Top.{key.capitalize()}Entry", label="repeated")
    ]


def repeated_seeds() -> list[Seed]:
    columns = {"int32": "array<int>", "double": "array<double>", "string": "array<string>", "bool": "array<boolean>"}
    found = [each for kind, of in columns.items() for each in _one(kind, (of,), label="repeated")]
    return found + _one("message", (f"array<{_PART}>",), "t.Part", label="repeated")


def depth_seed() -> Seed:
    spec, _ = seed(
        (Declared("p", 1, "message", "t.Part"), Declared("o", 2, "int32")), [("int", ("o",)), ("int", ("p", "a"))]
    )

    def make(rng: Random) -> bytes:
        inner = tag(1, 0) + b"\x05"
        for level in range(rng.choice((1, 5, 98, 99, 100, 101))):
            inner = tag(3 if level else 1, 2) + varint(len(inner)) + inner
        # the last one is the field of the top message
        return tag(2, 0) + b"\x07" + (tag(1, 2) + varint(len(inner)) + inner)

    return spec, make


def time_seeds(row: str) -> list[Seed]:
    fields = {
        "integer": [Declared("t", 1, "int64"), Declared("t", 1, "uint64", presence=True),
                    Declared("t", 1, "message", "google.protobuf.UInt64Value")],
        "string": [Declared("t", 1, "string"), Declared("t", 1, "message", "google.protobuf.StringValue")],
        "timestamp": [Declared("t", 1, "message", "google.protobuf.Timestamp")],
        "missing": [Declared("t", 1, "int64"), Declared("t", 1, "int64", presence=True)],
    }[row]  # fmt: skip
    forms = ("iso8601", "%Y-%m-%d") if row == "string" else ("epoch_s", "epoch_ms", "epoch_us", "epoch_ns")
    return [seed((field,), [("int", ("zz",))], time=("t",), time_format=form) for field in fields for form in forms]


NOT_BY_MESSAGES = ("P-spec",)


def seeds() -> dict[str, list[Seed]]:
    found: dict[str, list[Seed]] = {}
    for row in page.rows():
        family, _, rest = row.partition("-")
        if family != "P" or row in NOT_BY_MESSAGES:
            continue
        if rest in _PLAIN:
            kinds, types = _PLAIN[rest]
            found[row] = [s for kind in kinds for s in _one(kind, types, "t.Colour" if kind == "enum" else "")]
        elif rest == "message":
            found[row] = _one("message", (_PART,), "t.Part") + _one(
                "message", ("struct<seconds:int>",), "google.protobuf.Timestamp"
            )
        elif rest == "name-struct":
            types = ("struct<b:string,a:int>", "struct<none:int,b:binary>")
            found[row] = [s for each in types for s in _one("message", (each,), "t.Part")]
        elif rest in ("timestamp", "duration"):
            types = ("timestamp",) if rest == "timestamp" else ("decimal(20,9)", "decimal(12,3)", "decimal(5,0)")
            found[row] = _one("message", types, f"google.protobuf.{rest.capitalize()}")
        elif rest == "wrapper":
            types = {"Bool": "boolean", "String": "string", "Bytes": "binary"}
            found[row] = [
                s for n in _WRAPPED for s in _one("message", (types.get(n, "double"),), f"google.protobuf.{n}Value")
            ]
        elif rest in ("map", "wire-map"):
            found[row] = map_seeds()
        elif rest == "repeated":
            found[row] = repeated_seeds()
        elif rest == "message-depth":
            found[row] = [depth_seed()]
        elif rest in ("message-confluent", "message-indexes", "message-header"):
            found[row] = many_seeds(confluent=True)
        elif rest.startswith("time-"):
            found[row] = time_seeds(rest.removeprefix("time-"))
        elif rest.startswith("unknown-"):
            found[row] = many_seeds(rest.removeprefix("unknown-"))
        else:
            found[row] = many_seeds()
    return found
