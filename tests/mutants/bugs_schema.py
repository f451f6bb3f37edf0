"""Bugs about what decides a row, and about tables whose columns change."""

from __future__ import annotations

from tests.mutants.names import HEALS, IN_FORCE, STOPS
from tests.mutants.planting import Bug, Edit

_TASK = "spark_jobs/engine/task.py"
_TABLES = "plugins/tidegate/workflow/tables.py"
_INGEST = "plugins/tidegate/workflow/ingest.py"

BUGS = (
    Bug(
        "a rebuild filters by today's where",
        "R1: every replay decides by the pinned spec",
        "the_filter_changes_before_a_rebuild",
        HEALS,
        (
            Edit(
                _TASK,
                "        deciding = pipeline if part.pinned is None else from_plain(Pipeline, part.pinned)\n",
                "        deciding = pipeline if part.pinned is None else from_plain(Pipeline, part.pinned)\n"
                "        deciding = replace(deciding, where=pipeline.where)\n",
            ),
        ),
    ),
    Bug(
        "rows come before the table has their columns",
        "Hive's table first, data after",
        "a_column_comes_while_the_pipeline_runs",
        IN_FORCE,
        (
            Edit(_TABLES, "        for line in ctx.catalogue.evolve_table(table):\n", "        for line in ():\n"),
            Edit(_TABLES, "        ctx.catalogue.ensure_table(table)\n\n", "        return\n\n"),
        ),
    ),
    Bug(
        "a batch is planned with columns that the table cannot take",
        "a change is refused before a batch is planned with it",
        "a_dropped_column_comes_back_as_another",
        STOPS,
        (
            Edit(
                _INGEST,
                "        tables.before_planning(ctx)\n        try:\n            ctx.ledger.batches.insert_plan(",
                "        try:\n            ctx.ledger.batches.insert_plan(",
            ),
        ),
    ),
)
