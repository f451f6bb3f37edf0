"""When retention passes what is unread, by time; when nobody can say; what holds for any numbers."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from core_progress import BASE, DAY, HOUR, LANDED, MINUTE, NOW, batch, one, progress, read, topic

from tidegate.core.source.loss_forecast import AHEAD, FAR_MS, NEVER, PASSING, UNKNOWN, LossForecast, forecast
from tidegate.core.source.loss_warning import OK, sentence, short, time_to_loss
from tidegate.core.source.port import ALL, Lane, LogState
from tidegate.core.source.progress import BatchLook, Look, Progress


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


def test_a_loss_is_ahead_from_the_next_millisecond_up_to_a_year() -> None:
    back = batch(1, 1.1, read(0, 100, 150))  # a producer that went back in time: no pace
    for retention_ms, state, at in (
        (160 * HOUR, PASSING, 0),
        (160 * HOUR + 1, AHEAD, 1),
        (160 * HOUR + FAR_MS, AHEAD, FAR_MS),
        (160 * HOUR + FAR_MS + 1, NEVER, None),
    ):
        found = one(topic(retention_ms=retention_ms), progress(LANDED, LANDED, back))
        assert (found.state, found.at_pace_ms) == (state, at)


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
    landed = batch(13, 5, Look(start=1_000, end=1_000, log_start=0, high_watermark=1_000))
    found = one(topic(end=1_050), progress(landed, landed, None))
    assert found.behind_ms == 5 * HOUR + MINUTE
    assert found.stopped_ms == 7 * DAY - 5 * HOUR - MINUTE


def test_an_open_transaction_was_there_when_it_was_met_first() -> None:
    held = Look(start=1_000, end=1_000, log_start=0, high_watermark=1_040, open_transaction_since_ms=NOW - 6 * HOUR)
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


@pytest.mark.parametrize(("stable", "held"), [(999, True), (1_000, True), (1_001, False)])
def test_what_only_an_open_transaction_holds_back_is_told(stable: int, held: bool) -> None:
    state = replace(topic(), partitions={0: Lane(0, stable, 2_000)})
    assert one(state, progress(LANDED, LANDED, BASE)).held is held
    nothing_unread = replace(topic(), partitions={0: Lane(0, min(stable, 1_000), 1_000)})
    assert not one(nothing_unread, progress(LANDED, LANDED, BASE)).held


def test_planned_offsets_are_unread_until_the_batch_is_sealed() -> None:
    look = read(1_000, 1_500, None)
    for state, unread in (("PLANNED", 1_000), ("WRITING", 1_000), ("SEALED", 500), ("ABANDONED", 500)):
        newest = replace(batch(14, 0, look, state), landed_ms=None)
        assert one(topic(), progress(newest, LANDED, BASE)).unread == unread, state


def test_a_sealed_batch_says_how_far_reading_is() -> None:
    newest = replace(batch(14, 0, read(1_000, 1_500, 100), "SEALED"), landed_ms=None)
    assert one(topic(), progress(newest, LANDED, BASE)).behind_ms == 100 * HOUR
    newest = replace(newest, is_read=False)
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


# ---------------------------------------------------------------- what there is no forecast for


def test_nothing_is_deleted_for_ever() -> None:
    found = one(topic(retention_ms=None), progress(LANDED, LANDED, BASE))
    assert (found.state, found.at_pace_ms, found.stopped_ms, found.room_ms) == (NEVER, None, None, None)


def test_a_compacted_topic_loses_nothing_by_retention() -> None:
    found = one(topic(deletes=False, retention_ms=None), progress(LANDED, LANDED, BASE))
    assert found.state == NEVER
    assert "compacted" in found.reason


def test_a_source_that_forgets_nothing() -> None:
    found = one(topic(traits=replace(ALL, expires=False)), progress(LANDED, LANDED, BASE))
    assert found == LossForecast(partition=0, state=NEVER, unread=1_000, reason="this kind of source forgets nothing")


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
    assert (found.state, found.stopped_ms, found.room_ms) == (UNKNOWN, 8 * HOUR, 7 * DAY)
    assert found.reason == "the pace takes two landed batches that read this partition"


def test_another_topic_of_the_same_name() -> None:
    found = one(replace(topic(), topic_id="id-2"), progress(LANDED, LANDED, BASE))
    assert found.state == UNKNOWN
    assert "recreated" in found.reason


def test_a_partition_that_was_added_since() -> None:
    state = replace(topic(), partitions={0: Lane(0, 2_000, 2_000), 1: Lane(0, 10, 10)})
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


# ---------------------------------------------------------------- whatever the numbers are


def random_case(rng: Random) -> tuple[LogState, Progress]:
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
        look = Look(
            start=low,
            end=high,
            log_start=start,
            high_watermark=max(high, rng.randrange(end + 1)),
            read=high - low,
            bytes=rng.randrange(9_999),
            max_kafka_ms=stamp,
        )
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
