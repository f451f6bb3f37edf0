"""Pipelines whose table is not published by windows: what their YAML does not say, and what comes out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mirror.days import YAML as BY_DAYS
from tests.mirror.worlds import YAML
from tidegate.core.base.errors import SpecError
from tidegate.core.base.plain import dumps, loads
from tidegate.core.spec.pipeline import DirtyLimits, EventTime, Pipeline
from tidegate.kinds import target_kind
from tidegate.spec import fingerprint, load_file
from tidegate.spec.loader import load_text

TEXT = YAML.format(location="file:///lake/readings")


def loaded(text: str = TEXT, folder: Path = Path("/nowhere")) -> Pipeline:
    return load_text(folder / "readings.yaml", text, {})


def refused(text: str) -> str:
    with pytest.raises(SpecError) as error:
        loaded(text)
    return str(error.value)


def test_no_window_is_ever_closed_and_no_record_left_out() -> None:
    made = loaded()
    assert not made.windows.closes
    assert (made.windows.size_ms, made.windows.timezone, made.windows.max_age_ms) == (86_400_000, "UTC", None)
    assert made.event_time == EventTime(None, future="accept")
    assert (made.late_policy, made.dirty, made.partition_by) == ("reroute", DirtyLimits(0, None), ("date",))
    assert dict(made.sink.options) == {"buckets": "3", "key": "id", "store": "iceberg", "tombstones": "keep"}
    assert target_kind(made.sink.kind).dags == ("ingest", "apply", "maintain")
    assert loads(Pipeline, dumps(made)) == made


@pytest.mark.parametrize(
    "section",
    ["windows: {size: 1h}", "event_time: {from: $.at}", "partition_by: [date]", "late: {policy: side}",
     "archive: {sla: 1h}", "completeness: {source: sql}", "dirty: {max_count: 5}"],
)  # fmt: skip
def test_sections_about_windows_are_refused_by_line(section: str) -> None:
    name = section.partition(":")[0]
    line = TEXT.count("\n") + 1
    assert f"readings.yaml:{line}: {name}: has no meaning with sink.kind: mirror" in refused(f"{TEXT}{section}\n")


def test_all_mistakes_are_told_at_once() -> None:
    said = refused(TEXT.replace("[id]", "[nope]") + "windows: {}\nlate: {}\n")
    assert [line.split(": ")[1] for line in said.splitlines()] == ["windows", "late"]
    said = refused(TEXT.replace("buckets: 3", "buckets: 0") + "windows: {}\n")
    assert [line.split(": ")[1] for line in said.splitlines()] == ["sink.buckets", "windows"]


def test_what_defaults_say_of_windows_is_for_others(tmp_path: Path) -> None:
    """How tasks run holds for all."""
    defaults = "windows: {size: 1h, watermark_delay: 1h}\nlate: {policy: drop}\ndirty: {max_count: 9}\n"
    defaults += "archive: {pool: small, retries: 2, on_publish: [REFRESH x], merge: {local_size: 1MB}}\n"
    (tmp_path / "defaults.yaml").write_text(defaults)
    (tmp_path / "readings.yaml").write_text(TEXT)
    made = load_file(tmp_path / "readings.yaml", {})
    assert replace(made, archive=loaded().archive) == loaded()
    assert (made.archive.pool, made.archive.retries, made.archive.merge.local_size) == ("small", 2, 1024**2)
    assert made.archive.on_publish == ()
    assert fingerprint(made) == fingerprint(loaded())


REFUSED = [
    ("type: debezium", "type: json", "format.type: a mirror is made of change events"),
    ("version: 1", "version: 1\nwhere: id > 3", "where: an event that is left out"),
    ("version: 1", "version: 1\nkafka_columns: false", "kafka_columns: each row of a mirror says"),
    ("[id]", "[]", "sink.key: must not be empty"),
    ("key: [id], ", "", "sink.key: is required"),
    ("[id]", "[id, ID]", "sink.key[1]: id is there already"),
    ("[id]", "[nope]", "sink.key[0]: there is no column nope"),
    ("[id]", "[_op]", "sink.key[0]: must be letters"),
    ("[id]", "[word]", "sink.key[0]: word must be nullable: false"),
    ("bigint", "double", "sink.key[0]: id is a double; a key's column must be one of"),
    ("bigint", "array<int>", "sink.key[0]: id is a array<int>"),
    ("bigint", "bigint, from: $._key.id", "sink.key[0]: id must be a column of the source's key"),
    ("bigint", "bigint, expr: '1'", "sink.key[0]: id must be a column of the source's key"),
    ("bigint", "bigint, hidden: true", "sink.key[0]: id is hidden"),
    ("word, type: string", "word, type: string, nullable: false", "columns[1].nullable: a delete has no value"),
    ("buckets: 3", "store: hudi", "sink.store: must be"),
    ("buckets: 3", "tombstones: drop", "sink.tombstones: must be"),
    ("buckets: 3", "buckets: 0", "sink.buckets: must be"),
    ("buckets: 3", "conn_id: x", "sink.conn_id: unknown key"),
]
"""Text of the YAML, what takes its place, and the field with what is said of it."""


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_what_no_mirror_can_be(old: str, new: str, said: str) -> None:
    assert old in TEXT
    assert said in refused(TEXT.replace(old, new))


COPYING = f"{TEXT}copy: {{conn_id: shop, table: shop.readings}}\n"
COPY_REFUSED = [
    ("conn_id: shop, ", "", "copy.conn_id: is required"),
    ("conn_id: shop", "conn_id: ''", "copy.conn_id: must be the id of an Airflow connection"),
    (", table: shop.readings", "", "copy.table: is required"),
    ("shop.readings", "readings", "copy.table: must be schema.table"),
    ("shop.readings", "db.shop.readings", "copy.table: must be schema.table"),
    ("shop.readings", "shop.readings, chunk_rows: 0", "copy.chunk_rows: must be greater than 0, not 0"),
    ("shop.readings", "shop.readings, rate: 0", "copy.rate: must be greater than 0, not 0"),
    ("shop.readings", "shop.readings, tasks: 0", "copy.tasks: must be greater than 0, not 0"),
    ("shop.readings", "shop.readings, tasks: 65", "copy.tasks: must be less than or equal to 64, not 65"),
    ("shop.readings", "shop.readings, schedule: often", "copy.schedule: cron schedule"),
    ("shop.readings", "shop.readings, compare: often", "copy.compare: cron schedule"),
    ("shop.readings", "shop.readings, compare_rows: 9", "copy.compare_rows: says how much a run of .compare does"),
    ("shop.readings", "shop.readings, compare_rows: 0", "copy.compare_rows: must be greater than 0, not 0"),
    ("table: shop.readings", "tables: x, compare_rows: 9", "copy.compare_rows: shards are compared as a whole"),
    ("shop.readings", "shop.readings, pool: a b", "copy.pool: must be the name of an Airflow pool"),
    ("shop.readings", "shop.readings, connector: a", "copy.connect_conn_id: connector and connect_conn_id go together"),
    ("shop.readings", "shop.readings, connect_conn_id: a", "copy.connector: connector and connect_conn_id go together"),
    ("shop.readings", "shop.readings, connect_conn_id: ''", "copy.connect_conn_id: must be the id of an Airflow"),
    ("shop.readings", "shop.readings, connector: ''", "copy.connector: must not be empty"),
    (
        "shop.readings",
        "shop.readings, connector: a, connect_conn_id: a, slot: a",
        "copy.slot: one of both says how far",
    ),
    ("shop.readings", "shop.readings, tables: x", "copy.tables: one of both says which tables are read"),
    ("table: shop.readings", "tables: x", "sink.key: with copy.tables a column of it says which table"),
    ("table: shop.readings", "tables: '('", "copy.tables: is no regular expression"),
    ("word, type: string", "word, type: string, from: $.a.b", "columns[1].from: a copy reads columns"),
    ("word, type: string", "word, type: string, from: $._source.ts_ms", "columns[1].from: a copy reads columns"),
    ("debezium", "debezium, unknown_fields: capture", "format.unknown_fields: a copy captures no fields"),
    (
        "conn_id: shop",
        "servers: [{name: a, conn_id: a}]",
        "sink.key: with copy.servers a column of it says which server",
    ),
    ("conn_id: shop", "conn_id: shop, servers: [{name: a, conn_id: a}]", "copy.conn_id: each of copy.servers says its"),
    ("conn_id: shop", "servers: a", "copy.servers: must be a list"),
    ("conn_id: shop", "servers: [{name: a b, conn_id: a}]", "copy.servers[0].name: must be a topic name"),
    ("conn_id: shop", "servers: [{name: a, conn_id: ''}]", "copy.servers[0].conn_id: must be the id of an Airflow"),
    (
        "conn_id: shop",
        "servers: [{name: a, conn_id: a, connector: ''}]",
        "copy.servers[0].connector: must not be empty",
    ),
    (
        "conn_id: shop",
        "servers: [{name: a, conn_id: a, connector: x}]",
        "copy.servers[0].connect_conn_id: connector and connect_conn_id go together",
    ),
    (
        "conn_id: shop",
        "servers: [{name: a, conn_id: a, connector: x, connect_conn_id: x, slot: x}]",
        "copy.servers[0].slot: one of both says how far",
    ),
    (
        "conn_id: shop",
        "servers: [{name: a, conn_id: a}, {name: a, conn_id: b}]",
        "copy.servers[1].name: a is there already",
    ),
]
"""Likewise, of a mirror with the section `copy`."""


def test_only_keys_of_whole_numbers_are_compared_part_by_part() -> None:
    text = COPYING.replace("shop.readings}", "shop.readings, compare: '0 3 * * *', compare_rows: 9}")
    said = "copy.compare_rows: column id of the key is string: only keys of whole numbers"
    assert said in refused(text.replace("id, type: bigint", "id, type: string"))


SERVERS = "columns:\n  - {name: server, type: string, nullable: false, from: $._source.name}\n"


def test_the_name_of_a_server_is_of_several_alone() -> None:
    one = COPYING.replace("columns:\n", SERVERS).replace("key: [id]", "key: [server, id]")
    assert "sink.key: $._source.name tells servers apart, which copy.servers names" in refused(one)
    several = one.replace("conn_id: shop", "servers: [{name: a, conn_id: a}, {name: b, conn_id: b}]")
    compared = loaded(several.replace("servers:", "compare: '0 3 * * *', compare_rows: 9, servers:"))
    assert compared.copy is not None
    assert compared.copy.compare_rows == 9
    named = several.replace("server, type: string", "server, type: bigint")
    assert "server is a bigint; a server's name is a string" in refused(named)


@pytest.mark.parametrize(("old", "new", "said"), COPY_REFUSED)
def test_what_no_copy_can_be(old: str, new: str, said: str) -> None:
    assert old in COPYING
    assert said in refused(COPYING.replace(old, new))


def test_a_copy_is_of_a_mirror() -> None:
    said = "copy: rows of a table are copied into a mirror only"
    hours = "windows: {start: 2013-01-01T00:00:00Z, watermark_delay: 1h}\nevent_time: {from: kafka_timestamp}\n"
    for kind in ("hive", "iceberg"):
        text = COPYING.replace("kind: mirror", f"kind: {kind}").replace("key: [id], buckets: 3", "format: parquet")
        assert said in refused(f"{text}{hours}partition_by: [date, hour]\n")
    days = BY_DAYS.format(location="file:///lake/readings")
    copied = "copy: {conn_id: shop, table: shop.readings}\n"
    assert loaded(f"{days}{copied}").windows.copied
    assert not loaded(days).windows.copied
    said = "copy.compare: a mirror by days is not compared with its source"
    assert said in refused(f"{days}{copied[:-2]}, compare: '0 3 * * 0'}}\n")
    several = refused(f"{days}{copied.replace('conn_id: shop', 'servers: [{name: a, conn_id: a}]')}")
    assert "copy.servers: a mirror by days is of one server" in several
    assert "Make one for each server, of a topic of its own, or leave sink.store out" in several


def test_a_copy_has_defaults() -> None:
    made = loaded(COPYING).copy
    assert made is not None
    assert (made.conn_id, made.table, made.chunk_rows, made.rate, made.tasks) == (
        "shop",
        "shop.readings",
        100_000,
        None,
        2,
    )
    assert (made.schedule, made.pool) == ("*/10 * * * *", "tidegate_ingest")
    assert loaded().copy is None


def test_a_copy_computes_columns_of_what_it_reads() -> None:
    computed = "word, type: string, from: $.said, hidden: true}\n  - {name: loud, type: string, expr: upper(word)"
    assert [c.name for c in loaded(COPYING.replace("word, type: string", computed)).data_columns][:2] == ["id", "loud"]


def test_files_whose_columns_have_no_names_cannot_evolve() -> None:
    hours = "windows: {start: 2013-01-01T00:00:00Z, watermark_delay: 1h}\nevent_time: {from: kafka_timestamp}\n"
    text = TEXT.replace("type: debezium", "type: debezium, unknown_fields: evolve")
    text = text.replace("kind: mirror", "kind: hive").replace("key: [id], buckets: 3", "format: parquet")
    assert loaded(text + hours + "partition_by: [date, hour]\n").format.unknown_fields == "evolve"
    said = refused(text.replace("parquet", "orc") + hours + "partition_by: [date, hour]\n")
    assert "format.unknown_fields: evolve adds columns, which orc files cannot get" in said


def test_other_kinds_are_asked_for_windows_as_ever() -> None:
    said = refused(TEXT.replace("kind: mirror", "kind: iceberg").replace("key: [id], buckets: 3", "format: parquet"))
    assert [line.split(": ")[1] for line in said.splitlines()] == ["event_time", "windows", "partition_by"]
