"""Traces with reopenings: late rows change their owner with a publication, and nothing else moves."""

from __future__ import annotations

from tests.mutants.names import FATE, require
from tests.mutants.stage import Stage, record, window
from tidegate.workflow.late import reopen

ALL = [(0, 0), (0, 1), (0, 4), (0, 5)]


def _late_for_hour_0(stage: Stage) -> None:
    stage.hour_0_published()
    stage.produce(record("late 1", 0.2), record("late 2", 0.7, "new"), record("fine", 1.9))
    stage.run("r2")


def _reopened(stage: Stage) -> None:
    stage.tried(lambda: reopen.reopen(stage.context(), window(0)), "reopen 0")


def _shows(stage: Stage) -> None:
    found = stage.by_window()["00"]
    require(found == ALL, FATE, f"hour 0 has {found}")


def late_rows_are_taken_up(stage: Stage) -> None:
    """Whoever reads both tables reads each row once; those that come later are taken up by the next reopening."""
    _late_for_hour_0(stage)
    _reopened(stage)
    stage.at_rest()
    _shows(stage)
    stage.produce(record("late 3", 0.9))
    stage.run("r3")
    _reopened(stage)
    stage.at_rest()


def an_hour_that_took_late_rows_up_is_rebuilt(stage: Stage) -> None:
    """By a replay with other columns, and when a file is lost."""
    _late_for_hour_0(stage)
    _reopened(stage)
    stage.other_columns()
    stage.tried(lambda: stage.replay(0), "replay 0")
    stage.at_rest()
    _shows(stage)
    for path in (stage.folder / "lake/readings/_tidegate/generations").rglob("*.parquet"):
        path.unlink()
    stage.tried(lambda: stage.archive(0), "heal 0")
    _shows(stage)
    stage.at_rest()


def a_reopening_dies_before_it_is_in_force(stage: Stage) -> None:
    """Until then every late row stays where it is, whoever cleans up or maintains meanwhile."""
    _late_for_hour_0(stage)
    stage.context().ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    stage.at_rest()
    _reopened(stage)
    _shows(stage)
    stage.at_rest()
