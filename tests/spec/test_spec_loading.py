from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from tidegate.core.base.errors import SpecError
from tidegate.core.base.plain import dumps, loads
from tidegate.core.spec.pipeline import Column, EventTime, Pipeline
from tidegate.spec import fingerprint, load_file, load_folder, names

FIXTURES = Path(__file__).parents[1] / "fixtures" / "pipelines"
LAKE = {"TIDEGATE_LAKE": "/data", "LAKE_URI": "hdfs://nameservice/lake"}


def pipeline_text(name: str, **replaced: str) -> str:
    text = (FIXTURES / "tram_positions.yaml").read_text().replace("tram_positions", name)
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    return text


def line_of(start: str, text: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if line.strip().startswith(start))


@pytest.fixture
def tram() -> Pipeline:
    return load_file(FIXTURES / "tram_positions.yaml", LAKE)


@pytest.fixture
def cards() -> Pipeline:
    return load_file(FIXTURES / "card_payments.yaml", LAKE)


def test_nested_quarter_hours_of_local_time(tram):
    assert tram.columns[0] == Column(name="vehicle", type="string", path="$.vehicle.id", nullable=False)
    assert tram.columns[3].type == "array<struct<stop:string,eta:timestamp,platform:string>>"
    assert tram.columns[5].type == "decimal(12,4)"
    assert tram.event_time == EventTime("$.measured_at", "iso8601", 120_000, "dirty")
    assert (tram.windows.size_ms, tram.windows.timezone, tram.windows.idle) == (900_000, "Europe/Berlin", "follow")
    assert tram.windows.start_ms == 1729893600000  # 2024-10-25T22:00:00Z
    assert tram.windows.watermark_delay_ms == 600_000
    assert tram.partition_by == tram.time_partitions == ("date", "hour", "minute")
    assert tram.sink.location == "file:///data/transit/tram_positions"
    assert tram.sink.workdir == "file:///data/transit/tram_positions/_tidegate"
    assert tram.sink.target_file_size == 64 * 1024 * 1024
    assert tram.ingest.spark_conf == {"spark.executor.memory": "2g"}  # from defaults.yaml
    assert tram.tags == ("transit", "telemetry")  # lists replace
    assert tram.archive.sla_ms == 600_000


def test_local_days_and_kafka_time_with_defaults(cards):
    assert (cards.owner, cards.tags) == ("data-platform", ("demo",))
    assert cards.event_time == EventTime(None, "epoch_ms", 300_000, "dirty")
    assert cards.source.start == cards.windows.start_ms == 1709262000000  # local midnight, 03:00 UTC
    assert cards.columns[0] == Column(
        name="merchantcountry", type="string", path="$.merchantCountry"
    )  # Hive's case, the message's path
    assert cards.dynamic_partitions == ("merchantcountry",)
    assert (cards.dirty.max_count, cards.dirty.max_ratio) == (1000, None)
    assert cards.ingest.schedule is None
    assert cards.ingest.spark_conf == {
        "spark.executor.memory": "2g",  # from defaults.yaml
        "spark.executor.cores": "2",
        "spark.speculation": "false",
    }
    assert cards.sink.workdir == "hdfs://nameservice/lake/workdirs/card_payments"
    assert cards.archive.on_publish == ("REFRESH TABLE finance.card_payments",)
    assert cards.webhook_conn_id == "oncall"
    assert cards.windows.max_age_ms == 30 * 86_400_000


def test_a_compiled_pipeline_survives_json(tram, cards):
    for pipeline in (tram, cards):
        assert loads(Pipeline, dumps(pipeline)) == pipeline


@pytest.mark.parametrize(
    ("delay", "size", "runs"),
    [("6h", "15m", 28), ("3h", "15m", 16), ("3h15m", "15m", None), ("195m", "15m", 17), ("2d", "1h", 52)],
)
def test_more_archive_runs_than_can_wait(tmp_path, delay, size, runs):
    path = tmp_path / "a.yaml"
    path.write_text(
        pipeline_text("a", **{"watermark_delay: 10m": f"watermark_delay: {delay}", "size: 15m": f"size: {size}"})
    )
    if runs is None:
        with pytest.raises(SpecError, match="watermark_delay"):
            load_file(path, LAKE)
    else:
        assert load_file(path, LAKE).archive.max_active_runs == runs


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_a_broken_file_breaks_only_itself(tmp_path):
    broken = pipeline_text("b", **{"idle: follow": "idle: guess"})
    loaded = load_folder(write(tmp_path, a=pipeline_text("a"), b=broken, c=pipeline_text("c"), d="name: ["), LAKE)
    assert [(one.name, one.error is None) for one in loaded] == [("a", True), ("b", False), ("c", True), ("d", False)]
    assert loaded[1].text == broken
    assert loaded[1].pipeline is None
    assert loaded[1].error.field == "windows.idle"
    assert loaded[1].error.where == f"{tmp_path / 'b.yaml'}:{line_of('idle:', broken)}"
    assert loaded[0].pipeline.name == "a"
    assert loaded[0].path == tmp_path / "a.yaml"


