"""A mirror by days in Hive, step by step: what readers of each day see, and what they go on seeing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.audits import in_process
from tests.mirror.days import DAY, YAML, DailyWorld, by_days, event
from tidegate.core.base.errors import BatchRefused, NotReady, ReplayRefused, StorageAhead
from tidegate.core.target.paths import DAY as DAY_FILE
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.restore.adoption import adopt, survey

LATER = event(9, "z", 99, 5.5)
"""So that the days before are over."""


@pytest.fixture
def world(tmp_path: Path) -> DailyWorld:
    return DailyWorld(tmp_path)


@pytest.fixture
def three(world: DailyWorld) -> DailyWorld:
    """Three published days, the last one without events."""
    world.land(event(1, "a", 10, 0.1), event(2, "b", 11, 0.2), event(3, "c", 12, 0.3))
    world.land(event(1, "a2", 20, 1.1), event(3, None, 21, 1.2), event(4, "d", 22, 1.5), LATER)
    for n in range(3):
        assert world.publish(n).new
    return world


def problems(world: DailyWorld) -> list[str]:
    """What the audit finds."""
    ctx = world.context()
    found = [str(p) for p in audit(ctx, ctx.ledger.reads, in_process).problems]
    world.close()
    return found


def notes(world: DailyWorld) -> list[str]:
    ctx = world.context()
    found = [note for note in audit(ctx, ctx.ledger.reads, in_process).notes if "built on" in note]
    world.close()
    return found


def sound(world: DailyWorld) -> None:
    assert problems(world) == []


def test_a_day_is_the_day_before_and_its_events(three: DailyWorld) -> None:
    assert three.rows(0) == {1: "a", 2: "b", 3: "c"}
    assert three.rows(1) == {1: "a2", 2: "b", 4: "d"}
    assert three.rows(2) == {1: "a2", 2: "b", 4: "d"}
    assert (three.gone(0), three.gone(1), three.gone(2)) == ({}, {3: None}, {3: None})
    assert three.rows(3) is None
    sound(three)


def test_the_first_days_may_be_empty(world: DailyWorld) -> None:
    world.land(event(1, "a", 10, 2.1), LATER)
    for n in range(3):
        world.publish(n)
    assert [world.rows(n) for n in range(3)] == [{}, {}, {1: "a"}]
    sound(world)


def test_a_day_waits_for_the_day_before(world: DailyWorld) -> None:
    world.land(event(1, "a", 10, 0.1), event(1, "b", 11, 1.1), LATER)
    with pytest.raises(NotReady, match="follows from 2013-01-05T00:00Z, which is not published yet"):
        world.publish(1)
    assert world.rows(1) is None
    world.publish(0)
    world.publish(1)
    assert world.rows(1) == {1: "b"}
    sound(world)


def test_a_late_event_counts_in_the_oldest_open_day(three: DailyWorld) -> None:
    """Rows of days that are closed stay; an older event than a row's or a tombstone's changes nothing."""
    three.land(event(2, "late", 15, 0.9), event(3, "older than its delete", 20, 1.1), event(5, "new", 23, 1.9))
    three.publish(3)
    assert three.rows(2) == {1: "a2", 2: "b", 4: "d"}
    assert three.rows(3) == {1: "a2", 2: "late", 4: "d", 5: "new"}
    sound(three)


def test_before_the_start_is_the_first_day(world: DailyWorld) -> None:
    world.land(event(1, "a", 10, -7.5), LATER)
    world.publish(0)
    assert world.rows(0) == {1: "a"}
    sound(world)


def test_clear_on_a_whole_day_changes_nothing(three: DailyWorld) -> None:
    before = three.files()
    assert not three.publish(1).new
    assert three.files() == before


@pytest.mark.parametrize("what", ["rows", "tombstones", DAY_FILE])
def test_clear_brings_back_what_is_lost(three: DailyWorld, what: str) -> None:
    place = three.place(1)
    assert place is not None
    lost = place.parent / what
    for path in [lost] if lost.is_file() else lost.iterdir():
        path.unlink()
        break
    assert any(what in line for line in problems(three))
    assert three.publish(1).new
    assert (three.rows(1), three.gone(1)) == ({1: "a2", 2: "b", 4: "d"}, {3: None})
    sound(three)


def test_a_foreign_file_is_told(three: DailyWorld) -> None:
    place = three.place(1)
    assert place is not None
    (place / "mine.parquet").write_bytes(b"x")
    assert any("rows/mine.parquet is in no manifest" in line for line in problems(three))


def test_a_replay_of_the_same_publishes_nothing(three: DailyWorld) -> None:
    assert not three.replay_day(1).new


@pytest.mark.parametrize("swap", ["pointer", "directory"])
def test_a_replay_marks_later_days_and_they_follow_one_by_one(three: DailyWorld, swap: str) -> None:
    """A column that is decoded otherwise is what a replay is for."""
    three.pipeline = by_days(
        three.folder,
        YAML.replace("name: word,", "name: word, from: $._source.file,") + f"archive: {{{{swap: {swap}}}}}\n",
    )
    assert three.replay_day(0).new
    assert any("later days are built on an earlier generation" in line for line in three.said)
    assert three.rows(0) == dict.fromkeys((1, 2, 3), "binlog.000001")
    assert three.rows(1) == {1: "a2", 2: "b", 4: "d"}, "no cascade"
    why = "built on generation 1 of 2013-01-05T00:00Z, where 2 is in force"
    assert notes(three) == [f"2013-01-06T00:00Z: {why}; a replay brings it up to that"]
    three.publish(1)
    assert any(line.startswith(f"2013-01-06T00:00Z is {why}") for line in three.said)
    assert three.replay_day(1).new
    assert three.rows(1) == dict.fromkeys((1, 2, 4), "binlog.000001")
    assert three.replay_day(2).new, "the same events, on another day before"
    assert three.rows(2) == dict.fromkeys((1, 2, 4), "binlog.000001")
    assert not three.replay_day(2).new
    assert notes(three) == []
    sound(three)


def test_a_rollback_brings_the_events_back(three: DailyWorld) -> None:
    three.pipeline = by_days(three.folder, YAML.replace("name: word,", "name: word, from: $._source.file,"))
    three.replay_day(1)
    assert three.rows(1) == {1: "binlog.000001", 2: "b", 4: "binlog.000001"}
    assert three.roll_back(1).new
    assert three.rows(1) == {1: "a2", 2: "b", 4: "d"}
    sound(three)


def test_cleaning_takes_all_of_a_retired_day(three: DailyWorld) -> None:
    """What is kept can be brought back; what is not goes with its rows and tombstones."""
    few = YAML + "archive: {{keep_generations: 2}}\n"
    for source in ("file", "connector", "snapshot"):
        three.pipeline = by_days(three.folder, few.replace("name: word,", f"name: word, from: $._source.{source},"))
        three.replay_day(1)
    three.clock.advance(60 * DAY)
    odd = [line for line in clean(three.context()).lines() if "not cleaned" in line]
    three.close()
    assert odd == []
    generations = three.folder / "lake/readings/_tidegate/generations"
    assert sorted(p.name for p in generations.iterdir() if any(p.iterdir())) == [
        "20130106T000000Z.3.1",
        "20130106T000000Z.4.1",
    ]
    assert three.roll_back(1).new
    assert three.rows(1) == {1: "mariadb", 2: "b", 4: "mariadb"}
    sound(three)


def test_a_contradiction_stops_its_day(world: DailyWorld) -> None:
    world.land(event(1, "a", 10, 0.1), event(1, "b", 20, 1.1), event(1, "other", 20, 1.2), LATER)
    world.publish(0)
    with pytest.raises(BatchRefused, match="two contents of one key at one position"):
        world.publish(1)
    assert (world.rows(0), world.rows(1)) == ({1: "a"}, None)


def test_an_older_event_that_comes_again_on_a_later_day_changes_nothing(world: DailyWorld) -> None:
    """A connector that was restarted at midnight: what it sends again is not of another log (M8)."""
    first = event(1, "a", 10, 0.1)
    world.land(first, event(1, "b", 20, 0.2), LATER)
    world.publish(0)
    world.land(first, LATER)
    world.publish(1)
    assert (world.rows(0), world.rows(1)) == ({1: "b"}, {1: "b"})


def test_positions_that_go_back_stop_their_day(world: DailyWorld) -> None:
    world.land(event(1, "a", 1000, 0.1), event(1, "of a new server", 20, 1.1), LATER)
    world.publish(0)
    with pytest.raises(BatchRefused, match="positions go back"):
        world.publish(1)
    assert (world.rows(0), world.rows(1)) == ({1: "a"}, None)


def test_a_rebuild_that_contradicts_the_day_before_leaves_the_day(world: DailyWorld) -> None:
    """By today's columns the same position says something else than the row of the day before."""
    by_source = YAML.replace("name: word,", "name: word, from: $._source.connector,")
    world.pipeline = by_days(world.folder, by_source)
    world.land(event(1, "a", 10, 0.1), event(1, "b", 10, 1.1), LATER)
    world.publish(0)
    world.publish(1)
    world.pipeline = by_days(world.folder)
    with pytest.raises(ReplayRefused, match="two contents of one key at one position"):
        world.replay_day(1)
    assert world.rows(1) == {1: "mariadb"}
    assert not world.publish(1).new, "Clear verifies what is in force"
    sound(world)


