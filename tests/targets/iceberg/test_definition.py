"""A table gets the pipeline's columns, and one that has them all is left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import IntegerType, LongType

from tests.targets.iceberg.lab import sqlite
from tests.world import make_pipeline
from tidegate.core.base.errors import CatalogueMismatch
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import Column, Pipeline
from tidegate.targets.iceberg.definition import Definition


def pipeline(folder: Path, *more: Column) -> Pipeline:
    made = make_pipeline(f"file://{folder}/lake")
    return replace(made, sink=replace(made.sink, kind="iceberg"), columns=(*made.columns, *more))


def test_a_column_that_is_only_widened_is_not_taken_for_the_same(tmp_path: Path) -> None:
    catalogue, said = sqlite(tmp_path), list[str]()
    of_int, of_bigint = (Column(name="floor", type=kind, path="$.floor") for kind in ("int", "bigint"))
    for column in (of_int, of_int, of_bigint, of_bigint):
        loaded = Definition(pipeline(tmp_path, column), DATA).bring_up(catalogue, said.append)
    assert loaded.metadata.schema().find_field("floor").field_type == LongType()
    assert [one.split(": ")[1].split(" at ")[0] for one in said] == ["created", "a column was widened"]


def test_fields_of_a_struct_are_looked_at(tmp_path: Path) -> None:
    catalogue, said = sqlite(tmp_path), list[str]()
    for kind in ("struct<model:string>", "struct<model:string,memory:int>"):
        device = Column(name="device", type=kind, path="$.device")
        loaded = Definition(pipeline(tmp_path, device), DATA).bring_up(catalogue, said.append)
    assert loaded.metadata.schema().find_field("device.memory").optional
    assert said[1].endswith(": new columns device.memory")


@pytest.mark.parametrize("how", ["dropped", "renamed"])
def test_a_column_that_somebody_took_away_is_not_added_again(tmp_path: Path, how: str) -> None:
    """All rows that are there would have null in it; if that is right, a person adds it."""
    catalogue, said = sqlite(tmp_path), list[str]()
    mine = Definition(pipeline(tmp_path, Column(name="floor", type="int", path="$.floor")), DATA)
    loaded = mine.bring_up(catalogue, said.append)

    def altered(*change: str) -> None:
        """By another program."""
        found = catalogue.load(mine.name)
        assert found is not None
        table = Table((), found.metadata, found.metadata_location, found.io, None)  # type: ignore[arg-type]
        update = UpdateSchema(Transaction(table))
        if change[0] == "added":
            update.add_column("floor", IntegerType())
        elif change[0] == "dropped":
            update.delete_column("floor")
        else:
            update.rename_column(*change[1:])
        updates, _ = update._commit()
        catalogue.commit(found, (), updates)

    altered(how, "floor", "level")
    with pytest.raises(CatalogueMismatch, match="somebody has dropped or renamed the column floor") as refused:
        mine.bring_up(catalogue, said.append)
    assert "RENAME COLUMN ... TO floor" in refused.value.advice
    if how == "renamed":
        altered(how, "level", "floor")
        assert (
            mine.bring_up(catalogue, said.append).metadata.schema().as_struct() == loaded.metadata.schema().as_struct()
        )
    else:
        altered("added")
        mine.bring_up(catalogue, said.append)
