"""`tidegate schema propose`: sampled by the worker's own decoder, written into the YAML without touching the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from engine_fixtures import FakeReader, event, records

from spark_jobs.engine import secrets
from spark_jobs.engine.secrets import registry_settings
from spark_jobs.handlers.sample import sample
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.core.base.errors import LedgerError, SourceError, SpecError
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.source.port import ForWorkers, Lane, LogState
from tidegate.core.source.records import Chunk, Reader
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.core.spec.proposals import propose
from tidegate.sources import sampling
from tidegate.spec import load_file
from tidegate.spec.new_columns import with_columns

YAML = """\
version: 1  # the only one
name: readings
owner: shop
source: {topic: readings}
columns:  # in the table's order
  - {name: site, type: string}   # where
  - name: value
    type: double
    from: $.reading.value  # nested

  # what comes behind columns stays there
event_time: {from: $.at}
windows: {start: 2013-01-01T00:00:00Z, watermark_delay: 1h}
partition_by: [date, hour]
sink: {table: lake.readings, location: "file:///lake/readings"}
"""
GATE, LEGS = propose("gate", ['"B7"']), propose("Legs", ['[{"a": 1}]'])


# ---------------------------------------------------------------- text


def test_lines_are_added_behind_the_last_column() -> None:
    added = with_columns(YAML, "x", [GATE, propose("", ["1"]), LEGS])
    new = '  - {name: gate, type: string}\n  - {name: legs, type: "array<struct<a:bigint>>", from: $.Legs}\n'
    at = YAML.index("\n  # what comes")
    assert added == YAML[:at] + new + YAML[at:]
    assert with_columns(YAML, "x", []) == YAML


LAYOUTS = [
    "columns: [{name: a, type: int}]\nz: 1\n",
    "columns: [\n  {name: a, type: int},  # one\n]\nz: 1\n",
    "columns: [{name: a, type: int}, {name: b, type: int},]",
    "columns:\n- {name: a, type: int}\nz: 1\n",
    "columns: &c  # - of all\n  - &x {name: a, type: int}\nz: *c\n",
    "columns:\n- name: a\n  type: int",
    "columns:\n-   name: a\n    type: int\n    expr: |\n      case when 1 > 0\n      then 1 end\n\nz: 1\n",
    "columns:\n  - name: a\n    type: >-\n      int\n# end\nz: 1\n",
    "z:\n  columns: [1]\ncolumns:\n  -\n    name: a\n    type: {x: [1, 2]}\n",
    "columns:\n  - {name: a,\n     type: int}\nz: {a: 1}\n",
    'columns:\n  - name: a\n    type: "in\n      t"\nz: 1\n',
]


@pytest.mark.parametrize("text", LAYOUTS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_way_to_write_a_list_takes_a_line_more(text: str, newline: str) -> None:
    text = text.replace("\n", newline)
    before, after = yaml.safe_load(text), yaml.safe_load(with_columns(text, "x", [GATE, LEGS]))
    new = [{"name": "gate", "type": "string"}, {"name": "legs", "type": "array<struct<a:bigint>>", "from": "$.Legs"}]
    assert after["columns"] == [*before["columns"], *new]
    assert {k: v for k, v in after.items() if v != after["columns"]} == {
        k: v for k, v in before.items() if v != before["columns"]
    }


@pytest.mark.parametrize("text", ["name: x\n", "columns: []\n", "columns: x\n", ""])
def test_a_file_without_columns_of_its_own_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="no columns of its own"):
        with_columns(text, "x.yaml", [GATE])


# ---------------------------------------------------------------- sampling


def spec() -> Pipeline:
    from engine_fixtures import pipeline

    made = pipeline("/x", partition_by=("date", "hour"), where="count > 5")
    strict = Column(name="strict", type="int", path="$.strict", nullable=False)
    return replace(made, columns=(*made.columns, strict, Column(name="twice", type="int", path="", expr="count * 2")))


def test_what_no_column_takes_is_counted_with_examples() -> None:
    values = [
        event(gate="B7", count="bad"),
        event(gate="B8", count=1, strict=1),
        event(gate="B8", legs=[1]),
        b"rubbish",
        event(),
    ]
    request = {
        "pipeline": to_plain(spec()),
        "topic_id": "t",
        "ranges": [[0, 0, 3], [0, 3, 5], [1, 2, 2]],
    }
    found = sample(request, lambda plan, settings: FakeReader({0: records(values)}))
    assert found["read"] == 5
    assert found["fields"]["legs"] == {"seen": 1, "examples": ["[1]"]}
    assert found["fields"]["gate"]["examples"][-1] == '"B8"'
    assert found["fields"].keys() == {"gate", "legs"}, "neither the event time nor what a column takes"


@pytest.mark.parametrize(
    ("path", "known", "others"),
    [
        ('$."event.time"', "event.time", ('"event', "event")),
        ('$."a \\"b\\""."c.d"', 'a "b"', ('"a ', "c.d")),
        ("$.at.ms", "at", ("ms",)),
    ],
)
def test_the_event_times_field_is_none_to_propose_however_its_path_is_written(
    path: str, known: str, others: tuple[str, ...]
) -> None:
    asked = replace(spec(), event_time=replace(spec().event_time, path=path))
    values = [json.dumps({name: 1 for name in (known, *others)}).encode()]
    request = {"pipeline": to_plain(asked), "topic_id": "t", "ranges": [[0, 0, 1]]}
    found = sample(request, lambda plan, settings: FakeReader({0: records(values)}))
    assert found["fields"].keys() == set(others)


def test_the_registrys_login_is_for_the_decoder_and_not_for_kafkas_client() -> None:
    told: list[dict] = []

    class Looking(FakeReader):
        def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
            told.append(registry_settings())
            return super().read(wanted)

    def opened(plan: ReadPlan, settings: dict) -> Reader:
        told.append(settings)
        return Looking({0: records([event()])})

    settings = {"bootstrap.servers": "x", "tidegate.registry.url": "http://r", "tidegate.registry.password": "p"}
    request = {"pipeline": to_plain(spec()), "topic_id": "t", "ranges": [[0, 0, 1]]}
    secrets.use(settings)
    try:
        assert sample(request, opened) == {"read": 1, "fields": {}, "types": {}}
    finally:
        secrets.use(None)
    assert told == [{"bootstrap.servers": "x"}, {"url": "http://r", "password": "p"}]


def test_a_child_process_answers_and_its_error_is_told() -> None:
    with pytest.raises(SourceError, match="sampling readings: Kafka at 127.0.0.1:1 .*no progress|sampling readings"):
        sampling.sample(replace(spec(), columns=(), format=replace(spec().format, type="nosuch")), {}, "t", [(0, 0, 1)])


# ---------------------------------------------------------------- the command


class Topic:
    def look(self, topic: str) -> LogState:
        return LogState(topic=topic, topic_id="topic-one", partitions={0: Lane(0, 1000, 1000)})

    def for_workers(self) -> ForWorkers:
        return ForWorkers({"bootstrap.servers": "127.0.0.1:1"}, {"sasl.password": "x"})


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the child was asked; it finds `gate`."""
    (tmp_path / "readings.yaml").write_text(YAML)
    told: dict[str, Any] = {}

    def fake(pipeline: Pipeline, settings: dict, topic_id: str, ranges: list) -> sampling.Sampled:
        told.update(settings=settings, ranges=ranges)
        return sampling.Sampled(100, {"Legs": (1, ["[1]"]), "gate": (40, ['"B7"'])})

    @contextmanager
    def no_ledger() -> Iterator[None]:
        raise LedgerError("no connection")
        yield

    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    monkeypatch.setattr(surroundings, "source", lambda spec: Topic())
    monkeypatch.setattr(surroundings, "ledger", no_ledger)
    monkeypatch.setattr(sampling, "sample", fake)
    return told


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["schema", "propose", "readings", *arguments])


