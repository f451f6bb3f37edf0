"""What Iceberg's tables hold, column by column: names, types, the columns by which they are partitioned, their ids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.world import make_pipeline
from tidegate.core.base.plain import from_plain, to_plain
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.core.target.stored import Origin, StoredColumn
from tidegate.spec import fingerprint
from tidegate.targets.iceberg.columns import FORM, problems


def pipeline(*more: Column, partitions: tuple[str, ...] = ("date", "hour", "site")) -> Pipeline:
    made = make_pipeline("file:///lake/readings")
    return replace(made, columns=(*made.columns, *more), partition_by=partitions)


def column(name: str, kind: str) -> Column:
    return Column(name=name, type=kind, path=f"$.{name}")


def told(spec: Pipeline, kind: str) -> list[str]:
    return [f"{c.name} {c.type} {c.origin.value} {c.of}".rstrip() for c in FORM.columns(spec, kind)]


KAFKA = [
    "_topic string logical _topic",
    "_kafka_partition int logical _partition",
    "_offset bigint logical _offset",
    "_kafka_ts timestamp logical _kafka_ts",
]
BATCH_ID = "_batch_id bigint logical _batch_id"


def test_the_partitions_columns_come_first_and_no_name_is_icebergs() -> None:
    spec = pipeline(column("floor", "tinyint"), partitions=("date", "hour", "site", "floor"))
    assert told(spec, "data") == [
        "_window timestamp window",
        "site string value site",
        "floor int value floor",
        "id string logical id",
        "value int logical value",
        *KAFKA,
        BATCH_ID,
        "_overflow map<string,string> logical _overflow",
    ]
    assert told(spec, "late") == [
        "_batch bigint batch",
        "_window timestamp window",
        "site string logical site",
        "floor int logical floor",
        "id string logical id",
        "value int logical value",
        *KAFKA,
        BATCH_ID,
    ]
    assert told(spec, "dirty") == [
        "_batch bigint batch",
        "reason string logical reason",
        "field string logical field",
        "raw_key binary logical raw_key",
        "raw_value binary logical raw_value",
        *KAFKA,
    ]
    assert [c.name for c in FORM.columns(spec, "late") if c.required] == ["_batch", "_window"]


def test_one_type_table_for_all_depths() -> None:
    kinds = {
        "tinyint": "int",
        "smallint": "int",
        "int": "int",
        "bigint": "bigint",
        "boolean": "boolean",
        "float": "float",
        "double": "double",
        "string": "string",
        "binary": "binary",
        "date": "date",
        "timestamp": "timestamp",
        "decimal(9,2)": "decimal(9,2)",
        "array<smallint>": "array<int>",
        "map<tinyint,struct<a:array<tinyint>,b:date>>": "map<int,struct<a:array<int>,b:date>>",
    }
    spec = pipeline(*(column(f"c{i}", kind) for i, kind in enumerate(kinds)))
    stored = {c.name: c.type for c in FORM.columns(spec, "data")}
    assert [stored[f"c{i}"] for i in range(len(kinds))] == list(kinds.values())


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        (StoredColumn("_window", "timestamp", Origin.WINDOW), 1_357_344_000_000_000),
        (StoredColumn("_batch", "bigint", Origin.BATCH), 7),
        (StoredColumn("site", "string", Origin.VALUE, "site"), "12"),
        (StoredColumn("floor", "int", Origin.VALUE, "floor"), -3),
        (StoredColumn("none", "int", Origin.VALUE, "none"), None),
    ],
)
def test_what_a_file_says_of_itself_as_values(stored: StoredColumn, value: object) -> None:
    values = (("site", "12"), ("floor", "-3"), ("none", None))
    assert stored.value(1_357_344_000_000, 7, values) == value


def test_names_that_are_taken_are_told() -> None:
    spec = pipeline(column("_pos", "int"), column("_window", "int"), column("position", "int"))
    assert [why for _, why in problems(spec)] == [
        "_pos is a name that Iceberg keeps for itself; give the column another one",
        "_window is a name that Tidegate keeps for itself; give the column another one",
    ]
    assert problems(pipeline(replace(column("_pos", "int"), hidden=True))) == []
    assert problems(pipeline(column("position", "int"))) == []


def test_keys_that_mean_nothing_are_told() -> None:
    made = pipeline(column("position", "int"))
    made = replace(made, archive=replace(made.archive, on_publish=("REFRESH x",), swap="directory"))
    assert [(path, "leave it out" in why) for path, why in problems(made)] == [
        (("archive", "on_publish"), True),
        (("archive", "swap"), True),
    ]


def test_ids_are_pinned_by_the_plan_and_are_no_part_of_a_specs_identity() -> None:
    plain = pipeline()
    pinned = replace(plain, sink=replace(plain.sink, fields=(("data", "id", 3), ("late", "id", 4))))
    assert from_plain(Pipeline, to_plain(pinned)) == pinned
    assert fingerprint(pinned) == fingerprint(plain)
    assert "fields" not in to_plain(plain)["sink"], "0.1.0 refuses fields that it does not know"
