"""The benchmark's workload: seeded JSON events of about 600 bytes, 17 top-level fields, nested ones among them.

31 apps in one hour give 31 output directories; one event in a thousand is cut off, so that it is no JSON.
"""

from __future__ import annotations

import json
import random

from tidegate.core.spec.pipeline import (
    ArchiveRun,
    Column,
    DirtyLimits,
    EventTime,
    Format,
    IngestRun,
    Pipeline,
    Sink,
    Source,
    Windows,
)
from tidegate.core.window.lateness import Floor

HOUR, DAY = 3_600_000, 86_400_000
START = 1_704_067_200_000  # 2024-01-01T00:00Z
FLOOR, CLOCK = Floor(START), START + DAY
APPS = [f"app-{i:02d}" for i in range(31)]
DIRTY_RATIO = 0.001
COLUMNS = [
    ("id", "string"), ("app", "string"), ("user_id", "bigint"), ("session", "string"), ("country", "string"),
    ("city", "string"), ("os", "string"), ("version", "string"), ("price", "double"), ("quantity", "int"),
    ("paid", "boolean"), ("url", "string"), ("referrer", "string"), ("note", "string"),
    ("device", "struct<model:string,memory:int>"), ("tags", "array<string>"),
]  # fmt: skip
"""Beside these an event has `at`, its time in epoch ms."""


def event(rng: random.Random, number: int, apps: list[str] = APPS, shuffled: bool = False) -> bytes:
    """The event of this number; equal seeds and numbers give equal events. `shuffled`: its keys in any order."""
    made = {
        "id": f"{number:012d}-{rng.getrandbits(64):016x}", "at": START + number * 3_000 % HOUR, "app": rng.choice(apps),
        "user_id": rng.getrandbits(40), "session": f"{rng.getrandbits(128):032x}",
        "country": rng.choice(["DE", "FR", "US"]),
        "city": rng.choice(["Köln", "Lyon", "Boston", "Graz"]), "os": rng.choice(["ios", "android"]),
        "version": "7.12.3",
        "price": round(rng.random() * 100, 2), "quantity": rng.randrange(9), "paid": rng.random() < 0.5,
        "url": f"https://example.org/item/{rng.getrandbits(32)}?ref={rng.getrandbits(32):x}",
        "referrer": f"https://example.org/search?q={rng.getrandbits(48):x}", "note": "lorem ipsum dolor sit amet " * 4,
        "device": {"model": "Pixel 9", "memory": 12}, "tags": ["a", "b", f"t{rng.randrange(50)}"],
    }  # fmt: skip
    if shuffled:
        made = dict(rng.sample(list(made.items()), len(made)))
    text = json.dumps(made, ensure_ascii=False).encode()
    return text[: len(text) // 2] if rng.random() < DIRTY_RATIO else text


def pipeline(topic: str, location: str) -> Pipeline:
    """One hour, 31 directories, zstd: what all contenders write."""
    return Pipeline(
        name="bench",
        owner="bench",
        tags=(),
        source=Source(conn_id="kafka", topic=topic),
        format=Format(),
        columns=tuple(Column(name=name, type=kind, path=f"$.{name}") for name, kind in COLUMNS),
        event_time=EventTime("$.at"),
        windows=Windows(size_ms=HOUR, timezone="UTC", start_ms=START, watermark_delay_ms=HOUR),
        partition_by=("date", "hour", "app"),
        sink=Sink(conn_id="hive", table="bench.events", location=location, workdir=f"{location}/_tidegate"),
        ingest=IngestRun(schedule=None, max_records=10**9, spark_conn_id="spark", spark_conf={}),
        archive=ArchiveRun(sla_ms=0),
        dirty=DirtyLimits(None, None),
    )
