"""Any partition value and any bytes: no batch fails, every record is found once, nothing lies outside the table.

`TIDEGATE_FUZZ=full` (`make fuzz`) takes 100,000 values and 1,000,000 messages; otherwise some thousands.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.world import HOUR, T0, TOPIC, World, record
from tidegate.core.base.partition_values import HIVE_NULL, fits
from tidegate.core.files.overflow import OVERFLOW_VALUE
from tidegate.core.spec.pipeline import DirtyLimits

FULL = os.environ.get("TIDEGATE_FUZZ") == "full"
VALUES, VALUES_A_BATCH, MOST_PARTITIONS = (100_000, 2_500, 100) if FULL else (2_400, 800, 60)
MESSAGES, MESSAGES_A_BATCH = (1_000_000, 50_000) if FULL else (12_000, 4_000)
HOURS = 4
ALPHABETS = [
    "abcXYZ019", "äöüßéñ", "\u0308\u0301\u200d\u200b\ufeff", "日本語中文한국",
    "\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea", "\u05d0\u05d1\u062f\u0639\u202e\u2066",
    "".join(map(chr, range(32))), "\x7f\x80\x85\x9f\u2028\u2029\ufffe\uffff", " \t\u00a0\u3000",
    "/\\.:~%=#?*'\"{}[]^<>|`$&;!", "\U0010ffff\U00010000\ue000",
]  # fmt: skip
TRICKS = [
    None, "", ".", "..", "...", "../..", "/", "//", "/etc/passwd", "../../../../../../tmp/x", "a/../../b", "%2e%2e%2f",
    "%", "%00", "\x00", "a\x00b", "~", "~root", "_tidegate", "_SUCCESS", ".hidden", "_x", "a=b", "site=b", "hour=07",
    "date=2013-01-05/hour=00", HIVE_NULL, HIVE_NULL.lower(), OVERFLOW_VALUE, "null", "NULL", "\\N", "a ", " a", " ",
    "\n", "a\nb", "a\r\n", "CON", "nul.txt", "file:///etc", "hdfs://x/y", "a" * 255, "a" * 250, "a" * 251, "é" * 125,
    "é" * 126, "x" * 10_000, "é" * 5_000, "/" * 300, "a", "A", "u\u0308", "\u00fc", "İ", "ı", "ß", "ẞ", "-",
    "--help", "$(id)", "';drop table x",
]  # fmt: skip
BYTES = [b'"', b"{", b"}", b"[", b"\\", b"\x00", b"\n", b"\xff", b"1e999", b"\\ud800", b",", b":"]


def a_value(rng: random.Random) -> str | None:
    if rng.random() < 0.2:
        return rng.choice(TRICKS)
    letters = rng.choice(ALPHABETS) if rng.random() < 0.7 else "".join(rng.sample(ALPHABETS, 3))
    length = 10_000 if rng.random() < 0.002 else rng.choice([1, 2, 3, 5, 8, 40, 90, 300])
    return "".join(rng.choice(letters) for _ in range(length))


def a_message(rng: random.Random, number: int) -> bytes:
    """A valid message in which some bytes went wrong; one in ten is left as it is."""
    site, hour = f"s{rng.randrange(5)}", rng.uniform(0, HOURS)
    raw = bytearray(json.dumps(record(f"m{number}", hour, site, rng.randrange(10**6))).encode())
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 2, 3, 8, 40])):
        at = rng.randrange(len(raw) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            raw[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del raw[at : at + rng.choice([1, 1, 3, 20])]
        elif kind == 2:
            raw[at:at] = raw[: rng.randrange(20)]
        elif kind == 3:
            raw[at:at] = rng.choice(
                [b'"', b"{", b"}", b"[", b"\\", b"\x00", b"\n", b"\xff", b"1e999", b"\\ud800", b",", b":"]
            )
        elif kind == 4 and at < len(raw):
            raw[at] ^= 1 << rng.randrange(8)
        else:
            raw[at:at] = bytes(rng.randrange(256) for _ in range(3))
    return bytes(raw)


def a_world(tmp_path: Path) -> World:
    world = World(tmp_path)
    sink = replace(world.pipeline.sink, max_partitions=MOST_PARTITIONS)
    world.change_spec(sink=sink, dirty=DirtyLimits(None, None))
    return world


def drain(world: World, messages: Iterator[bytes], a_batch: int) -> int:
    """Every batch is planned, written and landed at the first try, and every window published; the records sent."""
    sent = 0
    more = True
    while more:
        more = False
        for _ in range(a_batch):
            message = next(messages, None)
            if message is None:
                break
            world.kafka.append(TOPIC, sent % 2, message)
            sent, more = sent + 1, True
        if more:
            assert world.ingest(f"run {sent}") is not None
    for partition in (0, 1):
        world.produce(record("the end", HOURS + 9), partition=partition)
    world.ingest("end")
    for hour in range(HOURS):
        world.archive(hour)
    return sent


def check(world: World, sent: int) -> dict[tuple[int, int], tuple[str | None, Any]]:
    """(Kafka partition, offset) -> (value of its directory, `_overflow`) of every data row."""
    rows: dict[tuple[int, int], tuple[str | None, Any]] = {}
    found: Counter[tuple[int, int]] = Counter(world.table("__late") + world.table("__dirty"))
    directories = set()
    for values, location in world.partitions("lake.readings").items():
        folder = Path(location.removeprefix("file://"))
        directories.add(str(folder.resolve()))
        for path in folder.iterdir():
            if path.name.startswith(("_", ".")):
                continue
            names = pq.read_schema(path).names
            read = [n for n in ("_partition", "_offset", "_overflow") if n in names]
            for row in pq.read_table(path, columns=read, partitioning=None).to_pylist():
                key = (row["_partition"], row["_offset"])
                found[key] += 1
                rows[key] = (dict(values)["site"], row.get("_overflow"))
    waiting = world.folder / "lake" / "readings" / "_tidegate" / "landed"  # a mutated time has a window that is open
    for path in waiting.glob("*/data/**/*.parquet"):
        read = pq.read_table(path, columns=["_partition", "_offset"], partitioning=None).to_pydict()
        found.update(zip(read["_partition"], read["_offset"], strict=True))
    assert [k for k, n in found.items() if n > 1] == []
    ends = {(p, (sent + 1 - p) // 2) for p in (0, 1)}  # what made the windows close
    assert set(found) == {(i % 2, i // 2) for i in range(sent)} | ends
    _nothing_outside(world, directories)
    return rows


def _nothing_outside(world: World, directories: set[str]) -> None:
    table = world.folder / "lake" / "readings"
    with_data = set()
    for folder, _, files in os.walk(world.folder):
        here = Path(folder)
        assert not here.is_symlink()
        for name in files:
            if here == world.folder:
                assert name.startswith("ledger.db"), name
                continue
            assert here.resolve().is_relative_to(table), (folder, name)
            below = here.relative_to(table).parts
            if below and below[0] != "_tidegate" and not name.startswith(("_", ".")):
                assert len(below) == 3, below
                with_data.add(str(here.resolve()))
    assert with_data == directories


def test_any_partition_value(tmp_path, rng):
    world = a_world(tmp_path)
    values = [TRICKS[i] if i < len(TRICKS) else a_value(rng) for i in range(VALUES)]
    messages = (
        json.dumps({"id": f"r{i}", "site": v, "at": T0 + rng.randrange(HOURS * HOUR), "value": i}).encode()
        for i, v in enumerate(values)
    )
    sent = drain(world, messages, VALUES_A_BATCH)
    rows = check(world, sent)
    assert len(rows) == VALUES  # not one of them late or dirty
    own: Counter[bool] = Counter()
    for i, value in enumerate(values):
        place, overflow = rows[i % 2, i // 2]
        told = None if value in ("", HIVE_NULL) else value
        if overflow is None:
            assert place == told
            own[True] += 1
        else:
            assert place == OVERFLOW_VALUE
            assert overflow == [("site", told)]
            own[False] += 1
        assert fits(value, "site") or overflow is not None
    per_window = Counter(
        dict(v)["hour"] for v in world.partitions("lake.readings") if dict(v)["site"] != OVERFLOW_VALUE
    )
    assert max(per_window.values()) == MOST_PARTITIONS
    assert own[True] and own[False]  # noqa: PT018
    world.close()


def test_any_message(tmp_path, rng):
    world = a_world(tmp_path)
    sent = drain(world, (a_message(rng, i) for i in range(MESSAGES)), MESSAGES_A_BATCH)
    rows = check(world, sent)
    assert MESSAGES // 20 < len(rows) < MESSAGES
    world.close()
