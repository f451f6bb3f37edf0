"""Beside a job that exists already: a pipeline that begins at an hour owns all of it, and counts what is before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.world import HOUR, T0, TOPIC, World, make_pipeline, record


def test_a_pipeline_that_begins_at_an_hour_owns_all_of_it_and_counts_what_came_for_earlier_ones(tmp_path: Path) -> None:
    """`source.start` an hour before the change, so that what arrived early is read; hours before are the old job's."""
    pipeline = make_pipeline(f"file://{tmp_path}/lake/readings")
    source = replace(pipeline.source, start=T0 + HOUR)
    world = World(tmp_path, replace(pipeline, source=source, windows=replace(pipeline.windows, start_ms=T0 + 2 * HOUR)))
    times = [(0.5, 0.5), (1.1, 0.9), (1.9, 2.1), (2.5, 2.5), (2.6, 1.8), (5.0, 5.0)]
    for n, (kafka_hour, event_hour) in enumerate(times):
        at = T0 + round(kafka_hour * HOUR)
        world.kafka.append(TOPIC, 0, json.dumps(record(f"r{n}", event_hour)).encode(), timestamp_ms=at)
    world.ingest("first")
    world.archive(2)
    assert world.by_window() == {"02": [(0, 2), (0, 3)]}  # also the one that Kafka got before the hour began
    assert world.table("__late") == [(0, 1), (0, 4)]  # of the old job's hours: neither lost nor in a window
