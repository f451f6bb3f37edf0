"""What decides whether a row is in, and tables whose columns change while hours wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.mutants.names import IN_FORCE, STOPS, require
from tests.mutants.stage import Stage, record, refused, window
from tidegate.core.base.errors import CatalogueMismatch
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive


def the_filter_changes_before_a_rebuild(stage: Stage) -> None:
    """R1: a row that its batch's `where` has turned away stays away, and one that it let in stays."""
    stage.change_spec(where="value < 10")
    stage.produce(record("in", 0.1), record("out", 0.2, value=50), record("in too", 0.3), record("b0", 1.2))
    stage.produce(record("d0", 3.5), partition=1)
    stage.forget(1)  # filtered: counted, and in no table
    stage.ingest("r1")
    stage.archive(0)
    stage.change_spec(where="value < 100")
    stage.lose_a_file()
    stage.tried(lambda: stage.archive(0), "heal")
    stage.at_rest()


def a_column_comes_while_the_pipeline_runs(stage: Stage) -> None:
    """Whoever asks the catalogue while rows appear is told of each of their columns."""
    stage.hour_0_published()
    stage.change_spec(columns=(*stage.pipeline.columns, Column(name="extra", type="int", path="$.extra")))
    stage.produce(record("n", 1.5) | {"extra": 7})
    stage.run("r2")

    def look(table: str, _locations: dict[Any, str]) -> None:
        known = {name for name, _ in stage.catalogue._tables[table].definition.columns}
        require("extra" in known, IN_FORCE, f"{table} shows rows whose column it does not have: {sorted(known)}")

    archive.publish(stage.hooked("catalogue", before={"add_partitions": look}), window(1))
    stage.at_rest()


def a_dropped_column_comes_back_as_another(stage: Stage) -> None:
    """The newest spec knows nothing of it; the table and its old files do."""
    stage.hour_0_published()
    id_, site, value = stage.pipeline.columns
    stage.change_spec(columns=(id_, site))
    stage.produce(record("n", 1.5))
    stage.run("r2")
    stage.change_spec(columns=(id_, site, replace(value, type="string")))
    stage.produce(record("m", 1.6))
    stopped = refused(lambda: ingest.plan(stage.context(), "r3"), CatalogueMismatch)
    planned = stage.context().ledger.batches.open("readings")
    require(stopped is not None and planned is None, STOPS, f"planned although the table cannot take it: {planned}")
    stage.change_spec(columns=(id_, site, value))
    stage.at_rest()
