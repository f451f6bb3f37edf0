"""What is missing from a spec, windows that cannot be, and files that are no spec at all."""

from __future__ import annotations

import re

import pytest

from tests.spec_texts import GOOD, assert_refused, refusal
from tidegate.core.base.errors import SpecError
from tidegate.spec import load_file


@pytest.mark.parametrize(
    ("key", "instead", "field", "line"),
    [
        ("version: 1", "", "version", 2),  # the first line that says anything
        ("name: orders", "", "name", 1),
        ("owner: shop", "", "owner", 1),
        ("partition_by: [date, hour, shop]", "", "partition_by", 1),
        ("  topic: orders", "  gaps: allow", "source.topic", 4),
        ("  - name: total", "  - nullable: true", "columns[1].name", 11),
        ("    type: decimal(10,2)", "    nullable: true", "columns[1].type", 11),
        ("  from: $.placed_at", "  future: accept", "event_time.from", 15),
        ("  start: 2024-01-01T00:00:00", "", "windows.start", 17),
        ("  watermark_delay: 6h", "", "windows.watermark_delay", 17),
        ("  table: lake.orders", "", "sink.table", 23),
        ("  location: file:///lake/orders", "", "sink.location", 23),
    ],
)
def test_a_missing_key_is_named_at_its_section(tmp_path, key, instead, field, line):
    assert GOOD.count(f"{key}\n") == 1
    error, _ = refusal(tmp_path, GOOD.replace(f"{key}\n", f"{instead}\n"))
    assert str(error) == f"{tmp_path / 'orders.yaml'}:{line}: {field}: is required"


@pytest.mark.parametrize("section", ["source", "columns", "event_time", "windows", "sink"])
def test_a_missing_section_is_named(tmp_path, section):
    text = re.sub(rf"^{section}:\n(  .*\n)+", "", GOOD, flags=re.MULTILINE)
    error, _ = refusal(tmp_path, text)
    assert str(error) == f"{tmp_path / 'orders.yaml'}:1: {section}: is required"


def test_no_columns_and_no_coordinates_leave_nothing_to_store(tmp_path):
    text = re.sub(r"  - name: total.*type: timestamp\n", "", GOOD, flags=re.DOTALL).replace("columns:", "columns: #!")
    assert_refused(tmp_path, text + "kafka_columns: false\n", "columns", "files would be empty")


def test_an_empty_list_of_columns_is_refused(tmp_path):
    text = re.sub(r"columns:\n( .*\n)+", "columns: [] #!\n", GOOD)
    assert_refused(tmp_path, text, "columns", "must not be empty")


def test_a_list_without_right_entries_is_not_called_empty(tmp_path):
    text = re.sub(r"columns:\n( .*\n)+", "columns:\n  - {name: id, type: strng}\n", GOOD).replace(
        "size: 1h", "size: 7h"
    )
    error, _ = refusal(tmp_path, text)
    assert "must not be empty" not in str(error)
    assert "type 'strng'" in str(error)
    assert "windows.size: must be whole minutes and divide a day" in str(error)


@pytest.mark.parametrize(
    ("size", "needed", "short"),
    [
        ("15m", "date, hour, minute", "[date, hour]"),
        ("90m", "date, hour, minute", "[date, hour]"),
        ("6h", "date, hour", "[date]"),
    ],
)
def test_time_partitions_must_tell_windows_apart(tmp_path, size, needed, short):
    text = GOOD.replace("size: 1h", f"size: {size}").replace("partition_by: [date, hour, shop]", "partition_by: {} #!")
    assert_refused(tmp_path, text.replace("{}", short), "partition_by", f"must begin with {needed}:")
    (tmp_path / "orders.yaml").write_text(text.replace("{}", f"[{needed}]"))
    assert load_file(tmp_path / "orders.yaml", {}).time_partitions == tuple(needed.split(", "))


