"""Bugs in reopenings."""

from __future__ import annotations

from tests.mutants.names import HEALS, ONCE
from tests.mutants.planting import Bug, Edit

_REOPENED = "plugins/tidegate/workflow/reopened.py"
_LEDGER = "plugins/tidegate/adapters/ledger/reopenings.py"
_WINDOWS = "plugins/tidegate/adapters/ledger/windows.py"

BUGS = (
    Bug(
        "late rows that were taken up stay in the late table",
        "Reopen: a row belongs to the window alone",
        "late_rows_are_taken_up",
        ONCE,
        (
            Edit(
                _REOPENED,
                '    ctx.catalogue.drop_partitions(table.name, [(("_batch", str(i)), *time) for i in batches])\n',
                "    del time\n",
            ),
            Edit(_REOPENED, "                _move(ctx, window_ms, batch_id)\n", ""),
        ),
        why="partition and files: without either readers see none of them",
    ),
    Bug(
        "a replay forgets what the window took up",
        "Reopen: later generations carry the rows on",
        "an_hour_that_took_late_rows_up_is_rebuilt",
        ONCE,
        (Edit(_WINDOWS, "            late = reopenings.carried(c, name, key, current)\n", "            late = {}\n"),),
    ),
    Bug(
        "a replay finds late what the window took up",
        "Reopen: R1 but for the verdict that they are late",
        "an_hour_that_took_late_rows_up_is_rebuilt",
        HEALS,
        (
            Edit(
                "plugins/tidegate/workflow/rebuild.py",
                "                tuple(i for i in work.late if i in mine),\n",
                "                (),\n",
            ),
        ),
    ),
    Bug(
        "late rows change their owner when a reopening begins",
        "Reopen: ownership moves with the publication",
        "a_reopening_dies_before_it_is_in_force",
        ONCE,
        (
            Edit(
                _LEDGER,
                "x.c.cleared.is_(False), g.c.state == CURRENT)\n",
                "x.c.cleared.is_(False))\n",
            ),
        ),
    ),
    Bug(
        "a reopening takes rows up that a generation in force has",
        "Reopen: each row once",
        "late_rows_are_taken_up",
        HEALS,
        (
            Edit(
                "plugins/tidegate/workflow/reopening.py",
                "    for batch_id in (i for i in generation.late if i not in current.late):\n",
                "    for batch_id in generation.late:\n",
            ),
        ),
    ),
)
