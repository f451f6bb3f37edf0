"""Where a record's time goes: each stage of the worker alone, beside what could not be faster.

    .venv/bin/python -m bench.limits [--records 400000] [--runs 3] [--shuffled-keys]

CPU microseconds a record of this process (user and system), repetitions interleaved. Stages: fetch (a real broker),
decode, hash (the row checksums), encode (31 Parquet files from rows that are there, sorted), and the whole worker
without Spark. Beside them the floors: librdkafka's messages thrown away, `orjson.loads`, pyarrow writing the raw bytes
as one column.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition

from bench.events import CLOCK, FLOOR, START, event, pipeline
from bench.load import fill
from bench.parts import broker, circumstances
from dev.stack.places import Places
from spark_jobs.engine.decoder import decoder_for
from spark_jobs.engine.encodings import choose_encoding
from spark_jobs.engine.identity import row_hashes
from spark_jobs.engine.job import run_plan
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import IngestPlan, JobPart
from tidegate.core.source.records import Chunk, Reader
from tidegate.sources.kafka.control import KafkaSource
from tidegate.sources.kafka.worker import FETCH, KafkaReader
from tidegate.storage.local import LocalStorage

CHUNK = 20_000
Stage = Callable[[], None]


class Memory(Reader):
    """Records that are there already."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        yield from self._chunks


def chunks_of(values: list[bytes]) -> list[Chunk]:
    starts = range(0, len(values), CHUNK)
    parts = [(at, values[at : at + CHUNK]) for at in starts]
    return [Chunk(list(range(at, at + len(p))), [START] * len(p), [b"k"] * len(p), list(p)) for at, p in parts]


def plan_of(
    folder: str,
    topic: str,
    topic_id: str,
    settings: dict[str, str],
    ranges: tuple[OffsetRange, ...],
    files: tuple[str, str] = ("parquet", "zstd"),
) -> IngestPlan:
    location = f"file://{folder}"
    part = JobPart(batch_id=1, clock_ms=CLOCK, floor=FLOOR, ranges=ranges)
    spec = pipeline(topic, location)
    spec = replace(spec, sink=replace(spec.sink, format=files[0], compression=files[1]))
    if files[0] == "text":  # has neither structs nor lists
        spec = replace(spec, columns=tuple(c for c in spec.columns if "<" not in c.type))
    return IngestPlan(
        attempt="1.1-x", attempt_dir=location, pipeline=to_plain(spec), bootstrap=settings, topic=topic,
        topic_id=topic_id, parts=(part,), nonce="x", batch_id=1, epoch=1, spec_version=1,
    )  # fmt: skip


def stages(values: list[bytes], bootstrap: str, topic: str) -> dict[str, Stage]:
    chunks = chunks_of(values)
    settings = {"bootstrap.servers": bootstrap}
    found = KafkaSource(settings, "read_committed").look(topic)
    ranges = tuple(
        OffsetRange(topic, p, o.log_start, o.last_stable_offset) for p, o in sorted(found.partitions.items())
    )
    whole = (OffsetRange("memory", 0, 0, len(values)),)
    decoder = decoder_for(pipeline(topic, "file:///nowhere"))
    decoded = pa.concat_tables([decoder.decode(c).table for c in chunks]).combine_chunks()
    ordered = decoded.take(pc.sort_indices(decoded["app"].combine_chunks().dictionary_encode().indices))
    encoding = choose_encoding(ordered.slice(0, 8_192))

    def fetch() -> None:
        reader = KafkaReader(plan_of("/nowhere", topic, found.topic_id, settings, ranges), settings)
        total = sum(len(chunk) for r in ranges for chunk in reader.read(r))
        reader.close()
        assert total == len(values)

    def librdkafka() -> None:
        consumer = Consumer({**settings, **FETCH, "group.id": "floor", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, r.partition, r.start) for r in ranges])
        left = len(values)
        gc.disable()  # as the reader does
        while left:
            left -= len(consumer.consume(min(CHUNK, left), timeout=1))
        gc.enable()
        consumer.close()

    def decode() -> None:
        for chunk in chunks:
            decoder.decode(chunk)

    def encode() -> None:
        with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
            each = len(ordered) // 31
            for n in range(31):
                part = ordered.slice(n * each, each if n < 30 else None)
                pq.write_table(
                    part, f"{folder}/{n}.parquet", compression="zstd", store_schema=False,
                    use_dictionary=encoding.dictionary or False, write_statistics=encoding.statistics or False,
                )  # fmt: skip

    def worker(files: tuple[str, str] = ("parquet", "zstd")) -> None:
        with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
            plan = plan_of(folder, "memory", "id", {}, whole, files)
            assert run_plan(plan, LocalStorage(), open_reader=lambda _: Memory(chunks)).read_rows == len(values)

    def raw_bytes() -> None:
        with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
            pq.write_table(
                pa.table({"raw": pa.array(values, pa.binary())}), f"{folder}/raw.parquet", compression="zstd"
            )

    return {
        "fetch": fetch,
        "fetch, the floor: librdkafka": librdkafka,
        "decode": decode,
        "decode, beside it: orjson.loads": lambda: _orjson(values),
        "hash": lambda: [row_hashes(decoded.slice(i, 250_000), {}) for i in range(0, len(decoded), 250_000)] and None,
        "encode": encode,
        "encode, the floor: raw bytes": raw_bytes,
        "worker without fetch": worker,
        "worker without fetch, ORC": lambda: worker(("orc", "zstd")),
        "worker without fetch, text, gzip": lambda: worker(("text", "gzip")),
    }


def _orjson(values: list[bytes]) -> None:
    import orjson

    for value in values:
        try:
            orjson.loads(value)
        except orjson.JSONDecodeError:
            continue


def _scratch() -> Path:
    folder = Places.of_checkout().own / "bench" / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def measure(stage: Stage, records: int) -> float:
    began = time.process_time()
    stage()
    return (time.process_time() - began) / records * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shuffled-keys", action="store_true", help="each event has its keys in an order of its own")
    parser.add_argument("--out", default=str(Places.of_checkout().own / "bench" / "limits.json"))
    asked = parser.parse_args()
    sys.path.append(str(Places.of_checkout().own / "bench" / "packages"))
    pa.set_cpu_count(1)
    rng = random.Random(asked.seed)
    values = [event(rng, number, shuffled=asked.shuffled_keys) for number in range(asked.records)]
    with tempfile.TemporaryDirectory(dir=_scratch()) as folder, broker(Path(folder)) as info:
        assert info.kafka_bootstrap
        topic = fill(info.kafka_bootstrap, asked.records, 8, asked.seed, print, asked.shuffled_keys)
        parts = stages(values, info.kafka_bootstrap, topic)
        figures: dict[str, list[float]] = {name: [] for name in parts}
        for number in range(asked.runs + 1):
            for name, stage in parts.items():
                cost = measure(stage, asked.records)
                if number:  # the first round warms up
                    figures[name].append(cost)
    size = sum(map(len, values)) / len(values)
    print(f"{asked.records:,} records, {size:.0f} bytes each, seed {asked.seed}")
    print(circumstances())
    print(f"{'CPU us/record':34}{'min':>8}{'median':>8}{'max':>8}{'MB/s':>8}")
    for name, each in figures.items():
        middle = statistics.median(each)
        print(f"{name:34}{min(each):8.2f}{middle:8.2f}{max(each):8.2f}{size / middle:8.0f}")
    Path(asked.out).write_text(json.dumps({"records": asked.records, "bytes": size, "us": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