def test_lines_are_proposed(asked: dict[str, Any], tmp_path: Path) -> None:
    result = invoke("--records", "10")
    assert result.exit_code == 0, result.output
    assert '  - {name: gate, type: string}\n  - {name: legs, type: "array<bigint>", from: $.Legs}\n' in result.stdout
    assert asked["ranges"] == [(0, 990, 1000)]
    assert asked["settings"]["sasl.password"] == "x"
    assert (tmp_path / "readings.yaml").read_text() == YAML
    assert "the ledger gives no answer" in result.stderr


def test_lines_are_written(asked: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "readings.yaml"
    path.chmod(0o640)
    result = invoke("--write")
    assert result.exit_code == 0, result.output
    assert "+  - {name: gate, type: string}" in result.stdout
    assert [c.name for c in load_file(path).columns] == ["site", "value", "gate", "legs"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["readings.yaml"]


def test_what_would_break_the_pipeline_is_not_written(asked: dict[str, Any], tmp_path: Path) -> None:
    start = YAML.index("columns:")
    columns = YAML[start : YAML.index("event_time:")]
    (tmp_path / "defaults.yaml").write_text(columns)
    path = tmp_path / "readings.yaml"
    path.write_text(YAML.replace(columns, ""))
    result = invoke("--write")
    assert result.exit_code == 2
    assert "no columns of its own to add to (are they in defaults.yaml?)" in result.stderr
    assert path.read_text() == YAML.replace(columns, "")


def test_one_json_document(asked: dict[str, Any], tmp_path: Path) -> None:
    found = json.loads(invoke("--json", "--write").stdout)
    assert (found["records"], found["written"]) == (100, True)
    line = "- {name: gate, type: string}"
    wanted = {"field": "gate", "column": "gate", "type": "string", "seen": 40, "note": "", "line": line}
    assert found["columns"][0] == wanted


class Refused:
    """A ledger whose open batch was refused."""

    class batches:
        @staticmethod
        def open(name: str) -> Any:
            from types import SimpleNamespace

            return SimpleNamespace(plan=SimpleNamespace(batch_id=7))

        @staticmethod
        def refusal(name: str, batch_id: int) -> Refusal:
            return Refusal(kind=RefusalKind.UNKNOWN_FIELD, said="unknown field 'gate'", partition=0, offset=123)


def test_the_record_at_which_a_batch_stopped_is_read_too(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def ledger() -> Iterator[Refused]:
        yield Refused()

    monkeypatch.setattr(surroundings, "ledger", ledger)
    assert invoke("--records", "20").exit_code == 0
    assert asked["ranges"] == [(0, 123, 133), (0, 990, 1000)]
