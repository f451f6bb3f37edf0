"""When retention passes what is unread: each rule by itself, and what holds for any numbers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tidegate.core.losswarning import (
    CRITICAL,
    OFF,
    OK,
    WARN,
    TimeToLoss,
    level,
    remedy,
    sentence,
    short,
    time_to_loss,
)
from tidegate.core.ports import PartitionOffsets, TopicState
from tidegate.core.progress import BatchLook, Look, Progress
from tidegate.core.retention import AHEAD, FAR_MS, NEVER, PASSING, UNKNOWN, LossForecast, forecast

MINUTE, HOUR = 60_000, 3_600_000
DAY = 24 * HOUR
NOW = 100 * DAY


def topic(end: int = 2_000, start: int = 0, **settings: object) -> TopicState:
    given = {"retention_ms": 7 * DAY} | settings
    return TopicState("t", "id-1", {0: PartitionOffsets(start, end, end)}, **given)  # type: ignore[arg-type]


def batch(
    number: int, landed: float, look: Look | None, state: str = "LANDED", clock: float | None = None
) -> BatchLook:
    """`landed` and `clock` in hours before NOW; planned a minute before it landed."""
    at = NOW - int(landed * HOUR)
    asked = at - MINUTE if clock is None else NOW - int(clock * HOUR)
    return BatchLook(number, state, asked, at, {} if look is None else {0: look})


def read(start: int, end: int, newest_h: float | None, high: int = 2_000, size: int = 0) -> Look:
    """Read up to a record that is `newest_h` hours old."""
    newest = None if newest_h is None else NOW - int(newest_h * HOUR)
    return Look(start, end, 0, high, end - start, size, newest)


def progress(newest: BatchLook | None, landed: BatchLook | None, base: BatchLook | None = None) -> Progress:
    return Progress("id-1", newest, landed, base)


def one(state: TopicState, found: Progress, now: int = NOW) -> LossForecast:
    (answer,) = forecast(state, found, now)
    return answer


# ---------------------------------------------------------------- by time


LANDED = batch(13, 0.1, read(900, 1_000, 160))
BASE = batch(1, 1.1, read(0, 100, 160.5, high=1_900))  # half an hour of records in an hour


def test_a_backlog_that_is_read_too_slowly_is_lost_when_the_distance_is_used_up() -> None:
    found = one(topic(), progress(LANDED, LANDED, BASE))
    assert (found.state, found.limit, found.unread) == (AHEAD, "time", 1_000)
    assert found.behind_ms == 160 * HOUR
    assert found.stopped_ms == 8 * HOUR
    assert found.at_pace_ms == pytest.approx(16 * HOUR, rel=0.001)  # the distance shrinks by half an hour each hour
    assert found.room_ms == 7 * DAY


def test_a_backlog_that_is_read_as_fast_as_time_goes_by_is_not_lost() -> None:
    base = batch(1, 1.1, read(0, 100, 161))
    found = one(topic(), progress(LANDED, LANDED, base))
    assert (found.state, found.at_pace_ms, found.stopped_ms) == (NEVER, None, 8 * HOUR)


def test_a_pace_below_nothing_is_nothing() -> None:
    base = batch(1, 1.1, read(0, 100, 150))  # a producer that went back in time
    found = one(topic(), progress(LANDED, LANDED, base))
    assert found.at_pace_ms == found.stopped_ms == 8 * HOUR


def test_what_takes_longer_than_a_year_is_never() -> None:
    base = batch(1, 1.1, read(0, 100, 160.9999))
    found = one(topic(), progress(LANDED, LANDED, base))
    assert (found.state, found.stopped_ms) == (NEVER, 8 * HOUR)


def test_records_older_than_retention_may_go_at_any_moment() -> None:
    landed = batch(13, 0.1, read(900, 1_000, 7 * 24 + 0.001))
    found = one(topic(), progress(landed, landed, BASE))
    assert (found.state, found.at_pace_ms, found.stopped_ms, found.limit) == (PASSING, 0, 0, "time")
    exactly = batch(13, 0.1, read(900, 1_000, 7 * 24))
    assert one(topic(), progress(exactly, exactly, BASE)).state == PASSING
    just = batch(13, 0.1, read(900, 1_000, 7 * 24 - 0.001))
    assert one(topic(), progress(just, just, BASE)).state == AHEAD


def test_offsets_that_are_gone_are_named() -> None:
    found = one(topic(start=1_001), progress(LANDED, LANDED, BASE))
    assert (found.state, found.at_pace_ms, found.stopped_ms) == (PASSING, 0, 0)
    assert found.reason == "offsets [1000, 1001) are gone already"
    assert one(topic(start=1_000), progress(LANDED, LANDED, BASE)).state == AHEAD


def test_with_nothing_unread_nothing_is_at_risk_but_stopping_has_a_limit() -> None:
    found = one(topic(end=1_000), progress(LANDED, LANDED, BASE))
    assert (found.state, found.at_pace_ms, found.unread) == (NEVER, None, 0)
    assert found.stopped_ms == found.room_ms == 7 * DAY


def test_a_partition_that_was_read_to_its_end_keeps_up() -> None:
    landed = batch(13, 0.1, read(900, 1_000, 0.2, high=1_000))
    slow = batch(1, 1.1, read(0, 100, 0.3, high=100))
    found = one(topic(end=1_050), progress(landed, landed, slow))
    assert (found.state, found.unread) == (NEVER, 50)
    assert found.stopped_ms == 7 * DAY - 0.2 * HOUR


def test_a_pipeline_that_stands_still_has_no_pace() -> None:
    landed = batch(13, 3, read(900, 1_000, 3.1, high=1_000))
    base = batch(12, 3.1, read(800, 900, 3.2, high=900))
    found = one(topic(end=1_050), progress(landed, landed, base))
    assert found.state == AHEAD
    assert found.stopped_ms == 7 * DAY - int(3.1 * HOUR)
    assert found.at_pace_ms == pytest.approx(found.stopped_ms, rel=0.05)
    alone = one(topic(end=1_050), progress(landed, landed, None))
    assert alone.at_pace_ms == alone.stopped_ms == found.stopped_ms


def test_batches_that_come_once_a_day_are_not_overdue_after_an_hour() -> None:
    landed = batch(13, 20, read(900, 1_000, 20.1, high=1_000))
    base = batch(12, 44, read(800, 900, 44.1, high=900))
    assert one(topic(), progress(landed, landed, base)).state == NEVER
    assert one(topic(), progress(landed, landed, base), NOW + 29 * HOUR).state == AHEAD  # two days are


def test_a_short_retention_is_looked_at_sooner_than_in_an_hour() -> None:
    landed = batch(13, 0.3, read(900, 1_000, 0.35, high=1_000))
    base = batch(12, 0.31, read(800, 900, 0.4, high=900))
    state = topic(end=1_050, retention_ms=HOUR)
    found = one(state, progress(landed, landed, base))
    assert (found.state, found.stopped_ms) == (AHEAD, HOUR - int(0.35 * HOUR))
    assert one(replace(state, retention_ms=2 * HOUR), progress(landed, landed, base)).state == NEVER


def test_what_came_after_a_look_at_the_end_is_not_older_than_that_look() -> None:
    landed = batch(13, 5, Look(1_000, 1_000, 0, 1_000))
    found = one(topic(end=1_050), progress(landed, landed, None))
    assert found.behind_ms == 5 * HOUR + MINUTE
    assert found.stopped_ms == 7 * DAY - 5 * HOUR - MINUTE


def test_an_open_transaction_was_there_when_it_was_met_first() -> None:
    held = Look(1_000, 1_000, 0, 1_040, open_transaction_since_ms=NOW - 6 * HOUR)
    landed = batch(13, 0.1, held)
    assert one(topic(end=1_050), progress(landed, landed, None)).stopped_ms == 7 * DAY - 6 * HOUR
    unknown = batch(13, 0.1, replace(held, open_transaction_since_ms=None))
    assert one(topic(end=1_050), progress(unknown, unknown, None)).state == UNKNOWN


def test_short_transactions_do_not_make_a_partition_fall_behind() -> None:
    """With transactional producers one is open whenever anybody looks."""

    def met(opened_h: float, stable: int | None = 1_000, retention_ms: int = HOUR) -> LossForecast:
        opened = NOW - int(opened_h * HOUR)
        look = replace(read(900, 1_000, 0.4, high=1_040), open_transaction_since_ms=opened, last_stable_offset=stable)
        landed = batch(13, 0.1, look)
        slow = batch(1, 0.9, read(0, 100, 1))
        return one(topic(end=1_050, retention_ms=retention_ms), progress(landed, landed, slow))

    assert met(0.1).state == NEVER
    assert met(0.25).state == NEVER
    assert met(0.26).state == AHEAD, "a quarter of the retention"
    assert met(1, retention_ms=7 * DAY).state == NEVER
    assert met(1.01, retention_ms=7 * DAY).state == AHEAD
    assert met(0.1, stable=1_001).state == AHEAD, "more could have been read"
    assert met(0.1, stable=None).state == AHEAD


def test_planned_offsets_are_unread_until_the_batch_is_sealed() -> None:
    look = read(1_000, 1_500, None)
    for state, unread in (("PLANNED", 1_000), ("WRITING", 1_000), ("SEALED", 500), ("ABANDONED", 500)):
        newest = replace(batch(14, 0, look, state), landed_ms=None)
        assert one(topic(), progress(newest, LANDED, BASE)).unread == unread, state


def test_a_sealed_batch_says_how_far_reading_is() -> None:
    newest = replace(batch(14, 0, read(1_000, 1_500, 100), "SEALED"), landed_ms=None)
    assert one(topic(), progress(newest, LANDED, BASE)).behind_ms == 100 * HOUR
    newest = replace(newest, state="WRITING")
    assert one(topic(), progress(newest, LANDED, BASE)).behind_ms == 160 * HOUR


def test_a_given_up_batch_says_nothing_of_time() -> None:
    """What it gave up is not waited for; the next unread record is taken to be as old as the last that was read."""
    newest = replace(batch(14, 0, read(1_000, 1_500, 100), "ABANDONED"), landed_ms=None)
    found = one(topic(), progress(newest, LANDED, BASE))
    assert (found.behind_ms, found.unread) == (160 * HOUR, 500)


def test_losses_that_were_recorded_are_behind_us() -> None:
    landed = batch(13, 0.1, replace(read(900, 1_000, 160), log_start=900))
    assert one(topic(start=950), progress(landed, landed, BASE)).state == AHEAD


# ---------------------------------------------------------------- timestamps as they come


def test_a_timestamp_ahead_of_the_clock_counts_as_the_clock() -> None:
    landed = batch(13, 0.1, read(900, 1_000, -365 * 24))
    found = one(topic(), progress(landed, landed, None))
    assert found.behind_ms == int(0.1 * HOUR) + MINUTE
    assert found.stopped_ms == 7 * DAY - found.behind_ms


def test_records_of_1970_have_been_passed() -> None:
    landed = batch(13, 0.1, replace(read(900, 1_000, 0), max_kafka_ms=0))
    assert one(topic(), progress(landed, landed, BASE)).state == PASSING
    everlasting = topic(retention_ms=None)
    assert one(everlasting, progress(landed, landed, BASE)).state == NEVER


def test_records_without_timestamps_cannot_be_placed() -> None:
    landed = batch(13, 0.1, read(900, 1_000, None))
    found = one(topic(), progress(landed, landed, BASE))
    assert (found.state, found.at_pace_ms, found.stopped_ms) == (UNKNOWN, None, None)
    assert "no Kafka timestamp" in found.reason


def test_a_clock_behind_the_ledgers_does_not_make_time_run_backwards() -> None:
    landed = batch(13, -2, read(900, 1_000, -2, high=1_000))
    found = one(topic(end=1_050), progress(landed, landed, None))
    assert (found.state, found.behind_ms, found.stopped_ms) == (NEVER, 0, 7 * DAY)


# ---------------------------------------------------------------- by bytes


def sized(end: int, *, unread: int, limit: int | None, written: int = 100, taken: int = 50, **settings) -> LossForecast:
    """30-byte records, 100 with what Kafka adds; in the last hour `written` came and `taken` were read."""
    landed = batch(13, 0.1, read(end - unread - 10, end - unread, 1, high=end - 10, size=300), clock=0.1)
    base = batch(1, 1.1, read(0, end - unread - taken, 2, high=end - written, size=300), clock=1)
    state = topic(end, retention_ms=None, retention_bytes=limit, segment_bytes=1, **settings)
    return one(state, progress(landed, landed, base))


def test_bytes_are_lost_when_the_backlog_grows_to_what_the_log_keeps() -> None:
    found = sized(1_000, unread=400, limit=90_000)
    assert (found.state, found.limit) == (AHEAD, "bytes")
    # the log holds 1,000 already; 600 more may come: at 100 an hour with 50 read, and with none
    assert found.at_pace_ms == pytest.approx(12 * HOUR, rel=0.001)
    assert found.stopped_ms == pytest.approx(6 * HOUR, rel=0.001)
    assert found.room_ms == pytest.approx(10 * HOUR, rel=0.001)


def test_a_log_that_is_not_full_keeps_what_it_has_room_for() -> None:
    found = sized(1_000, unread=400, limit=300_000)
    assert found.stopped_ms == pytest.approx(26 * HOUR, rel=0.001)  # 3,000 records fit


def test_whole_segments_are_deleted_so_the_last_one_does_not_count() -> None:
    landed = batch(13, 0.1, read(590, 600, 1, high=990), clock=0.1)  # nothing known of sizes
    base = batch(1, 1.1, read(0, 550, 2, high=900), clock=1)
    state = topic(1_500, start=500, retention_ms=None, retention_bytes=3_000, segment_bytes=1_000)
    found = one(state, progress(landed, landed, base))
    assert (found.state, found.limit) == (PASSING, "bytes")  # 750 are surely kept, 900 are unread
    never_cut = replace(state, partitions={0: PartitionOffsets(0, 1_500, 1_500)})
    assert one(never_cut, progress(landed, landed, base)).state == UNKNOWN
    default = replace(state, segment_bytes=None, retention_bytes=1024**3, partitions={0: PartitionOffsets(1, 801, 801)})
    assert one(default, progress(landed, landed, base)).room_ms is None  # nothing is written
    more = replace(default, partitions={0: PartitionOffsets(1, 1_001, 1_001)})
    found = one(more, progress(landed, landed, base))
    assert found.room_ms == pytest.approx(500 * HOUR / 101, rel=0.001)  # half of 1,000, 101 an hour


def test_what_is_read_as_fast_as_it_is_written_is_not_lost_by_bytes() -> None:
    assert sized(1_000, unread=400, limit=90_000, taken=100).state == NEVER
    found = sized(1_000, unread=400, limit=90_000, taken=99)
    assert found.at_pace_ms == pytest.approx(600 * HOUR, rel=0.01)


def test_nothing_written_passes_nothing() -> None:
    found = sized(1_000, unread=400, limit=90_000, written=0)
    assert (found.state, found.stopped_ms) == (NEVER, None)


def test_the_limit_that_acts_first_counts() -> None:
    by_bytes = sized(1_000, unread=400, limit=90_000)
    landed = batch(13, 0.1, read(590, 600, 1, high=990, size=300), clock=0.1)
    base = batch(1, 1.1, read(0, 550, 1.5, high=900, size=300), clock=1)
    for hours, limit in ((2, "time"), (1_000, "bytes")):
        state = topic(1_000, retention_ms=hours * HOUR, retention_bytes=90_000, segment_bytes=1)
        found = one(state, progress(landed, landed, base))
        assert found.limit == limit
    assert found.at_pace_ms == by_bytes.at_pace_ms
    assert found.room_ms == by_bytes.room_ms


def test_one_limit_that_is_not_known_makes_never_a_guess_but_no_date() -> None:
    landed = batch(13, 0.1, read(590, 600, None, high=990, size=300), clock=0.1)
    base = batch(1, 1.1, read(0, 550, None, high=900, size=300), clock=1)
    state = topic(1_000, retention_bytes=90_000, segment_bytes=1)
    dated = one(state, progress(landed, landed, base))
    assert (dated.state, dated.limit) == (AHEAD, "bytes")
    guess = one(replace(state, retention_bytes=None), progress(landed, landed, base))
    assert (guess.state, guess.at_pace_ms) == (UNKNOWN, None)


# ---------------------------------------------------------------- what there is no forecast for


def test_nothing_is_deleted_for_ever() -> None:
    found = one(topic(retention_ms=None), progress(LANDED, LANDED, BASE))
    assert (found.state, found.at_pace_ms, found.stopped_ms, found.room_ms) == (NEVER, None, None, None)


def test_a_compacted_topic_loses_nothing_by_retention() -> None:
    found = one(topic(deletes=False, retention_ms=None), progress(LANDED, LANDED, BASE))
    assert found.state == NEVER
    assert "compacted" in found.reason


def test_settings_that_may_not_be_read() -> None:
    found = one(topic(deletes=None, retention_ms=None), progress(LANDED, LANDED, BASE))
    assert (found.state, found.stopped_ms) == (UNKNOWN, None)
    assert "may not be read" in found.reason


def test_a_pipeline_without_a_batch() -> None:
    found = one(topic(), Progress(None))
    assert (found.state, found.reason, found.unread) == (UNKNOWN, "no batch has been planned yet", 2_000)
    first = replace(batch(1, 0, read(0, 1_500, None), "WRITING"), landed_ms=None)
    found = one(topic(), progress(first, None))
    assert (found.state, found.unread, found.stopped_ms, found.room_ms) == (UNKNOWN, 2_000, None, None)
    assert found.reason == "no batch has landed yet"


def test_one_landed_batch_has_no_pace_but_stopping_has_a_limit() -> None:
    found = one(topic(), progress(LANDED, LANDED, None))
    assert (found.state, found.stopped_ms) == (UNKNOWN, 8 * HOUR)
    assert "two landed batches" in found.reason


def test_another_topic_of_the_same_name() -> None:
    found = one(replace(topic(), topic_id="id-2"), progress(LANDED, LANDED, BASE))
    assert found.state == UNKNOWN
    assert "recreated" in found.reason


def test_a_partition_that_was_added_since() -> None:
    state = replace(topic(), partitions={0: PartitionOffsets(0, 2_000, 2_000), 1: PartitionOffsets(0, 10, 10)})
    added = forecast(state, progress(LANDED, LANDED, BASE), NOW)[1]
    assert (added.partition, added.unread, added.state) == (1, 10, NEVER)
    assert forecast(state, progress(LANDED, None), NOW)[1].state == UNKNOWN
    assert forecast(state, progress(LANDED, LANDED, BASE), NOW + 3 * HOUR)[1].state == UNKNOWN, (
        "it should have been met"
    )
    assert added.stopped_ms == 7 * DAY - int(0.1 * HOUR) - MINUTE


def test_a_topic_without_partitions() -> None:
    state = replace(topic(), partitions={})
    assert forecast(state, progress(LANDED, LANDED, BASE), NOW) == ()
    found = time_to_loss(state, progress(LANDED, LANDED, BASE), NOW, DAY)
    assert (found.level, found.first, found.at_pace_ms, found.stopped_ms) == (OK, None, None, None)
    assert sentence(found) == "the topic has no partitions"


# ---------------------------------------------------------------- how loud


@pytest.mark.parametrize(
    ("at", "expected"), [(6 * HOUR, CRITICAL), (6 * HOUR + 1, WARN), (DAY, WARN), (DAY + 1, OK), (0, CRITICAL)]
)
def test_a_quarter_of_the_warning_is_critical(at: int, expected: str) -> None:
    found = LossForecast(0, AHEAD, at, at, 7 * DAY, "time", 0, 5)
    assert level(found, DAY) == expected
    assert level(found, None) == OFF


@pytest.mark.parametrize(
    ("stopped", "room", "unread", "expected"),
    [
        (DAY, 10 * DAY, 1, WARN),
        (DAY + 1, 10 * DAY, 1, OK),
        (DAY, 10 * DAY - 10, 1, OK),
        (MINUTE, 10 * MINUTE, 1, WARN),  # a topic that keeps ten minutes
        (2 * MINUTE, 10 * MINUTE, 1, OK),
        (DAY, 10 * DAY, 0, OK),
        (None, None, 1, OK),
    ],
)
def test_reading_close_to_the_edge_is_a_warning(stopped, room, unread, expected) -> None:
    assert level(LossForecast(0, NEVER, None, stopped, room, "time", 0, unread), DAY) == expected


def test_the_loudest_partition_is_the_one_to_look_at() -> None:
    quiet = LossForecast(0, AHEAD, 3 * DAY, DAY * 2, 7 * DAY, "time", 0, 5)
    edge = LossForecast(1, NEVER, None, HOUR, 7 * DAY, "time", 0, 5)
    unknown = LossForecast(2, UNKNOWN, reason="who knows")
    passing = LossForecast(3, PASSING, 0, 0, 7 * DAY, "time", 0, 5)
    found = TimeToLoss(WARN, (quiet, edge, unknown), DAY, 7 * DAY, None)
    assert found.first == edge
    assert (found.at_pace_ms, found.stopped_ms) == (3 * DAY, HOUR)
    assert replace(found, partitions=(quiet, edge, passing)).first == passing
    assert replace(found, partitions=(quiet, unknown)).first == unknown
    assert replace(found, partitions=(unknown,)).at_pace_ms is None


def test_the_level_of_a_topic_is_that_of_its_loudest_partition() -> None:
    state = replace(topic(), partitions={0: PartitionOffsets(0, 1_000, 1_000), 1: PartitionOffsets(0, 0, 0)})
    assert time_to_loss(state, progress(LANDED, LANDED, BASE), NOW, DAY).level == OK
    behind = time_to_loss(topic(), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert (behind.level, behind.at_pace_ms is not None) == (WARN, True)
    assert time_to_loss(topic(), progress(LANDED, LANDED, BASE), NOW, None).level == OFF
    assert time_to_loss(topic(), Progress(None), NOW, DAY).level == UNKNOWN


def test_words() -> None:
    found = time_to_loss(topic(), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert sentence(found) == (
        "partition 0 loses unread records in about 16.0 h at the present pace (retention 7.0 days, 6.7 days behind, "
        "1,000 unread); if reading stopped now, the first loss is 8.0 h away"
    )
    assert short(found) == "16.0 h"
    assert "--add-config retention.ms=" in remedy(found, "t", "p")
    gone = time_to_loss(topic(start=1_001), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert sentence(gone).startswith("partition 0 is losing records: offsets [1000, 1001) are gone already (retention")
    assert short(gone) == "now"
    well = time_to_loss(topic(end=1_000), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert sentence(well) == (
        "nothing is lost at the present pace (retention 7.0 days); if reading stopped now, the first loss is 7.0 days "
        "away"
    )
    assert short(well) == "-"
    unknown = time_to_loss(topic(), Progress(None), NOW, DAY)
    assert sentence(unknown).startswith("not known for partition 0: no batch has been planned yet (retention 7.0 days")
    assert short(unknown) == "?"
    small = time_to_loss(topic(retention_ms=None, retention_bytes=5_000), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert "5,000 bytes a partition" in sentence(small)


def test_the_words_of_each_limit() -> None:
    by_bytes = TimeToLoss(WARN, (sized(1_000, unread=400, limit=90_000),), DAY, None, 90_000)
    assert "--add-config retention.bytes=" in remedy(by_bytes, "t", "p")
    assert "--entity-name t " in remedy(by_bytes, "t", "p")
    assert "p.ingest" in remedy(by_bytes, "t", "p")
    empty = TimeToLoss(OK, (), DAY, None, None)
    assert "retention.ms=" in remedy(empty, "t", "p")
    compacted = time_to_loss(topic(deletes=False, retention_ms=None), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert sentence(compacted) == (
        "nothing is lost at the present pace: the topic is compacted, nothing is deleted (1,000 unread)"
    )
    nothing = time_to_loss(topic(end=1_000, retention_ms=None), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert sentence(nothing) == "nothing is lost at the present pace"


def test_the_loudest_level_counts_whatever_the_order() -> None:
    parts = {0: PartitionOffsets(0, 2_000, 2_000), 1: PartitionOffsets(0, 0, 0), 2: PartitionOffsets(0, 9, 9)}
    state = replace(topic(), partitions=parts)
    known = progress(LANDED, LANDED, BASE)
    found = time_to_loss(state, known, NOW, DAY)
    assert [level(f, DAY) for f in found.partitions] == [WARN, OK, OK]
    assert found.level == WARN
    assert found.first == found.partitions[0]
    assert time_to_loss(state, known, NOW, 4 * DAY).level == CRITICAL
    unsure = replace(known, landed=None, newest=replace(LANDED, state="PLANNED"))
    assert time_to_loss(state, unsure, NOW, DAY).level == UNKNOWN
    assert time_to_loss(replace(state, partitions={}), known, NOW, None).level == OFF


def test_which_limit_it_is_is_said_only_where_one_acts() -> None:
    assert one(topic(retention_ms=None), progress(LANDED, LANDED, BASE)).limit == ""
    assert one(topic(end=1_000), progress(LANDED, LANDED, BASE)).limit == "time"
    both = one(topic(end=1_000, retention_bytes=10**12, segment_bytes=1), progress(LANDED, LANDED, BASE))
    assert both.limit == "time", "the one that would act first if reading stopped"


def test_one_batch_that_is_overdue_reads_nothing_by_bytes_either() -> None:
    landed = batch(13, 2, read(590, 600, None, high=900, size=300), clock=2)
    state = topic(1_000, retention_ms=None, retention_bytes=90_000, segment_bytes=1)
    found = one(state, progress(landed, landed, None))
    assert (found.state, found.limit) == (AHEAD, "bytes")
    assert found.at_pace_ms == found.stopped_ms == pytest.approx(12 * HOUR, rel=0.001)  # 600 more at 50 an hour
    fresh = batch(13, 0.5, read(590, 600, None, high=900, size=300), clock=0.5)
    found = one(state, progress(fresh, fresh, None))
    assert (found.state, found.at_pace_ms) == (UNKNOWN, None)
    assert "two landed batches" in found.reason


def test_whole_answers() -> None:
    """Every field of what is said where something passes or is not known."""
    old = batch(13, 0.1, read(900, 1_000, 8 * 24))
    why = "the next unread records are older than retention.ms"
    assert one(topic(), progress(old, old, BASE)) == LossForecast(
        0, PASSING, 0, 0, 7 * DAY, "time", 8 * DAY, 1_000, why
    )
    landed, base = batch(13, 0.1, read(590, 600, 1, high=990), clock=0.1), batch(1, 1.1, read(0, 550, 2, 900), clock=1)
    small = topic(1_500, start=500, retention_ms=None, retention_bytes=3_000, segment_bytes=1_000)
    why = "more is unread than retention.bytes surely holds"  # 750 are, and 600 come each hour
    assert one(small, progress(landed, landed, base)) == LossForecast(
        0, PASSING, 0, 0, int(1.25 * HOUR), "bytes", HOUR, 900, why
    )
    gone = "offsets [1000, 1001) are gone already"
    assert one(topic(start=1_001), progress(LANDED, LANDED, BASE)) == LossForecast(
        0, PASSING, 0, 0, unread=1_000, reason=gone
    )
    hidden = replace(topic(), deletes=None, partitions={3: PartitionOffsets(0, 9, 9)})
    assert one(hidden, progress(LANDED, LANDED)) == LossForecast(
        3, UNKNOWN, unread=9, reason="the topic's settings may not be read"
    )
    unstamped = batch(13, 0.1, read(900, 1_000, None, high=1_000))
    keeps = one(topic(end=1_050), progress(unstamped, unstamped, BASE))
    assert (keeps.state, keeps.stopped_ms, keeps.unread) == (NEVER, None, 50)
    unsized = topic(1_050, retention_ms=None, retention_bytes=9_000, segment_bytes=1)
    keeps = one(unsized, progress(unstamped, unstamped, base))
    assert (keeps.state, keeps.stopped_ms) == (NEVER, None)
    behind = batch(13, 0.1, read(900, 1_000, None, high=1_040))
    reason = one(unsized, progress(behind, behind, base)).reason
    assert reason == "how many records retention.bytes holds is not known"
    other = replace(topic(), topic_id="x", partitions={3: PartitionOffsets(0, 9, 9)})
    assert one(other, progress(LANDED, LANDED)).partition == 3


# ---------------------------------------------------------------- whatever the numbers are


def random_case(rng: Random) -> tuple[TopicState, Progress]:
    start = rng.choice([0, rng.randrange(500)])
    end = start + rng.randrange(2_000)
    state = topic(
        end,
        start,
        retention_ms=rng.choice([None, 0, HOUR, 7 * DAY]),
        retention_bytes=rng.choice([None, 0, 1, 50_000]),
        segment_bytes=rng.choice([None, 1_000]),
        deletes=rng.choice([True, True, True, None, False]),
    )

    def some(number: int, hours: float) -> BatchLook:
        low = rng.randrange(start, end + 1)
        high = rng.randrange(low, end + 1)
        stamp = rng.choice([None, 0, NOW - rng.randrange(10 * DAY), NOW + DAY, 2**62])
        look = Look(low, high, start, max(high, rng.randrange(end + 1)), high - low, rng.randrange(9_999), stamp)
        name = "LANDED" if number < 3 else rng.choice(["PLANNED", "WRITING", "SEALED", "LANDED", "ABANDONED"])
        return batch(number, hours, rng.choice([look, look, None]), name)

    base, landed, newest = some(1, rng.uniform(1, 9)), some(2, rng.uniform(-1, 1)), some(3, 0)
    return state, progress(newest, rng.choice([landed, landed, None]), rng.choice([base, base, None]))


def test_for_any_numbers(rng: Random) -> None:
    for _ in range(3_000):
        state, known = random_case(rng)
        found = one(state, known)
        assert found.state in (NEVER, AHEAD, PASSING, UNKNOWN)
        assert (found.at_pace_ms is not None) == (found.state in (AHEAD, PASSING))
        assert (found.state == PASSING) <= (found.at_pace_ms == 0)
        assert found.at_pace_ms is None or 0 <= found.at_pace_ms <= FAR_MS
        if found.stopped_ms is not None and found.at_pace_ms is not None:
            assert found.stopped_ms <= found.at_pace_ms, "reading cannot make a loss come sooner"
        if found.stopped_ms is not None and found.room_ms is not None:
            assert 0 <= found.stopped_ms <= found.room_ms
        if found.state == UNKNOWN:
            assert found.reason
        assert found.unread <= state.partitions[0].high_watermark
        loss = time_to_loss(state, known, NOW, DAY)
        assert sentence(loss)
        assert short(loss)
        later = one(state, known, NOW + HOUR)
        if found.state == PASSING and found.limit == "time":
            assert later.state == PASSING, "what retention has passed stays passed until it is read"


def test_a_longer_retention_never_brings_a_loss_nearer(rng: Random) -> None:
    for _ in range(2_000):
        state, known = random_case(rng)
        if state.retention_ms is None or state.deletes is not True:
            continue
        # both have the same patience with batches that are overdue
        now = one(replace(state, retention_ms=5 * HOUR + state.retention_ms), known)
        longer = one(replace(state, retention_ms=9 * HOUR + state.retention_ms), known)
        if now.at_pace_ms is not None and longer.at_pace_ms is not None:
            assert longer.at_pace_ms >= now.at_pace_ms
        if now.state == NEVER:
            assert longer.state in (NEVER, UNKNOWN)
        if now.stopped_ms is not None and longer.stopped_ms is not None:
            assert longer.stopped_ms >= now.stopped_ms
