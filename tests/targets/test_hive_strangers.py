"""Hive tables that people alter by hand: what publications, Clear and the audit say and do afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import look
from tests.world import World, record
from tidegate.core.base.errors import CatalogueMismatch
from tidegate.targets.hive import sql
from tidegate.targets.hive.otherwise import otherwise
from tidegate.targets.hive.ports import TableDef

TABLE = "lake.readings"
TEXT = "its SerDe is LazySimpleSerDe, not ParquetHiveSerDe"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Hours 0 and 1 are published, hour 0 with sites a and b; there is a late row, and a dirty one."""
    made = World(tmp_path)
    made.produce(record("a0", 0.1), record("b0", 0.2, "b"), record("c0", 1.2), b"not json")
    made.produce(record("d0", 3.5), partition=1)
    made.ingest("r1")
    made.archive(0)
    made.produce(record("late", 0.7), record("fine", 1.9))
    made.ingest("r2")
    made.archive(1)
    return made


def said(world: World) -> str:
    return "\n".join(f"{p.subject}: {p.what} -> {p.advice}" for p in look(world).problems)


# ---------------------------------------------------------------- a partition's own format or columns


def test_a_partition_that_reads_otherwise_is_named_and_made_anew_by_clear(world: World) -> None:
    before, rows = world.partitions(TABLE), world.by_window()
    values = min(before, key=str)
    world.catalogue.read_otherwise(TABLE, values, TEXT)
    words = said(world)
    assert "window 20130105T000000Z: lake.readings partition date=2013-01-05/hour=00/site=a is at " in words
    assert f"reads otherwise than the table: {TEXT}" in words
    assert "clear its publish task" in words
    world.archive(0)
    assert (world.partitions(TABLE), world.by_window(), said(world)) == (before, rows, "")


def test_a_replay_does_not_put_new_files_behind_an_old_format(world: World) -> None:
    values = min(world.partitions(TABLE), key=str)
    world.catalogue.read_otherwise(TABLE, values, "its column value is missing, not double")
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, replace(value, path="$.other")))
    assert world.replay(0).new
    assert world.catalogue.examine(TABLE)[1] == {}
    assert said(world) == ""


def test_a_side_tables_partition_that_reads_otherwise_is_named(world: World) -> None:
    for kind in ("late", "dirty"):
        (values,) = world.partitions(f"{TABLE}__{kind}")
        world.catalogue.read_otherwise(f"{TABLE}__{kind}", values, TEXT)
    words = said(world)
    assert words.count("reads otherwise than the table") == 2
    assert "drop the partition if it is there" in words


# ---------------------------------------------------------------- the table


ALTERED = {
    "a type": (lambda t: {"columns": (("id", "int"), *t.columns[1:])}, "column id"),
    "a format": (lambda t: {"format": "orc"}, "its format is"),
    "a location": (lambda t: {"location": "file:///elsewhere"}, "it lies in file:///elsewhere"),
    "partition columns": (lambda t: {"partitions": (("more", "string"), *t.partitions)}, "it is partitioned by"),
}


@pytest.mark.parametrize("change", ALTERED)
@pytest.mark.parametrize("kind", ["", "__late", "__dirty"])
def test_the_audit_names_a_table_that_publications_refuse(world: World, kind: str, change: str) -> None:
    changes, words = ALTERED[change]
    table = f"{TABLE}{kind}"
    there = world.catalogue._tables[table].definition
    if change == "a type":
        name, _ = there.columns[0]
        world.catalogue.alter(table, columns=((name, "binary"), *there.columns[1:]))
        words = f"column {name}"
    else:
        world.catalogue.alter(table, **changes(there))
    found = said(world)
    assert words in found
    assert f"catalogue: table {table} is not the one that the spec describes" in found


def test_columns_that_somebody_took_away_come_back_with_the_next_publication(world: World) -> None:
    there = world.catalogue._tables[TABLE].definition
    world.catalogue.alter(TABLE, columns=there.columns[1:])
    assert said(world) == ""
    world.archive(0)
    assert {name for name, _ in world.catalogue._tables[TABLE].definition.columns} == {n for n, _ in there.columns}


# ---------------------------------------------------------------- what is another table, and another partition


COLUMNS = (("a", "string"), ("b", "string"))


def described(form: str, *columns: tuple[str, str], **more: object) -> sql.Description:
    serde = {"parquet": "x.ParquetHiveSerDe", "orc": "x.OrcSerde"}[form]
    inputs = {"parquet": "x.MapredParquetInputFormat", "orc": "x.OrcInputFormat"}[form]
    found = sql.Description(columns=dict(columns or COLUMNS), partitions={"date": "string"}, location="file:///t")
    found.kind, found.serde, found.inputs = "EXTERNAL_TABLE", serde, inputs
    for name, value in more.items():
        setattr(found, name, value)
    return found


def defined(form: str) -> TableDef:
    partitions = (("date", "string"),)
    return TableDef(name="lake.t", columns=COLUMNS, partitions=partitions, location="file:///t", format=form)


