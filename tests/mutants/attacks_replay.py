"""Traces with replays of several windows, and of rows that come from our own files."""

from __future__ import annotations

from dataclasses import replace

from tests.mutants.names import FATE, STOPS, require
from tests.mutants.stage import Stage, record, window
from tests.world import TOPIC
from tidegate.core.spec.pipeline import Merge
from tidegate.workflow.base.renames import MovedOn
from tidegate.workflow.replay import replay


def _rebuilt(stage: Stage, *hours: int) -> list[str]:
    found = replay.replay_range(stage.context(), [window(h) for h in hours])
    stage.close()
    return [o.what for o in found]


def _two_batches(stage: Stage) -> None:
    """Of two hours; both batches have rows of both, in turn, and share the published files."""
    stage.change_spec(archive=replace(stage.pipeline.archive, merge=Merge(min_files=2)))
    for number in range(2):
        for hour in (0.1, 1.1, 0.2, 1.2):
            stage.produce(record(f"{number} {hour}", hour + number / 100) | {"other": 5})
        stage.produce(record(f"far {number}", 7.5), partition=1)
        stage.produce(record(f"far {number}", 7.5))
        stage.run(f"r{number}")
    stage.archive(0)
    stage.archive(1)


def hours_are_rebuilt_together(stage: Stage) -> None:
    """What is read once goes to the window that it belongs to."""
    _two_batches(stage)
    before = stage.by_window()
    stage.other_columns()
    found = _rebuilt(stage, 0, 1)
    require(found == ["replayed"] * 2, STOPS, f"a range without trouble ended as {found}")
    require(stage.by_window() == before, FATE, f"hours had {before}, a replay made them {stage.by_window()}")
    stage.at_rest()


def an_hour_is_rebuilt_from_kafka_and_files(stage: Stage) -> None:
    """Of one batch Kafka has the records, of the other one only we."""
    _two_batches(stage)
    stage.kafka.trim(TOPIC, 0, 5)
    id_, site, _ = stage.pipeline.columns
    stage.change_spec(columns=(id_, site))
    found = _rebuilt(stage, 0, 1)
    require(found == ["replayed"] * 2, STOPS, f"a range without trouble ended as {found}")
    stage.at_rest()


def records_are_gone_and_a_column_needs_them(stage: Stage) -> None:
    """Rows of files are by the columns of then."""
    _two_batches(stage)
    stage.kafka.trim(TOPIC, 0, 5)
    stage.other_columns()
    found = _rebuilt(stage, 0, 1)
    require(found == ["refused"] * 2, STOPS, f"values that nobody decoded were published: {found}")
    stage.at_rest()


def another_task_takes_one_of_the_hours(stage: Stage) -> None:
    """R3, for a range: whoever has been overtaken in one window moves no file of it, and finishes the others."""
    _two_batches(stage)
    stage.other_columns()
    ctx = stage.context()
    launch = ctx.launcher.run

    def overtaken(plan_path: str) -> None:
        launch(plan_path)
        ctx.launcher.run = launch  # type: ignore[method-assign]
        windows = stage.context().ledger.windows
        windows.take("readings", window(0), windows.get("readings", window(0)).newest, "other")

    ctx.launcher.run = overtaken  # type: ignore[method-assign]
    try:
        found = [o.what for o in replay.replay_range(ctx, [window(0), window(1)])]
    except MovedOn:
        found = []
    require(found == ["replayed"] * 2, STOPS, f"a window that was overtaken ended the range: {found}")
    stage.at_rest()