@pytest.mark.parametrize(
    ("size", "zone", "start", "good"),
    [
        ("1h", "Asia/Kolkata", "2024-01-01T00:00:00Z", False),  # 05:30 there
        ("1h", "Asia/Kolkata", "2024-01-01T00:30:00Z", True),
        ("30m", "Asia/Kolkata", "2024-01-01T00:00:00Z", True),
        ("1d", "Europe/Berlin", "2024-01-01T00:00:00Z", False),
        ("1d", "Europe/Berlin", "2023-12-31T23:00:00Z", True),
        ("6h", "Europe/Berlin", "2024-01-01T04:00:00", False),
        ("1d", "America/Sao_Paulo", "2018-11-04T00:00:00", True),  # no midnight there on that day
        ("1d", "America/Sao_Paulo", "2018-11-04T01:00:00", True),  # the same moment
        ("1d", "America/Sao_Paulo", "2018-11-04T02:00:00", False),
        ("1d", "America/Havana", "2024-11-03T05:00:00Z", False),  # the second midnight of that day
        ("1d", "America/Havana", "2024-11-03T04:00:00Z", True),
        ("1h", "Europe/Berlin", "2024-10-27T01:00:00Z", True),  # the second 02:00 of that day
    ],
)
def test_the_first_window_is_aligned_in_local_time(tmp_path, size, zone, start, good):
    text = GOOD.replace("size: 1h", f"size: {size}").replace("Europe/Berlin", zone)
    text = text.replace("start: 2024-01-01T00:00:00", f"start: {start} #!").replace("hour, shop", "hour, minute")
    if good:
        (tmp_path / "orders.yaml").write_text(text)
        load_file(tmp_path / "orders.yaml", {})
    else:
        assert_refused(tmp_path, text, "windows.start", "is not the start of a window")


@pytest.mark.parametrize(
    ("zone", "start", "partitions", "good"),
    [
        ("Asia/Colombo", "2006-04-14T00:00:00", "[date, hour]", False),  # on the 15th 00:30 became 00:00
        ("Asia/Colombo", "2006-04-14T00:00:00", "[date, hour, minute]", True),
        ("Asia/Colombo", "2006-04-16T00:00:00", "[date, hour]", True),
        ("Australia/Lord_Howe", "1990-01-01T00:00:00", "[date, hour]", True),  # half an hour back, at a full hour
    ],
)
def test_no_two_windows_may_share_a_directory(tmp_path, zone, start, partitions, good):
    text = GOOD.replace("Europe/Berlin", zone).replace(
        "partition_by: [date, hour, shop]", f"partition_by: {partitions} #!"
    )
    text = text.replace("start: 2024-01-01T00:00:00", f"start: {start}")
    if good:
        (tmp_path / "orders.yaml").write_text(text)
        load_file(tmp_path / "orders.yaml", {})
    else:
        wanted = "2006-04-14T18:00Z and 2006-04-14T19:00Z would share date=2006-04-15/hour=00"
        assert_refused(tmp_path, text, "partition_by", wanted)


