"""A loop that one writes by hand: confluent-kafka, orjson, pyarrow; grouped writers, no rules beyond the schema's.

With the settings that it needs to be fast: large fetches, columns built in lists, dictionaries for columns that repeat.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Message, TopicPartition

SCHEMA = pa.schema([
    ("id", pa.string()), ("app", pa.string()), ("user_id", pa.int64()), ("session", pa.string()),
    ("country", pa.string()), ("city", pa.string()), ("os", pa.string()), ("version", pa.string()),
    ("price", pa.float64()), ("quantity", pa.int32()), ("paid", pa.bool_()), ("url", pa.string()),
    ("referrer", pa.string()), ("note", pa.string()),
    ("device", pa.struct([("model", pa.string()), ("memory", pa.int32())])), ("tags", pa.list_(pa.string())),
])  # fmt: skip
REPEATS = ["country", "city", "os", "version", "_topic", "_partition", "_batch_id", "note"]
FLUSH_ROWS = 250_000
FETCH = {
    "queued.max.messages.kbytes": 262_144, "fetch.queue.backoff.ms": 5, "fetch.message.max.bytes": 8_388_608,
    "fetch.max.bytes": 104_857_600,
}  # fmt: skip


class Output:
    def __init__(self, folder: str) -> None:
        self._folder, self._writers = folder, dict[str, pq.ParquetWriter]()
        self._dirty: list[bytes] = []

    def add_dirty(self, value: bytes) -> None:
        self._dirty.append(value)

    def write(self, table: pa.Table) -> None:
        hours = pc.strftime(table["at"].cast(pa.timestamp("ms")), "date=%Y-%m-%d/hour=%H")
        place = pc.binary_join_element_wise(hours, table["app"], "/app=").combine_chunks().dictionary_encode()
        order = pc.sort_indices(place.indices)
        runs = pc.run_end_encode(place.indices.take(order))
        names, start = place.dictionary.to_pylist(), 0
        table = table.drop_columns(["at", "app"]).take(order)
        for end, number in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            self._writer(names[number], table.schema).write_table(table.slice(start, end - start))
            start = end

    def _writer(self, place: str, schema: pa.Schema) -> pq.ParquetWriter:
        if place not in self._writers:
            folder = Path(self._folder) / place
            folder.mkdir(parents=True, exist_ok=True)
            self._writers[place] = pq.ParquetWriter(
                folder / "part-0.parquet", schema, compression="zstd", use_dictionary=REPEATS, write_statistics=False
            )
        return self._writers[place]

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        folder = Path(self._folder) / "date=dirty/hour=dirty/app=dirty"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"raw": pa.array(self._dirty, pa.binary())}), folder / "part-0.parquet")


def table_of(messages: list[Message], output: Output) -> pa.Table:
    """Columns from parsed messages; what is no JSON object is put aside."""
    parsed: list[dict[str, Any]] = []
    good: list[Message] = []
    for message in messages:
        value = message.value()
        try:
            found = orjson.loads(value)
        except orjson.JSONDecodeError:
            output.add_dirty(value)
            continue
        parsed.append(found)
        good.append(message)
    columns = {f.name: pa.array([p.get(f.name) for p in parsed], f.type) for f in SCHEMA}
    columns["at"] = pa.array([p["at"] for p in parsed], pa.int64())
    columns["_topic"] = pa.repeat(os.environ["TOPIC"], len(good))
    columns["_partition"] = pa.array([m.partition() for m in good], pa.int32())
    columns["_offset"] = pa.array([m.offset() for m in good], pa.int64())
    columns["_kafka_ts"] = pa.array([m.timestamp()[1] for m in good], pa.timestamp("ms", "UTC")).cast(
        pa.timestamp("us", "UTC")
    )
    columns["_batch_id"] = pa.repeat(pa.scalar(1, pa.int64()), len(good))
    return pa.table(columns)


def main() -> None:
    pa.set_cpu_count(1)
    topic = os.environ["TOPIC"]
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"],
            "group.id": "by-hand",
            "enable.auto.commit": False,
            **FETCH,
        }
    )
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    bounds = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30) for p in partitions}
    consumer.assign([TopicPartition(topic, p, low) for p, (low, _) in bounds.items()])
    left = sum(high - low for low, high in bounds.values())
    output, waiting, rows = Output(os.environ["OUT_DIR"]), [], 0
    stalled = time.monotonic() + 60
    while left:
        messages = consumer.consume(min(20_000, left), timeout=0.2)
        if not messages:
            if time.monotonic() > stalled:
                raise SystemExit(f"no records for a minute, {left} left")
            continue
        left, stalled = left - len(messages), time.monotonic() + 60
        waiting.append(table_of(messages, output))
        rows += len(messages)
        if rows >= FLUSH_ROWS:
            output.write(pa.concat_tables(waiting))
            waiting, rows = [], 0
    if waiting:
        output.write(pa.concat_tables(waiting))
    output.close()
    consumer.close()


if __name__ == "__main__":
    main()
