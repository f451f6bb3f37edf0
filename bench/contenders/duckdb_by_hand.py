"""A loop that one writes by hand around DuckDB: confluent-kafka, read_json, COPY with PARTITION_BY.

The fastest that we found of DuckDB's ways: a chunk's values go to a file in memory, one a line, and are read with the
columns' types given; a line that is no JSON becomes a row of nulls, so that rows stay beside their coordinates.
(`json_transform` on a column of texts takes half as much again and has to be kept from invalid ones; a sort before the
COPY costs more than it saves.) Its rules are
DuckDB's own: it rounds, converts and takes the last of two equal keys.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from bench.contenders.by_hand import FETCH

COLUMNS = {
    "id": "VARCHAR", "at": "BIGINT", "app": "VARCHAR", "user_id": "BIGINT", "session": "VARCHAR",
    "country": "VARCHAR", "city": "VARCHAR", "os": "VARCHAR", "version": "VARCHAR", "price": "DOUBLE",
    "quantity": "INTEGER", "paid": "BOOLEAN", "url": "VARCHAR", "referrer": "VARCHAR", "note": "VARCHAR",
    "device": "STRUCT(model VARCHAR, memory INTEGER)", "tags": "VARCHAR[]",
}  # fmt: skip
FLUSH_ROWS = 250_000
_COPY = """
    copy (
        select values.* exclude ("at", app), 1::bigint as _batch_id, places.* exclude (_kafka_ts, value),
            make_timestamptz(_kafka_ts * 1000) as _kafka_ts,
            coalesce(strftime(make_timestamp("at" * 1000), '%Y-%m-%d'), 'dirty') as "date",
            coalesce(strftime(make_timestamp("at" * 1000), '%H'), 'dirty') as "hour", coalesce(app, 'dirty') as app,
            case when id is null then value end as raw
        from read_json('{file}', format = 'newline_delimited', ignore_errors = true, columns = {columns}) as values
        positional join places
    ) to '{folder}' (format parquet, partition_by ("date", "hour", app), compression zstd, compression_level 1,
        append true, filename_pattern 'part-{{uuid}}')"""


def write(db: duckdb.DuckDBPyConnection, messages: list[Message], file: str) -> None:
    """One COPY of what has come."""
    values = [message.value() for message in messages]
    Path(file).write_bytes(b"\n".join(values))
    places = pa.table({  # noqa: F841 - DuckDB finds it by its name
        "_topic": pa.repeat(os.environ["TOPIC"], len(messages)),
        "_partition": pa.array([m.partition() for m in messages], pa.int32()),
        "_offset": pa.array([m.offset() for m in messages], pa.int64()),
        "_kafka_ts": pa.array([m.timestamp()[1] for m in messages], pa.int64()),
        "value": pa.array(values, pa.binary()),
    })  # fmt: skip
    db.execute(_COPY.format(file=file, columns=COLUMNS, folder=os.environ["OUT_DIR"]))


def main() -> None:
    topic = os.environ["TOPIC"]
    settings = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"], "group.id": "by-hand", "enable.auto.commit": False}
    consumer = Consumer({**settings, **FETCH})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    bounds = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30) for p in partitions}
    consumer.assign([TopicPartition(topic, p, low) for p, (low, _) in bounds.items()])
    left, waiting = sum(high - low for low, high in bounds.values()), list[Message]()
    stalled = time.monotonic() + 60
    with duckdb.connect() as db, tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".json") as file:
        db.execute("set TimeZone = 'UTC'")
        while left:
            messages = consumer.consume(min(20_000, left), timeout=0.2)
            if not messages and time.monotonic() > stalled:
                raise SystemExit(f"no records for a minute, {left} left")
            if messages:
                left, stalled = left - len(messages), time.monotonic() + 60
                waiting += messages
            if waiting and (len(waiting) >= FLUSH_ROWS or not left):
                write(db, waiting, file.name)
                waiting = []
    consumer.close()


if __name__ == "__main__":
    main()
