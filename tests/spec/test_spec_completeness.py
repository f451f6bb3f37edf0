"""The section `completeness` as it is compiled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.spec_texts import GOOD
from tidegate.core.base.errors import SpecError
from tidegate.core.base.plain import dumps, loads
from tidegate.core.spec.pipeline import Completeness, Pipeline
from tidegate.spec import fingerprint, load_file


def load(folder: Path, more: str) -> Pipeline:
    path = folder / "orders.yaml"
    path.write_text(GOOD + more)
    return load_file(path, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("null", None),
        ("", None),
        (
            "{from: sql, conn_id: counts, query: 'select n::int from c where at = :start'}",
            Completeness(source="sql", conn_id="counts", query="select n::int from c where at = :start"),
        ),
        (
            "{from: http, conn_id: counts, path: '/{start_ms}?{{x}}'}",
            Completeness(source="http", conn_id="counts", path="/{start_ms}?{{x}}", count_path="$.count"),
        ),
        (
            "{from: topic, topic: audit}",
            Completeness(
                source="topic", conn_id="kafka_default", topic="audit", window_path="$.window", count_path="$.count"
            ),
        ),
        (
            "{from: topic, topic: orders, conn_id: other, window: $.w, count: $.c.n, source: $.s, counts: all, "
            "tolerance: 0.01, patience: 6h, poll: 30s}",
            Completeness(
                source="topic",
                conn_id="other",
                query=None,
                path=None,
                topic="orders",
                window_path="$.w",
                count_path="$.c.n",
                source_path="$.s",
                late_too=True,
                tolerance=0.01,
                policy="wait",
                patience_ms=21_600_000,
                poll_ms=30_000,
            ),
        ),
        (
            "{from: sql, conn_id: c, query: 'select :end_ms', policy: warn}",
            Completeness(source="sql", conn_id="c", query="select :end_ms", policy="warn"),
        ),
    ],
)
def test_what_it_says(tmp_path: Path, text: str, expected: Completeness | None) -> None:
    pipeline = load(tmp_path, f"completeness: {text}\n")
    assert pipeline.completeness == expected
    assert loads(Pipeline, dumps(pipeline)) == pipeline
    assert fingerprint(pipeline) == fingerprint(load(tmp_path, ""))  # it does not say what rows are


def test_counts_of_a_topic_come_from_kafka_whatever_the_source(tmp_path: Path) -> None:
    """A RocketMQ connection says nothing that Kafka's client could use."""
    rocket = "source: {kind: rocketmq, topic: orders, brokers: [broker-a]}"
    text = re.sub(r"^source:.*$\n?(^ +.*$\n?)*", rocket + "\n", GOOD, flags=re.MULTILINE)
    path = tmp_path / "orders.yaml"
    for conn_id, fits in (("", False), (", conn_id: rocketmq_default", False), (", conn_id: kafka_default", True)):
        path.write_text(f"{text}completeness: {{from: topic, topic: audit{conn_id}}}\n")
        if fits:
            found = load_file(path, {})
            assert found.completeness is not None
            assert (found.completeness.conn_id, found.source.options) == ("kafka_default", (("brokers", "broker-a"),))
            continue
        with pytest.raises(SpecError, match=r"completeness\.conn_id: must name a kafka connection"):
            load_file(path, {})
