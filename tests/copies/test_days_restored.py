"""Days that have taken a copy which the ledger, restored, does not know any more; days whose record is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.copies.days import COPYING, LAST, CopiedDays
from tests.copies.test_days import begun, day_of, sound
from tests.mirror.days import YAML, by_days, day
from tidegate.core.base.errors import StorageAhead
from tidegate.core.copy.rounds import RoundState
from tidegate.core.target.paths import DAY as DAY_FILE
from tidegate.workflow.publish import archive
from tidegate.workflow.restore import adoption

BY_ONE = COPYING.replace("chunk_rows: 3", "chunk_rows: 1")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopiedDays]:
    made = begun(tmp_path)
    yield made
    made.close()


def backup(world: CopiedDays) -> Path:
    world.close()
    return Path(shutil.copy(world.database, world.folder / "backup.db"))


def restore(world: CopiedDays, kept: Path) -> None:
    """The ledger of then, with all that storage remembers of batches and days."""
    world.close()
    shutil.copy(kept, world.database)
    ctx = world.context()
    adoption.adopt(ctx, adoption.survey(ctx), "test")
    world.close()


def lose_rows(world: CopiedDays, n: int, record: bool = False) -> None:
    """Rows of the day are gone, or what names them."""
    place = world.place(n)
    assert place is not None
    if record:
        (place.parent / DAY_FILE).unlink()
    for path in () if record else place.iterdir():
        path.unlink()


def of_now(world: CopiedDays) -> dict[int, str | None]:
    return {key: word for key, word in world.source_table.rows.items() if key != LAST}


def half_copied(world: CopiedDays) -> Path:
    """The ledger of when eight of eleven chunks were read; the first day has taken all."""
    world.until(1.5)
    world.pipeline = by_days(world.folder, BY_ONE)
    world.read(go_on=lambda: False)
    kept = backup(world)
    world.read()
    world.publish(0)
    return kept


def test_r11_a_day_is_not_built_again_by_half_a_copy(world: CopiedDays) -> None:
    kept = half_copied(world)
    shown = world.told(0)
    restore(world, kept)
    lose_rows(world, 0)
    with pytest.raises(StorageAhead, match="copy 1, which the ledger does not have as whole"):
        world.publish(0)
    assert day_of(world, 0).rows == len(shown or {}) + 1


def test_r11_a_copy_that_a_day_has_taken_is_not_gone_on_with(world: CopiedDays) -> None:
    """What is read now would be another copy of that number."""
    kept = half_copied(world)
    restore(world, kept)
    with pytest.raises(StorageAhead, match="copy 1") as refused:
        world.read()
    assert "tidegate copy readings --again" in refused.value.advice
    assert world.again().number == 2
    world.read()
    world.source_table.sneak(5, "by hand")
    world.again()
    world.read()
    world.until(2.5)
    world.publish(1)
    assert world.told(1) == of_now(world)
    assert day_of(world, 1).taken == 3


def test_r11_a_new_copy_has_a_number_of_its_own(world: CopiedDays) -> None:
    """The ledger has forgotten every copy: the next one must not look like what the days have taken."""
    world.until(1.5)
    kept = backup(world)
    world.read()
    world.publish(0)
    restore(world, kept)
    with pytest.raises(StorageAhead, match="rows of copy 1, which the ledger does not know"):
        world.read()
    world.source_table.lose(4)
    assert world.again().number == 2
    world.read()
    world.until(2.5)
    world.publish(1)
    assert world.told(1) == of_now(world)


def test_r11_nothing_is_read_again_before_days_are_adopted(world: CopiedDays) -> None:
    """A ledger that has lost a day cannot say which copies it has taken."""
    world.until(1.5)
    kept = backup(world)
    world.read()
    world.publish(0)
    world.close()
    shutil.copy(kept, world.database)
    with pytest.raises(StorageAhead):
        world.again()


def test_a_day_whose_record_is_lost_takes_no_copy_of_later(world: CopiedDays) -> None:
    """Rows that have gone since would go from it, too."""
    world.read()
    world.until(1.5)
    world.publish(0)
    shown = world.told(0)
    world.source_table.set(5, None)
    world.source_table.set(6, "next day")
    world.deliver()
    world.clock.advance(1000)
    world.again()
    world.read()
    lose_rows(world, 0, record=True)
    assert world.publish(0).new
    assert world.told(0) == shown
    assert day_of(world, 0).taken == 1
    world.until(2.5)
    world.publish(1)
    assert (day_of(world, 1).taken, world.told(1)) == (2, of_now(world))
    sound(world)


def test_a_day_of_before_the_first_copy_is_built_again_without_one(tmp_path: Path) -> None:
    world = CopiedDays(tmp_path, YAML)
    world.source_table.rows = {1: "old", 2: "old"}
    world.source_table.set(3, "an event")
    world.until(1.5)
    world.publish(0)
    world.pipeline = by_days(tmp_path, COPYING)
    lose_rows(world, 0, record=True)
    assert world.publish(0).new, "there is no copy yet"
    world.until(2.5)
    world.clock.advance(1000)
    world.read()
    lose_rows(world, 0, record=True)
    assert world.publish(0).new
    assert world.told(0) == {3: "an event"}
    world.publish(1)
    assert world.told(1) == {1: "old", 2: "old", 3: "an event"}
    world.close()


def test_no_day_closes_before_the_copy_is_whole(world: CopiedDays) -> None:
    """One that waits is open, so that its own late events count in it: whatever let `publish` run."""
    world.until(1.5)
    with pytest.raises(Exception, match="not whole yet"):
        world.publish(0)
    world.source_table.at_day = 0.2
    world.source_table.set(7, "late")
    world.deliver()
    world.read()
    assert archive.ready(world.context(), day(0)).ready
    world.publish(0)
    assert world.told(0) == of_now(world)
    assert day_of(world, 0).events == 2
    newest = world.context().ledger.copies.newest(world.pipeline.name)
    assert newest is not None
    assert newest.state == RoundState.WHOLE
