"""`tidegate init`: a topic's sample becomes a YAML that the loader takes and the worker's decoder reads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from engine_fixtures import DAY_ONE, HOUR, FakeReader, records

from spark_jobs.handlers.draft import Look
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.core.base.errors import SourceError
from tidegate.core.source.port import ForWorkers, Lane, LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.sources import first_look
from tidegate.spec import load_file


@dataclass
class Topic:
    """Messages by partition, read by the worker's own code in this process."""

    name: str
    partitions: dict[int, list[bytes | None]] = field(default_factory=dict)
    first: int = 0
    missing: tuple[int, ...] = ()
    read: list[tuple[int, int, int]] = field(default_factory=list)

    def look(self, topic: str) -> LogState:
        if topic != self.name:
            raise SourceError(f"Kafka has no topic {topic}; did you mean {self.name}?")
        ends = {p: self.first + len(values) for p, values in self.partitions.items()}
        return LogState(
            topic=topic, topic_id="topic-one", partitions={p: Lane(self.first, e, e) for p, e in ends.items()}
        )

    def for_workers(self) -> ForWorkers:
        return ForWorkers({"bootstrap.servers": "127.0.0.1:1"}, {})

    def one(self, request: Any) -> Any:
        """Stands in for the child process."""
        self.read += request.get("ranges", [])
        return json.loads(json.dumps(self.child.answer(json.loads(json.dumps(request)))))

    def close(self) -> None:
        return

    def __post_init__(self) -> None:
        kept = {
            p: [r for r in records(values, self.first) if r[0] not in self.missing]
            for p, values in self.partitions.items()
        }
        self.child = Look(lambda plan, settings: FakeReader(kept, size=50))


class Bench:
    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, patch

    def topic(self, values: list[bytes | None] | dict[int, list[bytes | None]], **options: Any) -> Topic:
        made = Topic("readings", values if isinstance(values, dict) else {0: values}, **options)
        self._patch.setattr(surroundings, "source", lambda pipeline: made)
        self._patch.setattr(first_look, "Child", lambda *a, **k: made)
        return made

    def run(self, *arguments: str, topic: str = "readings") -> Result:
        return CliRunner().invoke(main, ["init", topic, *arguments], catch_exceptions=False)

    def drafted(self, *arguments: str) -> tuple[Pipeline, str, str]:
        """The pipeline that was written, its text, and what was said."""
        result = self.run("--write", *arguments)
        assert result.exit_code == 0, result.output
        (path,) = self.folder.glob("*.yaml")
        return load_file(path), path.read_text(), result.stderr


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(folder))
    monkeypatch.setenv("TIDEGATE_LAKE", str(tmp_path / "lake"))
    return Bench(folder, monkeypatch)


def reading(i: int, **more: Any) -> bytes:
    """One each ten minutes; every third comes 20 minutes late."""
    at = DAY_ONE + i * 600_000 - (1_200_000 if i % 3 == 2 else 0)
    value = {"site": f"s{i % 4}", "at": at, "reading": {"value": i / 2, "unit": {"name": "C"}}, "ok": True, **more}
    return json.dumps(value).encode()


# ---------------------------------------------------------------- the usual case


