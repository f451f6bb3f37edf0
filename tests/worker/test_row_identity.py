"""The row identity: golden numbers that never change, one page and three implementations, and no library's hash."""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine import identity, native
from spark_jobs.engine.mirror.hashing import buckets_of
from spark_jobs.engine.types import TIMESTAMP
from tests.file_values import COLUMNS, rows_of
from tests.late.reopenings import balanced
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import ReplayRefused
from tidegate.core.spec.pipeline import Column, Merge
from tidegate.workflow.late import reopen
from tidegate.workflow.replay import replay, rollback

IN_C = native.row_hashes()


@pytest.fixture(params=["c", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(native, "row_hashes", lambda: None)
    elif IN_C is None:
        pytest.skip("the C library was not built")
    return request.param


# ---------------------------------------------------------------- golden


PLACE = pa.struct([("city", pa.string()), ("at", TIMESTAMP), ("codes", pa.list_(pa.int32()))])


def golden() -> dict[str, pa.Array]:
    """A column of each type, three rows each."""
    return {
        "flag": pa.array([True, False, None]),
        "tiny": pa.array([-1, 127, None], pa.int8()),
        "small": pa.array([-1, 2**15 - 1, None], pa.int16()),
        "number": pa.array([-1, 2**31 - 1, None], pa.int32()),
        "big": pa.array([-1, 2**63 - 1, None], pa.int64()),
        "single": pa.array([-0.0, float("nan"), 1.5], pa.float32()),
        "whole": pa.array([-0.0, float("nan"), 1.5], pa.float64()),
        "price": pa.array([Decimal("-0.01"), Decimal("12.34"), None], pa.decimal128(9, 2)),
        "cost": pa.array([Decimal("-0.01"), Decimal("12.34"), None], pa.decimal128(18, 2)),
        "money": pa.array([Decimal("-0.01"), Decimal(10**35), None], pa.decimal128(38, 2)),
        "words": pa.array(["", "sixteen bytes wi", "Köln, and thirteen more"]),
        "raw": pa.array([b"\0", b"1234567", None], pa.binary()),
        "day": pa.array([-1, 15_000, None], pa.int32()).cast(pa.date32()),
        "moment": pa.array([-1, 1_357_358_706_123_456, None], pa.int64()).cast(TIMESTAMP),
        "list": pa.array([["a", None, ""], [], None], pa.list_(pa.string())),
        "map": pa.array([[("k", 1), ("ü", None)], [], None], pa.map_(pa.string(), pa.int32())),
        "place": pa.array([{"city": "Köln", "at": 1, "codes": [1, 2]}, {"city": None, "codes": []}, None], PLACE),
        "deep": pa.array([[[1, None], [], None], [None], [[2]]], pa.list_(pa.list_(pa.int64()))),
    }


HASHES = {
    "flag": [4717996019076358352, 0, 13787848793156543929],
    "tiny": [4739667815145166545, 14427145621585082164, 13787848793156543929],
    "small": [4739667815145166545, 1911158764973689246, 13787848793156543929],
    "number": [4739667815145166545, 8664720811953274015, 13787848793156543929],
    "big": [4939931809569846361, 13173756286995563913, 13787848793156543929],
    "single": [0, 9347582828546182512, 877323241837685928],
    "whole": [0, 9170934016072976158, 1706605666616485939],
    "price": [4739667815145166545, 2725557364278405098, 13787848793156543929],
    "cost": [4939931809569846361, 2725557364278405098, 13787848793156543929],
    "money": [0, 8839962045815930001, 13787848793156543929],
    "words": [5104928228550385088, 13450080839090226263, 2006062717949343675],
    "raw": [16991946348678134290, 8443969022336546943, 13787848793156543929],
    "day": [4739667815145166545, 3311522632771406645, 13787848793156543929],
    "moment": [4939931809569846361, 14073840413954945463, 13787848793156543929],
    "list": [15120676397410764284, 13787848793156543929, 13787848793156543929],
    "map": [6312984587457144883, 13787848793156543929, 13787848793156543929],
    "place": [3230332106071163818, 18212156630472451589, 18212156630472451589],
    "deep": [4962850523779020990, 13787848793156543929, 2060787363917578834],
}
WHOLE = [10223006292691811685, 11977800355284224805, 13270905023788281864]


def test_the_numbers_never_change(way: str) -> None:
    """Manifests of years hold them: whoever has to change this test needs a new number of the identity instead."""
    columns = golden()
    for name, column in columns.items():
        assert identity.row_hashes(pa.table({name: column}), {}).to_pylist() == HASHES[name], name
    rows = pa.table(columns)
    assert identity.row_hashes(rows, {"site": "a", "shop": None}).to_pylist() == WHOLE
    assert identity.checksum(rows, {"site": "a", "shop": None}) == sum(WHOLE) % 2**64
    assert identity.ROW_IDENTITY == 0


KEYS = ("flag", "tiny", "small", "number", "big", "price", "cost", "money", "words", "raw", "day", "moment")
BUCKETS = {
    "flag": [16, 0, 57], "tiny": [25, 52, 57], "small": [25, 30, 57], "number": [25, 31, 57], "big": [25, 9, 57],
    "price": [0, 42, 57], "cost": [0, 42, 57], "money": [0, 17, 57], "words": [0, 23, 59], "raw": [18, 63, 57],
    "day": [17, 53, 57], "moment": [25, 55, 57],
}  # fmt: skip
PAIR = [109, 179, 631]


def test_the_buckets_of_keys_never_change(way: str) -> None:
    """Tables are cut by them: a change of this test means that no mirror that is there can be read."""
    columns = golden()
    found = {name: buckets_of([pa.chunked_array([columns[name]])], 64).tolist() for name in KEYS}
    assert found == BUCKETS
    pair = [pa.chunked_array([columns[name]]) for name in ("number", "words")]
    assert buckets_of(pair, 1000).tolist() == PAIR


def test_a_key_that_grows_stays_in_its_bucket(way: str) -> None:
    small = pa.chunked_array([pa.array([-1, 0, 127], pa.int8())])
    prices = pa.chunked_array([pa.array([Decimal("-0.01"), Decimal("12.34")], pa.decimal128(5, 2))])
    for column, wider in (
        *((small, kind) for kind in (pa.int16(), pa.int32(), pa.int64())),
        *((prices, pa.decimal128(p, 2)) for p in (9, 12, 18, 38)),
    ):
        assert buckets_of([column.cast(wider)], 977).tolist() == buckets_of([column], 977).tolist()


# ---------------------------------------------------------------- from the page alone

K, NULL, MASK = 0xD6E8FEB86659FD93, 0xBF58476D1CE4E5B9, 2**64 - 1


def mix(x: int) -> int:
    x = (x ^ x >> 32) * K & MASK
    x = (x ^ x >> 32) * K & MASK
    return x ^ x >> 32


def joined(state: int | None, value: int) -> int:
    return value if state is None else (state ^ state >> 32) * K & MASK ^ value


def text_hash(value: bytes) -> int:
    h = 0xE17A1465 ^ len(value) * 0xC6A4A7935BD1E995 & MASK
    for at in range(0, len(value), 8):
        h = (h ^ int.from_bytes(value[at : at + 8], "little")) * K & MASK
    return mix(h)


def stated(state: int | None, value: Any, kind: pa.DataType) -> int | None:
    """docs/row-identity.md, value by value; times and days as numbers."""
    if pa.types.is_struct(kind):
        for i, field in enumerate(kind):
            state = stated(state, None if value is None else value[i], field.type)
        return state
    if pa.types.is_map(kind):
        return stated(state, value, pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    if pa.types.is_list(kind):
        before = state
        for item in value or ():
            state = joined(state, stated(None, item, kind.value_type))  # type: ignore[arg-type]
        return NULL if before is None and not value else state
    return joined(state, NULL if value is None else stated_value(value, kind))


def stated_value(value: Any, kind: pa.DataType) -> int:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return text_hash(value.encode() if isinstance(value, str) else value)
    if pa.types.is_decimal(kind):
        number = int(value.scaleb(kind.scale, Context(prec=40))) & (2**128 - 1)
        if kind.precision > 18:
            return mix(number & MASK) ^ mix(number >> 64)
        return mix(number & (MASK if kind.precision > 9 else 2**32 - 1))
    if pa.types.is_floating(kind):
        small = kind == pa.float32()
        value = 0.0 if value == 0 else value
        bits = struct.unpack("<I" if small else "<Q", struct.pack("<f" if small else "<d", value))[0]
        return mix((0x7FC00000 if small else 0x7FF8000000000000) if value != value else bits)
    wide = kind == pa.int64() or pa.types.is_timestamp(kind)
    return mix(int(value) & (MASK if wide else 2**32 - 1))


TYPES = (
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.date32(), TIMESTAMP, pa.decimal128(4, 2), pa.decimal128(9, 0), pa.decimal128(18, 6), pa.decimal128(38, 10),
)  # fmt: skip


def some_type(rng: random.Random, depth: int) -> pa.DataType:
    what = rng.random() if depth else 1
    if what < 0.2:
        return pa.list_(some_type(rng, depth - 1))
    if what < 0.4:
        return pa.map_(rng.choice((pa.string(), pa.int64())), some_type(rng, depth - 1))
    if what < 0.6:
        return pa.struct([(f"f{i}", some_type(rng, depth - 1)) for i in range(rng.randint(1, 3))])
    return rng.choice(TYPES)


def some_value(rng: random.Random, kind: pa.DataType, *, null: bool = True) -> Any:
    if null and rng.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return tuple(some_value(rng, f.type) for f in kind)
    if pa.types.is_map(kind):
        return [(some_value(rng, kind.key_type, null=False), some_value(rng, kind.item_type))
                for _ in range(rng.choice((0, 1, 3)))]  # fmt: skip
    if pa.types.is_list(kind):
        return [some_value(rng, kind.value_type) for _ in range(rng.choice((0, 1, 2, 5)))]
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        return rng.choice((0.0, -0.0, 1.5, -(2.0**-30), float("nan"), float("inf"), -float("inf")))
    if pa.types.is_decimal(kind):
        return Decimal(f"{rng.choice((0, 1, -1, 10**kind.precision - 1))}e-{kind.scale}")
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        found = "".join(rng.choice("aü\0\U0001f600") for _ in range(rng.choice((0, 1, 3, 4, 7, 8, 9, 16, 600))))
        return found if pa.types.is_string(kind) else found.encode()
    bits = 32 if pa.types.is_date(kind) else kind.bit_width
    return rng.choice((0, 1, -1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


def made(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Built from the leaves: structs that are null have other values in their fields."""
    if pa.types.is_struct(kind):
        some = next((v for v in values if v is not None), tuple(None for _ in kind))
        whole = [some if v is None else v for v in values]
        fields = [made([v[i] for v in whole], f.type) for i, f in enumerate(kind)]
        mask = pa.array([v is None for v in values], pa.bool_())
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        ends, items = [0], []
        for v in values:
            items += v or ()
            ends.append(len(items))
        offsets = pa.array(
            [None if v is None else e for v, e in zip(values, ends, strict=False)] + [ends[-1]], pa.int32()
        )
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(offsets, made(items, kind.value_type), type=kind)
        keys, texts = made([k for k, _ in items], kind.key_type), made([v for _, v in items], kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, texts)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    return pa.array(values, kind)


def test_three_implementations_agree(way: str, rng: random.Random) -> None:
    for _ in range(60):
        kinds = [some_type(rng, 3) for _ in range(rng.randint(1, 4))]
        count = rng.choice((0, 1, 7, 40))
        values = [[some_value(rng, kind) for _ in range(count)] for kind in kinds]
        rows = pa.table([made(v, k) for v, k in zip(values, kinds, strict=True)], [f"c{i}" for i in range(len(kinds))])
        due = []
        for row in zip(*values, strict=True):
            state = None
            for value, kind in zip(row, kinds, strict=True):
                state = stated(state, value, kind)
            due.append(state)
        assert identity.row_hashes(rows, {}).to_pylist() == due, rows.schema
        start, end = sorted(rng.choices(range(count + 1), k=2))
        cut = rows.slice(start, end - start)
        chunked = pa.concat_tables([cut, rows.slice(0, 1), cut])
        assert identity.row_hashes(chunked, {}).to_pylist() == [*due[start:end], *due[:1], *due[start:end]], rows.schema


def test_many_rows_and_how_they_lie(way: str, rng: random.Random) -> None:
    """Blocks, slices, dictionaries, large offsets and times of other units: the same values, the same numbers."""
    rows = rows_of(COLUMNS, rng, 2_600)
    due = identity.row_hashes(rows, {"site": "x"}).to_pylist()
    assert identity.row_hashes(rows.slice(1_001, 1_500), {"site": "x"}).to_pylist() == due[1_001:2_501]
    texts = pa.array(["x"] * len(rows)).slice(0)
    assert identity.row_hashes(rows, {"site": texts}).to_pylist() == due
    other = rows.set_column(0, "words", rows["words"].dictionary_encode())
    other = other.set_column(1, "raw", rows["raw"].cast(pa.large_binary()))
    other = other.set_column(13, "list", rows["list"].cast(pa.large_list(pa.large_string())))
    assert identity.row_hashes(other, {"site": "x"}).to_pylist() == due
    early = pa.table({"at": pa.array([0, 1_500_000, None]).cast(pa.timestamp("ns"))})
    exact = pa.table({"at": pa.array([0, 1_500, None]).cast(TIMESTAMP)})
    assert identity.row_hashes(early, {}).equals(identity.row_hashes(exact, {}))
    with pytest.raises(TypeError, match="time64"):
        identity.row_hashes(pa.table({"at": pa.array([1], pa.time64("us"))}), {})


@pytest.mark.skipif(not duckdb.__version__.startswith("2.0."), reason="the hash of another DuckDB may be another")
def test_checksums_of_earlier_releases_are_the_same(way: str, rng: random.Random) -> None:
    """They were made by DuckDB's hash()."""
    rows = rows_of(COLUMNS, rng, 2_600)
    names = [f"c{i}" for i in range(rows.num_columns)]
    with duckdb.connect() as connection:
        connection.register("rows", rows.rename_columns(names))
        found = connection.sql(f"select hash({', '.join(names)}) as h from rows").to_arrow_table()["h"]
    assert identity.row_hashes(rows, {}).to_pylist() == found.to_pylist()


def test_the_batch_does_not_count_and_the_cut_does_not(way: str, rng: random.Random) -> None:
    rows = rows_of(COLUMNS, rng, 300)
    batch = pa.array(range(300), pa.int64())
    whole = identity.checksum(rows, {})
    assert identity.checksum(rows.append_column("_batch_id", batch), {}) == whole
    parts = sum(identity.checksum(rows.slice(at, 7), {}) for at in range(0, 300, 7))
    assert parts % 2**64 == whole
    assert identity.checksum(rows.take(pa.array(rng.sample(range(300), 300))), {}) == whole
    assert identity.checksum(rows.slice(0, 299), {}) != whole


# ---------------------------------------------------------------- years later


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hour 0 has rows of two Kafka partitions and a late one, hour 1 is two small files."""
    made = World(tmp_path)
    made.produce(record("a", 0.1) | {"other": 3})
    made.produce(record("b", 0.1) | {"other": 3}, partition=1)
    made.ingest("r1")
    for run, at in (("r2", 1.2), ("r3", 1.3)):
        made.produce(record(run, at))
        made.ingest(run)
    made.produce(record("c", 3.0))
    made.produce(record("d", 3.0), partition=1)
    made.ingest("r4")
    made.archive(0)
    made.produce(record("late", 0.5) | {"other": 3})
    made.ingest("r5")
    yield made
    made.close()


def no_duckdb(*_: Any, **__: Any) -> None:
    raise AssertionError("a checksum is nothing that a library's release may change")


def test_another_duckdb_changes_no_checksum(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is ever compared with an old manifest, where DuckDB cannot even be asked."""
    for file in world.folder.rglob("*.parquet"):
        told = pq.ParquetFile(file).metadata.metadata
        assert (told[b"tidegate.identity"], int(told[b"tidegate.checksum"]) // 2**64) == (b"0", 0)
    monkeypatch.setattr(duckdb, "connect", no_duckdb)
    assert world.replay(0).note == "unchanged"
    assert replay.replay(world.context(), window(0), "files").note == "unchanged"
    columns = world.pipeline.columns
    world.change_spec(columns=(*columns[:2], Column(name="value", type="int", path="$.other")))
    assert world.replay(0).generation == 4
    world.change_spec(columns=columns)
    ctx = world.context()
    assert rollback.rollback(ctx, window(0), 1, "a test").generation == 5
    assert reopen.reopen(ctx, window(0), "a test").rows == 3
    world.change_spec(archive=replace(world.pipeline.archive, merge=Merge(min_files=2)))
    world.archive(1)
    assert "merging 2 small files into 1" in world.said
    assert not [line for line in world.said if "WARNING" in line]
    balanced(world)


def test_a_checksum_of_a_newer_identity_is_refused_in_words(world: World) -> None:
    """Ledger and records of a later release: its sums are of hashes that this one does not know."""
    ledger = sqlite3.connect(world.database)
    for table in ("batch_files", "generation_files"):
        for key, checksum in ledger.execute(f"SELECT rowid, checksum FROM {table}").fetchall():
            ledger.execute(f"UPDATE {table} SET checksum = ? WHERE rowid = ?", (str(int(checksum) + 2**64), key))
    ledger.commit()
    ledger.close()
    words = "its checksum is by row identity 1, this release knows 0"
    for partition in (0, 1):
        world.kafka.trim(TOPIC, partition, 2)
    with pytest.raises(ReplayRefused, match=words) as refused:
        replay.replay(world.context(), window(0), "files")
    assert refused.value.advice.startswith("a newer release wrote it")
    with pytest.raises(ReplayRefused, match=words):
        reopen.reopen(world.context(), window(0), "a test")
    world.change_spec(archive=replace(world.pipeline.archive, merge=Merge(min_files=2)))
    world.archive(1)
    assert [line for line in world.said if words in line and "published as they are" in line]
