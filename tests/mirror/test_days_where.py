"""`tidegate where --key` of a mirror by days, and what its other commands say of days."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli_commands import Tide, the_json, tide, write_env
from tests.mirror.days import DAY, YAML, DailyWorld, by_days, day, event
from tests.mirror.test_where_key import Here
from tests.world import T0
from tidegate.core.base.errors import NotReady
from tidegate.workflow.look.where_key import KeyAnswer, key_of, where_key_by_days

__all__ = ["tide"]

LATER = event(9, "z", 99, 5.5)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[DailyWorld]:
    """Two published days; on the second key 1 changes twice, once late, and 3 goes; a third day waits. A pipelines
    folder and an env file lie beside."""
    made = DailyWorld(tmp_path)
    made.land(event(1, "a", 10, 0.1), event(2, "b", 11, 0.2), event(3, "c", 12, 0.3), event(4, "never", 13, 1.1))
    made.publish(0)
    made.land(event(1, "late", 9, 0.9), event(1, "a2", 20, 1.1), event(3, None, 21, 1.2), event(1, "a2", 20, 1.1))
    made.land(LATER)
    made.publish(1)
    made.land(event(1, "waits", 30, 2.1), event(2, None, 31, 2.2))
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/readings.yaml").write_text(YAML.format(location=f"file://{tmp_path}/lake/readings"))
    write_env(tmp_path, made.database)
    yield made
    made.close()


def ask(world: DailyWorld, key: int, at: int | None = None, rows: Here | None = None, **options: int) -> KeyAnswer:
    ctx = world.context()
    given = key_of(ctx, [f"id={key}"])
    return where_key_by_days(ctx, ctx.ledger.reads, rows or Here(), given, None if at is None else day(at), **options)


def told(found: KeyAnswer) -> list[tuple[str, int, int, str]]:
    """(state, batch, number of the day, what is beside)."""
    days = [((e.day_ms or 0) - T0) // DAY for e in found.events]
    return [(e.state, e.batch_id, n, e.words) for e, n in zip(found.events, days, strict=True)]


def test_each_event_says_its_day(world: DailyWorld) -> None:
    found = ask(world, 1)
    assert [t[:3] for t in told(found)] == [
        ("waiting", 4, 2),
        ("row", 2, 1),
        ("repeat", 2, 1),
        ("older", 1, 0),
        ("older", 2, 1),
    ]
    assert told(found)[0][3] == "waits for its day: the next row"
    assert found.seen is not None
    assert (found.seen.offset, found.seen.day_ms) == (5, day(1).start_ms)
    assert (found.count, found.day_ms, found.newest_merged, found.notes) == (5, day(1).start_ms, False, ())
    assert all(Path(e.file.removeprefix("file://")).exists() for e in found.events)


def test_the_row_of_a_given_day(world: DailyWorld) -> None:
    found = ask(world, 1, at=0)
    assert [t[:3] for t in told(found)] == [("row", 1, 0)]
    assert found.settled
    assert [t[:3] for t in told(ask(world, 3, at=1))] == [("tombstone", 2, 1), ("older", 1, 0)]
    with pytest.raises(NotReady, match="2013-01-07T00:00Z is not published"):
        ask(world, 1, at=2)


def test_a_conflict_waits_for_its_day(world: DailyWorld) -> None:
    world.land(event(1, "other", 20, 2.5))
    found = told(ask(world, 1))
    assert ("conflict", 5, 2, "another content at the same position: its day is refused") in found


def test_days_before_any_is_published(tmp_path: Path) -> None:
    made = DailyWorld(tmp_path)
    made.land(event(1, "a", 10, 0.1))
    found = ask(made, 1)
    assert ([t[:3] for t in told(found)], found.day_ms, found.seen) == ([("waiting", 1, 0)], None, None)
    made.close()


def test_after_a_replay_each_event_is_told_once(world: DailyWorld) -> None:
    before = told(ask(world, 1))
    world.pipeline = by_days(world.folder, YAML.replace("name: word,", "name: word, from: $._source.file,"))
    assert world.replay_day(1).new
    assert [t[:3] for t in told(ask(world, 1))] == [t[:3] for t in before]


def test_what_moves_meanwhile_is_looked_for_again(world: DailyWorld) -> None:
    class Meanwhile(Here):
        def _ask(self, request: Any) -> dict[str, Any]:
            if not self.asked:
                world.land(event(9, "z2", 100, 6.5))
                world.publish(2)
            return super()._ask(request)

    found = ask(world, 1, rows=Meanwhile())
    assert (told(found)[0][:3], found.count, found.notes) == (("row", 4, 2), 5, ())


def test_a_day_that_was_dropped_is_told(world: DailyWorld) -> None:
    place = world.place(0)
    assert place is not None
    for path in place.parent.glob("*.parquet"):
        path.unlink()
    found = ask(world, 1)
    assert len(found.notes) == 1
    assert "not every file could be read" in found.notes[0]
    assert not ask(world, 2).settled


# ---------------------------------------------------------------- the commands


def test_the_command_names_days(tide: Tide) -> None:
    found = tide("where", "readings", "--key", "id=1")
    print(found.output)
    words = " ".join(found.stdout.split())
    assert found.exit_code == 1
    assert "readings id=1: 5 events; batch 2 made the row that is seen" in words
    assert "lake.readings at the end of 2013-01-06, as the ledger has it" in words
    assert "batch 4, day 2013-01-07: waits for its day: the next row" in words
    of_day = tide("where", "readings", "--key", "id=1", "--day", "2013-01-05", "--json")
    assert of_day.exit_code == 0
    assert [(e["state"], e["day"][:16]) for e in the_json(of_day)["events"]] == [("row", "2013-01-05T00:00")]
    assert tide("where", "readings", "--key", "id=1", "--day", "2013-01-07").exit_code == 1
    assert tide("where", "readings", "0", "0", "--day", "2013-01-05").exit_code == 2


def test_the_audit_says_what_it_compared(tide: Tide) -> None:
    found = tide("audit", "readings", "--deep", "--no-catalogue")
    print(found.output)
    assert found.exit_code == 0
    words = " ".join(found.stdout.split())
    assert "6 rows and 1 tombstone in 6 buckets with what the days before and 8 events make, 2 days" in words


@pytest.mark.parametrize("more", [(), ("--replay",)])
def test_days_are_not_filled_from_the_newest_on(world: DailyWorld, tide: Tide, more: tuple[str, ...]) -> None:
    """Runs of newer days would wait for those that they leave no room for."""
    world.close()
    done = tide("backfill", "readings", "-s", "2013-01-05", "-e", "2013-01-07", "--newest-first", *more)
    assert done.exit_code == 2
    assert "built on the one before it; the oldest goes first" in done.output