def test_another_order_is_another_table_where_columns_are_found_by_position() -> None:
    swapped = (COLUMNS[1], COLUMNS[0])
    sql.check_same(defined("parquet"), described("parquet", *swapped))
    with pytest.raises(CatalogueMismatch, match=r"its columns begin with \(b, a\), those of its files are \(a, b\)"):
        sql.check_same(defined("orc"), described("orc", *swapped))
    with pytest.raises(CatalogueMismatch, match="another order"):
        sql.check_publishable(defined("orc"), described("orc", *swapped))
    with pytest.raises(CatalogueMismatch, match=r"begin with \(c, a\)"):
        sql.check_same(defined("orc"), described("orc", ("c", "int"), *COLUMNS))
    sql.check_same(defined("orc"), described("orc", *COLUMNS, ("c", "int")))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"settings": {"discover.partitions": "TRUE"}}, "discover.partitions is true: Hive would add partitions"),
        ({"settings": {"external.table.purge": "true"}}, "external.table.purge is true: dropping"),
        ({"settings": {"parquet.column.index.access": "true"}}, "a file's columns by their place"),
        ({"settings": {"skip.header.line.count": "1"}}, "would leave out the first lines of each file"),
        ({"settings": {"skip.footer.line.count": "2"}}, "would leave out the last lines of each file"),
        ({"buckets": "4"}, "it is clustered into 4 buckets"),
        ({"inputs": "x.TextInputFormat"}, "its files are opened by x.TextInputFormat"),
        ({"kind": "MANAGED_TABLE"}, "not an external table"),
    ],
)
def test_what_a_person_may_do_to_a_table_is_refused(more: dict, words: str) -> None:
    with pytest.raises(CatalogueMismatch, match=words):
        sql.check_publishable(defined("parquet"), described("parquet", **more))


def test_a_table_without_properties_of_ours_is_the_same() -> None:
    sql.check_same(defined("parquet"), described("parquet"))
    harmless = {"discover.partitions": "False", "skip.header.line.count": "0", "external.table.purge": ""}
    for buckets in ("", "0", "-1"):
        sql.check_same(defined("parquet"), described("parquet", settings=harmless, buckets=buckets))


@pytest.mark.parametrize(
    ("form", "partition", "words"),
    [
        ("parquet", described("parquet"), ""),
        ("parquet", described("parquet", *reversed(COLUMNS), ("more", "int")), ""),
        ("parquet", described("parquet", COLUMNS[0]), "its column b is missing, not string"),
        ("parquet", described("parquet", COLUMNS[0], ("b", "int")), "its column b is int, not string"),
        ("parquet", described("parquet", serde="x.Lazy"), "its SerDe is x.Lazy, not x.ParquetHiveSerDe"),
        ("parquet", described("parquet", inputs="x.Text"), "its input format is x.Text, not x.Mapred"),
        ("orc", described("orc", *reversed(COLUMNS)), r"its columns are (b, a), in another order than (a, b)"),
        ("orc", described("orc"), ""),
    ],
)
def test_what_a_partition_reads_otherwise(form: str, partition: sql.Description, words: str) -> None:
    found = otherwise(described(form), partition)
    assert found.startswith(words) if words else found == ""


SPARK = [
    ("a", "string", None), ("date", "string", None),
    ("# Partition Information", "", ""), ("# col_name", "data_type", "comment"), ("date", "string", None),
    ("# Detailed Partition Information", "", ""), ("Location", "file:/p", ""),
    ("Serde Library", "x.LazySimpleSerDe", ""), ("InputFormat", "x.TextInputFormat", ""),
    ("Storage Properties", "[field.delim=;, serialization.format=1]", ""),
    ("# Storage Information", "", ""), ("Location", "file:/t", ""), ("Serde Library", "x.OrcSerde", ""),
    ("InputFormat", "x.OrcInputFormat", ""), ("Storage Properties", "[field.delim=\x01, escape.delim=\\]", ""),
]  # fmt: skip


def test_of_what_spark_tells_twice_the_partitions_counts() -> None:
    found = sql.read_description(SPARK)
    assert (found.serde, found.inputs) == ("x.LazySimpleSerDe", "x.TextInputFormat")
    assert found.properties["field.delim"] == ";"
    assert "escape.delim" not in found.properties


@pytest.mark.parametrize(
    "row", [("", "discover.partitions ", "TRUE "), ("Table Properties", "[a=b, discover.partitions=TRUE]", "")]
)
def test_what_the_endpoints_tell_of_a_tables_properties(row: tuple[str, str, str]) -> None:
    details = ("# Detailed Table Information", "", "")
    assert sql.read_description([details, row]).settings == {"discover.partitions": "TRUE"}
    assert sql.read_description([details, ("Owner", "discover.partitions", "TRUE")]).settings == {}


def test_what_the_endpoints_tell_of_buckets() -> None:
    details = ("# Detailed Table Information", "", "")
    for row in (("Num Buckets:        ", "4                   ", None), ("Num Buckets", "4", "")):
        assert sql.read_description([details, row]).buckets == "4"
