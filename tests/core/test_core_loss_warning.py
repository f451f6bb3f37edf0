"""How loud a coming loss is, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_progress import BASE, DAY, HOUR, LANDED, MINUTE, NOW, batch, one, progress, read, sized, topic

from tidegate.core.source.loss_forecast import AHEAD, NEVER, PASSING, UNKNOWN, LossForecast
from tidegate.core.source.loss_warning import (
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
from tidegate.core.source.port import ALL, Lane
from tidegate.core.source.progress import Progress, begins
from tidegate.core.source.trouble import Trouble


@pytest.mark.parametrize(
    ("at", "expected"), [(6 * HOUR, CRITICAL), (6 * HOUR + 1, WARN), (DAY, WARN), (DAY + 1, OK), (0, CRITICAL)]
)
def test_a_quarter_of_the_warning_is_critical(at: int, expected: str) -> None:
    found = LossForecast(
        partition=0, state=AHEAD, at_pace_ms=at, stopped_ms=at, room_ms=7 * DAY, limit="time", behind_ms=0, unread=5
    )
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
    assert (
        level(
            LossForecast(
                partition=0,
                state=NEVER,
                at_pace_ms=None,
                stopped_ms=stopped,
                room_ms=room,
                limit="time",
                behind_ms=0,
                unread=unread,
            ),
            DAY,
        )
        == expected
    )


def test_the_loudest_partition_is_the_one_to_look_at() -> None:
    quiet = LossForecast(
        partition=0,
        state=AHEAD,
        at_pace_ms=3 * DAY,
        stopped_ms=DAY * 2,
        room_ms=7 * DAY,
        limit="time",
        behind_ms=0,
        unread=5,
    )
    edge = LossForecast(
        partition=1, state=NEVER, at_pace_ms=None, stopped_ms=HOUR, room_ms=7 * DAY, limit="time", behind_ms=0, unread=5
    )
    unknown = LossForecast(partition=2, state=UNKNOWN, reason="who knows")
    passing = LossForecast(
        partition=3, state=PASSING, at_pace_ms=0, stopped_ms=0, room_ms=7 * DAY, limit="time", behind_ms=0, unread=5
    )
    found = TimeToLoss(WARN, (quiet, edge, unknown), DAY, 7 * DAY, None)
    assert found.first == edge
    assert (found.at_pace_ms, found.stopped_ms) == (3 * DAY, HOUR)
    assert replace(found, partitions=(quiet, edge, passing)).first == passing
    assert replace(found, partitions=(quiet, unknown)).first == unknown
    assert replace(found, partitions=(unknown,)).at_pace_ms is None


def test_the_level_of_a_topic_is_that_of_its_loudest_partition() -> None:
    state = replace(topic(), partitions={0: Lane(0, 1_000, 1_000), 1: Lane(0, 0, 0)})
    assert time_to_loss(state, progress(LANDED, LANDED, BASE), NOW, DAY).level == OK
    behind = time_to_loss(topic(), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert (behind.warning_ms, behind.retention_ms, behind.retention_bytes) == (DAY, 7 * DAY, None)
    assert (behind.level, behind.at_pace_ms is not None) == (WARN, True)
    assert time_to_loss(topic(), progress(LANDED, LANDED, BASE), NOW, None).level == OFF
    assert time_to_loss(topic(), Progress(None), NOW, DAY).level == UNKNOWN


def said(trouble: Trouble) -> str:
    """What a source would say."""
    return f"<{trouble.what}, topic {trouble.topic}, {trouble.limit}>"


def test_words() -> None:
    found = time_to_loss(topic(), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert sentence(found) == (
        "partition 0 loses unread records in about 16.0 h at the present pace (retention 7.0 days, 6.7 days behind, "
        "1,000 unread); if reading stopped now, the first loss is 8.0 h away"
    )
    assert short(found) == "16.0 h"
    assert "<expires, topic t, time>; then read faster" in remedy(found, "t", "p", said)
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


@pytest.mark.parametrize(("stable", "held"), [(1_000, True), (999, True), (1_001, False), (1_050, False)])
def test_what_a_transaction_holds_back_is_not_read_by_reading_faster(stable: int, held: bool) -> None:
    landed = batch(13, 0.1, read(900, 1_000, 160, high=1_040))
    state = replace(topic(), partitions={0: Lane(0, stable, 1_050)})
    words = remedy(time_to_loss(state, progress(landed, landed, BASE), NOW, DAY), "t", "p", said)
    assert words.startswith("first <expires, topic t, time>; then ")
    assert ("then read faster" in words) is not held
    assert words.endswith("then end the transaction that is open in partition 0: <transaction, topic t, time>") is held


def test_where_the_next_batch_begins() -> None:
    ends = Progress("id", LANDED, LANDED, resumed={2: 7}).ends
    assert ends == {0: 1_000, 2: 7}
    assert [begins(ends, p, 5) for p in (0, 1, 2)] == [1_000, 0, 7], "a partition that came later: from its beginning"
    assert begins({}, 0, 5) == 5, "before the first batch nothing is due that the log no longer has"
    assert Progress("id", LANDED, LANDED).begins(0, 5) == 1_000


def test_nothing_is_held_back_where_nothing_is_unread() -> None:
    landed = batch(13, 0.1, read(900, 1_000, 160, high=1_000))
    state = replace(topic(), partitions={0: Lane(0, 1_000, 1_000)})
    assert "transaction" not in remedy(time_to_loss(state, progress(landed, landed, BASE), NOW, DAY), "t", "p", said)


def test_the_words_of_each_limit() -> None:
    by_bytes = TimeToLoss(WARN, (sized(1_000, unread=400, limit=90_000),), DAY, None, 90_000)
    assert "first <expires, topic t, bytes>; " in remedy(by_bytes, "t", "p", said)
    assert "p.ingest" in remedy(by_bytes, "t", "p", said)
    both = replace(by_bytes, retention_ms=7 * DAY)
    assert "first <expires, topic t, bytes>; " in remedy(both, "t", "p", said), "the limit that acts first is raised"
    gone = LossForecast(
        partition=0, state=PASSING, at_pace_ms=0, stopped_ms=0, reason="offsets [2, 5) are gone already", unread=5
    )
    for ms, size, key in (
        (7 * DAY, None, "time"),
        (None, 10**9, "bytes"),
        (7 * DAY, 10**9, "time"),
        (None, None, "time"),
    ):
        assert f", {key}>" in remedy(TimeToLoss(CRITICAL, (gone,), DAY, ms, size), "t", "p", said), (ms, size)
    empty = TimeToLoss(OK, (), DAY, None, None)
    assert ", time>" in remedy(empty, "t", "p", said)
    compacted = time_to_loss(topic(deletes=False, retention_ms=None), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert sentence(compacted) == (
        "nothing is lost at the present pace: the topic is compacted, nothing is deleted (1,000 unread)"
    )
    nothing = time_to_loss(topic(end=1_000, retention_ms=None), progress(LANDED, LANDED, BASE), NOW, DAY)
    assert sentence(nothing) == "nothing is lost at the present pace"


def test_the_loudest_level_counts_whatever_the_order() -> None:
    parts = {0: Lane(0, 2_000, 2_000), 1: Lane(0, 0, 0), 2: Lane(0, 9, 9)}
    state = replace(topic(), partitions=parts)
    known = progress(LANDED, LANDED, BASE)
    found = time_to_loss(state, known, NOW, DAY)
    assert [level(f, DAY) for f in found.partitions] == [WARN, OK, OK]
    assert found.level == WARN
    assert found.first == found.partitions[0]
    assert time_to_loss(state, known, NOW, 4 * DAY).level == CRITICAL
    unsure = replace(known, landed=None, newest=replace(LANDED, is_read=False))
    assert time_to_loss(state, unsure, NOW, DAY).level == UNKNOWN
    assert time_to_loss(replace(state, partitions={}), known, NOW, None).level == OFF


def test_which_limit_it_is_is_said_only_where_one_acts() -> None:
    assert one(topic(retention_ms=None), progress(LANDED, LANDED, BASE)).limit == ""
    assert one(topic(end=1_000), progress(LANDED, LANDED, BASE)).limit == "time"
    both = one(topic(end=1_000, retention_bytes=10**12, segment_bytes=1), progress(LANDED, LANDED, BASE))
    assert both.limit == "time", "the one that would act first if reading stopped"
    read_all = batch(13, 0.1, read(990, 1_000, 1, high=1_000, size=300))
    base = batch(1, 1.1, read(0, 900, 2, high=900, size=300), clock=1)
    small = topic(1_000, retention_bytes=90_000, segment_bytes=1)
    assert one(small, progress(read_all, read_all, base)).limit == "bytes"


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
        partition=0,
        state=PASSING,
        at_pace_ms=0,
        stopped_ms=0,
        room_ms=7 * DAY,
        limit="time",
        behind_ms=8 * DAY,
        unread=1_000,
        reason=why,
    )
    landed, base = batch(13, 0.1, read(590, 600, 1, high=990), clock=0.1), batch(1, 1.1, read(0, 550, 2, 900), clock=1)
    small = topic(1_500, start=500, retention_ms=None, retention_bytes=3_000, segment_bytes=1_000)
    why = "more is unread than retention.bytes surely holds"  # 750 are, and 600 come each hour
    assert one(small, progress(landed, landed, base)) == LossForecast(
        partition=0,
        state=PASSING,
        at_pace_ms=0,
        stopped_ms=0,
        room_ms=int(1.25 * HOUR),
        limit="bytes",
        behind_ms=HOUR,
        unread=900,
        reason=why,
    )
    gone = "offsets [1000, 1001) are gone already"
    assert one(topic(start=1_001), progress(LANDED, LANDED, BASE)) == LossForecast(
        partition=0, state=PASSING, at_pace_ms=0, stopped_ms=0, unread=1_000, reason=gone
    )
    hidden = replace(topic(), deletes=None, partitions={3: Lane(0, 9, 9)})
    assert one(hidden, progress(LANDED, LANDED)) == LossForecast(
        partition=3, state=UNKNOWN, unread=9, reason="the topic's settings may not be read"
    )
    unstamped = batch(13, 0.1, read(900, 1_000, None, high=1_000))
    keeps = one(topic(end=1_050), progress(unstamped, unstamped, BASE))
    why = "the newest batch has no Kafka timestamp of this partition"
    assert keeps == LossForecast(partition=0, state=NEVER, limit="time", unread=50, reason=why)
    unsized = topic(1_050, retention_ms=None, retention_bytes=9_000, segment_bytes=1)
    keeps = one(unsized, progress(unstamped, unstamped, base))
    assert keeps == LossForecast(partition=0, state=NEVER, behind_ms=keeps.behind_ms, unread=50)
    behind = batch(13, 0.1, read(900, 1_000, None, high=1_040))
    why = "how many records retention.bytes holds is not known"
    assert one(unsized, progress(behind, behind, base)).reason == why
    other = replace(topic(), topic_id="x", partitions={3: Lane(0, 9, 9)})
    why = "the topic was recreated: its offsets are not the ledger's"
    assert one(other, progress(LANDED, LANDED)) == LossForecast(partition=3, state=UNKNOWN, reason=why)
    for kept, why in (
        ({"traits": replace(ALL, expires=False)}, "this kind of source forgets nothing"),
        ({"deletes": False}, "the topic is compacted, nothing is deleted"),
    ):
        never = replace(topic(), partitions={3: Lane(0, 9, 9)}, **kept)
        assert one(never, progress(LANDED, LANDED)) == LossForecast(partition=3, state=NEVER, unread=9, reason=why)


def test_whole_answers_by_bytes() -> None:
    look = read(590, 600, 1, high=990, size=300)
    landed, base = batch(13, 0.1, look, clock=0.1), batch(1, 1.1, replace(look, high_watermark=900), clock=1)
    state = topic(1_000, retention_ms=None, retention_bytes=90_000, segment_bytes=0)
    hours = {"room_ms": 10 * HOUR, "behind_ms": HOUR, "unread": 400}  # 1,000 are kept, 100 come each hour
    why = "the pace takes two landed batches that met this partition"
    found = one(state, progress(landed, landed, batch(1, 1.1, None, clock=1)))
    assert (found.state, found.limit, found.reason) == (UNKNOWN, "", why)
    assert (found.stopped_ms, found.room_ms) == (6 * HOUR, 10 * HOUR)
    to_the_end = replace(landed, partitions={0: replace(look, high_watermark=600)})
    found = one(state, progress(to_the_end, to_the_end, base))
    assert found == LossForecast(partition=0, state=NEVER, limit="bytes", stopped_ms=6 * HOUR, **hours)
    cut = replace(state, partitions={0: Lane(500, 1_000, 1_000)})
    unmet = one(cut, progress(batch(14, 0, look, "WRITING"), None))
    assert (unmet.state, unmet.reason) == (UNKNOWN, "no batch has landed yet")