def test_names_are_listed_without_parsing(tmp_path):
    write(tmp_path, b="[", a="", defaults="[", a_b="", **{".hidden": "", "a-b": ""})
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "old.yml").write_text("")
    assert names(tmp_path) == ["a", "a-b", "a_b", "b", "old"]
    assert [one.name for one in load_folder(tmp_path, {})] == names(tmp_path)


def test_a_yml_file_is_not_silently_skipped(tmp_path):
    (tmp_path / "a.yml").write_text(pipeline_text("a"))
    (one,) = load_folder(tmp_path, LAKE)
    assert "must end in .yaml" in str(one.error)


def test_a_folder_that_is_not_there(tmp_path):
    for list_it in (names, load_folder):
        with pytest.raises(SpecError, match="no such pipelines folder"):
            list_it(tmp_path / "nowhere")


def test_an_error_of_a_default_names_the_line_in_defaults(tmp_path):
    write(tmp_path, a=pipeline_text("a"), defaults="dirty:\n  max_count: 5\n  max_ratio: 7\n")
    (one,) = load_folder(tmp_path, LAKE)
    assert (one.error.where, one.error.field) == (f"{tmp_path / 'defaults.yaml'}:3", "dirty.max_ratio")


def test_the_pipelines_errors_come_before_those_of_defaults(tmp_path):
    write(tmp_path, a=pipeline_text("a", **{"sla: 10m": "sla: ten"}), defaults="dirty:\n  max_ratio: 7\n")
    (one,) = load_folder(tmp_path, LAKE)
    first, second = str(one.error).splitlines()
    assert f"a.yaml:{line_of('sla:', pipeline_text('a'))}: archive.sla" in first
    assert "defaults.yaml:2: dirty.max_ratio" in second


def test_a_wrong_default_that_is_overridden_does_not_matter(tmp_path):
    write(tmp_path, a=pipeline_text("a"), defaults="windows: {idle: guess}\nowner: ${NOT_SET}\n")
    assert load_file(tmp_path / "a.yaml", LAKE).owner == "mobility"


def test_defaults_that_are_broken_break_every_pipeline_and_say_so(tmp_path):
    write(tmp_path, a=pipeline_text("a"), b=pipeline_text("b"), defaults="owner: a\nowner: b\n")
    assert [one.error.where for one in load_folder(tmp_path, LAKE)] == [f"{tmp_path / 'defaults.yaml'}:2"] * 2


def test_defaults_have_no_name(tmp_path):
    write(tmp_path, a=pipeline_text("a"), defaults="owner: x\nname: a\n")
    with pytest.raises(SpecError, match="belongs to one pipeline") as caught:
        load_file(tmp_path / "a.yaml", LAKE)
    assert (caught.value.where, caught.value.field) == (f"{tmp_path / 'defaults.yaml'}:2", "name")


def test_defaults_that_are_no_mapping_are_not_ignored(tmp_path):
    write(tmp_path, a=pipeline_text("a"), defaults="# shared\n- owner: x\n")
    with pytest.raises(SpecError, match="must be a mapping of keys to values") as caught:
        load_file(tmp_path / "a.yaml", LAKE)
    assert caught.value.where == f"{tmp_path / 'defaults.yaml'}:2"


def test_defaults_may_be_empty(tmp_path):
    write(tmp_path, a=pipeline_text("a"), defaults="# nothing\n")
    assert load_file(tmp_path / "a.yaml", LAKE).name == "a"


@pytest.mark.parametrize(
    ("b", "field", "says"),
    [
        ({"table: transit.b": "table: transit.a"}, "sink.table", "transit.a belongs to pipeline a"),
        ({"table: transit.b": "table: transit.a__late"}, "sink.table", "transit.a__late belongs to pipeline a"),
        ({"/transit/b": "/transit/a"}, "sink.location", "file:///data/transit/a and a directory of pipeline a"),
        ({"/transit/b": "/transit/a/b"}, "sink.location", "in one another"),
        ({"/transit/b": "/transit"}, "sink.location", "in one another"),
        ({"compression: snappy": "workdir: file://${TIDEGATE_LAKE}/transit/a/_b"}, "sink.workdir", "in one another"),
    ],
)
def test_two_pipelines_never_write_the_same(tmp_path, b, field, says):
    first, second = load_folder(write(tmp_path, a=pipeline_text("a"), b=pipeline_text("b", **b)), LAKE)
    assert first.error is None
    assert second.pipeline is None
    assert second.error.field == field
    key = field.rpartition(".")[2]
    assert second.error.where == f"{tmp_path / 'b.yaml'}:{line_of(f'{key}:', second.text)}"
    assert says in str(second.error)


def test_directories_whose_names_begin_alike_are_neighbours(tmp_path):
    loaded = load_folder(write(tmp_path, a=pipeline_text("a"), ab=pipeline_text("ab")), LAKE)
    assert [one.error for one in loaded] == [None, None]


