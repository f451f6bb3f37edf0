"""Text tables: what the spec refuses, what Hive is told, and what it has to tell back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec_texts import GOOD
from tidegate.core.base.errors import CatalogueMismatch, SpecError
from tidegate.spec import load_file
from tidegate.targets.hive import sql
from tidegate.targets.hive.formats import TEXT, differences, read_properties, row_format
from tidegate.targets.hive.ports import TableDef
from tidegate.targets.hive.tables import data_table

TABLE = TableDef(
    name="lake.t",
    columns=(("words", "string"),),
    partitions=(("date", "string"),),
    location="file:///lake/t",
    format="text",
)
DETAILS = [
    ("words", "string", ""),
    ("# Partition Information", "", ""),
    ("date", "string", ""),
    ("# Detailed Table Information", "", ""),
    ("Location:", "file:/lake/t", ""),
    ("Table Type:", "EXTERNAL_TABLE", ""),
    ("SerDe Library:", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", ""),
]
HIVE = [
    ("Storage Desc Params:", None, None),
    ("", "escape.delim        ", "\\\\                  "),
    ("", "field.delim         ", "\\u0001              "),
    ("", "serialization.escape.crlf", "true                "),
    ("", "serialization.format", "1                   "),
    ("", "serialization.null.format", "\\\\N                 "),
]
SPARK = [
    (
        "Storage Properties",
        "[escape.delim=\\, serialization.escape.crlf=true, field.delim=\x01, serialization.format=1, "
        "serialization.null.format=\\N]",
        "",
    )
]


def pipeline(folder: Path, text: str):
    (folder / "orders.yaml").write_text(text)
    return load_file(folder / "orders.yaml", {})


def as_format(name: str, **more: str) -> str:
    keys = "".join(f"  {key}: {value}\n" for key, value in more.items())
    return GOOD.replace("  table: lake.orders\n", f"  table: lake.orders\n  format: {name}\n{keys}")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (GOOD, "zstd"),
        (as_format("orc"), "zstd"),
        (as_format("text"), "gzip"),
        (as_format("orc", compression="snappy"), "snappy"),
        (as_format("text", compression="none"), "none"),
    ],
)
def test_the_default_compression_depends_on_the_format(tmp_path: Path, text: str, kept: str) -> None:
    assert pipeline(tmp_path, text).sink.compression == kept


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (as_format("text").replace("decimal(10,2)", "array<string>"), r"columns\[1\].type.*text cannot hold array"),
        (as_format("text").replace("decimal(10,2)", "map<string,int>"), "set sink.format to parquet or orc"),
        (
            as_format("text").replace("type: json\n", "type: json\n  unknown_fields: capture\n"),
            "unknown_fields.*capture makes a map",
        ),
    ],
)
def test_what_text_cannot_hold_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        pipeline(tmp_path, text)
    pipeline(tmp_path, text.replace("format: text", "format: orc"))


def test_what_overflowed_is_text_in_a_text_table(tmp_path: Path) -> None:
    """Hive would read the JSON as a map otherwise. The column is the last one, in files as in the table."""
    assert data_table(pipeline(tmp_path, as_format("text"))).columns[-1] == ("_overflow", "string")
    assert data_table(pipeline(tmp_path, as_format("orc"))).columns[-1] == ("_overflow", "map<string,string>")


def test_the_table_says_how_text_is_spelled() -> None:
    statement = sql.create_table(TABLE)
    assert (
        "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe' WITH SERDEPROPERTIES ('field.delim'="
    ) in statement
    assert "STORED AS textfile LOCATION" in statement
    for name in ("parquet", "orc"):
        assert row_format(name) == ("", ())


@pytest.mark.parametrize("told", [HIVE, SPARK], ids=["Hive", "Spark"])
def test_what_the_endpoints_tell_is_understood(told: list) -> None:
    found = sql.read_description([*DETAILS, *told])
    assert found.properties.items() >= dict(TEXT).items()
    sql.check_same(TABLE, found)


def test_a_table_that_reads_text_otherwise_is_refused() -> None:
    with pytest.raises(CatalogueMismatch, match=r"its field\.delim is None, not '\\x01'; its escape\.delim is None"):
        sql.check_same(TABLE, sql.read_description(DETAILS))
    other = [(label, text, ";" if (text or "").strip() == "field.delim" else more) for label, text, more in HIVE]
    found = sql.read_description([*DETAILS, *other])
    assert differences("text", found.properties) == ["its field.delim is ';', not '\\x01'"]
    assert differences("orc", {}) == []


@pytest.mark.parametrize(
    ("value", "words"), [("gbk", ["its serialization.encoding is 'GBK', not 'UTF-8'"]), ("utf-8", [])]
)
def test_an_encoding_that_shows_other_texts(value: str, words: list[str]) -> None:
    name = "serialization.encoding"
    for row in (("", name, value), ("Storage Properties", f"[{name}={value}]", "")):
        there = sql.read_description([("# Detailed Table Information", "", ""), row]).properties
        assert there == {name: value}
    assert differences("text", dict(TEXT) | there) == words


def test_other_rows_tell_nothing() -> None:
    assert read_properties("", "numFiles", "3") == {}
    assert read_properties("owner", "field.delim", "x") == {}
