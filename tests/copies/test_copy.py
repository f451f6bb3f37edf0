"""The first full copy of a mirror, and reading it again: what stands in the table is what the source has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies.worlds import COPYING, CopyWorld
from tests.fakes.source_table import TABLE, place
from tests.hooks import Died, Hook, die
from tests.mirror.audits import deep, dropped, overwritten
from tests.mirror.test_where_key import ask
from tidegate.core.base.errors import NotReady, SourceError, SpecError, StorageAhead
from tidegate.core.copy.port import SourceColumn
from tidegate.core.copy.rounds import ChunkState, RoundState
from tidegate.workflow.apply.taking_back import take_back
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.look import status


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = CopyWorld(tmp_path)
    made.source_table.rows = {key: f"old {key}" for key in range(1, 11)}
    made.source_table.set(3, "first event")
    yield made
    made.close()


def test_rows_of_before_the_topic_are_copied(world: CopyWorld) -> None:
    world.deliver()
    world.apply()
    assert world.rows() == {3: "first event"}
    done = world.read()
    assert (done.round, done.chunks, done.rows, done.left) == (1, 4, 10, False)
    assert world.rows() == {3: "first event"}, "what is read waits for the merge"
    applied = world.apply()
    assert world.rows() == world.source_table.rows
    assert (applied.told.rows, applied.told.tombstones, applied.told.inserted) == (10, 0, 10)
    assert applied.told.events == 1, "rows of a copy are no events"
    whole = applied.told.copied.whole
    assert whole is not None
    assert (whole.number, whole.chunks) == (1, ((1, 4),))
    assert world.read().chunks == 0
    assert world.apply().merges == 0


def test_the_ledger_knows_that_it_is_whole(world: CopyWorld) -> None:
    world.mirror()
    world.apply()
    ctx = world.context()
    newest = ctx.ledger.copies.newest(world.pipeline.name)
    assert newest is not None
    assert newest.state == RoundState.WHOLE
    chunks = ctx.ledger.copies.chunks(world.pipeline.name, 1)
    assert [c.state for c in chunks] == [ChunkState.READ] * 4
    assert chunks[0].keys.lower is None
    assert chunks[-1].keys.upper is None


def test_nothing_is_read_before_the_topic_has_shown_that_it_began(world: CopyWorld) -> None:
    """S4: changes between the query and the topic's beginning would be missing."""
    with pytest.raises(NotReady, match="no event of the table has been merged yet"):
        world.read()


def test_changes_during_the_read_win_over_what_was_read(world: CopyWorld) -> None:
    world.deliver()
    world.apply()
    steps = iter([(1, "changed"), (2, None), (11, "new"), (1, "again"), (10, None)])

    def meanwhile() -> None:
        for change in steps:
            world.source_table.set(*change)
            break

    world.source_table.during = meanwhile
    world.read()
    assert world.mirror() == world.source_table.rows
    assert world.source_table.rows[1] == "again"
    assert 2 not in world.source_table.rows


def test_events_that_come_before_the_copy_is_merged_are_not_undone(world: CopyWorld) -> None:
    world.deliver()
    world.apply()
    world.read()
    world.source_table.set(5, "newer")
    world.source_table.set(6, None)
    world.deliver()
    world.apply()
    assert world.rows() == world.source_table.rows


def test_events_of_before_the_copy_that_come_after_it_bring_nothing_back(world: CopyWorld) -> None:
    """S5: a key that the whole reading has not seen, and whose delete never came, stays away."""
    source = world.source_table
    world.deliver()
    world.apply()
    source.set(20, "to be lost")
    source.lose(20)
    world.read()
    world.apply()
    assert world.rows() == source.rows
    world.deliver()  # the event of 20, older than the copy
    applied = world.apply()
    assert world.rows() == source.rows
    assert applied.told.below_purge == 0, "it is no alarm"


def test_a_second_reading_finds_what_went_and_came_without_an_event(world: CopyWorld) -> None:
    world.mirror()
    world.source_table.lose(4)
    world.source_table.sneak(7, "sneaked")
    world.source_table.sneak(12, "new")
    assert world.mirror() != world.source_table.rows
    assert world.again().number == 2
    assert world.mirror() == world.source_table.rows
    told = world.apply().told
    assert told.copied.whole is not None
    assert told.copied.whole.number == 2
    assert told.rows + told.tombstones + told.purged == told.inserted


