"""A pipeline's Avro schemas and chunks of messages, as tests/native/replay.c reads them."""

from __future__ import annotations

from array import array
from random import Random

from spark_jobs.engine.formats.avro_decoder import AvroDecoder
from spark_jobs.engine.formats.wire_program import laid_out
from tests.value_rules import encode_avro, oracle_avro_binary
from tests.value_rules.engine_formats import compiled
from tests.value_rules.oracle_avro import AvroSettings
from tests.value_rules.oracle_json import PlainColumn, PlainSpec
from tests.value_rules.seeds_avro import EVERYTHING
from tests.wire_differential import Case, messages

_COLUMNS = {
    "int": "i", "bigint": "l", "string": "s", "timestamp": "w", "decimal(5,2)": "c", "boolean": "b", "binary": "x",
    "array<string>": "a", "map<string,double>": "m", "float": "f",
}  # fmt: skip


def recorded_avro(rng: Random, count: int) -> bytes:
    columns = [PlainColumn(name, kind, (name,)) for kind, name in _COLUMNS.items()]
    columns += [PlainColumn("e", "string", ("e",)), PlainColumn("again", "struct<i:int,a:array<string>>", ("again",))]
    parsed = oracle_avro_binary.parse(EVERYTHING)
    spec = PlainSpec(tuple(columns), settings=AvroSettings(None, ((7, EVERYTHING),)))
    case = Case("recorded", spec, lambda rng: b"\0\0\0\0\7" + encode_avro.datum(parsed, rng))
    added: list[bytes] = []
    decoder = AvroDecoder(compiled(spec))
    program = decoder._program
    assert program is not None
    code = program.code

    def keep(number: int, schema: object, known: object = None) -> None:
        steps, pool, names = code(schema, known)
        sizes = array("i", [number, len(steps) // 6, len(pool), len(names)])
        added.append(sizes.tobytes() + steps.tobytes() + pool.tobytes() + names)

    program.add = keep  # type: ignore[method-assign]
    decoder._learn(b"\0\0\0\0\7")
    description = program.description
    head = array("i", [description.count, len(description.names), len(added)])
    parts = [head.tobytes(), description.numbers.tobytes(), bytes(description.names), *added]
    for size in (count, 1, 7):
        data, lengths = laid_out([m for m in messages("avro", case, rng, size) if m is not None])
        parts += [array("i", [len(lengths), len(data)]).tobytes(), lengths.tobytes(), data]
    return b"".join(parts)