def test_a_draft_is_written_loads_and_reads_the_sample(bench: Bench) -> None:
    topic = bench.topic({p: [reading(i) for i in range(400)] for p in (0, 1)})
    spec, text, said = bench.drafted()
    found = [(c.name, c.type, c.path) for c in spec.columns]
    assert found == [
        ("site", "string", "$.site"),
        ("at", "bigint", "$.at"),
        ("reading_value", "double", "$.reading.value"),
        ("reading_unit_name", "string", "$.reading.unit.name"),
        ("ok", "boolean", "$.ok"),
    ]
    assert (spec.event_time.path, spec.event_time.format) == ("$.at", "epoch_ms")
    assert (spec.windows.size_ms, spec.windows.start_ms, spec.windows.idle) == (HOUR, DAY_ONE, "follow")
    assert spec.windows.watermark_delay_ms == HOUR // 2, "more than twice the disorder of 10 minutes"
    assert spec.partition_by == ("date", "hour")
    assert spec.format.unknown_fields == "capture"
    assert spec.sink.table == "lake.readings"
    assert spec.sink.location.endswith("/lake/readings")
    assert '"${TIDEGATE_LAKE_FS:-file://}${TIDEGATE_LAKE}/readings"' in text
    assert "in 800 of 800 messages" in text
    assert "800 of 800 messages become rows; 0 would be dirty" in said
    assert "tidegate unpause readings" in said
    assert "tidegate explain readings 2013-01-05T00:00" in said
    assert "tidegate pause readings --only archive --why" in said, "of old data, whose last window nothing closes"
    assert [tuple(r) for r in topic.read] == [(0, 0, 400), (1, 0, 400)]


def test_beginning_middle_and_end_of_a_long_topic_are_read(bench: Bench) -> None:
    topic = bench.topic({0: [reading(i) for i in range(3000)]})
    _, text, said = bench.drafted("--messages", "300")
    assert [tuple(r) for r in topic.read] == [(0, 0, 100), (0, 1450, 1550), (0, 2900, 3000)]
    assert "from 300 messages of 3,000 records" in text
    assert "looked at 300 messages" in said


def test_without_write_it_goes_to_standard_output(bench: Bench) -> None:
    bench.topic([reading(i) for i in range(50)])
    result = bench.run()
    assert result.exit_code == 0
    assert result.stdout.startswith("# Drafted by `tidegate init readings`")
    assert list(bench.folder.iterdir()) == []


def test_no_file_is_replaced(bench: Bench, tmp_path: Path) -> None:
    bench.topic([reading(i) for i in range(50)])
    (bench.folder / "readings.yaml").write_text("mine")
    result = bench.run("--write")
    assert result.exit_code == 1
    assert "is there already" in result.stderr
    assert (bench.folder / "readings.yaml").read_text() == "mine"
    other = bench.run("--out", str(tmp_path / "x.yaml"))
    assert other.exit_code == 0, other.output
    assert bench.run("--out", str(tmp_path / "x.yaml")).exit_code == 1


def test_another_pipelines_table_is_not_taken(bench: Bench) -> None:
    bench.topic([reading(i) for i in range(50)])
    bench.drafted()
    result = bench.run("--name", "other", "--table", "lake.readings")
    assert result.exit_code == 1
    assert "belongs to pipeline readings" in result.stderr
    assert bench.run("--name", "other").exit_code == 0


# ---------------------------------------------------------------- odd data


def test_few_odd_messages_are_told_and_decide_nothing(bench: Bench) -> None:
    values: list[bytes | None] = [reading(i) for i in range(300)]
    values[100] = b"{not json"
    values[200] = reading(200, at=1_000_000_000_000)
    spec, text, said = bench.drafted() if bench.topic(values) else (None, "", "")
    assert spec is not None
    assert spec.windows.start_ms == DAY_ONE
    assert "without 1 odd event" in text
    assert "299 of 300 messages become rows, 1 of them late (before windows.start); 1 would be dirty:" in said
    assert "partition 0, offset 100" in said