def test_an_idle_source_gives_two_readings_the_same_low(world: CopyWorld) -> None:
    """S1: the later one wins by its round."""
    world.mirror()
    world.source_table.sneak(1, "without an event")
    world.again()
    assert world.mirror() == world.source_table.rows


def test_an_empty_table_is_whole_at_once(world: CopyWorld) -> None:
    for key in list(world.source_table.rows):
        world.source_table.lose(key)
    assert world.mirror() == {}
    assert world.apply().told.copied.whole is not None


def test_a_run_that_has_no_time_leaves_the_rest(world: CopyWorld) -> None:
    world.source_table.rows = {key: "old" for key in range(1, 100)}
    world.deliver()
    world.apply()
    first = world.read(go_on=lambda: False)
    assert first.left
    assert first.chunks == 8
    world.apply()
    assert len(world.rows()) == 24
    assert world.mirror() == world.source_table.rows


# ---------------------------------------------------------------- what else knows of it


def test_a_deep_audit_makes_the_table_anew_from_chunks_and_batches(world: CopyWorld) -> None:
    world.mirror()
    world.source_table.set(2, None)
    world.source_table.lose(5)
    world.again()
    world.mirror()
    report = deep(world)
    assert report.problems == ()
    overwritten(world, lambda rows: [r for r in rows if r["id"] != 7])
    (problem,) = [p for p in deep(world).problems if "lacking" in p.what]
    assert "id=7 is not in the table" in problem.what


def test_a_table_that_was_dropped_is_made_anew_with_what_was_copied(world: CopyWorld) -> None:
    world.mirror()
    dropped(world)
    world.apply()
    assert world.rows() == world.source_table.rows
    assert world.standing().copied.whole is not None


def test_a_table_that_was_taken_back_gets_the_chunks_that_it_lacks(world: CopyWorld) -> None:
    world.deliver()
    world.apply()
    before = world.standing().snapshot
    assert before is not None
    world.read()
    world.apply()
    take_back(world.context(), before, "test")
    world.close()
    assert world.rows() == {3: "first event"}
    world.apply()
    assert world.rows() == world.source_table.rows


def test_a_ledger_that_was_restored_does_not_give_chunks_other_ranges(world: CopyWorld) -> None:
    """R11: the table holds chunk 1 of other keys than a ledger would cut that has forgotten it."""
    world.deliver()
    world.apply()
    world.close()
    kept = world.database.read_bytes()
    world.read()
    world.apply()
    world.close()
    world.database.write_bytes(kept)
    for step in (world.read, world.apply):
        with pytest.raises(StorageAhead, match="copy 1, which the ledger does not know"):
            step()
    assert world.again().number == 2
    assert world.mirror() == world.source_table.rows
    assert (deep(world).notes, deep(world).problems) == ((), ()), "copy 2 stands for the one that is unknown"


def test_overtaken_attempts_are_cleaned_and_what_was_accepted_stays(world: CopyWorld) -> None:
    world.deliver()
    world.apply()
    world.wrap = lambda name, port: Hook(port, before={"accept": die}) if name == "copies" else port
    with pytest.raises(Died):
        world.read()
    world.wrap = lambda name, port: port
    world.mirror()
    before = [path for path in world.files() if "/copies/" in path]
    world.clock.advance(2 * 86_400_000)
    cleaned = clean(world.context())
    world.close()
    gone = {item.path.rpartition("/")[2] for item in cleaned.deleted if item.kind == "copies"}
    assert {name.partition(".")[2][0] for name in gone} == {"1"}, "of the first attempt each"
    left = [path for path in world.files() if "/copies/" in path]
    assert 0 < len(left) < len(before)
    dropped(world)
    world.apply()
    assert world.rows() == world.source_table.rows, "the table is made anew from what was accepted"


def test_computed_columns_are_computed_of_what_is_read(tmp_path: Path) -> None:
    computed = "  - {{name: heard, type: string, from: $.word, hidden: true}}\n"
    computed += "  - {{name: word, type: string, expr: \"upper(heard) || '!'\"}}\n"
    made = CopyWorld(tmp_path, COPYING.replace("  - {{name: word, type: string}}\n", computed))
    made.source_table.rows = {1: "a", 2: "b"}
    made.source_table.set(2, "c")
    assert made.mirror() == {1: "A!", 2: "C!"}
    made.close()


