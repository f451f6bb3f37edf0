"""Bugs in what happens when the ledger has lost commits (R11), and in cleaning (R7)."""

from __future__ import annotations

from tests.mutants.names import HEALS, ONCE, THERE
from tests.mutants.planting import Bug, Edit

_INGEST = "plugins/tidegate/workflow/ingest.py"
_SEALING = "plugins/tidegate/workflow/sealing.py"
_CLEANING = "plugins/tidegate/core/cleaning.py"
_AGE = Edit(
    _CLEANING,
    '        return _keep(f"the ledger does not say since when it is {what}")\n',
    "        return None\n",
)

BUGS = (
    Bug(
        "nobody asks whether storage is ahead",
        "R11: storage that knows more than the ledger is refused",
        "a_ledger_from_yesterday_plans_again",
        ONCE,
        (
            Edit(_INGEST, "        ahead.refuse_if_ahead(ctx, view.next_batch_id)\n", ""),
            Edit(_INGEST, "        ahead.refuse_if_group_is_ahead(ctx, view)\n", ""),
        ),
        why="Kafka's group would tell too; writing and landing ask again, but plan is where offsets are read twice",
    ),
    Bug(
        "what has landed is written again",
        "R11: storage that knows more than the ledger is adopted",
        "a_ledger_forgets_that_a_batch_was_sealed",
        HEALS,
        (Edit(_INGEST, "    if sealing.adopt_landed(ctx, batch) is not None:\n        return\n", ""),),
    ),
    Bug(
        "another plan's batch is adopted",
        "R11: what is adopted covers exactly the plan's ranges",
        "a_ledger_forgets_what_it_had_planned",
        ONCE,
        (
            Edit(
                _SEALING,
                "    if (receipt.batch_id, receipt.topic_id, covered) != (plan.batch_id, plan.topic_id, plan.ranges):",
                "    if False:",
            ),
            Edit(_SEALING, "        _check_its_plan(ctx, plan, receipt)\n", ""),
        ),
        why="the attempt's own plan file tells too",
    ),
    Bug(
        "attempts are cleaned by age alone",
        "R7: cleaner by age alone",
        "a_sealed_batch_waits_for_a_year",
        THERE,
        (
            Edit(
                _CLEANING,
                "    if facts.state not in _DONE and attempt.epoch >= facts.epoch:\n",
                "    if False:\n",
            ),
            _AGE,
        ),
    ),
    Bug(
        "landed batches are cleaned by age alone",
        "R7: cleaner by age alone",
        "landed_rows_wait_for_a_year",
        THERE,
        (
            Edit(_CLEANING, "    if facts.unpublished:\n", "    if False:\n"),
            Edit(
                _CLEANING,
                '            return _odd(f"{path} of its manifest is still there, or there again")\n',
                "            continue\n",
            ),
        ),
        why="the files themselves are held against the manifest too",
    ),
    Bug(
        "landed batches are cleaned before their late rows have moved",
        "R7: cleaning asks the ledger who can still need it",
        "late_rows_wait_for_a_year",
        HEALS,
        (
            Edit(
                _CLEANING,
                '    if not facts.side_moved:\n        return _keep("its late and dirty files are not in their tables '
                'yet")\n    if facts.unpublished:\n',
                "    if facts.unpublished:\n",
            ),
            Edit(
                _CLEANING,
                '            return _odd(f"{path} of its manifest is still there, or there again")\n',
                "            continue\n",
            ),
            Edit(_CLEANING, '        return _keep("it is the newest batch")\n', "        pass\n"),
        ),
        why="the files are held against the manifest too; and the batch of the trace is the newest",
    ),
    Bug(
        "a window that is being assembled is cleaned",
        "R7: cleaning asks the ledger who can still need it",
        "an_hour_is_half_assembled_for_a_year",
        HEALS,
        (
            Edit(
                _CLEANING,
                '    if facts.state == BUILDING:\n        return _keep("the generation is BUILDING")\n',
                '    if facts.state == BUILDING:\n        return Verdict(True, "old")\n',
            ),
            Edit(
                "plugins/tidegate/workflow/cleaning_generations.py",
                "        if isinstance(generation, BuildingGeneration):\n"
                '            return Verdict(False, "it has moved on")\n'
                "        listing = [f.path",
                "        if isinstance(generation, BuildingGeneration):\n"
                '            return Verdict(True, "old")\n'
                "        listing = [f.path",
            ),
        ),
        why="the cleaner asks twice",
    ),
)
