"""`tidegate schema propose` on a broker: the newest records are read by a child process, and nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from dev.stack.info import StackInfo
from tests.real_kafka import Topic
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.core.base.errors import LedgerError
from tidegate.core.spec.pipeline import Pipeline
from tidegate.sources.kafka.control import KafkaSource
from tidegate.spec import load_file

YAML = """\
version: 1
name: readings
owner: shop
source: {{topic: {topic}}}
columns:
  - {{name: id, type: string, nullable: false}}
event_time: {{from: $.at}}
windows: {{start: 2013-01-01T00:00:00Z, watermark_delay: 1h}}
partition_by: [date, hour]
sink: {{table: lake.readings, location: "file:///lake/readings"}}
"""


def test_fields_of_the_newest_records_become_columns(
    kafka: StackInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic(kafka.kafka_bootstrap, 2)
    topic.produce(*[{"id": "x", "at": 1, "old": 1}] * 5, *[{"id": "y", "at": 2, "gate": g} for g in ("B7", "B8")])
    odd = b"rubbish", {"at": 3, "legs": [{"a": 1}], "gate": None}, {"at": 4, "legs": [{"b": 1.5}]}
    topic.produce(*odd, partition=1)
    path = tmp_path / "readings.yaml"
    path.write_text(YAML.format(topic=topic.name))

    @contextmanager
    def no_ledger() -> Iterator[None]:
        raise LedgerError("none here")
        yield

    def source(spec: Pipeline) -> KafkaSource:
        return KafkaSource(topic.settings, spec.source.isolation, client_id="tidegate-test")

    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    monkeypatch.setattr(surroundings, "ledger", no_ledger)
    monkeypatch.setattr(surroundings, "source", source)
    result = CliRunner().invoke(main, ["schema", "propose", "readings", "--records", "4", "--write"])
    assert result.exit_code == 0, result.output
    assert "4 records; 2 fields that no column takes" in result.stdout
    assert [(c.name, c.type) for c in load_file(path).columns] == [
        ("id", "string"),
        ("gate", "string"),
        ("legs", "array<struct<a:bigint,b:double>>"),
    ]
