"""Bugs in what a database that fails over meets: tasks that live on, records that it has forgotten (R12 to R15)."""

from __future__ import annotations

from tests.mutants import seams
from tests.mutants.names import HEALS, IN_FORCE, ONCE
from tests.mutants.planting import Bug, Patch, always, nothing

BUGS = (
    Bug(
        "the ledger is not asked again behind a long statement",
        "R12: the ledger is asked last, before a generation's record is written",
        "the_ledger_forgets_the_generation_during_a_long_statement",
        HEALS,
        (Patch(seams.STILL_KNOWN, always(True)),),
    ),
    Bug(
        "an hour moves into the table before SWAPPING",
        "R12: SWAPPING commits before anything moves into the table's own directory",
        "the_ledger_forgets_the_generation_behind_its_record",
        IN_FORCE,
        (Patch(seams.SHOW_BEFORE_MOVE, always(False)),),
    ),
    Bug(
        "a reopening that readers have met is given up",
        "R13: a generation that readers may have met is finished and not given up",
        "a_replay_comes_to_a_reopening_whose_swap_was_forgotten",
        ONCE,
        (Patch(seams.READERS_MET, nothing), Patch(seams.SHOW_LATE_AGAIN, nothing)),
        why="what is given up lets its late rows be shown again, which heals a look that came too early",
    ),
    Bug(
        "an adopted window closes at once",
        "R14: an adopted window closes in two steps while a batch is open",
        "a_batch_is_open_when_a_forgotten_generation_is_adopted",
        ONCE,
        (Patch(seams.OPEN_AT_ADOPTION, always([])),),
    ),
    Bug(
        "a record that contradicts the ledger is adopted",
        "R15: a record that contradicts the ledger is set aside",
        "a_batch_lands_before_a_forgotten_generation_is_adopted",
        HEALS,
        (Patch(seams.CONTRADICTION, nothing),),
    ),
)
