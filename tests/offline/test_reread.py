"""A published window of a table without a log is read again: another snapshot, in a generation of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.offline.test_life import balanced, ids
from tests.offline.worlds import START, TableWorld, window
from tidegate.core.base.errors import LostComparison, NotReady, ReplayRefused, SourceUnavailable
from tidegate.core.window.states import REREAD, BuildingGeneration
from tidegate.workflow.dirty import redrive
from tidegate.workflow.look.explanation import explain
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import reread

DAY = 86_400_000


class _Gone(BaseException):
    """The process is killed."""


def filled(world: TableWorld, keys: Any, word: str) -> None:
    world.fake.rows = {key: (word, datetime.fromtimestamp(START / 1000, UTC) + timedelta(hours=12)) for key in keys}


@pytest.fixture
def day_zero(tmp_path: Path) -> Iterator[TableWorld]:
    """Day 0 has 10 rows of the first reading; the table has 6 others by now."""
    made = TableWorld(tmp_path)
    filled(made, range(1, 11), "first")
    made.read(0)
    made.publish(0)
    filled(made, range(5, 11), "second")
    yield made
    made.close()


def words(world: TableWorld) -> set[str]:
    return {word for (word,) in world.rows(0, "word")}


def summary(world: TableWorld) -> str:
    ctx = world.context()
    try:
        return explain(ctx, ctx.ledger.reads, window(0)).summary  # type: ignore[attr-defined]
    finally:
        world.close()


# ---------------------------------------------------------------- what there is afterwards


def test_a_second_reading_is_the_next_generation_and_says_so(day_zero: TableWorld) -> None:
    found = day_zero.reread(0)
    assert (found.new, found.generation, found.rows) == (True, 2, 6)
    assert (ids(day_zero, 0), words(day_zero)) == ([*range(5, 11)], {"second"})
    said = "second reading of table shop.t of postgresql db:5432/shop, 3 chunks from "
    assert said in summary(day_zero)
    assert summary(day_zero).endswith(", 6 rows: another snapshot; the first had 10 rows")
    place = Path(found.location.removeprefix("file://"), "_certificate.json")
    certificate = json.loads(place.read_text())
    assert certificate["reading"].startswith(said)
    assert certificate["rows"] == 6
    balanced(day_zero)


def test_the_window_of_an_empty_reading_gets_rows_and_the_other_way_round(tmp_path: Path) -> None:
    world = TableWorld(tmp_path)
    world.read(0)
    assert world.publish(0).rows == 0
    filled(world, range(1, 5), "second")
    assert world.reread(0).rows == 4
    assert ids(world, 0) == [1, 2, 3, 4]
    balanced(world)
    world.fake.rows.clear()
    assert world.reread(0).rows == 0
    assert world.rows(0) == []
    balanced(world)
    assert world.back(0, 2).rows == 4
    balanced(world)
    world.close()


def test_the_same_content_is_not_published_again(day_zero: TableWorld) -> None:
    filled(day_zero, range(1, 11), "first")
    found = day_zero.reread(0)
    assert (found.new, found.generation, found.note) == (False, 1, "unchanged")
    balanced(day_zero)


def test_a_filter_is_todays(day_zero: TableWorld) -> None:
    day_zero.alter("partition_by", "where: id <> 7\npartition_by")
    assert day_zero.reread(0).rows == 5
    assert ids(day_zero, 0) == [5, 6, 8, 9, 10]
    balanced(day_zero)


# ---------------------------------------------------------------- what follows one


def test_what_follows_goes_by_the_reading_in_force(day_zero: TableWorld) -> None:
    """Back to the first one and again to the second; each is rebuilt from its own files, by its own count."""
    day_zero.reread(0)
    assert day_zero.back(0).rows == 10
    assert words(day_zero) == {"first"}
    balanced(day_zero)
    day_zero.alter("word, type: string", "word, type: string, hidden: true")
    assert day_zero.again(0).rows == 10
    balanced(day_zero)
    day_zero.alter("word, type: string, hidden: true", "word, type: string")
    assert day_zero.back(0, 2).rows == 6
    assert words(day_zero) == {"second"}
    balanced(day_zero)
    day_zero.alter("word, type: string", "word, type: string, hidden: true")
    assert day_zero.again(0).rows == 6
    assert "generation 2 is a second reading of table shop.t" in summary(day_zero)
    balanced(day_zero)
    day_zero.fake.rows.clear()
    assert day_zero.reread(0).rows == 0
    balanced(day_zero)


def test_a_lost_file_of_a_second_reading_is_not_taken_from_the_first(day_zero: TableWorld) -> None:
    lost = day_zero.reread(0)
    kept = day_zero.folder / "kept"
    next(Path(lost.location.removeprefix("file://")).rglob("*.parquet")).rename(kept)
    with pytest.raises(ReplayRefused, match="a second reading of shop.t may give other records"):
        day_zero.publish(0)
    assert day_zero.back(0, 1).rows == 10
    balanced(day_zero)


def test_cleaned_files_of_the_first_reading_are_not_brought_back(day_zero: TableWorld) -> None:
    day_zero.reread(0)
    filled(day_zero, range(20, 28), "third")
    day_zero.reread(0)
    day_zero.clock.advance(400 * DAY)
    reconcile.maintain(day_zero.context())
    day_zero.close()
    with pytest.raises(ReplayRefused, match="the files of generation 1 were cleaned"):
        day_zero.back(0, 1)
    assert words(day_zero) == {"third"}
    assert day_zero.back(0).rows == 6, "the one before is kept"
    assert words(day_zero) == {"second"}
    balanced(day_zero)


def test_clear_verifies_a_second_reading_and_reads_nothing(day_zero: TableWorld) -> None:
    archive.announced(day_zero.context(), day_zero.reread(0))
    day_zero.close()
    reads = len(day_zero.fake.reads)
    assert not day_zero.publish(0).new
    assert len(day_zero.fake.reads) == reads


# ---------------------------------------------------------------- deaths


def killed(world: TableWorld) -> None:
    """A second reading dies between its chunks."""
    reads = len(world.fake.reads)

    def dies(number: int) -> None:
        if number == reads + 2:
            raise _Gone

    world.fake.during = dies
    with pytest.raises(_Gone):
        world.reread(0)
    world.close()
    world.fake.during = lambda number: None
    generation = world.context().ledger.windows.generation("readings", window(0), 2)
    world.close()
    assert isinstance(generation, BuildingGeneration)
    assert (generation.kind, words(world)) == (REREAD, {"first"})
    filled(world, range(20, 28), "third")


def test_a_second_reading_that_died_is_read_whole_by_clear(day_zero: TableWorld) -> None:
    killed(day_zero)
    assert day_zero.publish(0).rows == 8
    assert words(day_zero) == {"third"}
    balanced(day_zero)


def test_a_second_reading_that_died_is_read_whole_by_the_same_command(day_zero: TableWorld) -> None:
    killed(day_zero)
    assert day_zero.reread(0).generation == 2
    assert (ids(day_zero, 0), words(day_zero)) == ([*range(20, 28)], {"third"})
    balanced(day_zero)


def test_a_replay_gives_up_a_second_reading_that_died(day_zero: TableWorld) -> None:
    """It would else publish the first reading's rows as a second one."""
    killed(day_zero)
    day_zero.alter("word, type: string", "word, type: string, hidden: true")
    assert (day_zero.again(0).generation, len(day_zero.rows(0))) == (3, 10)
    assert "second reading" not in summary(day_zero)
    balanced(day_zero)


