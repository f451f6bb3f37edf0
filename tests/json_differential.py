"""The C library against the row rules: random messages for several pipelines, half of them damaged.

    .venv/bin/python -m tests.json_differential [--messages 500000] [--seed 1] [--library file.so]

Each row that the library takes has to be what the row rules make of it, floats to the bit; every reason is theirs.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spark_jobs.engine import native
from spark_jobs.engine.formats.json_decoder import JsonDecoder
from tests.engine_fixtures import chunk_of, pipeline
from tests.json_messages import NON_FINITE, Writer, anything, damaged, fitting, number
from tidegate.core.base.hivetypes import HiveType, parse
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.spec import paths
from tidegate.core.spec.pipeline import Column, EventTime, Format, Pipeline

CHUNK = 100
UNKNOWN = ["zz", "q", "unknown " * 3, "", "$.a", "$", "$.", 'q"\\', "köln", "a.b", "[]", "\n"]
_FLAT = "int bigint double string decimal(5,2) decimal(38,10) timestamp date boolean float tinyint smallint binary"
CASES: dict[str, tuple[tuple[Column, ...], EventTime, str]] = {
    "flat": (
        tuple(Column(name=f"c{i}", type=kind, path=f"$.k{i}") for i, kind in enumerate(_FLAT.split())),
        EventTime("$.t"),
        "ignore",
    ),
    "nested": (
        (
            Column(name="a", type="array<int>", path="$.a"),
            Column(name="b", type="map<string,int>", path="$.b"),
            Column(name="c", type="struct<a:int,b:array<string>,s:struct<x:double,y:map<int,string>>>", path="$.c"),
            Column(name="d", type="array<struct<a:string,d:decimal(10,3)>>", path="$.d"),
            Column(name="e", type="map<date,array<boolean>>", path="$.e"),
            Column(name="f", type="array<array<map<boolean,timestamp>>>", path="$.f"),
        ),
        EventTime("$.t", "iso8601"),
        "capture",
    ),
    "paths": (
        (
            Column(name="a", type="int", path="$.a.b", nullable=False),
            Column(name="b", type="string", path="$.a.c"),
            Column(name="c", type="struct<b:int,c:string>", path="$.a"),
            Column(name="d", type="double", path="$.t"),
            Column(name="e", type="timestamp", path="$.t"),
            Column(name="f", type="string", path='$."köln"."key of sixteen__"'),
            Column(name="g", type="map<double,int>", path="$.m"),
            Column(name="h", type="bigint", path='$."a b"'),
            Column(name="i", type="int", path='$."q\\"uote"'),
        ),
        EventTime("$.t", "epoch_us"),
        "capture",
    ),
    "inside": (
        (
            Column(name="a", type="array<struct<z:int,l:array<struct<q:int>>>>", path="$.a"),
            Column(name="b", type="map<string,struct<a:int,m:map<int,struct<z:int>>>>", path="$.b"),
            Column(name="c", type="struct<x:int,s:struct<y:int>>", path="$.o.c"),
            Column(name="d", type="int", path="$.o.d"),
            Column(name="e", type="map<double,struct<q:int>>", path="$.e"),
            Column(name="f", type="string", path='$."$.f".g'),
        ),
        EventTime("$.o.t"),
        "capture",
    ),
    "twice": (
        (
            Column(name="b", type="int", path="$.a.b.d"),
            Column(name="x", type="int", path="$.a.x"),
            Column(name="a", type="struct<b:struct<c:int,zz:string>,x:int,y:struct<q:int>>", path="$.a"),
            Column(name="c", type="array<struct<a:int>>", path="$.l"),
            Column(name="d", type="array<struct<a:int,z:string>>", path="$.l"),
            Column(name="f", type="int", path="$.m.zz"),
            Column(name="e", type="map<string,int>", path="$.m"),
        ),
        EventTime(None),
        "capture",
    ),
    "inside, fail": (
        (Column(name="a", type="array<struct<z:int>>", path="$.a"), Column(name="b", type="int", path="$.o.b")),
        EventTime("$.o.t"),
        "fail",
    ),
    "small": (
        (
            Column(name="a", type="map<smallint,struct<q:int>>", path="$.a"),
            Column(name="b", type="array<float>", path="$.b"),
            Column(name="c", type="decimal(15,5)", path="$.c"),
            Column(name="d", type="decimal(38,38)", path="$.d"),
            Column(name="e", type="int", path="$.e"),
        ),
        EventTime(None),
        "ignore",
    ),
    "pattern": (
        (Column(name="a", type="string", path="$.a"), Column(name="b", type="double", path="$.b", convert="text")),
        EventTime("$.t", "%Y-%m-%d %H:%M"),
        "fail",
    ),
    "texts": (
        tuple(Column(name=f"c{i}", type=kind, path=f"$.k{i}", convert="text") for i, kind in enumerate(_FLAT.split())),
        EventTime("$.t", "%a, %d %b %Y %H:%M:%S %z"),
        "capture",
    ),
}


def spec_of(name: str) -> Pipeline:
    columns, time, unknown = CASES[name]
    base = pipeline("/nowhere")
    return replace(base, columns=columns, event_time=time, format=Format("json", unknown), partition_by=("date",))


@dataclass(frozen=True)
class _Time:
    form: str


@dataclass(frozen=True)
class _Spelled:
    """A value that may be the text of its type, or of a string a number or a boolean."""

    kind: HiveType


def _wanted(spec: Pipeline) -> dict[str, Any]:
    """The keys that are looked for, as a tree; at its leaves what is there."""
    tree: dict[str, Any] = {}
    leaves: list[tuple[tuple[str, ...], Any]] = []
    if spec.event_time.path is not None:
        leaves.append((paths.parse(spec.event_time.path), _Time(spec.event_time.format)))
    leaves += [(paths.parse(c.path), _Spelled(parse(c.type)) if c.convert else parse(c.type)) for c in spec.columns]
    for path, leaf in leaves:
        node = tree
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node.setdefault(path[-1], leaf)
    return tree


def _object(tree: dict[str, Any], rng: random.Random, writer: Writer) -> str:
    members = [(key, _value(leaf, rng, writer)) for key, leaf in tree.items() if rng.random() < 0.99]
    if rng.random() < 0.2:
        members.append((rng.choice(UNKNOWN), anything(rng, writer)))
    if members and rng.random() < 0.01:
        members.append(rng.choice(members))
    if rng.random() < 0.3:
        rng.shuffle(members)
    return writer.object(members)


def _value(leaf: Any, rng: random.Random, writer: Writer) -> str:
    if isinstance(leaf, dict):
        return _object(leaf, rng, writer)
    if isinstance(leaf, _Spelled):
        return _spelled(leaf.kind, rng, writer)
    if not isinstance(leaf, _Time):
        return fitting(leaf, rng, writer)
    if rng.random() < 0.01:
        return fitting(parse("bigint"), rng, writer)
    if leaf.form == "iso8601":
        return fitting(parse("timestamp"), rng, writer) if rng.random() < 0.2 else '"2013-01-05T04:05:06.789+01:00"'
    if "%b" in leaf.form:
        return writer.string(rng.choice(_MONTHS))
    if leaf.form.startswith("%"):
        return writer.string(rng.choice(["2013-01-05 04:05"] * 9 + ["2013-1-5 4:05"]))
    return str(rng.randrange(-(10**12), 10**13))


_MONTHS = [
    *["Sat, 05 Jan 2013 04:05:06 +0100", "sun, 29 FEB 2004 23:59:59 Z", "Mon, 31 Dec 9998 00:00:00 -1130"] * 20,
    *["Sat, 5 Jan 2013 4:5:6 +0100", "Sat,  5 Jan  2013 04:05:06 +01:00", "Sat, 05 Janu 2013 04:05:06 Z"],
    *["Sat, 05 Jän 2013 04:05:06 Z", "Sat, 30 Feb 2013 04:05:06 Z", "Sab, 05 Jan 2013 04:05:06 Z"],
]


def _spelled(kind: HiveType, rng: random.Random, writer: Writer) -> str:
    if str(kind) == "string" and rng.random() < 0.4:
        return rng.choice([number(rng), "true", "false"] if rng.random() < 0.98 else NON_FINITE)
    text = fitting(kind, rng, writer)
    if text[0] in '"[{' or rng.random() < 0.5:
        return text
    return writer.string((rng.choice(" +0") if rng.random() < 0.01 else "") + text)


def messages(name: str, rng: random.Random, count: int) -> Iterator[bytes]:
    tree = _wanted(spec_of(name))
    for _ in range(count):
        writer = Writer(rng)
        message = (writer.space() + _object(tree, rng, writer) + writer.space()).encode()
        yield damaged(message, rng) if rng.random() < 0.35 else message


def compare(name: str, seed: int, count: int, library: Any = None, version: int = RULES_VERSION) -> Counter[str]:
    """How many messages of a case the library took, and what became of the others. Raises AssertionError."""
    spec, rng, found = spec_of(name), random.Random(f"{name} {seed}"), Counter[str]()
    fast = JsonDecoder(spec, version, library=library)
    slow = JsonDecoder(spec, version, vectorised=False)
    made = list(messages(name, rng, count))
    for at in range(0, count, CHUNK):
        chunk = chunk_of(made[at : at + CHUNK])  # type: ignore[arg-type]
        _, look = fast._program.run(chunk.values)  # type: ignore[union-attr]
        one, other = fast.decode(chunk), slow.decode(chunk)
        one.table.validate(full=True)
        assert one.bad == other.bad, f"{name}, seed {seed}: {first(chunk.values, one.bad, other.bad)}"
        assert one.unknown == other.unknown, f"{name}, seed {seed}"
        good = [i for i in range(len(chunk)) if i not in other.bad]
        for i, left, right in zip(good, rows_of(one, good), rows_of(other, good), strict=True):
            assert left == right, f"{name}, seed {seed}: {chunk.values[i]!r}\n{left}\n{right}"
        found["sure"] += len(chunk) - len(look)
        found["not sure, a row"] += sum(i not in other.bad for i in look)
        found["not sure, dirty"] += sum(i in other.bad for i in look)
    return found


def rows_of(decoded: Any, good: list[int]) -> list[str]:
    """As text: there minus zero is not zero, and no digit of a float is left out."""
    rows, times = decoded.table.to_pylist(), decoded.event_ms
    return [f"{rows[i]!r} {None if times is None else times[i]}" for i in good]


def first(values: list[bytes | None], one: dict, other: dict) -> str:
    i = min(i for i in {*one, *other} if one.get(i) != other.get(i))
    return f"{values[i]!r}: {one.get(i)}, {other.get(i)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--library", type=Path)
    asked = parser.parse_args()
    library = native.open_library(asked.library) if asked.library else native.library()
    if library is None or isinstance(library, str):
        sys.exit(library or native.why_not())
    found, seed = Counter[str](), asked.seed
    while found.total() < asked.messages:
        for name in CASES:
            found += compare(name, seed, 2_000, library, version=seed % 3 + 1)
        print(f"seed {seed}: {found.total():,} messages: {dict(found)}", flush=True)
        seed += 1


if __name__ == "__main__":
    main()
