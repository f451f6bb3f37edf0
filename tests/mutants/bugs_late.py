"""Bugs in late policies."""

from __future__ import annotations

from tests.mutants.names import BALANCE, FATE, HEALS
from tests.mutants.planting import Bug, Edit

_INGEST = "plugins/tidegate/workflow/ingest.py"

BUGS = (
    Bug(
        "late rows go to the window that is the oldest open one when they are written",
        "R1: the plan pins the reroute target",
        "late_rows_go_to_a_window_that_begins_to_close",
        FATE,
        (
            Edit(
                _INGEST,
                "JobPart(plan_.batch_id, plan_.clock_ms, plan_.floor, ",
                "JobPart(plan_.batch_id, plan_.clock_ms, __import__('dataclasses').replace(plan_.floor, "
                "reroute_ms=planning.floor_of(spec.windows, ctx.ledger.batches.planning_view(ctx.name).not_open, "
                "plan_.clock_ms, spec.late_policy).reroute_ms), ",
            ),
            Edit("plugins/tidegate/workflow/sealing.py", "    _check_windows(ctx, plan, receipt)\n", ""),
        ),
        why="what is sealed is held against the plan's floor and policy",
    ),
    Bug(
        "rerouted rows are a term of the sum",
        "Balance: rerouted rows are data, their number is information",
        "late_rows_go_to_a_window_that_begins_to_close",
        BALANCE,
        (
            Edit(
                "plugins/tidegate/core/balance.py",
                "            self.read == self.data + self.late + self.dirty + self.filtered + self.dropped\n",
                "            self.read == self.data + self.late + self.dirty + self.filtered + self.dropped "
                "+ self.rerouted\n",
            ),
        ),
    ),
    Bug(
        "a replay takes late rows by today's policy",
        "R1: the plan pins the late policy, with its spec",
        "the_late_policy_changes",
        HEALS,
        (
            Edit(
                "spark_jobs/engine/task.py",
                "        self.router = Router(deciding, part.floor, ",
                "        self.router = Router(replace(deciding, late_policy=pipeline.late_policy), part.floor, ",
            ),
        ),
        why="a replay whose rows per batch are not the ledger's publishes nothing",
    ),
    Bug(
        "a rebuild leaves rerouted rows to the window of their event time",
        "Replay: rerouted rows are rows of their target",
        "late_rows_go_to_a_window_that_begins_to_close",
        HEALS,
        (
            Edit(
                "spark_jobs/engine/targets.py",
                "        if routed.dropped is not None:\n",
                "        if routed.rerouted is not None:\n"
                "            wanted = pc.and_not(wanted, routed.rerouted)\n"
                "        if routed.dropped is not None:\n",
            ),
        ),
        why="as above",
    ),
)
