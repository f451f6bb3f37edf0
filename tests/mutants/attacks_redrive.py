"""Traces with redrives: dirty rows change their owner once, and nothing else moves."""

from __future__ import annotations

from tests.mutants.names import FATE, require
from tests.mutants.stage import Stage, record
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.dirty import redrive


def _odd(name: str, hour: float) -> dict[str, object]:
    return record(name, hour) | {"value": "many", "other": 7}


def _mend(stage: Stage, path: str) -> None:
    id_, site, _ = stage.pipeline.columns
    stage.change_spec(columns=(id_, site, Column(name="value", type="int", path=path)))


def _redriven(stage: Stage, run: str) -> redrive.Redriven:
    stage.tried(lambda: redrive.plan(stage.context(), run), f"plan {run}")
    found = stage.tried(lambda: redrive.carry_out(stage.context(), run), run)
    assert found is not None
    return found


def dirty_rows_are_redriven(stage: Stage) -> None:
    """Whoever had them has them no more; the next batch begins where the last one ended."""
    stage.first_hours()
    stage.produce(_odd("x", 0.4), record("y", 0.6), _odd("z", 0.8))
    stage.ingest("r1")
    _mend(stage, "$.other")
    found = _redriven(stage, "redrive 1")
    require((found.data, found.dirty) == (2, 1), FATE, f"two of three can be read now: {found}")
    stage.produce(record("next", 3.6))
    stage.at_rest()
    require(stage.table("__dirty") == [(0, 3)], FATE, f"dirty: {stage.table('__dirty')}")


def an_hour_with_redriven_rows_is_rebuilt(stage: Stage) -> None:
    """A record that lies between two redriven ones is none of the redrive's."""
    stage.first_hours()
    stage.produce(_odd("x", 0.4), record("y", 0.6), _odd("z", 0.8))
    stage.ingest("r1")
    _mend(stage, "$.other")
    _redriven(stage, "redrive 1")
    stage.tried(lambda: stage.archive(0), "archive 0")
    _mend(stage, "$.none")
    stage.tried(lambda: stage.replay(0), "replay 0")
    require(stage.by_window()["00"] == [(0, 0), (0, 1), (0, 4), (0, 5), (0, 6)], FATE, f"{stage.by_window()}")
    stage.at_rest()
