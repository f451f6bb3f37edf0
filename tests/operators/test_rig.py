"""The harness itself: lanes on real parts, the three ways to clear, a digest that is equal for equals."""

from __future__ import annotations

import os

import pytest

from tests.operators.harness import Lane, Rig
from tests.operators.ways import TASK, WAYS


@pytest.mark.skipif(os.environ.get("TIDEGATE_OPERATORS") != "all", reason="make test-operators")
def test_lanes_of_one_topic_end_alike_and_can_be_cleared_in_three_ways(rig: Rig) -> None:
    topic = rig.topic("rig", 2)
    twin, *others = rig.add(*(Lane(f"rig_{name}", topic, max_active_runs=16) for name in ("twin", *WAYS)))
    twin.land(2)
    twin.publish(0)
    rig.check_settled(twin)
    for lane in others:
        rig.api.pause(lane.ingest, False)
        rig.trigger(lane.ingest, "first")
    for lane in others:
        rig.wait_run(lane.ingest, "backlog_after_batch_1", "success")
        rig.api.pause(lane.archive, False)
    for lane, way in zip(others, WAYS, strict=True):
        rig.wait_run(lane.archive, lane.scheduled(0), "success")
        rig.clear(way, TASK, lane.archive, lane.scheduled(0), "publish")
    for lane in others:
        rig.wait_task(lane.archive, lane.scheduled(0), "publish", "success", after=1)
        rig.wait_run(lane.archive, lane.scheduled(0), "success")
        assert rig.content(lane) == rig.content(twin)
        rig.check_settled(lane)
