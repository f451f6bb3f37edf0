"""Traces with late rows under each policy: where a row goes is what its batch's plan pinned."""

from __future__ import annotations

import pytest

from tests.mutants.names import FATE, require
from tests.mutants.stage import Stage, record, window
from tidegate.core.base.errors import NotReady
from tidegate.core.window.lateness import DROP, REROUTE, SIDE
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive


def late_rows_go_to_a_window_that_begins_to_close(stage: Stage) -> None:
    """R1, R5: the target is the oldest window that was open when the batch was planned, and it waits for it."""
    stage.change_spec(late_policy=REROUTE)
    stage.hour_0_published()
    stage.produce(record("late", 0.7), record("fine", 1.9))
    stage.tried(lambda: ingest.plan(stage.context(), "r2"), "plan r2")
    with pytest.raises(NotReady):
        archive.publish(stage.context(), window(1))
    stage.run("r2")
    stage.tried(lambda: stage.archive(1), "archive 1")
    _shows(stage, {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 4), (0, 5)]})
    for hour in (0, 1):
        stage.tried(lambda h=hour: stage.replay(h), f"replay {hour}")
        stage.lose_a_file(hour)
        stage.tried(lambda h=hour: stage.archive(h), f"heal {hour}")
    _shows(stage, {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 4), (0, 5)]})
    stage.at_rest()


def the_late_policy_changes(stage: Stage) -> None:
    """R1: each batch keeps the policy that it was planned with, whatever a replay's spec says."""
    stage.hour_0_published()
    for number, policy in enumerate((SIDE, REROUTE, DROP), 2):
        stage.change_spec(late_policy=policy)
        stage.produce(record(f"late {policy}", 0.7), record(f"fine {policy}", 1.9))
        stage.run(f"r{number}")
    stage.tried(lambda: stage.archive(1), "archive 1")
    shown = {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 5), (0, 6), (0, 7), (0, 9)]}
    _shows(stage, shown)
    require(stage.table("__late") == [(0, 4)], FATE, f"late: {stage.table('__late')}")
    for hour in (0, 1):
        stage.tried(lambda h=hour: stage.replay(h), f"replay {hour}")
    _shows(stage, shown)
    stage.at_rest()


def _shows(stage: Stage, due: dict[str, list[tuple[int, int]]]) -> None:
    found = stage.by_window()
    require(found == due, FATE, f"readers see {found}, should see {due}")
