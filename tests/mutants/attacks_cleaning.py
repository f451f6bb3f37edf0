"""Traces in which a cleaner meets what somebody still needs (R7)."""

from __future__ import annotations

import pytest

from tests.hooks import Died, die
from tests.mutants.invariants import no_file_is_missed, what_is_sealed_is_there
from tests.mutants.names import THERE, require
from tests.mutants.stage import HOUR, Stage, record, refused, window
from tidegate.core.base.errors import NotReady
from tidegate.workflow.batch import ingest
from tidegate.workflow.clean import duties
from tidegate.workflow.publish import archive

A_YEAR = 365 * 24 * HOUR


def _clean_a_year_later(stage: Stage) -> None:
    stage.clock.advance(A_YEAR)
    stage.tried(lambda: duties.clean(stage.context()), "clean")


def a_sealed_batch_waits_for_a_year(stage: Stage) -> None:
    """R7: an attempt is needed while its batch may land it, however old it is."""
    stage.first_hours()
    ingest.plan(stage.context(), "r1")
    ingest.write(stage.context(), "r1")
    _clean_a_year_later(stage)
    what_is_sealed_is_there(stage)
    stage.run("r1")
    stage.at_rest()


def landed_rows_wait_for_a_year(stage: Stage) -> None:
    """R7: landed files are needed until their hours are published."""
    stage.first_hours()
    stage.ingest("r1")
    stage.produce(record("e", 3.6))
    stage.ingest("r2")
    _clean_a_year_later(stage)
    stage.at_rest()


def an_hour_is_half_assembled_for_a_year(stage: Stage) -> None:
    """R7: what an epoch has moved up is needed until the window is BUILT."""
    stage.first_hours()
    stage.ingest("r1")
    ctx = stage.hooked("storage", after={"rename_no_replace": die})
    with pytest.raises(Died):
        archive.publish(ctx, window(0))
    moved = list((stage.folder / "lake/readings/_tidegate/publish").rglob("*.parquet"))
    require(len(moved) == 1, THERE, f"the trace needs one file that was moved up: {moved}")
    _clean_a_year_later(stage)
    stage.at_rest()
    no_file_is_missed(stage)


def late_rows_wait_for_a_year(stage: Stage) -> None:
    """R7: late files are needed in landed/ until they are in their table."""
    stage.hour_0_published()
    stage.produce(record("late", 0.7))
    ingest.plan(stage.context(), "r2")
    ingest.write(stage.context(), "r2")
    with pytest.raises(Died):
        ingest.land(stage.hooked("batches", after={"land": die}), "r2")
    ctx = stage.context()
    ctx.storage.make_dirs(ctx.layout.landed(2))
    refused(lambda: stage.archive(2), NotReady)
    _clean_a_year_later(stage)
    stage.at_rest()