def test_few_bad_values_do_not_throw_the_draft_off(bench: Bench) -> None:
    """A number among times, and texts among weights: they would be dirty; types and windows are those of the rest."""
    values: list[bytes | None] = [
        json.dumps({"at": f"2013-01-05T{i // 60:02d}:{i % 60:02d}:00Z", "weight": i / 4, "ok": True}).encode()
        for i in range(500)
    ]
    values[3] = json.dumps({"at": 5, "weight": 1.5, "ok": True}).encode()
    for i in (0, 250, 499):
        values[i] = json.dumps({"at": "2013-01-05T01:00:00Z", "weight": "heavy", "ok": True}).encode()
    bench.topic(values)
    spec, text, said = bench.drafted()
    assert [(c.name, c.type, c.convert) for c in spec.columns] == [
        ("at", "timestamp", None), ("weight", "double", None), ("ok", "boolean", None),
    ]  # fmt: skip
    assert (spec.event_time.path, spec.event_time.format) == ("$.at", "iso8601")
    assert spec.windows.start_ms == DAY_ONE
    assert "in 500 of 500 messages; 1 number would be read as epoch milliseconds" in text
    assert "in 500 of 500 messages; 3 would be dirty: text" in text
    assert "499 of 500 messages have a time in it; 1 would be dirty" in text
    assert "496 of 500 messages become rows; 4 would be dirty:" in said
    assert "WARNING" not in said


def test_more_bad_values_than_a_batch_may_hold_are_told_with_what_to_do(bench: Bench) -> None:
    odd = {"weight": "heavy", "a": 1}
    bench.topic([reading(i, **({"weight": i, "a": {"b": i}} if i % 25 else odd)) for i in range(100)])
    spec, _, said = bench.drafted()
    assert (spec.column("weight").type, spec.column("a_b").type) == ("bigint", "bigint")
    assert "96 of 100 messages become rows; 4 would be dirty:" in said
    assert "WARNING: more than 1 % dirty records refuse a batch" in said
    assert "convert: text" in said


def test_without_an_event_time_the_author_is_warned(bench: Bench) -> None:
    bench.topic([reading(i, at=DAY_ONE if i % 10 else "?") for i in range(100)])
    spec, _, said = bench.drafted()
    assert spec.event_time.path is None
    assert "WARNING: no field of the sample is surely the event time" in said
    assert "by when they came to Kafka" in said
    assert "near it: $.at (epoch_ms), in 90.0 % of the messages" in said
    assert "tidegate init readings --event-time '$.at'" in said
    (bench.folder / "readings.yaml").unlink()
    assert "WARNING" not in bench.drafted("--event-time", "kafka_timestamp")[2], "the author has said so"
    (bench.folder / "readings.yaml").unlink()
    bench.topic([b'{"a": 1}'] * 5)
    assert "by when they came to Kafka" in bench.drafted()[2]


def test_mixed_types_become_text_and_what_no_type_takes_is_kept_aside(bench: Bench) -> None:
    values = [
        reading(i, code=i if i % 2 else f"c{i}", mixed=[i] if i % 2 else {"a": i}, big=i if i % 2 else i + 0.5)
        for i in range(60)
    ]
    bench.topic(values)
    spec, text, said = bench.drafted()
    code = spec.column("code")
    assert (code.type, code.convert) == ("string", "text")
    assert spec.column("big").type == "double"
    assert "mixed" not in [c.name for c in spec.columns]
    assert "  # $.mixed: in 60 of 60 messages" in text
    assert "no column for $.mixed" in said
    assert "60 of 60 messages become rows" in said


def test_odd_keys(bench: Bench) -> None:
    values = [
        reading(i, **{"a b": 1, 'q"': 2, "Größe": 3, "x.y": {"z": 1}, "tags": {"k 1": "v", "k.2": "w"}, "date": "x"})
        for i in range(30)
    ]
    bench.topic(values)
    spec, _, said = bench.drafted()
    assert spec.column("tags").type == "map<string,string>"
    assert spec.column("date_field").path == "$.date"
    assert next(c for c in spec.columns if c.path == "$.Größe").type == "bigint"
    assert next(c for c in spec.columns if c.path == '$."a b"').name == "a_b"
    assert next(c for c in spec.columns if c.path == '$."q\\""').type == "bigint"
    assert next(c for c in spec.columns if c.path == '$."x.y".z').name == "x_y_z"
    assert "30 of 30 messages become rows; 0 would be dirty" in said