def test_a_second_reading_gives_up_a_replay_that_died(day_zero: TableWorld) -> None:
    ctx = day_zero.context()
    ctx.ledger.windows.begin_generation("readings", window(0), 1, "replay")
    day_zero.close()
    assert (day_zero.reread(0).generation, words(day_zero)) == (3, {"second"})
    balanced(day_zero)


def test_another_task_that_carries_it_to_its_end_is_believed(day_zero: TableWorld) -> None:
    """Clear takes the generation over while the command reads: one snapshot is published, once."""
    reads = len(day_zero.fake.reads)

    def overtaken(number: int) -> None:
        if number == reads + 1:
            mine, day_zero._ledgers = day_zero._ledgers, []
            filled(day_zero, range(20, 28), "third")
            day_zero.publish(0)
            day_zero._ledgers = mine

    day_zero.fake.during = overtaken
    found = day_zero.reread(0)
    assert (found.generation, words(day_zero)) == (2, {"third"})
    balanced(day_zero)


def test_a_source_that_gives_no_answer_leaves_what_stands(day_zero: TableWorld) -> None:
    def away(number: int) -> None:
        raise SourceUnavailable("db is away")

    reading = day_zero.kafka.reading
    day_zero.kafka.reading = lambda *given: away(0)
    with pytest.raises(SourceUnavailable):
        day_zero.reread(0)
    assert words(day_zero) == {"first"}
    day_zero.kafka.reading = reading
    assert day_zero.reread(0).generation == 2
    balanced(day_zero)


