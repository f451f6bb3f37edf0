"""`tidegate backfill`: which windows it begins, waits for and gives up; the ledger is real, the scheduler in memory.

The verdicts: test_core_filling.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import airflow_home  # noqa: F401 (before anything of Airflow's)
import pytest

from tests.cli.test_cli_commands import Tide, add_yaml, the_json, tide, world
from tests.world import World, record
from tidegate.airflow.backfill.range_runs import Ground
from tidegate.cli import backfill as command
from tidegate.core.base.errors import SpecError
from tidegate.core.base.instants import HOUR_MS
from tidegate.core.publish.backfill import Run
from tidegate.core.window.states import WindowKey
from tidegate.workflow.publish import backfill

__all__ = ["add_yaml", "tide", "world"]
KEY = WindowKey(0, HOUR_MS)
ENDED = Run("r", False, False)


def test_windows_between() -> None:
    from tidegate.core.spec.pipeline import Windows

    spec = Windows(size_ms=HOUR_MS, timezone="UTC", start_ms=HOUR_MS, watermark_delay_ms=0)
    first, last = WindowKey(HOUR_MS, 2 * HOUR_MS), WindowKey(3 * HOUR_MS, 4 * HOUR_MS)
    assert [k.start_ms // HOUR_MS for k in backfill.windows_between(spec, first, last)] == [1, 2, 3]
    assert backfill.windows_between(spec, first, first) == (first,)
    with pytest.raises(SpecError, match=r"before windows\.start"):
        backfill.windows_between(spec, KEY, last)
    with pytest.raises(SpecError, match="more than 20,000"):
        backfill.windows_between(spec, first, WindowKey(30_000 * HOUR_MS, 30_001 * HOUR_MS))


class Scheduler:
    """Implements `workflow.publish.backfill.Runs`, and what commands ask beside; a run ends at the next look."""

    def __init__(self, world: World, replay: bool = False) -> None:
        self.world, self.replay, self.dag_id = world, replay, f"readings.{'replay' if replay else 'archive'}"
        self.runs: dict[int, Run] = {}
        self.free, self.begun, self.fails, self.stuck = 1, [], set(), False
        self.state = Ground()
        self.interrupt_at = 0
        self.catches_up, self.starts = False, []

    def ground(self) -> Ground:
        return self.state

    def unpause(self) -> None:
        self.state = Ground()

    def failed_tasks(self, run_id: str) -> list[str]:
        return ["publish"]

    def look(self, keys: Sequence[WindowKey]) -> dict[int, Run]:
        for start, run in self.runs.items():
            if run.active and not self.stuck:
                hour = (start - self.world.hour_0_ms) // HOUR_MS
                if hour not in self.fails:
                    (self.world.replay if self.replay else self.world.archive)(hour)
                self.runs[start] = replace(run, active=False, succeeded=hour not in self.fails)
        return dict(self.runs)

    def room(self, own: int, most: int | None) -> int:
        return (most or self.free) - own

    def catch_up(self, keys: Sequence[WindowKey], start: bool) -> bool:
        """The next look finds the oldest two of them published, each with a run."""
        self.starts.append(start)
        if not self.catches_up:
            return False
        for key in keys[:2]:
            self.world.archive((key.start_ms - self.world.hour_0_ms) // HOUR_MS)
            self.runs[key.start_ms] = replace(ENDED, succeeded=True)
        return True

    def begin(self, keys: Sequence[WindowKey], runs: Mapping[int, Run], note: str) -> list[WindowKey]:
        for key in keys:
            self.begun.append((key.start_ms - self.world.hour_0_ms) // HOUR_MS)
            self.runs[key.start_ms] = Run("r", True, False, note.rpartition(" by ")[0])
        if self.interrupt_at and len(self.begun) >= self.interrupt_at:
            self.interrupt_at = 0
            raise KeyboardInterrupt
        return list(keys)


@pytest.fixture
def scheduler(world: World, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    """Hours 0 to 3 are ready, hour 0 is published."""
    world.hour_0_ms = 1_357_344_000_000  # type: ignore[attr-defined]
    world.produce(record("late", 9.5), partition=0)
    world.produce(record("late", 9.6), partition=1)
    world.ingest("readings.ingest/r2")
    made = Scheduler(world)

    def runs(_spec: object, replay: bool) -> Scheduler:
        made.replay = replay
        made.dag_id = f"readings.{'replay' if replay else 'archive'}"
        return made

    monkeypatch.setattr(command, "_runs", runs)
    monkeypatch.setattr(command, "airflow_library", lambda what: nullcontext())
    return made


FILL = ("backfill", "readings", "-s", "2013-01-05T00:00Z", "-e", "2013-01-05T03:00Z", "--poll", "1ms")


def test_it_fills(tide: Tide, scheduler: Scheduler, world: World) -> None:
    done = tide(*FILL)
    assert done.exit_code == 0, done.output
    assert scheduler.begun == [1, 2, 3]
    assert done.stdout == "4 of 4 windows are published\n"
    assert "2013-01-05T01:00Z published (2 of 4 done)" in done.stderr
    again = tide(*FILL)
    assert (again.exit_code, scheduler.begun) == (0, [1, 2, 3])


def test_a_dry_run_changes_nothing(tide: Tide, scheduler: Scheduler) -> None:
    scheduler.runs[scheduler.world.hour_0_ms + HOUR_MS] = ENDED
    done = tide(*FILL, "--dry-run")
    assert (done.exit_code, scheduler.begun) == (0, [])
    assert done.stdout.splitlines() == [
        "2013-01-05T00:00Z published: left alone",
        "2013-01-05T01:00Z has a run that has ended: would clear it (r)",
        "2013-01-05T02:00Z has no run: would create one",
        "2013-01-05T03:00Z has no run: would create one",
    ]
    future = tide("backfill", "readings", "-s", "2013-01-05T03:00Z", "-e", "2013-01-05T20:00Z", "--dry-run")
    assert future.exit_code == 1
    assert "2013-01-05T20:00Z is not ready: the watermark has not passed its end" in future.stdout


def test_an_hour_that_fails_is_tried_once_and_named(tide: Tide, scheduler: Scheduler) -> None:
    scheduler.fails = {2}
    done = tide(*FILL)
    assert (done.exit_code, scheduler.begun) == (1, [1, 2, 3])
    assert "3 of 4 windows are published" in done.stdout
    assert (
        "1 failed: 2013-01-05T02:00Z\n  what to do: read the log of readings.archive, run r (failed: pub" in done.stdout
    )
    scheduler.fails = set()
    assert tide(*FILL).exit_code == 0
    assert scheduler.begun == [1, 2, 3, 2]


def test_stop_on_failure_and_newest_first(tide: Tide, scheduler: Scheduler) -> None:
    scheduler.fails = {2}
    done = tide(*FILL, "--stop-on-failure", "--newest-first")
    assert (done.exit_code, scheduler.begun) == (1, [3, 2])
    assert "1 not begun: 2013-01-05T01:00Z" in done.stdout


def test_at_once(tide: Tide, scheduler: Scheduler) -> None:
    looks: list[int] = []
    began = scheduler.begin
    counted = lambda keys, runs, note: looks.append(len(keys)) or began(keys, runs, note)  # noqa: E731
    scheduler.begin = counted  # type: ignore[method-assign]
    assert tide(*FILL, "--at-once", "2").exit_code == 0
    assert looks == [2, 1]


def test_windows_that_are_not_ready_get_no_run(tide: Tide, scheduler: Scheduler) -> None:
    done = tide("backfill", "readings", "-s", "2013-01-05T03:00Z", "-e", "2013-01-05T20:00Z", "--poll", "1ms")
    assert done.exit_code == 1
    assert "not ready: the watermark has not passed their ends: " in done.stdout
    assert max(scheduler.begun) < 10


def test_after_ctrl_c_the_same_command_goes_on(tide: Tide, scheduler: Scheduler) -> None:
    scheduler.interrupt_at = 2
    done = tide(*FILL)
    assert done.exit_code == 130
    assert "interrupted: " in done.stderr
    assert tide(*FILL).exit_code == 0
    assert scheduler.begun == [1, 2, 3]


def test_replay_goes_on_where_it_was_interrupted_and_begins_anew_after_its_end(
    tide: Tide, scheduler: Scheduler
) -> None:
    assert tide(*FILL).exit_code == 0
    scheduler.runs, scheduler.begun, scheduler.interrupt_at = {}, [], 2
    assert tide(*FILL, "--replay").exit_code == 130
    done = tide(*FILL, "--replay")
    assert (done.exit_code, scheduler.begun) == (0, [0, 1, 2, 3]), done.output
    assert "going on with the replay 20" in done.stderr
    assert done.stdout == "4 of 4 windows are rebuilt\n"
    again = tide(*FILL, "--replay", "--at-once", "4")
    assert (again.exit_code, scheduler.begun) == (0, [0, 1, 2, 3] * 2), (again.output, again.stderr, scheduler.runs)


def test_replay_of_what_is_not_published(tide: Tide, scheduler: Scheduler) -> None:
    done = tide(*FILL, "--replay")
    assert (done.exit_code, scheduler.begun) == (1, [0])
    assert "3 not published: there is nothing to rebuild: 2013-01-05T01:00Z" in done.stdout
    assert "the same command without --replay publishes them" in done.stdout


@pytest.mark.parametrize(
    ("ground", "code", "words"),
    [
        (Ground(unknown=True), 1, "Airflow has no DAG readings.archive"),
        (Ground(missing_pools=("tidegate_archive",)), 1, "no pool tidegate_archive"),
        (Ground(scheduler=False), 3, "no scheduler of this Airflow is alive"),
        (Ground(paused=True), 1, "readings.archive is paused"),
    ],
)
def test_where_nothing_would_go_on_nothing_is_begun(
    tide: Tide, scheduler: Scheduler, ground: Ground, code: int, words: str
) -> None:
    scheduler.state = ground
    done = tide(*FILL)
    assert (done.exit_code, scheduler.begun) == (code, [])
    assert words in done.stderr
    assert "what to do: " in done.stderr
    assert tide(*FILL, "--unpause").exit_code == (0 if ground.paused else code)


def test_json(tide: Tide, scheduler: Scheduler) -> None:
    scheduler.fails = {2}
    found = the_json(tide(*FILL, "--json"))
    assert (found["done"], found["counts"]) == (False, {"done": 3, "failed": 1})
    assert found["windows"][2] == {"start": "2013-01-05T02:00Z", "is": "failed", "run_id": "r"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-s", "2013-01-05T03:00Z", "-e", "2013-01-05T01:00Z"), "is before"),
        (("-s", "2012-01-05T03:00Z", "-e", "2013-01-05T01:00Z"), "is before windows.start"),
        (("-s", "no window"), "is neither an instant"),
        (("-s", "2013-01-05T03:00Z", "--fresh"), "--fresh needs --replay"),
        ((), "Missing option '-s'"),
    ],
)
def test_wrong_usage(tide: Tide, scheduler: Scheduler, words: tuple[str, ...], told: str) -> None:
    done = tide("backfill", "readings", *words)
    assert done.exit_code == 2
    assert told in done.stderr


def test_many_windows_without_a_run_are_published_by_one_process(
    tide: Tide, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it goes on, and however few are left; then, or where it cannot be had, by runs of their own."""
    monkeypatch.setattr("tidegate.core.publish.catchup.FEWEST", 3)
    dry = tide(*FILL, "--dry-run")
    assert "2013-01-05T01:00Z has no run: the catch_up task of its maintenance DAG would publish it" in dry.stdout
    assert "would create one" in tide(*FILL, "--dry-run", "--at-once", "2").stdout
    scheduler.catches_up = True
    done = tide(*FILL)
    assert (done.exit_code, scheduler.begun) == (0, []), done.output
    assert scheduler.starts == [True, False]
    assert "4 of 4 windows are published" in done.stdout


def test_where_it_cannot_be_had_runs_are_begun(
    tide: Tide, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.core.publish.catchup.FEWEST", 3)
    assert tide(*FILL).exit_code == 0
    assert scheduler.begun == [1, 2, 3]
    assert scheduler.starts[0]
    assert not any(scheduler.starts[1:])


def test_who_holds_the_pool_is_said_where_nothing_gets_done(
    tide: Tide, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "STILL_S", 0.0)
    scheduler.state = Ground(full="weather holds the 4 slots of tidegate_archive (weather.archive 4)")
    done = tide(*FILL)
    assert "weather holds the 4 slots of tidegate_archive (weather.archive 4): its runs wait for a slot" in done.stderr
