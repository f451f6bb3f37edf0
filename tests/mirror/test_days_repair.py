"""A mirror by days whose files or steps were lost: what each task says, and what brings the days back."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from tests.mirror.days import DAY, YAML, DailyWorld, by_days, event
from tests.mirror.test_days import LATER, problems, sound
from tidegate.core.base.errors import Alarm, BatchRefused, JobFailed, NotReady, StorageError
from tidegate.core.target.paths import DAY as DAY_FILE
from tidegate.targets.hive import swap
from tidegate.workflow.clean.duties import clean


@pytest.fixture
def two(tmp_path: Path) -> DailyWorld:
    """Two published days, and events of a third one."""
    world = DailyWorld(tmp_path)
    world.land(event(1, "a", 10, 0.1), event(2, "b", 11, 0.2))
    world.land(event(1, "a2", 20, 1.1), event(5, "e", 30, 2.5), LATER)
    world.publish(0)
    world.publish(1)
    return world


def lose_its_name(world: DailyWorld, n: int) -> None:
    """`_day.json` of the day's generation is gone."""
    place = world.place(n)
    assert place is not None
    (place.parent / DAY_FILE).unlink()


def a_file(world: DailyWorld, n: int) -> Path:
    """One of the day's rows."""
    place = world.place(n)
    assert place is not None
    return min(p for p in place.iterdir() if p.suffix == ".parquet")


def test_a_day_that_cannot_say_what_it_is_made_of_stops_the_next_until_it_is_cleared(two: DailyWorld) -> None:
    lose_its_name(two, 1)
    told = problems(two)
    assert any(DAY_FILE in line for line in told)
    assert not any("manifest" in line for line in told), "nobody may be told to remove rows that readers need"
    with pytest.raises(Alarm, match=f"{DAY_FILE} is not there") as lost:
        two.publish(2)
    assert "clear the publish task of its day" in lost.value.advice
    two.publish(1)
    two.publish(2)
    assert two.rows(2) == {1: "a2", 2: "b", 5: "e"}
    sound(two)


def test_a_replay_replaces_a_day_that_cannot_say_what_it_is_made_of(two: DailyWorld) -> None:
    lose_its_name(two, 1)
    assert two.replay_day(1).new
    two.publish(2)
    assert two.rows(2) == {1: "a2", 2: "b", 5: "e"}
    sound(two)


def test_a_lost_file_of_the_day_before_costs_tries_until_that_day_is_cleared(two: DailyWorld) -> None:
    a_file(two, 1).unlink()
    with pytest.raises(JobFailed, match="is not there") as lost:
        two.publish(2)
    assert lost.value.retry
    assert "clear the publish task of its day" in lost.value.advice
    two.publish(1)
    two.publish(2)
    assert two.rows(2) == {1: "a2", 2: "b", 5: "e"}


def test_a_file_that_was_damaged_in_its_place_is_moved_away_and_built_anew(two: DailyWorld) -> None:
    """Its length is as it was: only who reads it finds out."""
    damaged = a_file(two, 1)
    damaged.write_bytes(bytes(damaged.stat().st_size))
    with pytest.raises(BatchRefused, match="cannot be read") as refused:
        two.publish(2)
    assert "move the file away" in refused.value.advice
    damaged.unlink()
    two.publish(1)
    two.publish(2)
    assert two.rows(2) == {1: "a2", 2: "b", 5: "e"}


class _Dies(Exception):
    pass


@pytest.mark.parametrize("renames", [1, 2])
def test_a_day_waits_while_the_day_before_is_being_swapped(two: DailyWorld, renames: int) -> None:
    """swap: directory: between the two renames nothing lies where the ledger says; behind them, another generation."""
    other = YAML.replace("name: word,", "name: word, from: $._source.file,")
    two.pipeline = by_days(two.folder, other + "archive: {{swap: directory}}\n")
    done, rename = [0], swap.try_rename

    def dies(*args: object) -> None:
        rename(*args)  # type: ignore[arg-type]
        done[0] += 1
        if done[0] == renames:
            raise _Dies

    with mock.patch.object(swap, "try_rename", dies), pytest.raises(_Dies):
        two.replay_day(1)
    with pytest.raises(NotReady, match="the day before, is being replaced"):
        two.publish(2)
    two.replay_day(1)
    two.publish(2)
    assert two.rows(2) == {1: "binlog.000001", 2: "b", 5: "e"}
    sound(two)


def test_what_names_a_retired_days_files_goes_when_they_are_gone(two: DailyWorld) -> None:
    """A delete that fails once leaves the rest of the round to the next one; nothing becomes a stranger's file."""
    for source in ("file", "connector"):
        few = YAML.replace("name: word,", f"name: word, from: $._source.{source},")
        two.pipeline = by_days(two.folder, few + "archive: {{keep_generations: 1}}\n")
        two.replay_day(0)
    two.clock.advance(60 * DAY)
    ctx = two.context()
    failures, delete = [0], ctx.storage.delete

    def fails_once(path: str) -> None:
        if "/rows/" in path and not failures[0]:
            failures[0] += 1
            raise StorageError("down for a moment")
        delete(path)

    with mock.patch.object(ctx.storage, "delete", fails_once):
        clean(ctx)
    two.close()
    lines = clean(two.context()).lines()
    two.close()
    assert failures == [1]
    assert not any("not a file of Tidegate" in line or "whose it is" in line for line in lines)
    left = [p for p in (two.folder / "lake").rglob("*.parquet") if "/rows/" in str(p)]
    shown = [p for n in (0, 1) for p in (two.place(n) or Path()).iterdir()]
    assert sorted(left) == sorted(p for p in shown if p.suffix == ".parquet")
