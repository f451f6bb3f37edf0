"""Fills a topic with seeded events, several processes at once."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.events import START, event
from dev.stack.topics import create_topic


def fill(
    bootstrap: str, records: int, partitions: int, seed: int, say: Callable[[str], None], shuffled: bool = False
) -> str:
    """A topic of so many records, evenly over its partitions; made once for each broker and these numbers."""
    name = f"events-{records}-{partitions}-{seed}{'-shuffled' if shuffled else ''}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if name in admin.list_topics(timeout=30).topics:
        return name
    say(f"producing {records:,} records ...")
    config = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
    create_topic({"bootstrap.servers": bootstrap}, NewTopic(name, partitions, 1, config=config))
    count = os.cpu_count() or 1
    shares = [(bootstrap, name, partitions, seed, n, count, records, shuffled) for n in range(count)]
    with multiprocessing.get_context("spawn").Pool(len(shares)) as pool:
        pool.starmap(_produce, shares)
    return name


def _produce(
    bootstrap: str, topic: str, partitions: int, seed: int, share: int, shares: int, records: int, shuffled: bool
) -> None:
    """Every `shares`-th partition is this process's."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all", "enable.idempotence": True})
    rng = random.Random(f"{seed}-{share}")
    for number in range(records):
        partition = number % partitions
        if partition % shares == share:
            value = event(rng, number, shuffled=shuffled)
            while True:
                try:
                    producer.produce(topic, value, str(number).encode(), partition, timestamp=START)
                    break
                except BufferError:
                    producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit("not every record was acknowledged")