def test_a_column_that_nobody_takes_holds_the_copy(tmp_path: Path) -> None:
    """Its first event would lose to a row that was read later, and without the column."""
    made = CopyWorld(
        tmp_path, COPYING.replace("format: {{type: debezium}}", "format: {{type: debezium, unknown_fields: fail}}")
    )
    made.source_table.set(1, "a")
    made.deliver()
    made.apply()
    more = SourceColumn("city", "varchar(20)")
    made.source_table.table = replace(TABLE, columns=(*TABLE.columns, more))
    with pytest.raises(SpecError, match="no column takes city of shop.readings"):
        made.read()
    made.pipeline = replace(made.pipeline, format=replace(made.pipeline.format, unknown_fields="evolve"))
    with pytest.raises(NotReady, match="no column takes city of shop.readings"):
        made.read()
    made.close()


def test_a_table_that_is_altered_while_it_is_read_is_read_again(world: CopyWorld) -> None:
    world.deliver()
    world.apply()
    source = world.source_table

    def altered() -> None:
        source.table = replace(TABLE, columns=(*TABLE.columns, SourceColumn("city", "varchar(20)")))

    source.during = altered
    world.read()
    assert len(source.reads) == 8, "four chunks, twice"
    assert world.mirror() == source.rows


def test_status_says_how_far_the_copy_is(world: CopyWorld) -> None:
    def said() -> str:
        ctx = world.context()
        found = status.statuses([world.pipeline], {}, ctx.ledger.reads, world.clock.now_ms())[world.pipeline.name]
        world.close()
        return found.copy_words

    world.deliver()
    world.apply()
    assert said() == "nothing of the source's table is read yet"
    world.source_table.rows |= {key: "more" for key in range(20, 60)}
    world.read(go_on=lambda: False)
    assert (
        said() == "copy 1: 8 of 16 chunks so far read (24 rows), 0 merged; readers see an empty table until it is whole"
    )
    world.mirror()
    world.apply()
    assert said().startswith("whole since copy 1, read from (109")
    world.again("rows were changed by hand")
    assert said().endswith("; copy 2: 0 of 0 chunks so far read (0 rows), 0 merged")


def test_where_key_knows_what_a_copy_has_read(world: CopyWorld) -> None:
    source = world.source_table
    world.deliver()
    world.apply()
    source.set(20, "lost later")
    source.lose(20)
    world.read()
    read = ask(world, "id=5")
    assert [(e.state, e.batch_id, e.n) for e in read.events] == [("waiting", -2, 1)]
    world.apply()
    assert [(e.state, e.words) for e in ask(world, "id=5").events] == [("row", "made the row that is seen")]
    world.deliver()
    world.apply()
    (gone,) = ask(world, "id=20").events
    assert gone.state == "swept"
    older = ask(world, "id=3")
    assert [(e.state, e.batch_id) for e in older.events] == [("row", -1), ("older", 1)]


def test_a_connector_that_has_noted_nothing_holds_the_first_copy(world: CopyWorld) -> None:
    """Killed now, it would begin at the log's end, and lose what changed meanwhile."""

    def nothing_noted() -> None:
        raise SourceError("the connector shop has noted no place yet", retry=True)

    world.connector = nothing_noted
    world.deliver()
    world.apply()
    with pytest.raises(NotReady, match="nobody says that its connector would go on after a restart"):
        world.read()
    world.connector = lambda: place(world.source_table, world.source_table.end)
    assert world.mirror() == world.source_table.rows


def test_who_does_not_say_how_far_the_connector_is_until_a_person_acts_fails_the_first_copy(world: CopyWorld) -> None:
    """A missing grant, a wrong password: a task that waits is green, and nobody looks."""

    def refused() -> None:
        raise SourceError("MariaDB or MySQL refused: Access denied", advice="correct the connection", retry=False)

    world.connector = refused
    world.deliver()
    world.apply()
    with pytest.raises(SourceError, match="Access denied") as caught:
        world.read()
    assert caught.value.advice == "correct the connection"
