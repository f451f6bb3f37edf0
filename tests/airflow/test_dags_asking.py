"""A run of `<pipeline>.replay` does what its conf asks for, on the whole product but for Airflow's scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pendulum
import pytest
from airflow.exceptions import AirflowException, AirflowFailException

from tests.world import HOUR, T0, World, record, window
from tidegate.airflow import datasets, operators, task
from tidegate.airflow.timetable import from_ms
from tidegate.core.spec.pipeline import Column, Reopening
from tidegate.workflow.base import outcome
from tidegate.workflow.replay import replay

Run = Callable[..., list[tuple[int, int]]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hours 0 to 2 are published; a late row of hour 1 waits."""
    made = World(tmp_path)
    made.change_spec(reopening=Reopening(age_ms=None))
    made.produce(record("a", 0.1), record("b", 1.2), record("c", 2.3), record("d", 3.9))
    made.produce(record("e", 4.5), partition=1)
    made.ingest("r1")
    for hour in range(3):
        made.archive(hour)
    made.produce(record("late", 1.5))
    made.ingest("r2")
    yield made
    made.close()


@pytest.fixture
def run(world: World, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Execute the task; the (hour, generation) pairs that other DAGs were told of."""
    told: list[tuple[int, int]] = []
    heard = [told]
    monkeypatch.setattr(task.PipelineOperator, "_open", lambda self, context: world.context())

    def announce(ctx: Any, notice: Any, ti: Any) -> str:
        heard[0].append(((notice.window.start_ms - T0) // HOUR, notice.number))
        ctx.ledger.windows.announced("readings", notice.window, notice.number)
        return "told"

    monkeypatch.setattr(datasets, "announce", announce)

    def execute(conf: Any = None, hour: int = 0, told: list[tuple[int, int]] = told) -> list[tuple[int, int]]:
        heard[0] = told
        told.clear()
        start = from_ms(T0 + hour * HOUR)
        ti = SimpleNamespace(dag_id="readings.replay", run_id="r", task_id="replay", try_number=1)
        ti.xcom_push = lambda key, value: None
        where = {
            "dag_run": SimpleNamespace(dag_id="readings.replay", run_id="r", conf=conf),
            "ti": ti,
            "data_interval_start": start,
            "data_interval_end": start.add(hours=1),
        }
        execute.task = operators.ReplayOperator(task_id="replay", dag=None, pipeline=world.pipeline)  # type: ignore[attr-defined]
        execute.task.execute(where)  # type: ignore[attr-defined]
        return list(told)

    return execute


def other_columns(world: World) -> None:
    world.change_spec(columns=(*world.pipeline.columns[:2], Column(name="value", type="int", path="$.other")))


def test_without_a_conf_it_is_the_window_of_the_logical_date(world: World, run: Run) -> None:
    other_columns(world)
    assert run(hour=2) == [(2, 2)]
    assert run({}, hour=2) == []  # its content is the same
    assert run(None, hour=0) == [(0, 2)]


def test_the_conf_names_other_windows(world: World, run: Run) -> None:
    other_columns(world)
    assert run({"window": "2013-01-05T01:00Z"}) == [(1, 2)]
    assert run({"from": "2013-01-05T00:00Z", "until": "2013-01-05T03:00Z", "why": "columns"}) == [(0, 2), (2, 2)]


def test_a_reopening_takes_the_late_rows_up(world: World, run: Run) -> None:
    assert len(world.table("__late")) == 1
    assert run({"do": "reopen", "window": "2013-01-05T01:00Z", "why": "the outage"}) == [(1, 2)]
    assert world.table("__late") == []
    assert run({"do": "reopen", "window": "2013-01-05T01:00Z"}) == []  # Clear, or a second try


def test_who_the_conf_says_it_is_does_not_stand_in_the_event_log(world: World, run: Run) -> None:
    run({"do": "reopen", "window": "2013-01-05T01:00Z", "by": "admin", "why": "w"})
    assert not any("admin" in e.actor for e in world.context().ledger.reads.events("readings", 50))


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ({"do": "drop"}, "asks to do 'drop'"),
        ({"window": "now"}, "is no instant"),
        ({"from": "2013-01-05", "until": "2033-01-05"}, "more than 3,000 windows"),
        ({"window": "2999-01-05"}, "is not over yet"),
        (["replay"], "no object"),
    ],
)
def test_what_there_is_not_fails_for_good_and_says_what_there_is(run: Run, conf: Any, says: str) -> None:
    with pytest.raises(AirflowFailException, match=f"(?s){says}.*what to do: .*trigger"):
        run(conf)


def test_a_window_that_is_not_over_is_no_window_to_replay(run: Run) -> None:
    """Airflow's own Trigger button gives the present instant as the logical date."""
    hour = int((pendulum.now("UTC").timestamp() * 1000 - T0) // HOUR)
    with pytest.raises(AirflowFailException, match="is not over yet"):
        run(hour=hour)


def test_what_is_refused_for_one_window_holds_up_no_other(run: Run, world: World) -> None:
    """Hour 3 was never published."""
    other_columns(world)
    told: list[tuple[int, int]] = []
    with pytest.raises(AirflowFailException, match="1 of 3 windows .* 2013-01-05T03:00Z.*never published"):
        run({"from": "2013-01-05T01:00Z", "until": "2013-01-05T04:00Z"}, told=told)
    assert told == [(1, 2), (2, 2)]
    with pytest.raises(AirflowFailException, match="was never published"):  # again: nothing is rebuilt twice
        run({"from": "2013-01-05T01:00Z", "until": "2013-01-05T04:00Z"}, told=told)
    assert told == []


def test_late_rows_of_a_range_are_taken_up(run: Run) -> None:
    assert run({"do": "reopen", "from": "2013-01-05", "until": "2013-01-05T03:00Z", "why": "all"}) == [(1, 2)]


def test_what_a_retry_mends_is_tried_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(ctx: Any, windows: Any, told: Any) -> list[outcome.Outcome]:
        return [outcome.Outcome(key, outcome.LEFT, why="no broker", advice="ask again") for key in windows]

    monkeypatch.setattr(replay, "replay_range", down)
    with pytest.raises(AirflowException, match="(?s)3 of 3 windows are not rebuilt.*no broker.*ask again") as raised:
        run({"from": "2013-01-05T00:00Z", "until": "2013-01-05T03:00Z"})
    assert not isinstance(raised.value, AirflowFailException)


def test_a_rollback_goes_back_once_however_often_it_is_tried(world: World, run: Run) -> None:
    other_columns(world)
    run({"window": "2013-01-05T00:00Z"})
    back = {"do": "rollback", "window": "2013-01-05T00:00Z", "generation": 1, "why": "wrong columns"}
    assert run(back) == [(0, 3)]
    assert run(back) == []
    assert world.context().ledger.windows.get("readings", window(0)).current == 3


def test_one_window_of_a_range_holds_up_no_other_reopening(run: Run, world: World) -> None:
    """Hour 0 is being replayed; hours 4 and later were never published, as of a day that is not over."""
    ctx = world.context()
    ctx.ledger.windows.begin_generation("readings", window(0), 1, "replay")
    told: list[tuple[int, int]] = []
    with pytest.raises(AirflowException, match=r"2013-01-05T00:00Z: generation 2 \(replay\) is BUILDING") as raised:
        run({"do": "reopen", "from": "2013-01-05", "until": "2013-01-06", "why": "all"}, told=told)
    assert not isinstance(raised.value, AirflowFailException), "the next try finds it done"
    assert told == [(1, 2)]
    assert run({"do": "reopen", "from": "2013-01-05T01:00Z", "until": "2013-01-06", "why": "all"}) == []


def test_the_last_line_is_about_the_windows_that_the_conf_names(run: Run, world: World) -> None:
    """The run's own date is that of whoever triggered it."""
    for conf, about in (
        ({"window": "2013-01-05T03:30Z"}, "window 2013-01-05T03:00Z"),
        ({"from": "2013-01-05T03:00Z", "until": "2013-01-05T05:00Z"}, "windows 2013-01-05T03:00Z to 2013-01-05T04:00Z"),
        (None, "window 2013-01-05T08:00Z"),
    ):
        with pytest.raises(AirflowException, match="never published"):
            run(conf, hour=8)
        assert run.task.about == about  # type: ignore[attr-defined]
