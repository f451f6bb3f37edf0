"""CPU per record of the worker's path, broker and Spark left out: decode, type, route and write.

    .venv/bin/python bench/worker.py [--records 200000] [--runs 5]

Seeded events of about 600 bytes (17 top-level fields, nested ones among them), 31 output directories, 0.1 % dirty.
Beside it, for scale, what pyarrow takes to write the same rows without decoding anything. Figures are CPU
microseconds a record of this process (user and system), one line a contender: minimum, median, maximum.
Machines differ and are noisy: compare within one run only.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.engine.fetch import Chunk, Reader
from spark_jobs.engine.job import run_plan
from tidegate.adapters.storage.local import LocalStorage
from tidegate.core.batch import JobPart, JobPlan
from tidegate.core.lateness import Floor
from tidegate.core.offsets import OffsetRange
from tidegate.core.pipeline import (
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
from tidegate.core.plain import to_plain

HOUR, DAY, CHUNK = 3_600_000, 86_400_000, 20_000
START = 1_704_067_200_000  # 2024-01-01T00:00Z
APPS = [f"app-{i:02d}" for i in range(31)]
COLUMNS = [
    ("id", "string"), ("app", "string"), ("user_id", "bigint"), ("session", "string"), ("country", "string"),
    ("city", "string"), ("os", "string"), ("version", "string"), ("price", "double"), ("quantity", "int"),
    ("paid", "boolean"), ("url", "string"), ("referrer", "string"), ("note", "string"),
    ("device", "struct<model:string,memory:int>"), ("tags", "array<string>"),
]  # fmt: skip


def event(rng: random.Random, number: int) -> bytes:
    if rng.random() < 0.001:
        return b'{"id": "broken'
    made = {
        "id": f"{number:012d}-{rng.getrandbits(64):016x}", "at": START + number * 3_000 % HOUR, "app": rng.choice(APPS),
        "user_id": rng.getrandbits(40), "session": f"{rng.getrandbits(128):032x}",
        "country": rng.choice(["DE", "FR", "US"]),
        "city": rng.choice(["Köln", "Lyon", "Boston", "Graz"]), "os": rng.choice(["ios", "android"]),
        "version": "7.12.3",
        "price": round(rng.random() * 100, 2), "quantity": rng.randrange(9), "paid": rng.random() < 0.5,
        "url": f"https://example.org/item/{rng.getrandbits(32)}?ref={rng.getrandbits(32):x}",
        "referrer": f"https://example.org/search?q={rng.getrandbits(48):x}", "note": "lorem ipsum dolor sit amet " * 4,
        "device": {"model": "Pixel 9", "memory": 12}, "tags": ["a", "b", f"t{rng.randrange(50)}"],
    }  # fmt: skip
    return json.dumps(made, ensure_ascii=False).encode()


class Memory(Reader):
    """Records that are there already."""

    def __init__(self, values: list[bytes]) -> None:
        self._values = values

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        for at in range(wanted.start, wanted.end, CHUNK):
            values = self._values[at : min(at + CHUNK, wanted.end)]
            offsets = list(range(at, at + len(values)))
            yield Chunk(offsets, [START] * len(values), [None] * len(values), values)


def pipeline(location: str) -> Pipeline:
    return Pipeline(
        name="bench",
        owner="bench",
        tags=(),
        source=Source("kafka", "events"),
        format=Format(),
        columns=tuple(Column(name, kind, f"$.{name}") for name, kind in COLUMNS),
        event_time=EventTime("$.at"),
        windows=Windows(HOUR, "UTC", START, HOUR),
        partition_by=("date", "hour", "app"),
        sink=Sink("hive", "bench.events", location, f"{location}/_tidegate"),
        ingest=IngestRun(None, 10**9, "spark", {}),
        archive=ArchiveRun(0),
        dirty=DirtyLimits(None, None),
    )


def ours(values: list[bytes], folder: Path) -> None:
    location = f"file://{folder}"
    attempt = f"{location}/_tidegate/tmp/1.1-x"
    part = JobPart(1, START + DAY, Floor(START), (OffsetRange("events", 0, 0, len(values)),))
    plan = JobPlan("ingest", "1.1-x", attempt, to_plain(pipeline(location)), {}, "events", "id", (part,), "x", 1, 1, 1)
    receipt = run_plan(plan, LocalStorage(), open_reader=lambda _: Memory(values))
    assert receipt.read_rows == len(values)


def pyarrow_alone(values: list[bytes], folder: Path) -> None:
    """The floor: the raw bytes, written as one column."""
    pq.write_table(pa.table({"raw": pa.array(values, pa.binary())}), folder / "raw.parquet", compression="zstd")


def measure(what: Callable[[list[bytes], Path], None], values: list[bytes]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        what(values, Path(folder))
        return (time.process_time() - began) / len(values) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    values = [event(rng, i) for i in range(asked.records)]
    print(f"{asked.records:,} records, {sum(map(len, values)) / len(values):.0f} bytes each, seed {asked.seed}")
    contenders = {"tidegate": ours, "pyarrow, raw bytes": pyarrow_alone}
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for contender in contenders.values():
        measure(contender, values)  # warm
    for _ in range(asked.runs):  # interleaved, so that a drifting machine hits all alike
        for name, contender in contenders.items():
            figures[name].append(measure(contender, values))
    print(f"{'CPU us/record':20}{'min':>8}{'median':>8}{'max':>8}")
    for name, each in figures.items():
        print(f"{name:20}{min(each):8.2f}{statistics.median(each):8.2f}{max(each):8.2f}")


if __name__ == "__main__":
    main()
