"""Bugs in replays of many windows, and of rows that come from files."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from tests.mutants import seams
from tests.mutants.names import FATE, ONCE, STOPS
from tests.mutants.planting import Bug, Patch, always, nothing


def _into_the_first(original, self, routed, batch_id):
    routed, wanted = original(self, routed, batch_id)
    return replace(routed, window=pc.if_else(wanted, self._starts[0], routed.window)), wanted


def _all_of_the_file(original, table, copy):
    return table


def _ends_the_range(original, self, key):
    raise


BUGS = (
    Bug(
        "rows of a shared reading go to the first window",
        "Replay: membership is decided by each batch's plan",
        "hours_are_rebuilt_together",
        STOPS,
        (Patch(seams.CHOOSE_ROWS, _into_the_first),),
        why="counts by batch differ from the ledger's, so nothing is published",
    ),
    Bug(
        "rows of a shared reading go to the first window and are not compared",
        "Replay: membership is decided by each batch's plan",
        "hours_are_rebuilt_together",
        FATE,
        (Patch(seams.CHOOSE_ROWS, _into_the_first), Patch(seams.OTHER_ROWS, nothing)),
    ),
    Bug(
        "files give rows of batches that are read again",
        "Replay: each row from one origin",
        "an_hour_is_rebuilt_from_kafka_and_files",
        ONCE,
        (Patch(seams.ROWS_OF_FILES, _all_of_the_file), Patch(seams.COMPARE_COPIED, nothing)),
        why="what was taken is compared with the ledger",
    ),
    Bug(
        "rows of files are taken whatever decoded them",
        "Replay: today's columns are decoded, or are what they were",
        "records_are_gone_and_a_column_needs_them",
        STOPS,
        (Patch(seams.COLUMN_IS_KEPT, always(True)),),
    ),
    Bug(
        "one window that is overtaken ends the range",
        "Replay: one window never spoils another",
        "another_task_takes_one_of_the_hours",
        STOPS,
        (Patch(seams.OVERTAKEN_IN_A_RANGE, _ends_the_range),),
        why="the lost comparison becomes the window's outcome",
    ),
)
