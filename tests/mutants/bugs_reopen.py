"""Bugs in reopenings."""

from __future__ import annotations

from dataclasses import replace

from tests.mutants import seams
from tests.mutants.names import HEALS, ONCE
from tests.mutants.planting import Bug, Patch, always, nothing
from tidegate.core.files.receipt import LATE
from tidegate.ledger import schema
from tidegate.ledger.store import rows_of


def _takes_nothing_up(original, ctx, chooser, choices):
    job = original(ctx, chooser, choices)
    return replace(job, targets=tuple(replace(target, taken=()) for target in job.targets))


def _of_any_generation(original, c, name):
    made = rows_of(c, schema.generation_batches, pipeline=name, kind=LATE)
    return [(row.window_ms, row.number, row.batch_id) for row in made if not row.cleared]


def _what_is_in_force_too(original, ctx, generation, current):
    return original(ctx, generation, replace(current, late=()))


BUGS = (
    Bug(
        "late rows that were taken up stay in the late table",
        "Reopen: a row belongs to the window alone",
        "late_rows_are_taken_up",
        ONCE,
        (Patch(seams.DROP_REOPENED, nothing), Patch(seams.MOVE_REOPENED, nothing)),
        why="partition and files: without either readers see none of them",
    ),
    Bug(
        "a replay forgets what the window took up",
        "Reopen: later generations carry the rows on",
        "an_hour_that_took_late_rows_up_is_rebuilt",
        ONCE,
        (Patch(seams.CARRIED_LATE_ROWS, always({})),),
    ),
    Bug(
        "a replay finds late what the window took up",
        "Reopen: R1 but for the verdict that they are late",
        "an_hour_that_took_late_rows_up_is_rebuilt",
        HEALS,
        (Patch(seams.JOB_OF_A_REBUILD, _takes_nothing_up),),
    ),
    Bug(
        "late rows change their owner when a reopening begins",
        "Reopen: ownership moves with the publication",
        "a_reopening_dies_before_it_is_in_force",
        ONCE,
        (Patch(seams.REOPENING_DUTIES, _of_any_generation),),
    ),
    Bug(
        "a reopening takes rows up that a generation in force has",
        "Reopen: each row once",
        "late_rows_are_taken_up",
        HEALS,
        (Patch(seams.LATE_SOURCES, _what_is_in_force_too),),
    ),
)
