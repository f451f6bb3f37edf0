"""A newcomer's file in a real broker: its lines become messages, and `tidegate init` drafts a pipeline of them."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from dev.stack.errors import StackError
from dev.stack.info import StackInfo
from dev.stack.produce import produce_lines
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.core.spec.pipeline import Pipeline
from tidegate.sources.kafka.control import KafkaSource
from tidegate.spec import load_file

AT = 1_357_344_000_000


def test_lines_become_messages_and_messages_a_pipeline(
    kafka: StackInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, settings = f"init-{uuid.uuid4().hex[:12]}", {"bootstrap.servers": kafka.kafka_bootstrap}
    rows = [{"site": f"s{i % 7}", "at": AT + i * 1000, "r": {"v": i / 4}} for i in range(3000)]
    lines = io.BytesIO(b"\r\n".join(json.dumps(r).encode() for r in rows) + b"\n\nrubbish\n")
    assert produce_lines(kafka.kafka_bootstrap, topic, lines, "site", 3) == (3001, 3)
    assert produce_lines(kafka.kafka_bootstrap, topic, [b"{}"], None, 9) == (1, 3), "a topic that is there stays"

    def source(spec: Pipeline, timeout_s: float = 10.0) -> KafkaSource:
        return KafkaSource(settings, spec.source.isolation, client_id="tidegate-test")

    state = source(load_probe(tmp_path)).look(topic)
    assert sum(o.last_stable_offset for o in state.partitions.values()) == 3002
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setattr(surroundings, "source", source)
    result = CliRunner().invoke(main, ["init", topic, "--name", "mine", "--messages", "300", "--write"])
    assert result.exit_code == 0, result.output
    spec = load_file(tmp_path / "mine.yaml")
    assert [(c.name, c.type) for c in spec.columns] == [("site", "string"), ("at", "bigint"), ("r_v", "double")]
    assert (spec.event_time.path, spec.windows.start_ms, spec.windows.idle) == ("$.at", AT, "follow")
    assert "3,002 records in 3 partitions; looked at" in result.stderr
    groups = AdminClient(settings).list_consumer_groups().result().valid
    assert f"tidegate-{spec.name}" not in [g.group_id for g in groups], "nothing was committed"


def load_probe(folder: Path) -> Pipeline:
    path = folder / "probe.yaml"
    path.write_text(
        "version: 1\nname: probe\nowner: x\nsource: {topic: t}\ncolumns: [{name: a, type: int}]\n"
        "event_time: {from: kafka_timestamp}\nwindows: {start: 2013-01-01T00:00:00Z, watermark_delay: 1h}\n"
        "partition_by: [date, hour]\nsink: {table: lake.probe, location: 'file:///lake/probe'}\n"
    )
    return load_file(path)


def test_a_broker_that_does_not_answer_is_said() -> None:
    with pytest.raises(StackError, match=r"Kafka at 127\.0\.0\.1:1 did not take the messages"):
        produce_lines("127.0.0.1:1", "x", [b"{}"], None, 1)