def test_a_new_column(three: DailyWorld) -> None:
    more = "  - {{name: word, type: string}}\n  - {{name: extra, type: string, from: $._source.file}}\n"
    three.pipeline = by_days(three.folder, YAML.replace("  - {{name: word, type: string}}\n", more))
    three.land(event(5, "e", 30, 3.1), event(9, "z2", 100, 6.5))
    three.publish(3)
    assert three.rows(3) == {1: "a2", 2: "b", 4: "d", 5: "e"}
    sound(three)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("windows: {{", "partition_by: [date, hour]\nwindows: {{size: 1h, ", "windows of a day"),
        ("sink:", "partition_by: [date, hour]\nsink:", "by the day alone"),
        ("sink:", "event_time: {{from: kafka_timestamp}}\nsink:", "is one of the source"),
        ("sink:", "late: {{policy: drop}}\nsink:", "no event may be left out"),
        ("sink:", "dirty: {{max_count: 3}}\nsink:", "no event may be left out"),
        ("buckets: 3", "buckets: 3, format: orc", "parquet alone"),
        ("key: [id]", "key: [other]", "there is no column other"),
        ("debezium", "json", "change events"),
        ('location: "{location}"', "location: s3://lake/readings", "cannot do: set sink.store: iceberg, or a location"),
    ],
)
def test_what_it_cannot_be(tmp_path: Path, old: str, new: str, what: str) -> None:
    assert old in YAML
    with pytest.raises(Exception, match=what):
        by_days(tmp_path, YAML.replace(old, new, 1))