@pytest.mark.parametrize(
    ("written", "environment", "read"),
    [
        ("${WHO}", {"WHO": "me"}, "me"),
        ("a-${WHO}-${WHO}", {"WHO": "me"}, "a-me-me"),
        ("${WHO:-you}", {}, "you"),
        ("${WHO:-you}", {"WHO": ""}, "you"),
        ("'${WHO:-a: b}'", {}, "a: b"),
        ("${WHO:-}x", {}, "x"),
        ("$${WHO}", {"WHO": "me"}, "${WHO}"),
        ("$WHO costs 5$", {"WHO": "me"}, "$WHO costs 5$"),
    ],
)
def test_variables(tmp_path, written, environment, read):
    path = tmp_path / "a.yaml"
    path.write_text(pipeline_text("a", **{"owner: mobility": f"owner: {written}"}))
    assert load_file(path, LAKE | environment).owner == read


def test_a_variable_can_be_a_number(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(pipeline_text("a", **{"max_records: 200000": "max_records: ${MAX:-77}"}))
    assert load_file(path, LAKE).ingest.max_records == 77


def test_a_variable_is_read_from_the_process_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_LAKE", "/mnt/lake")
    assert load_file(FIXTURES / "tram_positions.yaml").sink.location == "file:///mnt/lake/transit/tram_positions"


def test_yaml_means_what_it_looks_like(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + pipeline_text("a").replace("owner: mobility", "owner: 12:30:45").encode())
    assert load_file(path, LAKE).owner == "12:30:45"  # not 45045, as YAML 1.1 has it


@pytest.mark.parametrize(("said", "expected"), [(None, 86_400_000), ("6h", 21_600_000), ("null", None)])
def test_a_loss_warning_is_a_day_unless_said_otherwise(tmp_path, said, expected):
    path = tmp_path / "a.yaml"
    path.write_text(
        pipeline_text("a").replace("source:\n", f"source:\n  loss_warning: {said}\n" if said else "source:\n")
    )
    assert load_file(path, LAKE).source.loss_warning_ms == expected


def changed(pipeline: Pipeline, field: str) -> Pipeline:
    """With another value in `field` (dotted)."""
    head, _, rest = field.partition(".")
    value = getattr(pipeline, head)
    if rest:
        return dataclasses.replace(pipeline, **{head: changed(value, rest)})
    other = {bool: lambda v: not v, int: lambda v: v + 1, str: lambda v: v + "x", tuple: lambda v: v[1:]}
    return dataclasses.replace(pipeline, **{head: other[type(value)](value)})


@pytest.mark.parametrize(
    "field",
    [
        *(
            "source.topic",
            "source.gaps",
            "columns",
            "event_time.format",
            "windows.size_ms",
            "windows.watermark_delay_ms",
        ),
        *("partition_by", "sink.location", "dirty.max_count", "format.unknown_fields", "kafka_columns", "late_policy"),
    ],
)
def test_what_decides_rows_makes_a_new_version(tram, field):
    assert fingerprint(changed(tram, field)) != fingerprint(tram)


@pytest.mark.parametrize(
    "field",
    [
        *("owner", "tags", "description", "ingest.max_records", "ingest.pool", "archive.sla_ms", "archive.retries"),
        "source.loss_warning_ms",
    ],
)
def test_how_it_is_run_makes_no_new_version(tram, field):
    assert fingerprint(changed(tram, field)) == fingerprint(tram)


def test_a_fingerprint_depends_on_nothing_but_the_pipeline(tram, tmp_path):
    text = pipeline_text("tram_positions").replace("size: 15m", "size: 900s")
    (tmp_path / "tram_positions.yaml").write_text("# moved and rewritten\n" + text)
    assert fingerprint(load_file(tmp_path / "tram_positions.yaml", LAKE)) == fingerprint(tram)
    assert len(fingerprint(tram)) == 64


def test_a_pipeline_costs_the_same_whatever_is_loaded_beside_it(tmp_path):
    """By the calls of functions: five hundred pipelines are loaded by every parse of the DAG file."""

    def calls(pipelines: int) -> int:
        folder = tmp_path / str(pipelines)
        folder.mkdir()
        for i in range(pipelines):
            (folder / f"p{i}.yaml").write_text(pipeline_text(f"p{i}"))
        count = 0

        def counted(*_):
            nonlocal count
            count += 1

        sys.setprofile(counted)
        try:
            loaded = load_folder(folder, LAKE)
        finally:
            sys.setprofile(None)
        assert len([one for one in loaded if one.pipeline]) == pipelines
        return count

    load_folder(FIXTURES, LAKE)  # imports and caches
    few, many = calls(10), calls(80)
    assert many < 1.1 * 8 * few


def test_loading_touches_no_environment(tmp_path):
    before = dict(os.environ)
    load_folder(FIXTURES, LAKE)
    assert dict(os.environ) == before
