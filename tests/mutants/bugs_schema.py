"""Bugs about what decides a row, and about tables whose columns change."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tests.mutants import seams
from tests.mutants.names import HEALS, IN_FORCE, STOPS
from tests.mutants.planting import Bug, Patch, nothing
from tidegate.core.base.errors import CatalogueMismatch


def _todays_where(original, pipeline, part):
    return replace(original(pipeline, part), where=pipeline.where)


def _as_it_was(original, catalogue, table, site):
    with suppress(CatalogueMismatch):
        catalogue.ensure_table(table)


BUGS = (
    Bug(
        "a rebuild filters by today's where",
        "R1: every replay decides by the pinned spec",
        "the_filter_changes_before_a_rebuild",
        HEALS,
        (Patch(seams.DECIDING_SPEC, _todays_where),),
    ),
    Bug(
        "rows come before the table has their columns",
        "Hive's table first, data after",
        "a_column_comes_while_the_pipeline_runs",
        IN_FORCE,
        (Patch(seams.BRING_UP_A_TABLE, _as_it_was),),
    ),
    Bug(
        "a batch is planned with columns that the table cannot take",
        "a change is refused before a batch is planned with it",
        "a_dropped_column_comes_back_as_another",
        STOPS,
        (Patch(seams.TABLES_BEFORE_PLANNING, nothing),),
    ),
)
