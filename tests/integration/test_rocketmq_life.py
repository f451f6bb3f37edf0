"""A pipeline on a real RocketMQ, from its first batch to a recreated topic: only Hive and the clock are fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dev.stack.info import StackInfo
from spark_jobs.engine.job import open_source
from tests.audit.audits import look
from tests.contract.test_source_rocketmq import RealBroker
from tests.look.row_readers import InProcessRows
from tests.real_rocketmq import PATIENCE_S, Place, rows
from tests.source_suite import SourceSuite
from tests.world import World, record, window
from tidegate.core.base.errors import DataLoss, LogCut, ReplayRefused, SpecError
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.look.fate import LOST, NEVER_READ, PUBLISHED
from tidegate.core.source.records import Reader
from tidegate.core.spec.pipeline import Column, Source
from tidegate.kinds import source_kind
from tidegate.sources.rocketmq.control import RocketMQSource
from tidegate.workflow.base.context import guard
from tidegate.workflow.look.where import where
from tidegate.workflow.replay import replay
from tidegate.workflow.restore import reset

OPTIONS = (("brokers", "broker-a"),)


@pytest.fixture(scope="module")
def place(rocketmq: StackInfo) -> Place:
    return Place(rocketmq)


@pytest.fixture
def world(place: Place, tmp_path: Path) -> Iterator[World]:
    """Its topic has two queues."""
    topic = place.fresh()
    place.tools.create(topic, 2)
    world = World(tmp_path)
    world.change_spec(name=topic, source=Source(conn_id="rocket", topic=topic, kind="rocketmq", options=OPTIONS))
    world.kafka = OfConnection(place)  # type: ignore[assignment]
    yield world
    world.close()


class OfConnection(RocketMQSource):
    """The control side, and readers as jobs open them: by the plan."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.settings, PATIENCE_S)

    def reader(self, plan: ReadPlan) -> Reader:
        assert plan.bootstrap == self.for_workers().settings
        return open_source(plan)


def send(world: World, place: Place, *records: dict[str, Any], queue: int = 0) -> None:
    place.send(world.pipeline.source.topic, *records, queue=queue)


def fates(world: World, offset: int) -> list[str]:
    ctx = world.context()
    return [f.kind for f in where(ctx, ctx.ledger.reads, InProcessRows(), 0, offset).fates]


def two_batches(world: World, place: Place) -> None:
    """Both queues: offsets [0, 3) in batch 1, [3, 5) in batch 2; hours 0 and 1 are complete."""
    for queue in (0, 1):
        send(world, place, record("a", 0.1), record("next", 1.1), record("b", 0.2), queue=queue)
    assert world.ingest("r1") == 1
    for queue in (0, 1):
        send(world, place, record("c", 0.3), record("far", 9.0), queue=queue)
    assert world.ingest("r2") == 2


def test_a_whole_life(world: World, place: Place) -> None:
    two_batches(world, place)
    assert world.ingest("r3") is None, "nothing new"
    first = world.archive(0)
    assert (first.generation, first.rows, first.new) == (1, 6, True)
    again = world.archive(0)  # what Clear does
    assert (again.generation, again.new) == (1, False)
    assert world.archive(1).rows == 2
    hour_0 = [(0, 0), (0, 2), (0, 3), (1, 0), (1, 2), (1, 3)]
    assert world.table() == sorted([*hour_0, (0, 1), (1, 1)])

    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, value, Column(name="other", type="string", path="$.id")))
    rebuilt = world.replay(0)
    assert (rebuilt.generation, rebuilt.rows) == (2, 6), "read again from RocketMQ"
    assert world.table() == sorted([*hour_0, (0, 1), (1, 1)])
    assert fates(world, 3) == [PUBLISHED]
    report = look(world)
    assert (report.problems, report.balanced) == ((), True)

    world.change_spec(source=replace(world.pipeline.source, options=(("brokers", "broker-b,broker-a"),)))
    with pytest.raises(SpecError, match="source.brokers was broker-a, is broker-b,broker-a"):
        guard(world.context())


