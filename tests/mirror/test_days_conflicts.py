"""A person lets the order decide between contradicting events of a day (M7): then, and whenever it is rebuilt."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import select

from tests.cli.test_cli_commands import Tide, tide, write_env
from tests.crash.faults import Faults, ProcessGone
from tests.mirror.audits import deep
from tests.mirror.days import YAML, DailyWorld, day, event
from tests.mirror.test_days import sound
from tests.mirror.test_days_where import ask
from tidegate.cli import surroundings
from tidegate.core.base.errors import BatchRefused, NotReady
from tidegate.ledger import schema
from tidegate.workflow.publish import archive
from tidegate.workflow.publish.archive import Published

__all__ = ["tide"]  # a fixture

FIRST, ONE, OTHER = event(1, "a", 10, 0.1), event(1, "b", 20, 1.1), event(1, "other", 20, 1.2)
NEXT, LATER = event(2, "c", 30, 2.5), event(9, "z", 99, 5.5)
WHY = "both rows are right"


@pytest.fixture
def world(tmp_path: Path) -> DailyWorld:
    """The second day is refused, and so the third one waits."""
    made = DailyWorld(tmp_path)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/readings.yaml").write_text(YAML.format(location=f"file://{tmp_path}/lake/readings"))
    write_env(tmp_path, made.database)
    made.land(FIRST, ONE, OTHER, NEXT, LATER)
    made.publish(0)
    with pytest.raises(BatchRefused, match="two contents of one key at one position") as refused:
        made.publish(1)
    assert "tidegate apply readings --day 2013-01-06T00:00Z --take-conflicts --why" in refused.value.advice
    return made


def take(world: DailyWorld, n: int = 1) -> Published:
    """The command, in a process of its own."""
    try:
        return archive.publish(replace(world.context(), conflicts=WHY), day(n))
    finally:
        world.close()


def reasons(world: DailyWorld) -> list[str]:
    """Why conflicts were taken, by the event log."""
    with world.context().ledger.store.begin() as c:  # type: ignore[attr-defined]
        details = [e.detail for e in c.execute(select(schema.events).order_by(schema.events.c.id))]
    world.close()
    return [found["takes conflicts"] for found in map(json.loads, details) if "takes conflicts" in found]


def test_the_order_decides_and_the_days_go_on(world: DailyWorld) -> None:
    with pytest.raises(NotReady, match="2013-01-06"):
        world.publish(2)
    assert take(world).new
    winner = (world.rows(1) or {})[1]
    assert winner in ("b", "other")
    assert reasons(world) == [WHY]
    assert world.publish(1).new, "its own task tells other DAGs"
    assert not world.publish(1).new
    world.publish(2)
    assert world.rows(2) == {1: winner, 2: "c"}
    states = {e.state for e in ask(world, 1).events}
    assert states == {"row", "older"}
    assert deep(world).problems == ()
    sound(world)


def test_the_same_one_wins_however_they_come(world: DailyWorld, tmp_path: Path) -> None:
    take(world)
    (tmp_path / "again").mkdir()
    again = DailyWorld(tmp_path / "again")
    again.land(FIRST, OTHER, ONE, LATER)
    again.publish(0)
    take(again)
    assert again.rows(1) == world.rows(1)
    again.close()


def test_positions_that_go_back_change_nothing_then(tmp_path: Path) -> None:
    """M8, by the same word, as for a table in Iceberg."""
    world = DailyWorld(tmp_path)
    world.land(event(1, "a", 1000, 0.1), event(1, "of a new server", 20, 1.1), LATER)
    world.publish(0)
    with pytest.raises(BatchRefused, match="positions go back") as refused:
        world.publish(1)
    assert "--take-conflicts" in refused.value.advice
    take(world)
    assert (world.rows(0), world.rows(1)) == ({1: "a"}, {1: "a"})
    world.close()


def test_a_rebuild_of_the_day_takes_them_again(world: DailyWorld) -> None:
    """A replay onto another day before, and a heal; nobody is asked twice. A later day is another question."""
    take(world)
    winner = (world.rows(1) or {})[1]
    place = world.place(1)
    assert place is not None
    shutil.rmtree(place)
    assert world.publish(1).new, "rebuilt from Kafka"
    assert (world.rows(1) or {})[1] == winner
    assert reasons(world) == [WHY, WHY]
    loser = OTHER if winner == "b" else ONE
    world.land(event(1, "other" if loser is OTHER else "b", 20, 2.6), event(9, "z", 100, 6.5))
    with pytest.raises(BatchRefused, match="two contents of one key at one position"):
        world.publish(2)
    take(world, 2)
    assert world.rows(2) == {1: winner, 2: "c"}
    sound(world)


def test_a_day_that_was_built_is_published_by_anyone(world: DailyWorld) -> None:
    """The command's process is gone behind a call: once the day is built the publish task ends it, before that it
    refuses as it did, and the command is given again."""
    quiet = Faults()
    with wrapped(world, quiet):
        take(world)
    after = [call.method for call in quiet.calls].index("windows.built")
    for at in (0, after - 1, after, after + 1):
        again = DailyWorld(fresh(world.folder.parent / f"at-{at}"))
        again.land(FIRST, ONE, OTHER, NEXT, LATER)
        again.publish(0)
        with suppress(BatchRefused):
            again.publish(1)
        faults = Faults.one(at, "gone after")
        with wrapped(again, faults), suppress(ProcessGone), mock.patch("os.fsync"):
            take(again)
        assert faults.fired
        if at < after and again.rows(1) is None:
            with pytest.raises(BatchRefused):
                again.publish(1)
            take(again)
        again.publish(1)
        assert (again.rows(1) or {})[1] in ("b", "other")
        sound(again)


@contextmanager
def wrapped(world: DailyWorld, faults: Faults):  # type: ignore[no-untyped-def]
    before, world.wrap = world.wrap, faults.wrap
    try:
        yield
    finally:
        world.wrap = before


def fresh(folder: Path) -> Path:
    folder.mkdir()
    return folder


# ---------------------------------------------------------------- the command


def test_the_command(world: DailyWorld, tide: Tide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "working", lambda spec, say: _working(world))
    done = tide("apply", "readings", "--day", "date=2013-01-06", "--take-conflicts", "--why", WHY)
    assert done.exit_code == 0, done.output
    assert "generation 1 is in force: 2 rows" in done.output
    for wrong in (("--day", "2013-01-06"), ("--day", "2013-01-06", "--take-conflicts"), ("--take-conflicts",), ()):
        assert tide("apply", "readings", *wrong).exit_code == 2
    assert tide("apply", "readings", "--day", "nonsense", "--take-conflicts", "--why", WHY).exit_code == 2, (
        "no day of that name"
    )


@contextmanager
def _working(world: DailyWorld):  # type: ignore[no-untyped-def]
    try:
        yield world.context()
    finally:
        world.close()
