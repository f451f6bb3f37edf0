"""What Tidegate's two contenders share: the whole topic as one batch's plan, as the ingest task would write it."""

from __future__ import annotations

import os

from bench.events import CLOCK, FLOOR, pipeline
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import IngestPlan, JobPart
from tidegate.sources.kafka.control import KafkaSource


def plan() -> IngestPlan:
    topic, location = os.environ["TOPIC"], f"file://{os.environ['OUT_DIR']}"
    settings = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"]}
    found = KafkaSource(settings, "read_committed").look(topic)
    ranges = tuple(
        OffsetRange(topic, p, o.log_start, o.last_stable_offset) for p, o in sorted(found.partitions.items())
    )
    spec = pipeline(topic, location)
    return IngestPlan(
        attempt="1.1-bench",
        attempt_dir=location,
        pipeline=to_plain(spec),
        bootstrap=settings,
        topic=topic,
        topic_id=found.topic_id,
        parts=(JobPart(batch_id=1, clock_ms=CLOCK, floor=FLOOR, ranges=ranges),),
        nonce="bench",
        batch_id=1,
        epoch=1,
        spec_version=1,
    )