def test_a_recreated_topic(world: World, place: Place) -> None:
    """It is refused while it is shorter, and read from its beginning when an operator has accepted it."""
    two_batches(world, place)
    world.archive(0)
    topic = world.pipeline.source.topic
    place.tools.delete(topic)
    place.tools.create(topic, 2)
    send(world, place, record("new", 2.0), record("newer", 2.1))
    for _ in range(2):
        with pytest.raises(LogCut, match="partition 0: the log was cut at offset 2 .* created again") as refused:
            world.ingest("r3")
        assert f"tidegate source reset {topic}" in refused.value.advice
    found = reset.survey(world.context())
    assert isinstance(found, reset.Recreated)
    reset.accept(world.context(), found, "a new cluster")
    send(world, place, record("newest", 2.2), queue=1)
    assert world.ingest("r3") == 3
    plan = world.context().ledger.batches.get(topic, 3).plan
    assert (plan.topic_id, plan.records) == (f"{topic}#2", 3)
    both = fates(world, 1)
    assert len(both) == 2, "one of each era"
    assert NEVER_READ not in both
    assert look(world).problems == ()
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, value, Column(name="other", type="string", path="$.id")))
    with pytest.raises(ReplayRefused, match="was recreated"):
        replay.replay(world.context(), window(0))


def test_what_expired_unread_is_a_loss(world: World, place: Place) -> None:
    two_batches(world, place)
    send(world, place, record("lost", 2.0), record("lost too", 2.1))
    place.expire(place.next_file())
    send(world, place, record("kept", 2.2))
    with pytest.raises(DataLoss, match=r"partition 0: offsets \[5, 7\) are gone from the topic"):
        world.ingest("r3")
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    assert world.ingest("r3") == 3
    plan = world.context().ledger.batches.get(world.pipeline.name, 3).plan
    assert [(x.partition, x.start, x.end) for x in plan.losses] == [(0, 5, 7)]
    assert fates(world, 6) == [LOST]
    assert look(world).problems == ()
    assert world.archive(0).rows == 6, "from the files that have landed"


def test_messages_as_producers_send_them(place: Place) -> None:
    topic = place.fresh()
    place.tools.create(topic)
    place.send(topic, "ü日".encode(), properties={"TAGS": "rot", "größe": "ü=日 x"}, born_ms=5, key=None)
    place.send(topic, b"\0", key="a b")
    place.send(topic, b"x" * 100_000)
    place.send(topic, *[b"%d" % n for n in range(100)])
    (first, second, third, *rest) = rows(place, topic, 0, 0, 103)
    assert first[:3] == (0, None, "ü日".encode())
    assert {("TAGS", b"rot"), ("größe", "ü=日 x".encode()), ("BORN_TIMESTAMP", b"5")} <= {*first[3]}
    assert second[:3] == (1, b"a b", b"\0")
    assert third[2] == b"x" * 100_000
    assert [row[2] for row in rest] == [b"%d" % n for n in range(100)]
    kind = source_kind("rocketmq")
    (found,) = kind.examined(_pipeline(topic), _connection(place), 30.0, lambda ask: ask())
    assert (found.level, found.what) == ("ok", f"topic {topic} can be described and read")
    (found,) = kind.examined(_pipeline(topic + "x"), _connection(place), 30.0, lambda ask: ask())
    assert (found.level, found.check) == ("wrong", "rocketmq")
    assert f"no route of topic {topic}x" in found.what


def _pipeline(topic: str) -> Any:
    from tests.world import make_pipeline

    source = Source(conn_id="rocket", topic=topic, kind="rocketmq", options=OPTIONS)
    return replace(make_pipeline("file:///nowhere"), source=source)


def _connection(place: Place) -> Any:
    from tidegate.core.base.connection import Connection

    host, _, port = place.namesrv.rpartition(":")
    return Connection(conn_id="rocket", conn_type="rocketmq", host=host, port=int(port))


EXPIRING = (
    SourceSuite.test_retention_moves_the_log_start,
    SourceSuite.test_what_the_log_does_not_hold_is_data_loss_and_no_retry_helps,
)
"""Of the suite that `tests/contract/test_source_rocketmq.py` runs: in its first minute a broker expires nothing."""


@pytest.mark.parametrize("held", EXPIRING, ids=lambda test: test.__name__)
def test_it_keeps_the_contract_of_a_source(held: Callable[..., None], place: Place) -> None:
    held(SourceSuite(), RealBroker(place), place.fresh())
