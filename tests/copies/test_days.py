"""A mirror by days begins with a first copy: no day is published before it is whole, and none lacks a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import in_process
from tests.copies.days import COPYING, LAST, CopiedDays
from tests.mirror.audits import deep
from tests.mirror.days import YAML, by_days, day
from tests.mirror.test_days_where import ask
from tidegate.core.base.errors import NotReady, SpecError
from tidegate.core.base.plain import loads
from tidegate.core.copy.rounds import RoundState
from tidegate.core.daily.day import Day
from tidegate.core.target.paths import DAY as DAY_FILE
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.copy import standing
from tidegate.workflow.generation import copies
from tidegate.workflow.look import status
from tidegate.workflow.publish import archive


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopiedDays]:
    made = begun(tmp_path)
    yield made
    made.close()


def begun(folder: Path) -> CopiedDays:
    """Ten rows of before the topic began, and its first event."""
    made = CopiedDays(folder)
    made.source_table.rows = {key: f"old {key}" for key in range(1, 11)}
    made.source_table.set(3, "first event")
    made.deliver()
    return made


def day_of(world: CopiedDays, n: int) -> Day:
    place = world.place(n)
    assert place is not None
    return loads(Day, (place.parent / DAY_FILE).read_text())


def sound(world: CopiedDays) -> None:
    ctx = world.context()
    assert [str(p) for p in audit(ctx, ctx.ledger.reads, in_process).problems] == []
    world.close()
    found = deep(world)
    assert found.balanced, [str(p) for p in (*found.problems, *found.unsettled)]
    assert not found.notes


def test_the_first_day_waits_for_the_copy_and_has_all_rows(world: CopiedDays) -> None:
    before = dict(world.source_table.rows)
    world.until(1.5)
    with pytest.raises(NotReady, match="first full copy of the source's table is not whole yet"):
        world.publish(0)
    assert world.rows(0) is None
    done = world.read()
    assert (done.round, done.chunks) == (1, 4)
    world.publish(0)
    assert world.told(0) == before
    assert (day_of(world, 0).taken, day_of(world, 0).copied) == (1, 1)
    assert day_of(world, 0).events == 1, "rows of a copy are no events"
    sound(world)


def test_a_copy_that_is_read_in_part_is_no_day(world: CopiedDays) -> None:
    world.until(1.5)
    world.pipeline = by_days(world.folder, COPYING.replace("chunk_rows: 3", "chunk_rows: 1"))
    done = world.read(go_on=lambda: False)
    assert (done.chunks, done.left) == (8, True)
    with pytest.raises(NotReady, match="not whole yet"):
        world.publish(0)


def test_changes_during_the_read_win(world: CopiedDays) -> None:
    """Those of the day itself are in it; later ones in the day of theirs."""
    source = world.source_table
    steps = iter([(1, "changed"), (2, None), (11, "new"), (1, "again"), (10, None)])

    def meanwhile() -> None:
        for change in steps:
            source.set(*change)
            break

    source.during = meanwhile
    world.read()
    source.during = lambda: None
    shown = dict(source.rows)
    assert shown[1] == "again"
    world.until(1.5)
    source.set(5, "next day")
    source.set(6, None)
    world.until(2.5)
    world.publish(0)
    assert world.told(0) == shown
    world.publish(1)
    assert world.told(1) == {k: w for k, w in source.rows.items() if k != LAST}
    assert (day_of(world, 1).taken, day_of(world, 1).copied) == (0, 1)
    sound(world)


def test_s5_a_straggler_of_before_the_copy_brings_nothing_back(world: CopiedDays) -> None:
    """Its delete never came: the whole reading has not seen the row."""
    source = world.source_table
    source.set(20, "to be lost")
    source.lose(20)
    late = world.sent
    world.sent += 1  # it is on its way
    world.read()
    world.until(1.5)
    world.publish(0)
    world.land(source.log[late])
    world.until(2.5)
    world.publish(1)
    world.publish(1)
    assert 20 not in (world.told(0) or {})
    assert 20 not in (world.told(1) or {})
    sound(world)


def test_s5_rows_that_are_gone_without_an_event_go_with_the_next_copy(world: CopiedDays) -> None:
    source = world.source_table
    world.read()
    world.until(1.5)
    world.publish(0)
    source.lose(4)
    source.sneak(5, "by hand")
    world.again()
    world.read()
    world.until(2.5)
    world.publish(1)
    assert world.told(1) == {k: w for k, w in source.rows.items() if k != LAST}
    told = day_of(world, 1)
    assert (told.taken, told.purged) == (2, 1)
    sound(world)


def test_a_day_that_is_built_again_takes_the_same_copy(world: CopiedDays) -> None:
    """Its inputs are recorded: a later copy belongs to a later day."""
    source = world.source_table
    world.read()
    world.until(1.5)
    world.publish(0)
    shown = world.told(0)
    source.sneak(5, "by hand")
    world.again()
    world.read()
    place = world.place(0)
    assert place is not None
    for path in place.iterdir():
        path.unlink()
    world.publish(0)
    assert world.told(0) == shown
    assert day_of(world, 0).taken == 1
    assert not world.replay_day(0).new, "it is the same again"
    sound(world)


def test_nothing_is_read_before_an_event_has_landed(tmp_path: Path) -> None:
    """S4: changes between the query and the topic's beginning would be missing."""
    world = CopiedDays(tmp_path)
    with pytest.raises(NotReady, match="no event of the table waits for its day"):
        world.read()
    world.close()