def test_a_table_that_is_gone_gives_the_second_reading_up(day_zero: TableWorld) -> None:
    day_zero.fake.missing = True
    with pytest.raises(ReplayRefused, match=r"there is no table shop\.t"):
        day_zero.reread(0)
    day_zero.fake.missing = False
    assert not day_zero.publish(0).new, "Clear verifies the first one again"
    assert words(day_zero) == {"first"}
    balanced(day_zero)


# ---------------------------------------------------------------- refusals


def test_rows_that_do_not_fit_refuse_it(tmp_path: Path) -> None:
    columns = "  - {name: id, type: bigint}\n  - {name: word, type: string, nullable: false}"
    world = TableWorld(tmp_path, columns=columns)
    filled(world, [1, 2], "first")
    world.read(0)
    world.publish(0)
    world.fake.rows[3] = (None, None)
    with pytest.raises(ReplayRefused, match="1 row of the second reading do not fit the columns: word: "):
        world.reread(0)
    assert (ids(world, 0), words(world)) == ([1, 2], {"first"})
    balanced(world)
    world.close()


def test_dirty_rows_of_the_first_reading_refuse_it(tmp_path: Path) -> None:
    """A redrive would bring them beside rows of another snapshot."""
    columns = "  - {name: id, type: bigint}\n  - {name: word, type: string, nullable: false}"
    world = TableWorld(tmp_path, columns=columns)
    world.alter("partition_by", "dirty: {max_count: null, max_ratio: null}\npartition_by")
    world.fake.rows = {1: ("w", None), 2: (None, None)}
    world.read(0)
    world.publish(0)
    with pytest.raises(ReplayRefused, match=r"1 row of the first reading were dirty \(batch 1\)"):
        world.reread(0)
    world.alter("type: string, nullable: false", "type: string")
    redrive.plan(world.context(), "redrive")
    redrive.carry_out(world.context(), "redrive")
    world.close()
    with pytest.raises(ReplayRefused, match="beside rows of another snapshot"):
        world.reread(0)
    balanced(world)
    world.close()


def test_windows_by_a_column_are_not_read_again(tmp_path: Path) -> None:
    world = TableWorld(tmp_path, "column: changed")
    filled(world, [1, 2], "first")
    world.read(0)
    world.publish(0)
    with pytest.raises(ReplayRefused, match="rows that have changed since are in a later window by now"):
        world.reread(0)
    assert ids(world, 0) == [1, 2]
    world.close()


def test_a_window_that_was_never_published_is_not_read_again(day_zero: TableWorld) -> None:
    day_zero.read(1)
    with pytest.raises(NotReady, match="was never published"):
        day_zero.reread(1)
    assert day_zero.publish(1).rows == 6


def test_a_lost_comparison_reads_no_rows_twice(day_zero: TableWorld) -> None:
    """Whoever loses the generation while it reads has published nothing of it."""
    ctx = day_zero.context()
    built = ctx.ledger.windows.built

    def lost(*given: Any) -> Any:
        ctx.ledger.windows.built = built  # type: ignore[method-assign]
        raise LostComparison("another epoch")

    ctx.ledger.windows.built = lost  # type: ignore[method-assign]
    assert reread.read_again(ctx, window(0)).rows == 6
    day_zero.close()
    assert words(day_zero) == {"second"}
    balanced(day_zero)
