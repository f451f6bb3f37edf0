"""What every kind of table is told of a pipeline's tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import PIPELINE

from tidegate.core.spec.pipeline import DIRTY_COLUMNS, Pipeline
from tidegate.core.target.tables import columns_of, comment_of, properties_of, table_name, told_columns

KINDS = ("data", "late", "dirty")


def of_format(file_format: str) -> Pipeline:
    return replace(PIPELINE, sink=replace(PIPELINE.sink, format=file_format))


@pytest.mark.parametrize(("file_format", "kind"), [("parquet", "map<string,string>"), ("text", "string")])
def test_columns_by_kind(file_format: str, kind: str) -> None:
    made = of_format(file_format)
    assert columns_of(made, "data") == (("fare", "double"), ("_overflow", kind))
    assert columns_of(made, "late") == (("carrier", "string"), ("leg", "int"), ("fare", "double"))
    assert columns_of(made, "dirty") == DIRTY_COLUMNS
    static = replace(made, partition_by=("date", "hour"))
    assert columns_of(static, "data")[-1] == ("fare", "double"), "nothing overflows without dynamic partitions"


def test_names_comments_and_properties() -> None:
    assert [table_name(PIPELINE, k) for k in KINDS] == ["lake.flights", "lake.flights__late", "lake.flights__dirty"]
    assert [comment_of(PIPELINE, k) for k in KINDS] == [
        "Rows of topic flights, written by pipeline flights",
        "Rows of pipeline flights that came after their window had closed",
        "Records of pipeline flights that could not be decoded",
    ]
    assert comment_of(replace(PIPELINE, description="what they fly"), "data") == "what they fly"
    assert properties_of(PIPELINE, "late") == (("tidegate.pipeline", "flights"), ("tidegate.rows", "late"))


def test_only_text_files_have_to_be_told_their_columns() -> None:
    """Those that every file of the kind has, in order: `_overflow`, at the end, only files of its partition hold."""
    text = of_format("text")
    assert told_columns(text, "data") == (("fare", "double"),)
    assert told_columns(text, "late") == (("carrier", "string"), ("leg", "int"), ("fare", "double"))
    assert told_columns(text, "dirty") == DIRTY_COLUMNS
    for file_format in ("parquet", "orc"):
        assert told_columns(of_format(file_format), "data") is None