def test_several_problems_are_one_error_with_a_line_each(tmp_path):
    text = GOOD.replace("topic: orders", "topik: orders").replace("type: timestamp", "type: time")
    path = tmp_path / "orders.yaml"
    error, _ = refusal(tmp_path, text)
    assert (error.where, error.field) == (f"{path}:4", "source.topic")
    lines = str(error).splitlines()
    assert lines[0] == f"{path}:4: source.topic: is required"
    assert lines[1] == f"{path}:5: source.topik: unknown key (did you mean topic?)"
    assert lines[2].startswith(f"{path}:14: columns[2].type: type 'time': 'time' is not a type")
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: [orders\nowner: x\n", 2, "not YAML"),
        ("name: orders\n\towner: x\n", 2, "not YAML"),
        ("name: orders\n---\nname: other\n", 2, "not YAML: expected a single document"),
        ("name: *nobody\n", 1, "not YAML: found undefined alias"),
        ("name: a\nowner: \x01\n", 2, "not YAML"),
        ("- name: orders\n", 1, "must be a mapping"),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_line(tmp_path, text, line, says):
    error, _ = refusal(tmp_path, text)
    assert error.where == f"{tmp_path / 'orders.yaml'}:{line}", str(error)
    assert says in str(error)


@pytest.mark.parametrize(("opening", "levels"), [("[", 30_000), ("{a: ", 4_000), ("\n- - ", 4_000), ("- ", 30_000)])
def test_what_is_nested_without_end_neither_crashes_nor_hangs(tmp_path, opening, levels):
    error, _ = refusal(tmp_path, opening * levels)
    assert "orders.yaml:" in error.where


def test_an_empty_file_lacks_everything(tmp_path):
    error, _ = refusal(tmp_path, "# nothing yet\n")
    assert error.where == f"{tmp_path / 'orders.yaml'}:1"
    assert "name: is required" in str(error)


def test_bytes_that_are_not_text_are_refused_with_their_line(tmp_path):
    path = tmp_path / "orders.yaml"
    path.write_bytes(b"version: 1\nname: \xff\n")
    with pytest.raises(SpecError, match="is not UTF-8 text") as caught:
        load_file(path, {})
    assert caught.value.where == f"{path}:2"


def test_a_file_that_is_not_there_is_a_spec_error(tmp_path):
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        load_file(tmp_path / "orders.yaml", {})


def test_an_unknown_partition_column_is_told_beside_other_problems(tmp_path):
    text = GOOD.replace("owner: shop\n", "").replace("[date, hour, shop]", "[date, hour, shpo]")
    error, _ = refusal(tmp_path, text)
    assert "owner: is required" in str(error)
    assert "partition_by[2]: shpo is neither a time partition (date, hour, minute) nor a column" in str(error)
    assert "did you mean shop?" in str(error)


@pytest.mark.parametrize("columns", ["columns: 3", "columns:\n  - 3", "columns:\n  - name: 3"])
def test_columns_that_cannot_be_told_accuse_no_partition(tmp_path, columns):
    error, _ = refusal(tmp_path, re.sub(r"columns:\n( .*\n)+", columns + "\n", GOOD))
    assert "partition_by" not in str(error)


def test_the_overflow_partition_must_have_a_name_that_the_metastore_can_store(tmp_path):
    """date=2013-01-05/hour=01-fold/minute=00, then each column with `/`, `=` and 21 characters."""
    for last, good in ((6, True), (7, False)):
        names = [*(c + "x" * 116 for c in "abcde"), "f" * last]
        columns = "".join(f"  - name: {c}\n    type: string\n" for c in names)
        text = GOOD.replace("event_time:", f"{columns}event_time:")
        text = text.replace("[date, hour, shop]", f"[date, hour, minute, {', '.join(names)}] #!")
        (tmp_path / "orders.yaml").write_text(text)
        if good:
            load_file(tmp_path / "orders.yaml", {})
        else:
            assert_refused(tmp_path, text, "partition_by", "would have 768 characters at least, Hive's metastore")


def test_the_overflow_partition_must_have_a_key_that_an_object_store_can_take(tmp_path):
    """1,024 bytes, of which 160 are kept for what an attempt is called; and `/_tidegate`, the directories."""
    text = GOOD.replace("  table: lake.orders", "  table: lake.orders\n  kind: iceberg")
    below = len("/_tidegate" + "date=2013-01-05/hour=01-fold/shop=__tidegate_overflow__")
    for length, good in ((1024 - 160 - below, True), (1024 - 160 - below + 1, False)):
        location = "s3://lake/" + "p" * 300 + "/" + "q" * (length - 301)
        made = text.replace("location: file:///lake/orders", f"location: {location} #!")
        (tmp_path / "orders.yaml").write_text(made)
        if good:
            load_file(tmp_path / "orders.yaml", {})
        else:
            assert_refused(tmp_path, made, "sink.location", "would have up to 1,025 bytes, an object store")


BY_DAYS = """\
version: 1
name: orders
owner: shop
source: {topic: orders}
format: {type: debezium}
columns: [{name: id, type: bigint, nullable: false}]
windows: {start: 2026-01-01T00:00:00, timezone: UTC, watermark_delay: 1h}
sink:
  table: lake.orders
  location: file:///lake/orders
  key: [id]
"""


@pytest.mark.parametrize("more", ["", "  store: hive_daily\n", "  store: iceberg\n", "  store: [7]\n"])
def test_a_table_by_days_is_called_a_mirror_with_a_store(tmp_path, more):
    """The name that such tables have inside is no kind: one line says what to write."""
    assert_refused(
        tmp_path,
        f"{BY_DAYS}  kind: hive_daily #!\n{more}",
        "sink.kind",
        "must be written as kind: mirror, store: hive_daily",
    )
    (tmp_path / "orders.yaml").write_text(f"{BY_DAYS}  kind: mirror\n  store: hive_daily\n")
    assert load_file(tmp_path / "orders.yaml", {}).sink.kind == "hive_daily"


def test_the_inner_name_in_the_defaults_is_refused_too(tmp_path):
    (tmp_path / "defaults.yaml").write_text("sink:\n  kind: hive_daily\n")
    error, _ = refusal(tmp_path, BY_DAYS)
    assert (error.where, error.field) == (f"{tmp_path / 'defaults.yaml'}:2", "sink.kind")
    error, _ = refusal(tmp_path, f"{BY_DAYS}dirty: {{max_count: -1}}\n")
    assert [line.split(": ")[1] for line in str(error).splitlines()] == ["dirty.max_count", "sink.kind"]
