"""Late policies, reopened windows, redrives and replays together: every row has one place, whichever way it came."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from tests.audit.audits import balanced
from tests.late.late_rows import begun, fate, lose_a_file, mend, odd, policy, redriven, totals, with_times
from tests.late.reopenings import reopened
from tests.ledger_loss import adopt
from tests.world import World, record, window
from tidegate.core.files.receipt import DATA, LATE
from tidegate.core.window.lateness import DROP, POLICIES, REROUTE, SIDE

HOURS = 5


def test_a_window_that_rows_were_sent_to_takes_its_own_late_rows_up(tmp_path: Path) -> None:
    """Hour 0 has a late row beside it, hour 1 got one of hour 0 and has one beside it; both are reopened."""
    world = begun(World(tmp_path, with_times(tmp_path)))
    world.produce(record("late for 0", 0.7))
    world.ingest("r2")
    policy(world, REROUTE)
    world.produce(record("sent to 1", 0.8), record("fine", 1.9))
    world.ingest("r3")
    world.archive(1)
    policy(world, SIDE)
    world.produce(record("late for 1", 1.7))
    world.ingest("r4")
    assert world.table("__late") == [(0, 2), (0, 5)]
    shown = {"00": [(0, 0), (0, 2)], "01": [(0, 1), (0, 3), (0, 4), (0, 5)]}
    for hour in (0, 1):
        assert reopened(world, hour).generation == 2
    assert (world.by_window(), world.table("__late")) == (shown, [])
    balanced(world)
    for today in (DROP, REROUTE):
        policy(world, today)
        for hour in (0, 1):
            assert world.replay(hour).note == "unchanged"
            lose_a_file(world, hour)
            world.archive(hour)
        assert (world.by_window(), world.table("__late")) == (shown, [])
    assert [fate(world, o).kind for o in range(6)] == ["published"] * 6
    assert [fate(world, o).words.startswith("rerouted") for o in range(6)] == [o == 3 for o in range(6)]
    balanced(world)
    world.close()


def test_redriven_rows_are_sent_on_and_their_target_is_reopened(tmp_path: Path) -> None:
    world = begun(World(tmp_path, with_times(tmp_path)))
    world.produce(odd("x", 0.4))
    world.ingest("r2")
    mend(world, REROUTE)
    assert redriven(world, "redrive 1").rerouted == 1
    world.archive(1)
    policy(world, SIDE)
    world.produce(record("late for 1", 1.7))
    world.ingest("r3")
    reopened(world, 1)
    assert world.replay(1).generation == 3, "the rows of before have no other field"
    assert world.by_window() == {"00": [(0, 0)], "01": [(0, 1), (0, 2), (0, 3)]}
    balanced(world)
    world.close()


@pytest.mark.parametrize("name", [REROUTE, DROP])
def test_a_ledger_that_lost_the_batch_takes_it_back_with_its_policy(tmp_path: Path, name: str) -> None:
    world = begun(World(tmp_path, with_times(tmp_path)))
    policy(world, name)
    world.close()
    yesterday = world.database.read_bytes()
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    told = totals(world)
    world.archive(1)
    shown = world.by_window()
    world.close()
    world.database.write_bytes(yesterday)
    policy(world, SIDE)
    adopt(world)
    assert totals(world) == told
    assert world.by_window() == shown
    assert world.replay(1).note == "unchanged"
    balanced(world)
    world.close()


def test_another_system_counts_by_event_time(tmp_path: Path) -> None:
    """Rows that were sent to a window are none that another system knows of there."""
    world = begun(World(tmp_path, with_times(tmp_path)))
    policy(world, REROUTE)
    world.produce(record("sent to 1", 0.8), record("sent too", 0.9), record("fine", 1.9))
    world.ingest("r2")
    truths = world.context().ledger.truths
    assert [truths.known("readings", window(hour), (DATA, LATE))[0] for hour in (0, 1)] == [1, 2]
    world.close()


class Model:
    """Where each row must be, by rules that know nothing of floors, files and generations."""

    def __init__(self) -> None:
        self.closed: set[int] = set()
        self.data: dict[int, set[int]] = defaultdict(set)  # hour -> offsets
        self.late: dict[int, set[int]] = defaultdict(set)
        self.dropped: set[int] = set()
        self.dirty: dict[int, int] = {}  # offset -> hour
        self.rerouted = 0

    def place(self, offset: int, hour: int, by: str) -> None:
        if hour >= 0 and hour not in self.closed:
            self.data[hour].add(offset)
        elif by == SIDE:
            self.late[hour].add(offset)
        elif by == DROP:
            self.dropped.add(offset)
        else:
            self.rerouted += 1
            self.data[next(h for h in range(HOURS + 2) if h not in self.closed)].add(offset)


class Story:
    """Steps that a seed chooses, done to a world and to the model of it."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.world, self.model, self._rng = World(folder, with_times(folder)), Model(), rng
        self._offset = self._runs = 0
        self._mended = False
        self.told: list[str] = []
        self.world.produce(record("far", 30.5), partition=1)  # so that every hour is ready once it is asked for
        self.batch()

    def step(self) -> None:
        kind = self._rng.choices(("batch", "close", "policy", "redo", "reopen", "redrive"), (6, 4, 4, 2, 2, 1))[0]
        self.told.append(kind)
        getattr(self, kind)()

    def batch(self) -> None:
        self._runs += 1
        for _ in range(self._rng.randint(1, 4)):
            hour = self._rng.choice((-1, *range(HOURS)))
            is_odd = self._rng.random() < 0.2
            at = hour + self._rng.choice((0.0, 0.3, 0.9))
            self.world.produce(odd(f"n{self._offset}", at) if is_odd else record(f"n{self._offset}", at))
            if is_odd and not self._mended:
                self.model.dirty[self._offset] = hour
            else:
                self.model.place(self._offset, hour, self.world.pipeline.late_policy)
            self._offset += 1
        self.world.ingest(f"r{self._runs}")

    def close(self) -> None:
        hour = self._rng.randrange(HOURS)
        self.world.archive(hour)
        self.model.closed.add(hour)

    def policy(self) -> None:
        policy(self.world, self._rng.choice(POLICIES))
        self.told[-1] += f" {self.world.pipeline.late_policy}"

    def redo(self) -> None:
        for hour in sorted(self.model.closed):
            if self._rng.random() < 0.5:
                self.world.replay(hour)
            elif self.model.data[hour]:
                lose_a_file(self.world, hour)
                self.world.archive(hour)

    def reopen(self) -> None:
        for hour in sorted(self.model.closed):
            if self.model.late[hour]:
                reopened(self.world, hour, over_budget=True)
                self.model.data[hour] |= self.model.late.pop(hour)

    def redrive(self) -> None:
        if not self.model.dirty:
            return
        self._mended = True
        mend(self.world, self.world.pipeline.late_policy)
        self._runs += 1
        redriven(self.world, f"redrive {self._runs}")
        for offset, hour in self.model.dirty.items():
            self.model.place(offset, hour, self.world.pipeline.late_policy)
        self.model.dirty.clear()

    def ends_well(self) -> None:
        for hour in range(HOURS + 1):
            self.world.archive(hour)
        model, world = self.model, self.world
        for hour in range(HOURS + 1):
            rows = world.by_window().get(f"{hour:02d}", [])
            assert rows == [(0, o) for o in sorted(model.data[hour])], f"hour {hour}"
        assert world.table("__late") == [(0, o) for o in sorted(set().union(*model.late.values()))]
        assert world.table("__dirty") == [(0, o) for o in sorted(model.dirty)]
        found = totals(world)
        assert (found.dropped, found.rerouted) == (len(model.dropped), model.rerouted)
        assert {o for o in range(self._offset) if fate(world, o).kind == "dropped"} == model.dropped
        balanced(world)


@pytest.mark.parametrize("number", range(3))
def test_whatever_happens_each_row_is_where_the_rules_say(tmp_path: Path, rng: random.Random, number: int) -> None:
    story = Story(tmp_path, rng)
    try:
        for _ in range(14):
            story.step()
        story.ends_well()
    except Exception as e:
        e.add_note(f"steps: {', '.join(story.told)}")
        raise
    finally:
        story.world.close()
