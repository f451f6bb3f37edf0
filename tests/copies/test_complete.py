"""Since when nothing in a mirror is older (S9', S10): what the table tells, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies.worlds import CopyWorld
from tests.fakes.source_table import place, position
from tests.world import TOPIC
from tidegate.adapters.connections import ConnectionMissing
from tidegate.core.base.errors import SourceUnavailable
from tidegate.core.base.instants import HOUR_MS
from tidegate.core.copy.complete import Look, complete
from tidegate.core.copy.port import Place
from tidegate.core.copy.words import how_far
from tidegate.core.mirror.copied import Complete
from tidegate.ledger import schema
from tidegate.targets.iceberg.live import said_by
from tidegate.workflow.restore.reset import Recreated, accept, survey


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = begun(tmp_path)
    yield made
    made.close()


def begun(folder: Path) -> CopyWorld:
    made = CopyWorld(folder)
    made.source_table.rows = {key: f"old {key}" for key in range(1, 5)}
    made.source_table.set(3, "first event")
    made.delivered = made.source_table.end
    made.connector = lambda: place(made.source_table, made.delivered)
    return made


def told(world: CopyWorld) -> Complete | None:
    return world.standing().copied.complete


def older(world: CopyWorld) -> Complete | None:
    """What is told, once something newer is in the table."""
    found = told(world)
    return None if found is None else replace(found, exact=False)


def test_a_whole_copy_tells_since_which_position_nothing_is_older(world: CopyWorld) -> None:
    world.mirror()
    found = told(world)
    assert found is not None
    assert found.position == position(world.delivered)
    assert found.at_ms == world.clock.now_ms(), "all that committed by then was delivered"


def test_before_the_copy_is_whole_nothing_is_told(world: CopyWorld) -> None:
    world.deliver()
    world.apply()
    assert told(world) is None


def test_events_that_are_delivered_and_not_merged_hold_the_position(world: CopyWorld) -> None:
    world.mirror()
    before = older(world)
    world.source_table.set(1, "newer")
    world.send(*world.source_table.log[world.sent :])  # they are in the topic, and not landed
    world.delivered = world.source_table.end
    world.again()
    world.read()
    world.apply()
    assert told(world) == before


def test_what_the_connector_has_not_noted_is_not_claimed(world: CopyWorld) -> None:
    world.mirror()
    noted = world.delivered
    world.source_table.set(1, "newer")
    world.deliver()
    world.apply()
    found = told(world)
    assert found is not None
    assert found.position == position(noted)


def test_nothing_is_told_once_a_person_has_decided_between_events(world: CopyWorld) -> None:
    """Positions that contradict each other say nothing for certain, also once later merges are sound."""
    world.mirror()
    world.apply(conflicts="another server, and both rows are right")
    world.source_table.set(1, "newer")
    world.deliver()
    world.apply(conflicts="another server, and both rows are right")
    assert told(world) is None
    world.source_table.set(1, "newest")
    world.mirror()
    assert told(world) is None
    assert "a person has let the order decide" in how_far(None, world.standing(), True)


def test_it_says_why_it_cannot_say(world: CopyWorld) -> None:
    world.mirror()
    standing, name = world.standing(), world.pipeline.name
    reading = world.context().ledger.reads.readings([name])[name]
    said = Complete(position(world.delivered), world.clock.now_ms())
    older = replace(standing, copied=replace(standing.copied, complete=said))
    assert f"nothing in it is older than {said.position}, what the source had at" in how_far(reading, older, True)
    silent = replace(standing, copied=replace(standing.copied, complete=None))
    assert "nobody says how far the connector is" in how_far(reading, silent, False)
    assert "is not merged, or records were lost" in how_far(reading, silent, True)
    assert "has not said yet how far it is" in how_far(replace(reading, asked_ms=None), silent, True)
    assert "a purge has kept events out" in how_far(reading, replace(silent, below_purge=1), True)


def test_an_idle_table_is_complete_up_to_where_the_connector_is(world: CopyWorld) -> None:
    """Other tables of the source change: no event of this one comes, and no heartbeat is needed."""
    world.mirror()
    world.source_table.end += 1_000
    world.delivered = world.source_table.end
    world.again()
    world.read()
    world.apply()
    found = told(world)
    assert found is not None
    assert found.position == position(world.delivered)


def test_a_connector_that_gives_no_answer_holds_up_no_merge(world: CopyWorld) -> None:
    world.mirror()
    before = older(world)
    world.connector = silent  # type: ignore[assignment]
    world.source_table.set(1, "newer")
    assert world.mirror() == world.source_table.rows
    assert told(world) == before
    assert any("nobody says how far its connector is" in line for line in world.said)


# ---------------------------------------------------------------- exactly that position (S9)


def silent() -> None:
    """Nobody looks any more: what is told goes by earlier looks."""
    raise SourceUnavailable("Kafka Connect does not answer")


def lands(world: CopyWorld) -> None:
    """What is in the topic."""
    world.runs += 1
    world.ingest(f"run {world.runs}")


def sends(world: CopyWorld, key: int, value: str) -> None:
    """A change of the source whose event is in the topic."""
    world.source_table.set(key, value)
    world.send(*world.source_table.log[world.sent :])
    world.sent = len(world.source_table.log)


def test_a_quiet_source_makes_it_exact(world: CopyWorld) -> None:
    world.mirror()
    found = told(world)
    assert found == Complete(position(world.source_table.end), world.clock.now_ms(), exact=True)
    assert world.rows() == world.source_table.rows
    words = how_far(None, world.standing(), True)
    assert f"it is exactly what the source had at {found.position}, at " in words
    said = said_by(world.loaded().metadata.snapshots[-1])
    assert said["tidegate.complete-exactly"] == "true"
    sends(world, 1, "newer")
    world.delivered = world.source_table.end
    lands(world)
    world.apply()
    later = told(world)
    assert later is not None
    assert (later.exact, later.position > found.position) == (True, True)


def test_a_change_while_it_is_looked_is_not_missed(world: CopyWorld) -> None:
    """It is in the topic when its ends are asked for, and the connector has not noted it."""
    world.mirror()
    at = position(world.delivered)

    def changes_then() -> object:
        answer = Place(at, world.source_table.position())
        if 1 in world.source_table.rows and world.source_table.rows[1] != "above":
            sends(world, 1, "above")
        return answer

    world.connector = changes_then  # type: ignore[assignment]
    world.apply()
    lands(world)
    world.connector = silent  # type: ignore[assignment]
    world.apply()
    assert world.rows()[1] == "above"
    found = told(world)
    assert found is not None
    assert (found.position, found.exact) == (at, False)


def test_an_event_behind_the_look_makes_it_newer_than_exact(world: CopyWorld) -> None:
    world.mirror()
    world.connector = silent  # type: ignore[assignment]
    sends(world, 1, "above")
    lands(world)
    world.apply()
    assert world.rows()[1] == "above"
    found = told(world)
    assert found is not None
    assert (found.position, found.exact) == (position(world.delivered), False)
    assert "tidegate.complete-exactly" not in said_by(world.loaded().metadata.snapshots[-1])


def test_a_chunk_may_be_newer_than_exact(world: CopyWorld) -> None:
    """S9: its rows are of some moment up to its HIGH."""
    world.mirror()
    world.connector = silent  # type: ignore[assignment]
    world.source_table.set(1, "above")
    world.connector = lambda: place(world.source_table, world.delivered)
    world.again()
    world.read()
    world.connector = silent  # type: ignore[assignment]
    world.apply()
    assert world.rows()[1] == "above"
    found = told(world)
    assert found is not None
    assert (found.position, found.exact) == (position(world.delivered), False)


def test_what_makes_a_look_exact() -> None:
    quiet = look(7, 7, p0=12, p1=25)
    assert complete([quiet], {0: 12, 1: 25, 2: 0}) == Complete((7, 0), 70, exact=True)
    assert complete([look(7, 6, p0=12)], {0: 12}) == Complete((7, 0), 70, exact=True)
    for looks, merged in (
        ([look(7, 8, p0=12)], {0: 12}),
        ([quiet], {0: 13, 1: 25}),
        ([quiet], {0: 12, 1: 25, 2: 1}),
        ([quiet, look(8, 9, p0=12, p1=25)], {0: 12, 1: 25}),
    ):
        found = complete(looks, merged)
        assert found is not None
        assert not found.exact


def look(at: int, end: int, **ends: int) -> Look:
    return Look(position=(at, 0), log_end=(end, 0), at_ms=at * 10, ends={int(p[1:]): n for p, n in ends.items()})


def test_every_partition_has_to_be_merged() -> None:
    looks = [look(5, 6, p0=10, p1=20), look(7, 9, p0=12, p1=25)]
    assert complete(looks, {0: 12, 1: 24}) == Complete((5, 0), None)
    assert complete(looks, {0: 12, 1: 25}) == Complete((7, 0), 50), "the log ended at 6 when it was asked at 50 ms"
    assert complete(looks, {0: 9, 1: 30}) is None
    assert complete([], {0: 1}) is None
    assert complete([look(5, 6)], {}) is None, "an empty topic does not make up for records that were lost"


# ---------------------------------------------------------------- a topic that is another one, or was sent back


def noted(world: CopyWorld) -> None:
    """The source moves on, the connector has noted all of it, and a copy makes the table say how far it is."""
    world.source_table.end += 1_000
    world.delivered = world.source_table.end
    world.again()
    world.read()
    world.apply()


def test_a_topic_that_was_recreated_tells_nothing(world: CopyWorld) -> None:
    """An event of the old topic was never read, and offsets of the new one say nothing of it."""
    world.mirror()
    assert told(world) is not None
    for n in range(20):
        world.source_table.set(1, f"word {n}")
    world.deliver()
    world.source_table.set(2, "lost with the old topic")
    world.send(*world.source_table.log[world.sent :])
    world.sent = len(world.source_table.log)
    world.kafka.delete(TOPIC)
    world.kafka.create(TOPIC, 1)
    ctx = world.context()
    found = survey(ctx)
    assert isinstance(found, Recreated)
    accept(ctx, found, "test")
    world.close()
    noted(world)
    assert told(world) is None
    world.source_table.set(1, "of the new topic")
    world.deliver()
    noted(world)
    assert told(world) is None


def told_later(world: CopyWorld) -> Complete | None:
    """The connector notes all that it has sent, of which nothing has landed."""
    world.delivered = world.source_table.end
    world.clock.advance(2 * HOUR_MS)
    world.apply()
    return told(world)


def recreated(world: CopyWorld) -> None:
    world.kafka.delete(TOPIC)
    world.kafka.create(TOPIC, 1)


def cut(world: CopyWorld) -> None:
    world.kafka.truncate(TOPIC, 0, 2)


@pytest.mark.parametrize("loses", [recreated, cut])
def test_ends_of_another_log_are_no_look(world: CopyWorld, loses: Callable[[CopyWorld], None]) -> None:
    """Its offsets are below those that were read, and so an event that waits there seems to be merged."""
    world.mirror()
    for n in range(3):
        world.source_table.set(1, f"word {n}")
    world.deliver()
    world.apply()
    before = older(world)
    loses(world)
    sends(world, 2, "waits in the topic")
    now = told_later(world)
    assert now is not None
    assert replace(now, exact=False) == before
    assert any("is another log than the one that was read" in line for line in world.said)


def test_a_log_that_was_cut_tells_nothing_once_it_is_read_on(world: CopyWorld) -> None:
    """What it had lost before it was read is nowhere, though the connector has delivered it."""
    world.mirror()
    sends(world, 2, "is lost with the end of the log")
    world.kafka.truncate(TOPIC, 0, 1)
    sent_back(world, world.standing().upto, 1)
    for n in range(3):
        world.source_table.set(1, f"word {n}")
    world.deliver()
    assert told_later(world) is None


def test_reading_that_was_sent_back_is_not_complete(world: CopyWorld) -> None:
    """The log lost its end, which was read before, and other records came in its place."""
    world.mirror()
    for n in range(5):
        world.source_table.set(1, f"word {n}")
    world.deliver()
    world.apply()
    upto = world.standing().upto
    ledger = world.context().ledger
    assert ledger.copies.merged_ends(world.pipeline.name, upto)[0] == 6
    sent_back(world, upto, 3)
    assert ledger.copies.merged_ends(world.pipeline.name, upto) == {}


def sent_back(world: CopyWorld, after: int, offset: int) -> None:
    accepted = world.kafka.look(TOPIC).topic_id
    row = {"pipeline": world.pipeline.name, "after_batch": after, "partition": 0, "topic_id": accepted}
    with world.context().ledger.copies._store.begin() as c:
        c.execute(schema.resumptions.insert().values(**row, offset=offset, why="test"))


def test_records_that_went_unread_are_not_complete(world: CopyWorld) -> None:
    """Retention took them; the next plan would say that they are lost."""
    world.mirror()
    before = older(world)
    world.source_table.set(1, "newer")
    world.send(*world.source_table.log[world.sent :])
    world.kafka.trim(TOPIC, 0, len(world.source_table.log))
    noted(world)
    assert told(world) == before


def test_the_log_of_another_server_is_no_look(world: CopyWorld) -> None:
    """It ends before what was merged; by the old server's position all of it would be in the table already."""
    world.mirror()
    before = told(world)
    world.connector = lambda: Place((50, 0), (60, 0))
    world.again()
    world.read()
    world.apply()
    assert told(world) == before
    assert any("another server's log" in line for line in world.said)


def test_a_connection_that_is_missing_holds_up_no_merge(world: CopyWorld) -> None:
    def missing() -> None:
        raise ConnectionMissing("there is no connection connect")

    world.mirror()
    world.connector = missing  # type: ignore[assignment]
    world.source_table.set(1, "newer")
    assert world.mirror() == world.source_table.rows
