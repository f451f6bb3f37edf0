"""Bugs in what holds zone data against those that a plan pins (R1)."""

from __future__ import annotations

from tests.mutants import seams
from tests.mutants.names import BALANCE, FATE, HEALS, ONCE
from tests.mutants.planting import Bug, Patch, nothing
from tidegate.core.base.instants import DAY_MS


def _of_next_year_too(original, windows, horizon_ms):
    return original(windows, horizon_ms + 366 * DAY_MS)


BUGS = (
    Bug(
        "a plan pins no zone data",
        "R1: the plan pins the zone's offsets",
        "zone_data_change_between_two_batches",
        HEALS,
        (Patch(seams.PINNED_ZONE, nothing),),
    ),
    Bug(
        "a plan pins what zone data say of next year",
        "R1: the zone's offsets are pinned up to the plan's horizon",
        "clocks_will_change_tomorrow",
        HEALS,
        (Patch(seams.PINNED_ZONE, _of_next_year_too),),
    ),
    Bug(
        "the worker cuts days by whatever zone data it has",
        "R1: the worker compares its zone data with the plan's",
        "the_worker_has_older_zone_data",
        FATE,
        (Patch(seams.WORKERS_ZONE, nothing), Patch(seams.CHECK_WINDOWS, nothing)),
        why="a receipt of windows that the schedule does not have is refused too",
    ),
    Bug(
        "days are filled by two kinds of zone data",
        "R1: open days begin where they began for earlier batches",
        "zone_data_change_between_two_batches",
        HEALS,
        (Patch(seams.ZONE_BEFORE_PLANNING, nothing),),
    ),
    Bug(
        "a day closes beside rows of other zone data",
        "R1: a day waits for landed rows that the schedule gives no window",
        "zone_data_change_before_days_close",
        BALANCE,
        (Patch(seams.ZONE_BEFORE_CLOSING, nothing),),
    ),
    Bug(
        "a day is rebuilt by today's zone data",
        "R1: a replay cuts days as the batches' plans do",
        "zone_data_change_before_a_replay",
        ONCE,
        (
            Patch(seams.ZONE_BEFORE_REBUILDING, nothing),
            Patch(seams.WORKERS_ZONE, nothing),
            Patch(seams.OTHER_ROWS, nothing),
        ),
        why="the worker compares too, and rows that are missing are counted",
    ),
)
