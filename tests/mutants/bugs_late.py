"""Bugs in late policies."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from tests.mutants import seams
from tests.mutants.bugs_batches import floor_now, with_floor
from tests.mutants.names import BALANCE, FATE, HEALS
from tests.mutants.planting import Bug, Patch, nothing


def _to_todays_target(original, ctx, batch):
    return with_floor(original(ctx, batch), replace(batch.plan.floor, reroute_ms=floor_now(ctx).reroute_ms))


def _with_rerouted(original, self):
    return original(replace(self, filtered=self.filtered + self.rerouted))


def _todays_policy(original, pipeline, part):
    return replace(original(pipeline, part), late_policy=pipeline.late_policy)


def _rerouted_are_left(original, self, routed, batch_id):
    routed, wanted = original(self, routed, batch_id)
    return routed, wanted if routed.rerouted is None else pc.and_not(wanted, routed.rerouted)


BUGS = (
    Bug(
        "late rows go to the window that is the oldest open one when they are written",
        "R1: the plan pins the reroute target",
        "late_rows_go_to_a_window_that_begins_to_close",
        FATE,
        (Patch(seams.JOB_OF_A_BATCH, _to_todays_target), Patch(seams.CHECK_WINDOWS, nothing)),
        why="what is sealed is compared with the plan's floor and policy",
    ),
    Bug(
        "rerouted rows are a term of the sum",
        "Balance: rerouted rows are data, their number is information",
        "late_rows_go_to_a_window_that_begins_to_close",
        BALANCE,
        (Patch(seams.BALANCE_HOLDS, _with_rerouted),),
    ),
    Bug(
        "a replay takes late rows by today's policy",
        "R1: the plan pins the late policy, with its spec",
        "the_late_policy_changes",
        HEALS,
        (Patch(seams.DECIDING_SPEC, _todays_policy),),
        why="a replay whose rows per batch are not the ledger's publishes nothing",
    ),
    Bug(
        "a rebuild leaves rerouted rows to the window of their event time",
        "Replay: rerouted rows are rows of their target",
        "late_rows_go_to_a_window_that_begins_to_close",
        HEALS,
        (Patch(seams.CHOOSE_ROWS, _rerouted_are_left),),
        why="as above",
    ),
)
