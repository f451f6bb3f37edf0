"""When retention passes what is unread, by bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_progress import HOUR, batch, one, progress, read, sized, topic

from tidegate.core.source.loss_forecast import AHEAD, NEVER, PASSING, UNKNOWN
from tidegate.core.source.port import Lane


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
    never_cut = replace(state, partitions={0: Lane(0, 1_500, 1_500)})
    assert one(never_cut, progress(landed, landed, base)).state == UNKNOWN
    default = replace(state, segment_bytes=None, retention_bytes=1024**3, partitions={0: Lane(1, 801, 801)})
    assert one(default, progress(landed, landed, base)).room_ms is None  # nothing is written
    more = replace(default, partitions={0: Lane(1, 1_001, 1_001)})
    found = one(more, progress(landed, landed, base))
    assert found.room_ms == pytest.approx(500 * HOUR / 101, rel=0.001)  # half of 1,000, 101 an hour


def test_what_is_read_as_fast_as_it_is_written_is_not_lost_by_bytes() -> None:
    assert sized(1_000, unread=400, limit=90_000, taken=100).state == NEVER
    found = sized(1_000, unread=400, limit=90_000, taken=99)
    assert found.at_pace_ms == pytest.approx(600 * HOUR, rel=0.01)


def test_nothing_written_passes_nothing() -> None:
    found = sized(1_000, unread=400, limit=90_000, written=0)
    assert (found.state, found.stopped_ms) == (NEVER, None)


def test_what_is_written_while_the_plan_is_made_counts_as_of_a_millisecond() -> None:
    landed = batch(13, 0.1, read(590, 600, 1, high=990), clock=0)
    state = topic(1_000, start=500, retention_ms=None, retention_bytes=1_000, segment_bytes=1_000)
    found = one(state, progress(landed, landed, landed))
    assert found.room_ms == 25, "250 offsets are kept, 10 come each millisecond"


def test_a_partition_that_the_earlier_batch_did_not_meet_has_no_pace() -> None:
    landed = batch(13, 0.1, read(590, 600, 1, high=990, size=300), clock=0.1)
    state = topic(1_000, retention_ms=None, retention_bytes=90_000, segment_bytes=1)
    found = one(state, progress(landed, landed, batch(1, 1.1, None, clock=1)))
    assert (found.state, found.reason) == (UNKNOWN, "the pace takes two landed batches that met this partition")


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
