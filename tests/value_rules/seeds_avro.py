"""For each Avro row of the page: a schema, columns, and random data of that schema."""

from __future__ import annotations

from random import Random

from tests.value_rules import page
from tests.value_rules.encode_avro import datum
from tests.value_rules.oracle_avro import AvroSettings
from tests.value_rules.oracle_avro_binary import parse
from tests.value_rules.oracle_json import PlainColumn, PlainSpec
from tests.value_rules.seeds_json import Seed

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DECIMALS = ("decimal(5,2)", "decimal(38,0)", "decimal(20,6)", "decimal(2,2)", "decimal(38,38)")


def _logical(kind: str, name: str, extra: str = "") -> str:
    return f'{{"type":"{kind}","logicalType":"{name}"{extra}}}'


_STAMPS = tuple(f"timestamp-{unit}" for unit in ("millis", "micros", "nanos"))
_POINT = '{"type":"record","name":"P","fields":[{"name":"a","type":["null","int"]},{"name":"B","type":"string"}]}'
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "boolean": (('"boolean"',), ("boolean",)),
    "int": (('"int"',), _INTEGERS),
    "long": (('"long"',), _INTEGERS),
    "number-float": (('"int"', '"long"'), ("float", "double")),
    "number-decimal": (('"int"', '"long"'), _DECIMALS),
    "number-timestamp": (('"int"', '"long"'), ("timestamp",)),
    "float": (('"float"',), ("float", "double")),
    "double": (('"double"',), ("float", "double")),
    "bytes": (('"bytes"', _logical("bytes", "decimal")), ("binary",)),
    "fixed": (('{"type":"fixed","name":"F","size":3}', '{"type":"fixed","name":"F","size":0}'), ("binary",)),
    "string": (('"string"', _logical("string", "date")), ("string",)),
    "string-binary": (('"string"',), ("binary",)),
    "string-date": (('"string"',), ("date",)),
    "string-timestamp": (('"string"',), ("timestamp",)),
    "enum": (('{"type":"enum","name":"E","symbols":["A","B","C"]}',), ("string",)),
    "decimal": (
        (
            _logical("bytes", "decimal", ',"precision":6,"scale":2'),
            '{"type":"fixed","name":"D","size":6,"logicalType":"decimal","precision":12,"scale":3}',
            _logical("bytes", "decimal", ',"precision":40'),
        ),
        _DECIMALS,
    ),
    "date": ((_logical("int", "date"),), ("date",)),
    "time": ((_logical("int", "time-millis"), _logical("long", "time-micros")), _INTEGERS),
    "timestamp": (tuple(_logical("long", name) for name in _STAMPS), ("timestamp",)),
    "timestamp-number": (tuple(_logical("long", name) for name in _STAMPS), ("bigint",)),
    "local-timestamp": (tuple(_logical("long", "local-" + name) for name in _STAMPS), ("timestamp", "bigint")),
    "uuid": ((_logical("string", "uuid"),), ("string",)),
    "uuid-fixed": (('{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}',), ("string", "binary")),
    "duration": (('{"type":"fixed","name":"U","size":12,"logicalType":"duration"}',), ("binary",)),
    "array": (
        ('{"type":"array","items":["null","long"]}', '{"type":"array","items":{"type":"array","items":"string"}}'),
        ("array<int>", "array<double>", "array<array<date>>", "array<array<string>>"),
    ),
    "map": (
        ('{"type":"map","values":["null","long"]}', '{"type":"map","values":{"type":"map","values":"string"}}'),
        ("map<string,int>", "map<string,timestamp>", "map<string,map<string,string>>"),
    ),
    "record": ((_POINT,), ("struct<a:int,b:string>", "struct<a:tinyint>", "struct<b:string,c:int>", "struct<b:date>")),
}
_NAMES = (
    '{"type":"record","name":"P","fields":[{"name":"a","type":"int"},{"name":"A","type":"int"},'
    '{"name":"Bb","type":"string"},{"name":"cC","type":"int"},{"name":"CC","type":["null","int"]}]}'
)
_SEVERAL = (
    '["null","boolean","int","long","float","double","bytes","string",{"type":"enum","name":"E","symbols":["A","B"]},'
    '{"type":"array","items":"int"},{"type":"map","values":"int"},' + _POINT + "]"
)
_DEEP = (
    '{"type":"record","name":"N","fields":[{"name":"v","type":"int"},{"name":"n","type":["null","N"]},'
    '{"name":"m","type":{"type":"map","values":"N"}}]}'
)


