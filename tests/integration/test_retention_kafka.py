"""The forecast of losses against a real broker whose retention deletes segments while a pipeline reads too slowly.

Timestamps are the producer's, so that a minute's retention has nearly passed at once. The broker looks at its segments
once a second."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer

from tests.real_kafka import PATIENCE_S, Topic, eventually, world_on
from tests.world import World
from tidegate.adapters.clock import SystemClock
from tidegate.core.base.errors import BatchRefused, DataLoss
from tidegate.core.source.loss_forecast import AHEAD, NEVER, PASSING, LossForecast
from tidegate.core.source.loss_warning import CRITICAL, TimeToLoss, time_to_loss
from tidegate.core.source.progress import Progress

CHECK_MS, MINUTE = 1_000, 60_000
ONE_EACH = {"batch.num.messages": "1", "linger.ms": "0"}
"""A batch for each record, or a segment could not end between two."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def write(topic: Topic, stamps: list[int], size: int = 100) -> None:
    producer = Producer(topic.settings | {"log_level": "2"} | ONE_EACH)
    for stamp in stamps:
        producer.produce(topic.name, b'{"id": "x"}'.ljust(size), timestamp=stamp)
    assert producer.flush(PATIENCE_S) == 0


def reading(topic: Topic, folder: Path, most: int) -> World:
    world = world_on(topic, folder)
    world.clock = SystemClock()  # type: ignore[assignment]
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=most))
    return world


def look(world: World, topic: Topic) -> tuple[TimeToLoss, Progress]:
    state, now = topic.state(), now_ms()
    progress = world.context().ledger.reads.progress([world.pipeline.name], now)[world.pipeline.name]
    return time_to_loss(state, progress, now, 60 * MINUTE), progress


def one(world: World, topic: Topic) -> LossForecast:
    (found,) = look(world, topic)[0].partitions
    return found


def warm(topic: Topic, folder: Path) -> int:
    """How long an ingest takes here and now, in ms, the first one left out: a busy machine needs more room."""
    other = Topic(topic.settings["bootstrap.servers"])
    world = reading(other, folder / "warm", 1_000)
    for _ in range(2):
        write(other, [now_ms()])
        began = now_ms()
        world.ingest(f"r{began}")
    world.close()
    return now_ms() - began


def held(topic: Topic) -> int:
    offsets = topic.state().partitions[0]
    return offsets.high_watermark - offsets.log_start


def lost(topic: Topic, offset: int) -> bool:
    return topic.state().partitions[0].log_start > offset


def test_a_pipeline_that_is_too_slow_loses_records_when_it_was_told(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap, **{"retention.ms": str(MINUTE), "segment.bytes": "600"})
    room = 5_000 + 4 * (1_000 + warm(topic, tmp_path))
    world = reading(topic, tmp_path, 2)
    first = now_ms() - MINUTE + room
    write(topic, [first + i * 250 for i in range(150)])
    landed: list[int] = []

    def ingest() -> None:
        """Half a second of records, in more than a second."""
        time.sleep(1.0)
        world.ingest(f"r{len(landed)}")
        landed.append(now_ms())

    for _ in range(3):
        ingest()
    loss, progress = look(world, topic)
    forecast_at = now_ms()
    (found,) = loss.partitions
    assert (found.state, found.limit, loss.level) == (AHEAD, "time", CRITICAL)
    assert found.unread == 144
    assert progress.landed is not None
    assert progress.landed.partitions[0].max_kafka_ms == first + 5 * 250
    assert progress.landed.partitions[0].bytes == 2 * 100
    while not lost(topic, 2 * len(landed)):
        with contextlib.suppress(DataLoss, BatchRefused):  # it happens while a batch is planned or read
            ingest()
        assert now_ms() - forecast_at < 180_000
    happened = now_ms() - forecast_at
    usual = (landed[-1] - landed[0]) / (len(landed) - 1)
    lacks, segment = 1 - 500 / usual, 4 * 250
    assert found.at_pace_ms is not None
    assert happened >= 0.9 * found.at_pace_ms - 2 * usual, (found, usual)
    assert happened <= 1.1 * found.at_pace_ms + (segment + CHECK_MS + 2 * usual) / lacks, (found, usual)
    assert one(world, topic).state == PASSING
    world.close()


def test_once_reading_stops_the_next_record_goes_when_it_was_told(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap, **{"retention.ms": str(MINUTE), "segment.bytes": "600"})
    room = 4_000 + 3 * warm(topic, tmp_path)
    world = reading(topic, tmp_path, 10)
    began = now_ms()
    first = began - MINUTE + room
    write(topic, [first + i * 250 for i in range(100)])
    world.ingest("r1")
    loss, progress = look(world, topic)
    told, at = loss.stopped_ms, now_ms()
    assert told is not None
    assert progress.landed is not None
    assert progress.landed.partitions[0].max_kafka_ms == first + 9 * 250
    assert room + 9 * 250 - (at - began) <= told <= room + 9 * 250
    time.sleep(max(0.0, told / 1000 - 0.5))
    gone = lost(topic, 10)  # the answer may come late
    assert not gone or now_ms() - at >= told, "Kafka keeps records for all of its retention"
    eventually(lambda: lost(topic, 10))
    assert now_ms() - at <= told + 4 * 250 + 2 * CHECK_MS + 15_000, "a busy machine's broker looks late"
    world.close()


def test_bytes_that_are_written_push_out_what_is_unread(kafka, tmp_path):
    topic = Topic(kafka.kafka_bootstrap, **{"retention.bytes": "60000", "segment.bytes": "3000"})
    world = reading(topic, tmp_path, 1_000)
    write(topic, [now_ms()] * 400, 200)
    eventually(lambda: held(topic) < 250)  # the log has been cut to what it keeps: 222, and a segment of 11 or 12
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    world.ingest("r1")
    assert one(world, topic).state == NEVER
    stamp = time.monotonic()

    def push(until: float) -> None:
        """Forty records a second."""
        nonlocal stamp
        while stamp < until:
            write(topic, [now_ms()] * 10, 200)
            stamp += 0.25
            time.sleep(max(0.0, stamp - time.monotonic()))

    world.ingest("r2")
    push(time.monotonic() + 1.0)
    world.ingest("r3")
    ours = topic.state().partitions[0].high_watermark
    push(time.monotonic() + 1.5)
    found = one(world, topic)
    assert found.stopped_ms is not None
    at, before = time.monotonic(), topic.state().partitions[0]
    assert found.unread == before.high_watermark - ours
    while not lost(topic, ours):
        stamp = max(stamp, time.monotonic() - 0.25)  # what was missed in a standstill is not made up for
        push(time.monotonic() + 0.25)
        eventually(lambda: held(topic) < 234 + 60)  # the broker looks once a second, a busy machine's later
        assert time.monotonic() - at < 300
    after = topic.state().partitions[0]
    # in records, which do not depend on how busy the machine is: the room is K / w, what is left of it (K - unread) / w
    assert found.room_ms is not None
    expected = found.unread * found.stopped_ms / (found.room_ms - found.stopped_ms)
    written = after.high_watermark - before.high_watermark
    segment, checked = 3_000 / 270, 10 * (CHECK_MS / 250 + 2)
    assert 0.9 * expected - 10 <= written <= 1.1 * expected + segment + checked, (found, written, expected)
    world.close()
