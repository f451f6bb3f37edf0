"""A real broker whose log was cut while it was down: leader epochs tell it, however far the log has grown since."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.stack.info import StackInfo
from dev.stack.stack import Stack
from tests.real_kafka import RealKafka, Topic, eventually, numbered, ranges, world_on
from tidegate.core.base.errors import LogCut
from tidegate.workflow.source import log_cut


def test_a_log_that_was_cut_is_noticed_after_it_has_grown_and_reading_goes_back(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "stack", parts=("kafka",))
    try:
        topic = Topic(stack.up().kafka_bootstrap)
        world = world_on(topic, tmp_path / "world")
        for one in numbered(0, 6):
            topic.produce(one)  # a record batch of its own
        (log,) = Path(stack.root).rglob(f"{topic.name}-0/*.log")
        kept = log.stat().st_size
        topic.produce(*numbered(6, 4))
        assert ranges(world, world.ingest("r1")) == [(0, 0, 10)]
        first = epoch(topic)

        back(stack, topic, world)
        assert epoch(topic) > first
        topic.produce(*numbered(10, 1))
        assert ranges(world, world.ingest("r2")) == [(0, 10, 11)], "a new leader alone cuts nothing"

        stack.down()
        lose_the_tail(log, kept)
        back(stack, topic, world)
        topic.produce(*numbered(20, 8))
        assert topic.state().partitions[0].high_watermark == 14
        with pytest.raises(LogCut, match="cut at offset 6 .*planned up to 11, by batch 2"):
            world.ingest("r3")
        ctx = world.context()
        (cut,) = log_cut.survey(ctx)
        log_cut.settle(ctx, cut, False, "a test")
        assert ranges(world, world.ingest("r4")) == [(0, 6, 14)]
        world.close()
    finally:
        stack.wipe()


def epoch(topic: Topic) -> int:
    found = topic.state().partitions[0].leader_epoch
    assert found is not None
    return found


def back(stack: Stack, topic: Topic, world: object) -> None:
    """The broker again, on the port that it had, and with a leader."""
    stack.down()
    info: StackInfo = stack.up()
    assert info.kafka_bootstrap == topic.settings["bootstrap.servers"]
    topic._producers.clear()
    world.kafka = RealKafka(topic)  # type: ignore[attr-defined]
    eventually(lambda: topic.state().partitions)


def lose_the_tail(log: Path, size: int) -> None:
    """As a disk that forgot what was not flushed: the broker recovers what is left."""
    with log.open("r+b") as file:
        file.truncate(size)
    for other in [*log.parent.glob("*.index"), *log.parent.glob("*.timeindex"), *log.parent.glob("*.snapshot")]:
        other.unlink()
    (log.parent.parent / ".kafka_cleanshutdown").unlink(missing_ok=True)