def _record(fields: dict[str, str], name: str = "Top") -> str:
    inner = ",".join(f'{{"name":"{key}","type":{kind}}}' for key, kind in fields.items())
    return f'{{"type":"record","name":"{name}","namespace":"org.example","fields":[{inner}]}}'


EVERYTHING = _record({
    "b": '"boolean"', "i": '"int"', "l": '["null","long"]', "f": '"float"', "d": '"double"', "y": '"bytes"',
    "s": '"string"', "x": '{"type":"fixed","name":"X","size":2}', "e": '{"type":"enum","name":"K","symbols":["A","B"]}',
    "a": '{"type":"array","items":"string"}', "m": '{"type":"map","values":"double"}', "u": _SEVERAL,
    "z": '{"type":"array","items":"null"}', "ü": '["null","org.example.Top"]',
    "w": _logical("long", "timestamp-millis"), "c": _logical("bytes", "decimal", ',"precision":9,"scale":2'),
}).replace('"ü"', '"again"')  # fmt: skip


def seed(schema: str, columns: list[tuple[str, tuple[str, ...]]], **spec: object) -> Seed:
    """`columns`: (type, path) pairs."""
    made = tuple(PlainColumn(f"c{i}", kind, path) for i, (kind, path) in enumerate(columns))
    plain = PlainSpec(made, settings=AvroSettings(schema), **spec)  # type: ignore[arg-type]
    parsed = parse(schema)
    return plain, lambda rng: datum(parsed, rng)


def kind_seeds(row: str) -> list[Seed]:
    """One schema for each kind of the row, plain and in a union with null; a column for each type that takes it."""
    found = []
    for kind in KINDS[row][0]:
        for schema in (_record({"v": kind, "o": '"int"'}), _record({"o": '"string"', "v": f'["null",{kind}]'})):
            columns = [
                (each, ("v",))
                for each in KINDS[row][1]
                if row != "array" or ("array<array" in each) == ("array" in kind[15:])
            ]
            if row == "map":
                columns = [
                    (each, ("v",)) for each in KINDS[row][1] if ("map<string,map" in each) == ("map" in kind[13:])
                ]
            found.append(seed(schema, columns))
    return found


def union_seeds() -> list[Seed]:
    schema = _record({"v": _SEVERAL, "o": '"long"'})
    kinds = ("boolean", "tinyint", "bigint", "float", "double", "decimal(5,2)", "string", "binary", "date", "timestamp",
             "array<int>", "map<string,int>", "struct<a:int,b:string>")  # fmt: skip
    return [seed(schema, [(kind, ("v",))]) for kind in kinds]


def path_seeds() -> list[Seed]:
    inner = (
        '{"type":"record","name":"I","fields":[{"name":"x","type":["int","string"]},{"name":"y","type":["null","I"]}]}'
    )
    schema = _record({"a": f'["null",{inner},"int"]', "b": '["null","I"]', "o": '"int"'})
    columns = [("int", ("a", "x")), ("string", ("b", "y", "x")), ("int", ("b", "nothing", "x")), ("int", ("absent",))]
    return [
        seed(schema, columns[:1]),
        seed(schema, columns[1:]),
        seed(schema, [("struct<x:int>", ("a",)), ("int", ("o",))]),
    ]