def test_what_waits_in_a_batch_of_two_days_says_what_has_landed(tmp_path: Path) -> None:
    """The files of its first day have moved to that, and nothing else lands."""
    world = CopiedDays(tmp_path)
    world.source_table.rows = {key: f"old {key}" for key in range(1, 5)}
    world.source_table.set(3, "first event")
    shown = dict(world.source_table.rows)
    world.until(1.5)
    with pytest.raises(NotReady, match="first full copy of the source's table is not whole yet"):
        world.publish(0)
    assert world.read().round == 1
    world.publish(0)
    assert world.told(0) == shown
    world.again()
    assert world.read().round == 2
    sound(world)
    world.close()


def test_s4_the_topic_begins_with_the_oldest_event_that_waits(world: CopiedDays) -> None:
    """A slot confirms it long before the newest one, which comes again and again while the table is read."""
    world.source_table.set(3, "second event")
    world.deliver()
    told = standing.told(world.context(), world.greatest)
    assert told.begins is not None
    assert told.last_position is not None
    assert told.last_position[0] - told.begins[0] == 10
    world.until(1.5)
    world.read()
    world.publish(0)
    assert standing.told(world.context(), world.greatest).begins is not None, "files that have moved are passed over"


def test_s4_a_chunk_below_what_has_landed_is_read_again(world: CopiedDays) -> None:
    source = world.source_table
    end, source.end = source.end, 50
    with pytest.raises(Exception, match="its LOW is before the topic begins"):
        world.read()
    source.end = end
    world.read()
    world.until(1.5)
    world.publish(0)
    assert world.told(0) == {key: word for key, word in source.rows.items() if key != LAST}


def test_s1_a_row_that_was_read_is_newer_than_the_event_at_its_low(world: CopiedDays) -> None:
    """An idle source: LOW is the position of its newest event, whose row has changed without one."""
    world.source_table.sneak(3, "by hand")
    world.read()
    world.until(1.5)
    world.publish(0)
    assert (world.told(0) or {})[3] == "by hand"
    sound(world)


def test_a_copy_may_come_later(tmp_path: Path) -> None:
    """Days that are published stay as they are; the next one waits for it."""
    world = CopiedDays(tmp_path, YAML)
    world.source_table.rows = {1: "old", 2: "old"}
    world.source_table.set(3, "an event")
    world.until(1.5)
    world.publish(0)
    assert world.told(0) == {3: "an event"}
    world.pipeline = by_days(tmp_path, COPYING)
    world.until(2.5)
    with pytest.raises(NotReady, match="not whole yet"):
        world.publish(1)
    assert not world.publish(0).new, "what is published stays"
    world.read()
    world.publish(1)
    assert world.told(1) == {1: "old", 2: "old", 3: "an event"}
    assert world.told(0) == {3: "an event"}
    assert not world.replay_day(0).new
    sound(world)
    world.close()


