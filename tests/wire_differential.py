"""The C library against the row rules, for all formats but JSON: messages of every row of docs/types.md and of random
schemas or options, most of them damaged.

    .venv/bin/python -m tests.wire_differential [--format avro] [--messages 1000000] [--seed 1]

With the address and undefined-behaviour sanitizers (x is any place):

    gcc -std=gnu11 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fvisibility=hidden -fPIC -shared \\
        spark_jobs/engine/native/*.c -o x/lib.so
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \\
        PYTHONMALLOC=malloc .venv/bin/python -m tests.wire_differential --library x/lib.so

Each row that the library takes has to be what the row rules make of it, floats to the bit; every reason is theirs.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from spark_jobs.engine import native
from spark_jobs.engine.formats import wire_program
from spark_jobs.engine.formats.avro_decoder import AvroDecoder
from spark_jobs.engine.formats.csv_decoder import CsvDecoder
from spark_jobs.engine.formats.protobuf_decoder import ProtobufDecoder
from tests.csv_cases import csv_marks, random_csv
from tests.engine_fixtures import chunk_of
from tests.json_differential import first, rows_of
from tests.value_rules import encode_avro, oracle_avro_binary, seeds_protobuf
from tests.value_rules.encode_protobuf import Declared
from tests.value_rules.engine_formats import compiled
from tests.value_rules.families import FAMILIES
from tests.value_rules.oracle_avro import AvroSettings
from tests.value_rules.oracle_json import PlainColumn, PlainSpec
from tidegate import descriptors
from tidegate.core.base.hivetypes import parse
from tidegate.core.spec import avro
from tidegate.core.spec.pipeline import Pipeline

CHUNK = 100
DAMAGED = 0.6
RANDOM_SPECS = 40
"""Specs of random schemas for each seed."""
Make = Callable[[Random], bytes | None]
DECODERS: dict[str, Any] = {"avro": AvroDecoder, "csv": CsvDecoder, "protobuf": ProtobufDecoder}


@dataclass
class Case:
    name: str
    spec: PlainSpec
    make: Make


def cases(form: str, rng: Random, random_specs: int = RANDOM_SPECS) -> list[Case]:
    seeds = FAMILIES[form].seeds()
    found = [Case(f"{row} {i}", *each) for row, some in seeds.items() for i, each in enumerate(some)]
    return found + [Case(f"random {i}", *RANDOM[form](rng)) for i in range(random_specs if form in RANDOM else 0)]


# ---------------------------------------------------------------- random Avro schemas

_SCALARS = [
    *("boolean", "int", "long", "float", "double", "bytes", "string"),
    *({"type": "long", "logicalType": f"timestamp-{u}"} for u in ("millis", "micros", "nanos")),
    {"type": "int", "logicalType": "date"},
    {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
    {"type": "string", "logicalType": "uuid"},
]
_TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(9,2)", "decimal(38,6)", "string",
    "binary", "date", "timestamp", "array<string>", "array<bigint>", "array<struct<a:int,b:string>>",
    "map<string,string>", "map<string,double>", "map<string,array<int>>", "struct<a:int,b:string,c:double>",
    "struct<a:array<int>,b:map<string,int>>", "struct<b:struct<a:bigint,c:string>>",
)  # fmt: skip


class _Schemas:
    def __init__(self, rng: Random) -> None:
        self._rng, self._names = rng, 0

    def any(self, depth: int) -> Any:
        rng = self._rng
        if depth > 3 or rng.random() < 0.6:
            return rng.choice(_SCALARS)
        kind = rng.choice(("union", "union", "record", "array", "map", "enum", "fixed"))
        if kind == "union":
            inner = self.any(depth + 1)
            inner = [] if isinstance(inner, list) else [inner]
            return rng.choice((["null", *inner], [*inner, "null"], ["null", *inner, *rng.sample(_SCALARS[:7], 2)]))
        if kind == "record":
            return self.record(depth + 1)
        if kind == "array":
            return {"type": "array", "items": self.any(depth + 1)}
        if kind == "map":
            return {"type": "map", "values": self.any(depth + 1)}
        self._names += 1
        if kind == "enum":
            return {"type": "enum", "name": f"E{self._names}", "symbols": ["A", "B", "CCC"][: rng.randint(1, 3)]}
        return {"type": "fixed", "name": f"F{self._names}", "size": rng.randrange(20)}

    def record(self, depth: int) -> Any:
        self._names += 1
        name = f"R{self._names}"
        names = self._rng.sample("abcdefghij", self._rng.randint(0 if depth else 3, 4 if depth else 10))
        fields = [{"name": n, "type": self.any(depth + 1)} for n in names]
        if depth and self._rng.random() < 0.2:
            fields.append({"name": "again", "type": ["null", name]})
        return {"type": "record", "name": name, "fields": fields}


def _path(schema: avro.Schema, rng: Random) -> tuple[str, ...]:
    """To any field, by unions or not."""
    branches = schema.branches if schema.type == "union" else (schema,)
    records = [b for b in branches if b.type == "record" and b.fields]
    if not records:
        return ()
    name, inner = rng.choice(rng.choice(records).fields)
    return name, *(_path(inner, rng) if rng.random() < 0.7 else ())


def _random_avro(rng: Random) -> tuple[PlainSpec, Make]:
    texts: list[str] = []
    while len(texts) < rng.choice((1, 1, 3)):
        text = json.dumps(_Schemas(rng).record(0))
        try:
            avro.parse(text)
            oracle_avro_binary.parse(text)
        except ValueError:  # the same branch twice
            continue
        texts.append(text)
    columns, tries = [], 0
    while len(columns) < 8 and tries < 400:
        tries += 1
        schema = avro.parse(rng.choice(texts))
        path, kind = _path(schema, rng), rng.choice(_TYPES)
        reasons = [avro.misfit(s, parse(kind)) for s in avro.at(schema, path)]
        if path and (None in reasons or rng.random() < 0.003):
            columns.append(PlainColumn(f"c{len(columns)}", kind, path, rng.random() < 0.9))
    time = ((rng.choice("abcdefghij"),), rng.choice(("epoch_ms", "iso8601"))) if rng.random() < 0.1 else (None, "")
    unknown = rng.choice(("ignore", "ignore", "capture"))
    schemas = [oracle_avro_binary.parse(t) for t in texts]
    plain = len(texts) == 1 and rng.random() < 0.5
    settings = AvroSettings(texts[0]) if plain else AvroSettings(None, tuple(enumerate(texts, 5)))
    spec = PlainSpec(
        tuple(columns), unknown=unknown, time=time[0], time_format=time[1] or "epoch_ms", settings=settings
    )

    def make(rng: Random) -> bytes:
        number = rng.randrange(len(schemas))
        head = b"" if plain else b"\0\0\0\0" + bytes([5 + number])
        return head + encode_avro.datum(schemas[number], rng)

    return spec, make


# ---------------------------------------------------------------- random columns of one protobuf message

_FIELDS = (
    *seeds_protobuf.MANY,
    Declared("ps", 30, "message", "t.Part", "repeated"), Declared("ds", 31, "double", label="repeated"),
    Declared("ws", 32, "message", "google.protobuf.Timestamp", "repeated"), Declared("o", 33, "string", presence=True),
    Declared("wi", 34, "message", "google.protobuf.Int64Value"),
    Declared("du", 35, "message", "google.protobuf.Duration"),
    Declared("wss", 36, "message", "google.protobuf.StringValue", "repeated"), Declared("fx", 37, "sfixed32"),
    Declared("bs", 38, "bool", label="repeated"), Declared("bys", 39, "bytes", label="repeated"),
    Declared("q", 40, "message", "t.Part"), Declared("si", 41, "sint64"), Declared("far", 200_000, "uint64"),
)  # fmt: skip
_MORE_TYPES = (
    "array<int>", "array<boolean>", "array<binary>", "array<timestamp>", "array<double>", "map<string,bigint>",
    "array<struct<a:bigint,b:string,p:struct<a:int>>>", "struct<a:int,b:string,c:string,p:struct<a:tinyint,b:binary>>",
)  # fmt: skip


def _random_protobuf(rng: Random) -> tuple[PlainSpec, Make]:
    proto3 = rng.random() < 0.7
    some = [f for f in _FIELDS if proto3 or (f.of != "t.Part" and not f.presence)]  # a proto2 part has required fields
    fields = tuple(rng.sample(some, rng.randint(3, len(some))))
    made = seeds_protobuf.settings((*fields, Declared("zz", 1000, "int32")), proto3)
    message = descriptors.message_type(base64.b64encode(made.descriptor_set).decode(), made.message)
    columns, tries = [], 0
    while len(columns) < 8 and tries < 300:
        tries += 1
        field, kind = rng.choice(fields), rng.choice(_TYPES + _MORE_TYPES)
        path = (field.name, *(rng.choice((("a",), ("B",), ("p",), ("p", "a"))) if field.of == "t.Part" else ()))
        path = path[:1] if field.label == "repeated" or rng.random() < 0.3 else path
        found = descriptors.at(message, path)
        if found is not None and descriptors.misfit(found[-1], parse(kind)) is None:
            columns.append((kind, path))
    time = rng.choice(("i", "w", "up", "wi", "si"))
    extra = {"time": (time,)} if rng.random() < 0.2 and time in {f.name for f in fields} else {}
    unknown, confluent = rng.choice(("ignore", "ignore", "capture")), rng.random() < 0.3
    spec, one = seeds_protobuf.seed(fields, columns, proto3=proto3, confluent=confluent, unknown=unknown, **extra)

    def make(rng: Random) -> bytes | None:
        """In the order of the fields, as writers do, or anyhow."""
        if confluent or rng.random() < 0.4:
            return one(rng)
        some = [f for f in fields if rng.random() < 0.7]
        return b"".join(seeds_protobuf.value(f, rng) for f in sorted(some, key=lambda f: f.number))

    return spec, make


RANDOM: dict[str, Callable[[Random], tuple[PlainSpec, Make]]] = {
    "avro": _random_avro,
    "csv": random_csv,
    "protobuf": _random_protobuf,
}
UNSERVED: dict[str, Callable[[Pipeline, Any], bool]] = {
    "avro": lambda pipeline, decoder: False,
    "csv": lambda pipeline, decoder: not all((m or "").isascii() for m in csv_marks(pipeline)),
    "protobuf": lambda pipeline, decoder: decoder._required,
}
"""Pipelines whose messages the library does not read, though it has columns for them."""


# ---------------------------------------------------------------- comparing


def messages(form: str, case: Case, rng: Random, count: int) -> Iterator[bytes | None]:
    mutate = FAMILIES[form].mutate
    made: list[bytes] = []
    for _ in range(count):
        message = case.make(rng)
        if message is not None:
            made.append(message)
            if rng.random() < DAMAGED:
                message = mutate(message, made[-20:], rng)
        yield message


def compare(form: str, case: Case, rng: Random, count: int) -> Counter[str]:
    """How many messages of a case the library took, and what became of the others. Raises AssertionError."""
    pipeline, found = compiled(case.spec), Counter[str]()
    fast, slow = DECODERS[form](pipeline), DECODERS[form](pipeline, vectorised=False)
    made = list(messages(form, case, rng, count))
    for at in range(0, count, CHUNK):
        chunk = chunk_of(made[at : at + CHUNK])
        one, other = fast.decode(chunk), slow.decode(chunk)
        if fast._program is None:
            assert not wire_program.fits(pipeline) or UNSERVED[form](pipeline, slow), case
            found["no program"] += len(chunk)
            continue
        batch, look = fast._program.run(chunk.values)
        batch.validate(full=True)
        one.table.validate(full=True)
        assert one.bad == other.bad, f"{case}: {first(chunk.values, one.bad, other.bad)}"
        assert one.unknown == other.unknown, f"{case}: {one.unknown} {other.unknown}"
        good = [i for i in range(len(chunk)) if i not in other.bad]
        for i, left, right in zip(good, rows_of(one, good), rows_of(other, good), strict=True):
            assert left == right, f"{case}: {chunk.values[i]!r}\n{left}\n{right}"
        found["sure"] += len(chunk) - len(look)
        found["not sure, a row"] += sum(i not in other.bad for i in look)
        found["not sure, dirty"] += sum(i in other.bad for i in look)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=sorted(DECODERS), action="append")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--library", type=Path, help="another build, such as one with sanitizers")
    asked = parser.parse_args()
    if asked.library:
        found_there = native.open_library(asked.library)
        native._load = lambda: found_there  # type: ignore[assignment]
    if native.library() is None:
        sys.exit(native.why_not())
    for form in asked.format or sorted(DECODERS):
        found, seed = Counter[str](), asked.seed
        while found.total() < asked.messages:
            rng = Random(f"{form} {seed}")
            for case in cases(form, rng):
                found += compare(form, case, rng, 300)
            print(f"{form}, seed {seed}: {found.total():,} messages: {dict(found)}", flush=True)
            seed += 1


if __name__ == "__main__":
    main()