def wire_seeds(unknown: str = "ignore") -> list[Seed]:
    some = [("int", ("i",)), ("bigint", ("l",)), ("string", ("s",)), ("timestamp", ("w",)), ("decimal(5,2)", ("c",))]
    more = [("boolean", ("b",)), ("array<string>", ("a",)), ("map<string,double>", ("m",)), ("string", ("e",))]
    return [seed(EVERYTHING, columns, unknown=unknown) for columns in (some, more, [("int", ("again", "again", "i"))])]


def depth_seed() -> Seed:
    spec, _ = seed(_record({"n": _DEEP, "o": '"int"'}), [("int", ("o",)), ("int", ("n", "n", "v"))])

    def make(rng: Random) -> bytes:
        levels = rng.choice((0, 1, 5, 197, 198, 199, 200, 201))
        link = rng.choice((b"\x02\x02", b"\x02\x02"))
        return link * levels + b"\x02\x00\x00" + b"\x00" * levels + b"\x02"

    return spec, make


def confluent_seed() -> Seed:
    first, second = _record({"v": '"int"', "s": '"string"'}), _record({"s": '["null","string"]', "o": '"long"'})
    settings = AvroSettings(None, ((1, first), (2**32 - 1, second)))
    columns = (PlainColumn("c0", "int", ("v",)), PlainColumn("c1", "string", ("s",)))

    def make(rng: Random) -> bytes | None:
        number, text = rng.choice(settings.schemas)
        message = b"\x00" + number.to_bytes(4, "big") + datum(parse(text), rng)
        return None if rng.random() < 0.01 else message[: rng.randint(0, 6)] if rng.random() < 0.1 else message

    return PlainSpec(columns, settings=settings), make


def time_seeds(row: str) -> list[Seed]:
    kinds = {
        "integer": ('"int"', '"long"', '["null","long"]'),
        "string": ('"string"', '["null","string"]'),
        "timestamp": tuple(_logical("long", name) for name in (*_STAMPS, "local-timestamp-micros")),
        "other": ('["null","long","string","double",' + _logical("int", "date") + "]",),
    }[row]
    forms = ("iso8601", "%Y-%m-%d") if row == "string" else ("epoch_s", "epoch_ms", "epoch_us", "epoch_ns")
    forms = (*forms, "iso8601", "epoch_ms") if row == "other" else forms
    return [
        seed(_record({"t": kind, "o": '"int"'}), [("int", ("o",))], time=("t",), time_format=form)
        for kind in kinds
        for form in forms
    ]


NOT_BY_MESSAGES = ("A-spec", "A-message-registry", "A-message-other-schema")
"""Rows about specs and registries: no bytes of a message show them. They have tests of their own."""


def seeds() -> dict[str, list[Seed]]:
    found: dict[str, list[Seed]] = {}
    for row in page.rows():
        family, _, rest = row.partition("-")
        if family != "A" or row in NOT_BY_MESSAGES:
            continue
        if rest in ("message-confluent", "message-header", "message-unknown-schema", "message-tombstone"):
            found[row] = [confluent_seed()]
        elif rest == "message-depth":
            found[row] = [depth_seed()]
        elif rest.startswith(("message-", "wire-")):
            found[row] = wire_seeds()
        elif rest.startswith("unknown-"):
            found[row] = wire_seeds(rest.removeprefix("unknown-"))
        elif rest.startswith("union-"):
            found[row] = union_seeds()
        elif rest.startswith("path-"):
            found[row] = path_seeds()
        elif rest.startswith("time-"):
            found[row] = time_seeds(rest.removeprefix("time-"))
        elif rest == "name-struct":
            kinds = ("struct<a:int>", "struct<bb:string>", "struct<bb:string,d:int>", "struct<cc:int>")
            found[row] = [seed(_record({"v": _NAMES}), [(kind, ("v",))]) for kind in kinds]
        else:
            found[row] = kind_seeds(rest)
    return found