def test_the_ledger_says_that_it_is_whole_and_its_files_stay(world: CopiedDays) -> None:
    world.read()
    ctx = world.context()
    newest = ctx.ledger.copies.newest(world.pipeline.name)
    assert newest is not None
    assert newest.state == RoundState.WHOLE
    world.until(1.5)
    world.publish(0)
    world.clock.advance(400 * 86_400_000)
    clean(world.context())
    assert not world.replay_day(0).new
    sound(world)


def test_a_part_of_the_keys_is_refused(world: CopiedDays) -> None:
    world.read()
    with pytest.raises(SpecError, match="has no parts"):
        world.again(keys=("1", "2"))


def test_a_day_says_how_exact_it_is(world: CopiedDays) -> None:
    """The copy is read long after the day's end, so that single rows may be newer than that."""
    world.until(1.5)
    world.read()
    world.said.clear()
    world.publish(0)
    said = [line for line in world.said if "copy 1 is in it: 11 rows" in line]
    assert "changed or went after" in "".join(said), world.said


def test_the_sensor_says_what_it_waits_for(world: CopiedDays) -> None:
    world.until(1.5)
    certificate = archive.ready(world.context(), day(0))
    assert (certificate.ready, certificate.reason) == (
        False,
        "the first full copy of the source's table is not whole yet",
    )
    world.read()
    assert archive.ready(world.context(), day(0)).ready


def test_where_tells_rows_of_a_copy(world: CopiedDays) -> None:
    world.until(1.5)
    world.read()
    before = ask(world, 7)
    assert (before.seen, [e.state for e in before.events]) == (None, ["waiting"])
    world.publish(0)
    found = ask(world, 7)
    assert found.seen is not None
    assert (found.seen.operation, found.seen.n, found.seen.batch_id, found.seen.day_ms) == ("r", 1, -3, None)
    assert [e.state for e in ask(world, 3).events] == ["row", "older"]


def test_status_says_how_far_the_copy_is(world: CopiedDays) -> None:
    def words() -> str:
        ctx = world.context()
        found = status.status(ctx, ctx.ledger.reads, None).copy_words
        world.close()
        return found

    assert words() == "nothing of the source's table is read yet; no day is published before it is"
    world.pipeline = by_days(world.folder, COPYING.replace("chunk_rows: 3", "chunk_rows: 1"))
    world.read(go_on=lambda: False)
    assert "copy 1: 8 of 11 chunks read (8 rows)" in words()
    world.read()
    assert words() == "copy 1 is whole (10 rows): the next day that is built has its rows, if none has"


def test_a_whole_copy_stays_whole_while_another_one_is_read(world: CopiedDays) -> None:
    def found() -> tuple[bool, str]:
        ctx = world.context()
        told = status.status(ctx, ctx.ledger.reads, None)
        world.close()
        return told.is_copied, told.copy_words

    assert found()[0] is False
    world.until(1.5)
    world.read()
    assert found()[0]
    world.again()
    assert found() == (
        True,
        "copy 1 is whole; copy 2: 0 of 0 chunks so far read (0 rows); the next day after it takes it whole",
    )


def test_s7_a_copy_below_a_purge_is_not_taken(world: CopiedDays) -> None:
    """Tombstones that would outdate its rows are gone."""
    world.read()
    before = Day(base=None, files=(), copied=0, purged_below=(1 << 62, 0, 0))
    with pytest.raises(NotReady, match="not whole") as refused:
        copies.taken(world.context(), before, None)
    assert "tidegate copy readings --again" in refused.value.advice, "what is whole is not read again by itself"
    assert any("copy 1 is too old, its LOW is below a purge" in line for line in world.said)
    assert copies.taken(world.context(), replace(before, purged_below=(1, 0, 0)), None).round is not None
