"""Somebody drops a table, or a column of it: files that have landed call columns by ids, and a table that calls them
otherwise would show nulls, or one column's values as another's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec, assign_fresh_partition_spec_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids, index_by_name
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable, Table, Transaction
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.typedef import Properties
from pyiceberg.types import IntegerType

from tests.target_suite import Lab
from tests.targets.iceberg.catalogues import snapshot
from tests.targets.iceberg.lab import Tables, make, sqlite
from tests.targets.iceberg.test_rules import loaded, problems
from tests.world import record
from tidegate.core.base.errors import CatalogueMismatch
from tidegate.core.files.receipt import LATE
from tidegate.core.spec.pipeline import Column
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

MORE = Column(name="between", type="int", path="$.between")
STOPS = Column(name="stops", type="array<struct<n:int,name:string>>", path="$.stops")
NEXT = {"between": 8, "stops": [{"n": 1, "name": "Zoo"}]}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Hour 0 is published, then columns come between its own, then hour 3 has rows with them."""
    found = make(tmp_path, sqlite(tmp_path))
    world = found.world
    world.archive(0)
    id_, *others = world.pipeline.columns
    world.change_spec(columns=(id_, MORE, STOPS, *others))
    world.produce(record("next", 3.1, "c", 5) | NEXT, record("late", 0.7))
    world.produce(record("far", 9.5))
    world.produce(record("far", 9.5), partition=1)
    world.ingest("r2")
    world.archive(3)
    yield found
    found.world.close()


def rows(lab: Lab, kind: str = "") -> dict[str, tuple[Any, ...]]:
    """As a reader meets them, by id; pyiceberg may read an empty list for null."""
    table, io = lab.world.pipeline.sink.table + kind, PyArrowFileIO()
    found: Any = lab.world.context().target.catalogue.load(table)  # type: ignore[attr-defined]
    at = found.metadata_location
    opened = StaticTable(("lake", "t"), FromInputFile.table_metadata(io.new_input(at)), at, io, NoopCatalog("_"))
    return {r["id"]: (r["value"], r["between"], r["stops"] or None) for r in opened.scan().to_arrow().to_pylist()}


BOTH = {**{f"r{n}": (1, None, None) for n in range(4)}, "later": (1, None, None), "next": (5, 8, NEXT["stops"])}


def drop(lab: Lab, kind: str = "") -> None:
    catalogue: Any = lab.world.context().target.catalogue  # type: ignore[attr-defined]
    name = (lab.world.pipeline.sink.table + kind).split(".")[1]
    with catalogue._engine.begin() as connection:
        connection.execute(catalogue._tables.delete().where(catalogue._tables.c.table_name == name))


def another_column(lab: Lab) -> None:
    """Somebody drops `value`, and adds one of that name."""
    altered(lab, lambda update: update.delete_column("value"))
    altered(lab, lambda update: update.add_column("value", IntegerType()))


def altered(lab: Lab, change: Callable[[Any], Any]) -> None:
    """By another program, which names columns."""
    now = loaded(lab)
    table = Table((), now.metadata, now.metadata_location, now.io, None)  # type: ignore[arg-type]
    update = UpdateSchema(Transaction(table))
    change(update)
    lab.world.context().target.catalogue.commit(now, (), update._commit()[0])  # type: ignore[attr-defined]


def test_a_table_that_was_dropped_comes_again_with_its_ids(lab: Lab) -> None:
    """Files of both specs are read as before."""
    assert rows(lab) == BOTH
    before = {f.name: f.field_id for f in loaded(lab).metadata.schema().fields}
    drop(lab)
    drop(lab, "__late")
    lab.world.archive(0)
    lab.world.archive(3)
    assert rows(lab) == BOTH
    assert {f.name: f.field_id for f in loaded(lab).metadata.schema().fields} == before
    lab.world.context().sides[LATE].prepare()
    late = lab.world.context().ledger.batches.manifest_files("readings", 2, LATE)
    lab.world.context().sides[LATE].publish({2: late}, lambda: True)
    assert problems(lab) == []
    assert rows(lab, "__late")["late"] == (1, None, None)
    lab.world.change_spec(columns=(*lab.world.pipeline.columns, Column(name="last", type="int", path="$.last")))
    assert lab.world.replay(0).generation == 2
    assert rows(lab) == BOTH


