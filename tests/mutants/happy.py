"""The day on which nothing goes wrong: every planted bug must get through it, or it proves nothing."""

from __future__ import annotations

from dataclasses import replace

from tests.crash import lakehouse
from tests.mutants.names import FATE, require
from tests.mutants.stage import HOUR, Stage, record
from tidegate.workflow.clean import duties
from tidegate.workflow.maintain import reconcile


def happy_path(stage: Stage, swap: str = "pointer", target: str = "hive") -> None:
    """Ingest, archive, a late row, replay with other columns, replay of the same, heal, clear, maintain, clean."""
    stage.change_spec(archive=replace(stage.pipeline.archive, swap=swap))
    if target == lakehouse.KIND:
        lakehouse.install(stage)
    stage.first_hours()
    stage.ingest("r1")
    first = stage.archive(0)
    require((first.generation, first.rows) == (1, 2), FATE, f"hour 0: {first}")
    stage.produce(record("late", 0.7), record("fine", 1.9))
    stage.ingest("r2")
    stage.archive(1)
    require(stage.table("__late") == [(0, 4)], FATE, f"late: {stage.table('__late')}")
    stage.other_columns()
    require(stage.replay(0).generation == 2, FATE, "a replay with other columns is the next generation")
    require(not stage.replay(0).new, FATE, "a replay of the same content publishes nothing")
    stage.lose_a_file(1)
    require(stage.archive(1).new, FATE, "a lost file is rebuilt")
    require(not stage.archive(1).new, FATE, "clear on an intact hour changes nothing")
    reconcile.maintain(stage.context())
    stage.produce(record("x", 5.5))
    stage.produce(record("y", 5.5), partition=1)
    stage.at_rest()  # hours 2 and 3 have been published
    stage.clock.advance(100 * 24 * HOUR)
    stage.tried(lambda: duties.clean(stage.context()), "clean")
    stage.at_rest()
    shown = {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 5)], "02": [(1, 0)], "03": [(1, 1)]}
    require(stage.by_window() == shown, FATE, f"{stage.by_window()}")
