"""Pipelines whose source is a table: what their YAML does not say, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.offline.worlds import COLUMNS, YAML
from tidegate.core.base.errors import SpecError
from tidegate.core.base.plain import dumps, loads
from tidegate.core.spec.pipeline import EventTime, Pipeline
from tidegate.spec.loader import load_file, load_text

TEXT = YAML.format(source="chunk_rows: 3", columns=COLUMNS, location="file:///lake/readings")


def loaded(text: str = TEXT) -> Pipeline:
    return load_text("/nowhere/readings.yaml", text, {})


def test_a_window_is_one_reading() -> None:
    made = loaded()
    assert made.windows.read_whole
    assert (made.windows.idle, made.windows.max_age_ms, made.event_time) == (
        "wait",
        None,
        EventTime(None, future="accept"),
    )
    assert (made.source.topic, made.source.gaps, made.format.type) == ("shop.t", "allow", "json")
    assert dict(made.source.options) == {
        "chunk_rows": "3", "tasks": "2", "overlap": "0", "column_timezone": "UTC",
    }  # fmt: skip
    assert loads(Pipeline, dumps(made)) == made


def test_defaults_are_for_other_pipelines(tmp_path: Path) -> None:
    (tmp_path / "readings.yaml").write_text(TEXT)
    (tmp_path / "defaults.yaml").write_text(
        "event_time: {from: $.at}\nwindows: {idle: follow, max_age: 40d}\nformat: {type: csv, fields: [a]}\n"
    )
    assert load_file(tmp_path / "readings.yaml", {}) == loaded()


REFUSED = [
    ("shop.t,", "t,", "source.table: must be schema.table"),
    ("table: shop.t, ", "", "source.table: is required"),
    ("table: shop.t", "topic: shop.t", "source.topic: unknown key"),
    ("chunk_rows: 3", "chunk_rows: 0", "source.chunk_rows: must be greater than 0"),
    ("chunk_rows: 3", "tasks: 65", "source.tasks: must be less than or equal to 64"),
    ("chunk_rows: 3", "rate: 0", "source.rate: must be greater than 0"),
    ("chunk_rows: 3", "column: ''", "source.column: must not be empty"),
    ("chunk_rows: 3", "column: changed, column_timezone: Mars", "source.column_timezone: "),
    ("chunk_rows: 3", "column: changed, overlap: soon", "source.overlap: must be a number with a unit"),
    ("chunk_rows: 3", "overlap: 1h", "source.overlap: has a meaning with source.column only"),
    (
        "chunk_rows: 3",
        "column_timezone: Europe/Berlin",
        "source.column_timezone: has a meaning with source.column only",
    ),
    ("chunk_rows: 3", "start: latest", "source.start: has no meaning with source.kind: database"),
    ("chunk_rows: 3", "on_data_loss: fail", "source.on_data_loss: has no meaning with source.kind: database"),
    ("chunk_rows: 3", "loss_warning: 1d", "source.loss_warning: has no meaning with source.kind: database"),
    ("version: 1", "version: 1\nformat: {type: csv}", "format: has no meaning with source.kind: database"),
    ("version: 1", "version: 1\nevent_time: {from: $.at}", "event_time: has no meaning with source.kind: database"),
    ("version: 1", "version: 1\nlate: {policy: drop}", "late: has no meaning with source.kind: database"),
    ("1h}", "1h, idle: clock}", "windows.idle: has no meaning with source.kind: database"),
    ("word, type: string", "word, type: binary", "columns[1].type: binary: rows travel as JSON"),
    ("word, type: string", "word, type: array<int>", "columns[1].type: no column of a table becomes array<int>"),
    ("word, type: string", "word, type: string, from: $.a.b", "columns[1].from: $.a.b must name a column of the table"),
    ("word, type: string", "word, type: string, from: '$.\"a.b\".c'", "must name a column of the table"),
    ("word, type: string", "word, type: string, from: $.id", "columns[1].type: $.id is read as bigint already"),
]
"""Text of the YAML, what takes its place, and the field with what is said of it."""


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_what_no_reading_can_be(old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(SpecError) as error:
        loaded(TEXT.replace(old, new, 1))
    assert said in str(error.value)


def test_clocks_that_go_back_and_windows_below_a_day() -> None:
    text = TEXT.replace("chunk_rows: 3", "column: changed, column_timezone: Europe/Berlin")
    assert loaded(text)
    text = text.replace("size: 1d", "size: 1h").replace("[date]", "[date, hour]")
    with pytest.raises(SpecError, match="source.column_timezone: clocks that go back repeat times"):
        loaded(text)


def test_no_mirror_is_made_of_a_table() -> None:
    text = (
        TEXT.replace("partition_by: [date]\n", "")
        .replace("windows", "#")
        .replace("conn_id: hive", "kind: mirror, key: [id], catalog_conn_id: c")
    )
    with pytest.raises(SpecError, match="format.type: a mirror is made of change events"):
        loaded(text)