def test_columns_that_come_while_the_table_lacks_others_get_ids_of_their_own(lab: Lab) -> None:
    """The spec no longer has columns that files have, nor has the table that is made anew with another one; they come
    back in another order."""
    world = lab.world
    id_, *_, site, value = world.pipeline.columns
    new = Column(name="new", type="int", path="$.new")
    world.change_spec(columns=(id_, new, site, value))
    drop(lab)
    world.archive(0)
    world.archive(3)
    world.change_spec(columns=(id_, new, site, value, STOPS, MORE))
    assert world.replay(0).generation == 2
    assert rows(lab) == BOTH


def test_a_column_that_somebody_made_anew_is_refused(lab: Lab) -> None:
    """All that files have in it would be null."""
    another_column(lab)
    for step in (lambda: lab.world.archive(0), lambda: lab.world.archive(1), lambda: lab.world.replay(0)):
        with pytest.raises(CatalogueMismatch, match=r"call value field \d+, the table calls it \d+"):
            step()


def renamed(lab: Lab, *names: tuple[str, str]) -> None:
    for old, new in names:
        altered(lab, lambda update, old=old, new=new: update.rename_column(old, new))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda lab: altered(lab, lambda update: update.delete_column("value")),
            "has dropped or renamed the column value",
        ),
        (lambda lab: renamed(lab, ("value", "level")), "has dropped or renamed the column value"),
        (
            lambda lab: renamed(lab, ("value", "x"), ("between", "value"), ("x", "between")),
            "files that have landed call",
        ),
        (another_column, "files that have landed call value field"),
    ],
    ids=["dropped", "renamed", "exchanged", "another"],
)
def test_an_audit_names_what_publications_refuse(lab: Lab, change: Callable[[Lab], None], words: str) -> None:
    """Readers meet it before the next hour is due."""
    change(lab)
    [problem] = problems(lab)
    assert problem.startswith(f"catalogue: {lab.world.pipeline.sink.table}: ")
    assert words in problem


class OfItsOwn(SqlCatalogue):
    """Numbers the columns of a new table itself, as REST servers may."""

    def create(self, name: str, schema: Schema, spec: PartitionSpec, location: str, properties: Properties) -> Loaded:
        fresh = assign_fresh_schema_ids(schema)
        return super().create(name, fresh, assign_fresh_partition_spec_ids(spec, schema, fresh), location, properties)


@pytest.mark.parametrize("dies", [False, True])
def test_a_server_that_numbers_columns_itself_is_told_how_files_call_them(lab: Lab, dies: bool) -> None:
    """Also by a later try, where the one that made the table has died."""
    world, said = lab.world, index_by_name(loaded(lab).metadata.schema())
    drop(lab)
    world.tables = lambda w: Tables(OfItsOwn(f"sqlite:///{w.folder}/catalogue.db", "tidegate", LocalStorage(), 10.0))
    target: Any = world.context().target
    if dies:
        made = target.definition
        target.catalogue.create(made.name, made.schema(), made.spec(made.schema()), made.location, made.properties())
    world.archive(0)
    world.archive(3)
    assert rows(lab) == BOTH
    assert index_by_name(loaded(lab).metadata.schema()) == said
    assert problems(lab) == []


def test_a_table_that_somebody_made_anew_is_refused(lab: Lab) -> None:
    """By the columns of today, numbered as they come; and something was in it."""
    drop(lab)
    target: Any = lab.world.context().target
    made = target.definition.bring_up(target.catalogue, lab.world.said.append)
    target.catalogue.commit(made, (), snapshot(made, 11))
    with pytest.raises(CatalogueMismatch, match="somebody has made the table, or that column, anew") as refused:
        lab.world.archive(0)
    assert "register_table" in refused.value.advice
