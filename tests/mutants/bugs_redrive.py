"""Bugs in redrives."""

from __future__ import annotations

from tests.mutants.names import HEALS, ONCE
from tests.mutants.planting import Bug, Edit

_LEDGER = "plugins/tidegate/adapters/ledger/batches.py"

BUGS = (
    Bug(
        "redriven rows stay in the dirty table",
        "Redrive: a row belongs to the redrive alone",
        "dirty_rows_are_redriven",
        ONCE,
        (
            Edit(
                "plugins/tidegate/workflow/redriven.py",
                '            ctx.catalogue.drop_partitions(table.name, [(("_batch", str(batch_id)),)])\n'
                "            _move(ctx, batch_id)\n",
                "            pass\n",
            ),
        ),
    ),
    Bug(
        "landing a redrive takes nothing over",
        "Redrive: a row belongs to the redrive alone",
        "dirty_rows_are_redriven",
        ONCE,
        (Edit(_LEDGER, "            redrives.take_over(self._store, c, plan)\n", ""),),
    ),
    Bug(
        "a redrive moves the planned ends",
        "Redrive: planned ends stay where they are",
        "dirty_rows_are_redriven",
        HEALS,
        (
            Edit(
                "plugins/tidegate/adapters/ledger/ends.py",
                "b.c.topic_id == topic_id, b.c.kind == INGEST)",
                "b.c.topic_id == topic_id)",
            ),
        ),
        why="Kafka's group remembers how far it was",
    ),
    Bug(
        "a replay reads a redrive's rows from the topic",
        "Redrive: its rows are those of its files",
        "an_hour_with_redriven_rows_is_rebuilt",
        HEALS,
        (
            Edit(
                "plugins/tidegate/workflow/rebuild.py",
                "    files = redriven.sources(ctx, source_batches(plan)) if plan.is_redrive else ()\n",
                "    files = ()\n",
            ),
        ),
        why="it would take what lies between for its own, so its rows per batch are others than the ledger's",
    ),
)
