"""Rows that are taken from our own files, or brought back, are the rows that Kafka gave: every type, format and codec.

The same life each time: rows of two batches, some beyond the partitions that a window may have, some that came late and
were taken up, some that were dirty and redriven. Then the files are the only source."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine.sinks import finished
from tests.audit.audits import InProcess
from tests.dirty.redrives import redriven
from tests.file_values import WORDS
from tests.world import TOPIC, World, make_pipeline, record, window
from tidegate.core.spec.pipeline import Column, Merge, Pipeline
from tidegate.core.target.tables import told_columns
from tidegate.core.window.states import PublishedGeneration
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.base.context import Published
from tidegate.workflow.late import reopen
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay, rollback

CELLS = [(f, c, k) for f in ("parquet", "orc") for c in ("zstd", "snappy", "gzip", "none") for k in (True, False)]
CELLS += [("text", c, k) for c in ("gzip", "none") for k in (True, False)]
"""Format, codec, and whether rows carry their Kafka coordinates."""
if os.environ.get("TIDEGATE_FUZZ") != "full":
    drawn = random.Random(os.environ["TIDEGATE_TEST_SEED"])
    CELLS = [drawn.choice([cell for cell in CELLS if cell[0] == f]) for f in ("parquet", "orc", "text")]
PLACES = ("date", "hour", "site"), ("date", "hour", "leg"), ("date", "hour", "site", "leg"), ("date", "hour")
FLAT = {
    "words": "string", "raw": "binary", "flag": "boolean", "tiny": "tinyint", "grow": "smallint", "number": "int",
    "big": "bigint", "single": "float", "whole": "double", "money": "decimal(38,10)", "part": "decimal(38,38)",
    "price": "decimal(10,2)", "day": "date", "moment": "timestamp",
}  # fmt: skip
NESTED = {
    "list": "array<string>", "lists": "array<array<int>>", "map": "map<string,int>",
    "days": "map<date,decimal(5,2)>", "place": "struct<city:string,at:timestamp,codes:array<int>>",
    "deep": "map<string,array<struct<a:timestamp,b:binary,c:struct<d:boolean>>>>",
    "times": "array<timestamp>", "keyed": "map<timestamp,array<double>>",
}  # fmt: skip
EARLY = ("0001-01-01T00:00:00Z", "1582-10-10T12:00:00Z", "1969-12-31T23:59:59.9Z", "9999-12-31T23:59:59.999999Z")
"""ORC keeps none of them so that PyArrow can read it."""
TIMES = ("1969-12-31T23:59:59Z", "2013-01-05T04:05:06.123456Z", 0, 1, 4_102_444_800_000)


@pytest.mark.parametrize(("name", "codec", "carried"), CELLS)
def test_rows_of_files_are_those_that_kafka_gave(
    tmp_path: Path, rng: random.Random, name: str, codec: str, carried: bool
) -> None:
    world = World(tmp_path, pipeline_of(tmp_path, rng, name, codec, carried))
    lived(world, rng)
    before, published = rows(world), current(world)
    assert sum(before.values()) == (65 if carried else 50)
    assert not replayed(world, "files").new
    assert not replayed(world, "kafka").new
    audited(world)
    if name != "text":  # whose columns stay as they are: nothing could be new
        gone = () if name == "orc" or world.pipeline.format.unknown_fields == "capture" else ("raw", "place")
        world.change_spec(columns=tuple(wider(c, name) for c in world.pipeline.columns if c.name not in gone))
        replayed(world, "files")
        assert rows(world) == without(before, gone)
        audited(world)
        assert not replayed(world, "kafka").new, "the very content that decoding gives"
        if current(world).digest != published.digest:
            brought_back(world, published)
            assert rows(world) == before
    columns = world.pipeline.columns
    world.change_spec(columns=tuple(replace(c, path="$.id") if c.name == "site" else c for c in columns))
    assert replayed(world, "kafka").new
    for partition in (0, 1):
        world.kafka.trim(TOPIC, partition, world.kafka.look(TOPIC).partitions[partition].high_watermark)
    brought_back(world, published)
    assert rows(world) == before
    audited(world)
    world.close()


def wider(column: Column, name: str) -> Column:
    """What readers of the files that are there can take."""
    types = {"grow": "int", "tiny": "smallint"} | (
        {"price": "decimal(13,3)", "number": "bigint"} if name == "orc" else {}
    )
    return replace(column, type=types.get(column.name, column.type))


# ---------------------------------------------------------------- a life


def pipeline_of(folder: Path, rng: random.Random, name: str, codec: str, carried: bool) -> Pipeline:
    made = make_pipeline(f"file://{folder}/lake/readings")
    typed = FLAT if name == "text" else FLAT | NESTED
    id_, site, value = made.columns
    columns = (id_, site, replace(value, nullable=False), Column(name="leg", type="int", path="$.leg"))
    columns += (Column(name="note", type="string", path="$.note", convert="text"),)
    columns += tuple(Column(name=n, type=kind, path=f"$.{n}") for n, kind in typed.items())
    places, merge = rng.choice(PLACES), Merge(rng.choice((2, None)))
    unknown = "ignore" if name == "text" else rng.choice(("ignore", "capture"))
    print(f"partitions {places}, merged from {merge.min_files} files on, unknown fields: {unknown}")
    return replace(
        made,
        columns=columns,
        partition_by=places,
        kafka_columns=carried,
        format=replace(made.format, unknown_fields=unknown),
        sink=replace(made.sink, format=name, compression=codec, max_partitions=3),
        archive=replace(made.archive, merge=merge),
    )


def lived(world: World, rng: random.Random) -> None:
    """Hour 0 has 40 rows, 10 that were dirty, 15 that came late; without coordinates nothing of the latter."""
    carried = world.pipeline.kafka_columns
    for batch in (0, 1):
        for partition in (0, 1):
            produce(world, rng, partition, 10)
            produce(world, rng, partition, 5 * batch, value=None if carried else 0)
            world.produce(record("next", 2.0), partition=partition)
        world.ingest(f"r{batch}")
    columns = world.pipeline.columns
    world.change_spec(columns=tuple(replace(c, nullable=True) if c.name == "value" else c for c in columns))
    if carried:
        assert redriven(world).data == 10  # type: ignore[union-attr]
    world.produce(record("next", 3.0))
    world.produce(record("next", 3.0), partition=1)
    world.ingest("r2")
    world.archive(0)
    if carried:
        produce(world, rng, 0, 10)
        produce(world, rng, 1, 5)
        world.ingest("r3")
        ctx = world.context()
        archive.announced(ctx, reopen.reopen(ctx, window(0), "a test"))
        world.close()


def produce(world: World, rng: random.Random, partition: int, count: int, **fixed: Any) -> None:
    far = world.pipeline.sink.format != "orc"
    messages = (json.dumps(message(rng, far) | fixed, ensure_ascii=False) for _ in range(count))
    world.produce(*(re.sub('"<(.*?)>"', r"\1", m).encode() for m in messages), partition=partition)


def message(rng: random.Random, far: bool) -> dict[str, Any]:
    """Of hour 0. What is missing is null, as null is."""

    def moment() -> Any:
        return rng.choice(TIMES + EARLY if far else TIMES)

    def numbers(bits: int) -> Any:
        return rng.choice((-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1))

    def some(one: Any, most: int = 3) -> list[Any]:
        return [rng.choice((None, one())) for _ in range(rng.randrange(most))]

    values: dict[str, Any] = {
        "leg": rng.choice((0, 1, 2, 7, 8, 9)),
        "site": rng.choice(("a", "b", "", "ü/=%", "c\n", "d", "e")),
        "note": rng.choice((number("1.50"), number("-0"), True, "x", "")),
        "words": rng.choice(WORDS),
        "raw": rng.choice(WORDS),
        "flag": rng.choice((True, False)),
        "tiny": numbers(8),
        "grow": numbers(16),
        "number": numbers(32),
        "big": numbers(64),
        "single": number(rng.choice(("0.1", "-0.0", "3.4028234e38", "1.4e-45", "16777217"))),
        "whole": number(rng.choice(("0.1", "-0", "5e-324", "1.7976931348623157e308", "1e22", "123456789.25"))),
        "money": number(rng.choice(("1e-10", "0", "-1.5", "1234567890123456789012345678.0123456789"))),
        "part": number(rng.choice(("0", "1e-38", "-0." + "9" * 38, "0.5"))),
        "price": number(rng.choice(("99999999.99", "-0.01", "1e2"))),
        "day": rng.choice(("0001-01-01", "1582-10-10", "9999-12-31", "1970-01-01")),
        "moment": moment(),
        "list": some(lambda: rng.choice(WORDS)),
        "lists": some(lambda: some(lambda: numbers(32))),
        "map": {k: rng.choice((None, 1)) for k in rng.sample(("", "k", "ü", "\n"), rng.randrange(4))},
        "days": {k: number("1.25") for k in rng.sample(("0001-01-01", "2013-01-05"), rng.randrange(3))},
        "place": {"city": rng.choice(("", "Köln", None)), "at": moment(), "codes": some(lambda: 5)},
        "deep": {"x": some(lambda: {"a": moment(), "b": rng.choice(WORDS), "c": rng.choice((None, {"d": True}))})},
        "times": some(moment),
        "keyed": {str(k): [0.5, None] for k in rng.sample((0, 1000, 1_357_358_706_123), rng.randrange(3))},
        "more": rng.choice((number("1.0"), "text", [1, {"a": None}], "")),
        "further": 1,
    }
    told = {k: None if rng.random() < 0.1 else v for k, v in values.items() if rng.random() < 0.9}
    return record(str(rng.randrange(1000)), rng.random() * 0.9) | told


def number(text: str) -> str:
    """A number that the message spells as it is written here."""
    return f"<{text}>"


# ---------------------------------------------------------------- what is done with it, and what is seen


def replayed(world: World, wanted: str) -> Published:
    ctx = world.context()
    found = replay.replay(ctx, window(0), wanted)
    archive.announced(ctx, found)
    world.close()
    return found


def brought_back(world: World, to: PublishedGeneration) -> None:
    ctx = world.context()
    found = rollback.rollback(ctx, window(0), to.number, "a test")
    archive.announced(ctx, found)
    assert (found.new, found.digest) == (True, to.digest)
    world.close()


def current(world: World) -> PublishedGeneration:
    windows = world.context().ledger.windows
    found = windows.generation("readings", window(0), windows.get("readings", window(0)).current)  # type: ignore[arg-type]
    world.close()
    assert isinstance(found, PublishedGeneration)
    return found


def rows(world: World) -> Counter[str]:
    """Each row of hour 0 with its partition, as text."""
    found: Counter[str] = Counter()
    told = told_columns(world.pipeline, "data")
    for values, location in world.catalogue.partitions("lake.readings").items():
        if dict(values)["hour"] == "00":
            for path in Path(location.removeprefix("file://")).rglob("[!_.]*"):
                if path.is_file():
                    with path.open("rb") as stream:
                        for batch in finished(path.name, stream, told).batches(1000):
                            found.update(plain(values, row) for row in batch.to_pylist())
    return found


def plain(values: Any, row: dict[str, Any]) -> str:
    row = {k: v for k, v in row.items() if v is not None}
    return json.dumps([dict(values), row], sort_keys=True, default=spelled)


def spelled(value: Any) -> str:
    """Decimals by what they are worth."""
    return f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, Decimal) else repr(value)


def without(found: Counter[str], names: Sequence[str]) -> Counter[str]:
    less: Counter[str] = Counter()
    for text, count in found.items():
        values, row = json.loads(text)
        less[plain(values, {k: v for k, v in row.items() if k not in names})] += count
    return less


def audited(world: World) -> None:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, InProcess(), Depth())
    world.close()
    assert report.problems == ()
