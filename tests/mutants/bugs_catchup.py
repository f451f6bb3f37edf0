"""Bugs in what publishes many windows by one process."""

from __future__ import annotations

from tests.mutants import seams
from tests.mutants.names import FATE, HEALS, OWN, WHOLE
from tests.mutants.planting import Bug, Patch, always
from tidegate.workflow.publish import archive, catchup


class _Changed:
    """The archive's runs, with other answers."""

    def __init__(self, runs, **answers):
        self._runs = runs
        self.__dict__ |= answers

    def __getattr__(self, name):
        return getattr(self._runs, name)


def _whoever_has_a_run(original, ctx, keys, ready, runs, clock):
    return original(ctx, keys, ready, _Changed(runs, free=lambda key: True), clock)


def _run_first(original, ctx, key, runs, tally, failed):
    runs.published(key, archive.ready(ctx, key), None)
    return original(ctx, key, _Changed(runs, published=lambda *_: None), tally, failed)


def _each_to_its_own_run(original, ctx, key, runs, tally, failed):
    done = original(ctx, key, runs, tally, failed)
    catchup._leave(runs, tally, failed)
    return done


BUGS = (
    Bug(
        "a window with a run of its own is caught up with too",
        "Catch-up: a window that has a run keeps it",
        "hours_are_caught_up_with",
        OWN,
        (Patch(seams.CATCH_UP_ALL, _whoever_has_a_run),),
    ),
    Bug(
        "a run is made before its window is published",
        "Catch-up: runs that have succeeded are made for published windows only",
        "hours_are_caught_up_with",
        WHOLE,
        (Patch(seams.CATCH_UP_ONE, _run_first),),
    ),
    Bug(
        "no run goes on with what is left",
        "Catch-up: what one run leaves is the next one's",
        "hours_are_caught_up_with",
        HEALS,
        (Patch(seams.CATCH_UP_REMAINS, always(0)),),
    ),
    Bug(
        "the run that goes on forgets what was asked for",
        "Catch-up: the part that was asked for comes first in each run",
        "hours_are_caught_up_with",
        FATE,
        (Patch(seams.CATCH_UP_HANDS_ON, always({})),),
    ),
    Bug(
        "every window that fails gets a run of its own",
        "Catch-up: failures in a row are no fault of the windows",
        "hive_goes_down_while_hours_are_caught_up_with",
        HEALS,
        (Patch(seams.CATCH_UP_ONE, _each_to_its_own_run),),
    ),
)