def test_an_object_with_many_keys_is_a_map(bench: Bench) -> None:
    bench.topic([reading(i, counts={f"k{i}": i}) for i in range(100)])
    assert bench.drafted()[0].column("counts").type == "map<string,bigint>"


def test_a_date_that_is_none_makes_the_column_text(bench: Bench) -> None:
    bench.topic([reading(i, day="2013-02-30") for i in range(30)])
    spec, _, said = bench.drafted()
    assert (spec.column("day").type, spec.column("day").convert) == ("string", "text")
    assert "30 of 30 messages become rows" in said


def test_huge_values_are_cut(bench: Bench) -> None:
    bench.topic([reading(i, blob="x" * 50_000, many=list(range(20_000))) for i in range(10)])
    spec, _, said = bench.drafted()
    assert spec.column("blob").type == "string"
    assert "10 of 10 messages become rows" in said, said


@pytest.mark.parametrize("values", [{}, {0: []}, {0: [], 1: []}])
def test_an_empty_topic(bench: Bench, values: dict) -> None:
    bench.topic(values)
    result = bench.run()
    assert result.exit_code == 1
    assert "holds no records" in result.stderr


def test_a_topic_that_is_not_there(bench: Bench) -> None:
    bench.topic([reading(0)])
    result = bench.run(topic="reading")
    assert result.exit_code == 1
    assert "did you mean readings?" in result.stderr


def test_gaps_are_allowed_where_there_are_some(bench: Bench) -> None:
    bench.topic([reading(i) for i in range(50)], missing=(7, 8))
    spec, text, _ = bench.drafted()
    assert spec.source.gaps == "allow"
    assert "2 offsets of the sample hold no record" in text


def test_messages_without_a_field_that_can_be_named(bench: Bench) -> None:
    bench.topic([json.dumps({"": i}).encode() for i in range(5)])
    result = bench.run()
    assert result.exit_code == 1
    assert 'no field of 5 messages can be a column: "": no path can name it' in result.stderr


def test_one_message_is_enough(bench: Bench) -> None:
    bench.topic([reading(0)])
    assert bench.drafted()[0].event_time.path == "$.at"


# ---------------------------------------------------------------- what the author says


def test_the_event_time_that_is_asked_for(bench: Bench) -> None:
    bench.topic([reading(i, seen={"at": "2013-01-05 04:00:00"}) for i in range(30)])
    result = bench.run("--event-time", "nosuch")
    assert result.exit_code == 2
    assert (
        "no message of the sample has $.nosuch; --event-time can be $.at, $.seen.at, kafka_timestamp" in result.stderr
    )
    assert "$.site holds no times" in bench.run("--event-time", "site").stderr
    spec, _, _ = bench.drafted("--event-time", "seen.at")
    assert (spec.event_time.path, spec.event_time.format) == ("$.seen.at", "iso8601")


def test_kafkas_timestamp(bench: Bench) -> None:
    bench.topic([reading(i) for i in range(30)])
    spec, text, _ = bench.drafted("--event-time", "kafka_timestamp")
    assert spec.event_time.path is None
    assert "other fields with times: $.at (epoch_ms)" in text


def test_names(bench: Bench) -> None:
    bench.topic([reading(i) for i in range(30)])
    spec, _, _ = bench.drafted(
        "--name", "mine", "--table", "shop.r", "--location", "file:///x/r", "--conn-id", "k", "--sink-conn-id", "h"
    )
    assert (spec.name, spec.sink.table, spec.sink.location) == ("mine", "shop.r", "file:///x/r")
    assert (spec.source.conn_id, spec.sink.conn_id) == ("k", "h")


def test_without_a_trial_a_location_is_needed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_LAKE")
    bench.topic([reading(0)])
    result = bench.run()
    assert result.exit_code == 2
    assert "--location" in result.stderr
    wrong = bench.run("--location", "/lake/x")
    assert wrong.exit_code == 2
    assert "must be a URI" in wrong.stderr
