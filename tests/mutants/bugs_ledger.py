"""Bugs in what happens when the ledger has lost commits (R11), and in cleaning (R7)."""

from __future__ import annotations

from dataclasses import replace

from tests.mutants import seams
from tests.mutants.names import HEALS, ONCE, THERE
from tests.mutants.planting import Bug, Patch, nothing
from tidegate.core.clean import rules
from tidegate.core.clean.rules import Verdict
from tidegate.core.window.states import BUILDING, BuildingGeneration

_OLD = Verdict(True, "old")


def _attempts_by_age(original, attempt, facts, since_ms, ttl, now_ms):
    return rules._old(since_ms or 0, ttl.attempts_ms, now_ms, "there") or _OLD


def _unpublished_too(original, facts, *rest):
    return original(facts and replace(facts, unpublished=()), *rest)


def _before_side_files_have_moved(original, facts, *rest):
    return original(facts and replace(facts, side_moved=True, newest=False), *rest)


def _manifest_is_not_asked(original, manifest, listing, merged=()):
    return original((), listing, merged)


def _building_too(original, found, facts, *rest, **more):
    return _OLD if facts is not None and facts.state == BUILDING else original(found, facts, *rest, **more)


def _building_too_now(original, self, path, found, since_ms):
    generation = self._generation((found.window_ms, found.number))
    return _OLD if isinstance(generation, BuildingGeneration) else original(self, path, found, since_ms)


BUGS = (
    Bug(
        "nobody asks whether storage is ahead",
        "R11: storage that knows more than the ledger is refused",
        "a_ledger_from_yesterday_plans_again",
        ONCE,
        (Patch(seams.REFUSE_IF_AHEAD, nothing), Patch(seams.REFUSE_IF_GROUP_IS_AHEAD, nothing)),
        why="Kafka's group would tell too; writing and landing ask again, but plan is where offsets are read twice",
    ),
    Bug(
        "what has landed is written again",
        "R11: storage that knows more than the ledger is adopted",
        "a_ledger_forgets_that_a_batch_was_sealed",
        HEALS,
        (Patch(seams.ADOPT_LANDED, nothing),),
    ),
    Bug(
        "another plan's batch is adopted",
        "R11: what is adopted covers exactly the plan's ranges",
        "a_ledger_forgets_what_it_had_planned",
        ONCE,
        (Patch(seams.CHECK_ITS_RANGES, nothing), Patch(seams.CHECK_ITS_PLAN, nothing)),
        why="the attempt's own plan file tells too",
    ),
    Bug(
        "attempts are cleaned by age alone",
        "R7: cleaner by age alone",
        "a_sealed_batch_waits_for_a_year",
        THERE,
        (Patch(seams.CLEAN_ATTEMPT, _attempts_by_age),),
    ),
    Bug(
        "landed batches are cleaned by age alone",
        "R7: cleaner by age alone",
        "landed_rows_wait_for_a_year",
        THERE,
        (Patch(seams.CLEAN_LANDED, _unpublished_too), Patch(seams.CLEAN_LANDED_FILES, _manifest_is_not_asked)),
        why="the files themselves are compared with the manifest too",
    ),
    Bug(
        "landed batches are cleaned before their late rows have moved",
        "R7: cleaning asks the ledger who can still need it",
        "late_rows_wait_for_a_year",
        HEALS,
        (
            Patch(seams.CLEAN_LANDED, _before_side_files_have_moved),
            Patch(seams.CLEAN_LANDED_FILES, _manifest_is_not_asked),
        ),
        why="the files are compared with the manifest too; and the batch of the trace is the newest",
    ),
    Bug(
        "a window that is being assembled is cleaned",
        "R7: cleaning asks the ledger who can still need it",
        "an_hour_is_half_assembled_for_a_year",
        HEALS,
        (Patch(seams.CLEAN_ASSEMBLY, _building_too), Patch(seams.CLEAN_ASSEMBLY_NOW, _building_too_now)),
        why="the cleaner asks twice",
    ),
)