def test_sums_that_another_has_changed_are_told(three: DailyWorld) -> None:
    place = three.place(1)
    assert place is not None
    told = place.parent / DAY_FILE
    told.write_text(told.read_text().replace('"inserted":4', '"inserted":5'))
    assert any("1 tombstone and 0 purged are 4, but 5 were inserted" in line for line in problems(three))


def test_days_are_never_begun_anew(three: DailyWorld) -> None:
    """With another start there would be no day before: its rows would be gone."""
    three.pipeline = by_days(three.folder, YAML.replace("2013-01-05T", "2013-01-09T"))
    with pytest.raises(Exception, match="windows.start"):
        three.publish(4)
    assert three.rows(4) is None


def test_r11_a_ledger_that_forgot_a_day(three: DailyWorld) -> None:
    """Storage knows of the publication: what it has brought to readers is taken up as it is."""
    three.land(event(5, "e", 30, 3.1), event(9, "z2", 100, 7.5))
    three.close()
    before = three.database.read_bytes()
    three.publish(3)
    shown = three.rows(3)
    three.database.write_bytes(before)
    with pytest.raises(StorageAhead):
        three.publish(3)
    ctx = three.context()
    adopt(ctx, survey(ctx), "a test")
    three.close()
    three.publish(3)
    assert three.rows(3) == shown == {1: "a2", 2: "b", 4: "d", 5: "e"}
    three.publish(4)
    assert three.rows(4) == shown
    sound(three)
