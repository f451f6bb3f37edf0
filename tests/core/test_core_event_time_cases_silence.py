"""Event time, case by case: partitions that are drained, silent or new, topics that come again.

Each test is one case of `docs/event-time.md`; hours are of one day.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_topic import HOUR, Topic, at, both

from tidegate.core.base.instants import iso
from tidegate.core.batch.planning import NothingToPlan
from tidegate.core.batch.states import Plan
from tidegate.core.window.watermark import Held, PartitionFacts, TopicFacts, lag_ms, lags

# ---------------------------------------------------------------- drained, silent, stopped


def test_drained() -> None:
    """A partition that is read to its end is stood in for; one with a backlog never is, by any policy."""
    for idle, ready in (("wait", False), ("follow", True), ("clock", True)):
        topic = Topic(idle=idle)
        topic.send(0, 8.9)
        topic.send(1, 8.9)
        topic.plan(9)
        topic.send(0, 10.9)
        topic.plan(11)
        assert topic.ready(9) == ready, idle
        topic = Topic(idle=idle)
        topic.spec = replace(topic.spec, ingest=replace(topic.spec.ingest, max_records=2))
        topic.send(0, 10.9)
        topic.send(1, 8.0, 8.1, 8.2)
        topic.plan(11)
        assert not topic.ready(8), f"{idle}: there is more to read"


def test_open_transaction() -> None:
    """It holds its partition like a backlog, under every policy; the certificate says since when and from where."""
    for idle in ("wait", "follow", "clock"):
        topic = both(Topic(idle=idle), 8.0)
        topic.plan(8.1)
        topic.begin(1)
        topic.send(1, 8.2)
        topic.send(0, 10.9)
        topic.plan(11)
        found = topic.certify(8)
        assert not found.ready
        assert f"partition 1: an open transaction holds it since {iso(at(11))}, from offset 1 on" in found.reason
        topic.send(0, 20.9)
        topic.plan(21)
        assert iso(at(11)) in topic.certify(8).reason, "it is the same one, ten hours later"
        assert topic.certify(8).blockers == (1,)
        del topic.transactions[1]
        both(topic, 21.9)
        topic.plan(22)
        assert topic.ready(8), idle


def test_a_transaction_that_is_open_for_ever_does_not_hold_what_its_partition_has_passed() -> None:
    topic = both(Topic(), 10.9)
    topic.begin(1)
    topic.send(1, 11.0)
    topic.plan(11)
    assert topic.ready(9)
    assert not topic.ready(10)


def test_never_had_a_record() -> None:
    for idle, ready in (("wait", False), ("follow", True), ("clock", True)):
        topic = Topic(3, idle=idle)
        both(topic, 10.9)
        topic.plan(11)
        assert topic.ready(9) == ready, idle
    assert "no batch has landed" in Topic(1).certify(9).reason


def test_a_topic_of_one_partition_is_never_stood_in_for_by_the_clock() -> None:
    topic = Topic(1)
    topic.send(0, 9.9)
    topic.plan(10)
    topic.plan(11)
    assert topic.low() == pytest.approx(9.4)
    assert topic.held() == [Held.ALONE]
    assert "no other partition has had a record" in topic.certify(9).reason


def test_one_record_long_ago() -> None:
    """A partition that had one record once is idle as one that never had any."""
    topic = Topic()
    topic.send(1, 1.0)
    topic.plan(1.01)
    for hour in range(2, 30):
        topic.send(0, hour - 0.01)
        topic.plan(hour)
    assert topic.low() == pytest.approx(29 - 0.51)
    topic.spec = replace(topic.spec, windows=replace(topic.spec.windows, idle="wait"))
    assert topic.low() == 0.5


def test_whole_topic_silent() -> None:
    """hold: the hour that was open stays open, however long. close: it closes by the clock after `topic_silence`."""
    for policy, ready in (("hold", False), ("close", True)):
        topic = both(Topic(on_silence=policy), 9.95)
        topic.plan(10)
        assert not topic.ready(9)
        assert isinstance(topic.plan(10.9), NothingToPlan), "not silent for an hour yet"
        planned = topic.plan(11.01)
        assert isinstance(planned, Plan) == ready, "an empty batch says that nothing came"
        assert topic.ready(9) == ready
        assert not topic.ready(10)
        topic.plan(34)
        assert topic.ready(10) == ready
        assert topic.ready(32) == ready


def test_a_topic_that_has_not_begun_is_not_silent() -> None:
    """`source.start: latest` on a topic that nobody writes to: batch 1 pins where it stands, and reads nothing."""
    topic = Topic(on_silence="close", idle_max_lag_ms=None)
    topic.logs = {0: [], 1: []}
    topic.facts = TopicFacts(
        1,
        at(0),
        tuple(PartitionFacts(partition=p, max_event_ms=None, drained=True, advanced_ms=None) for p in topic.logs),
    )
    topic.ends, topic.next_id = {0: 0, 1: 0}, 2
    assert isinstance(topic.plan(30), NothingToPlan)
    assert not topic.ready(1)
    assert topic.low() is None


def test_records_that_come_after_a_silence_was_closed() -> None:
    """What the silence closed stays closed; the watermark goes back to what is known, and closes nothing twice."""
    topic = both(Topic(on_silence="close"), 9.95)
    topic.plan(10)
    topic.plan(13)
    assert topic.low() == 12.5
    topic.send(0, 10.5)
    topic.plan(13.1)
    assert topic.low() == pytest.approx(10.0), "its producer was behind: its own again, until it has caught up"
    assert topic.held() == [Held.BEHIND, ""]
    topic.send(0, 13.15)
    topic.plan(13.2)
    assert topic.low() == pytest.approx(12.65)


def test_source_stopped_for_a_day_and_what_it_kept_comes_first() -> None:
    """Producers that catch up are drained between two records; the clock must not close the day before it comes."""
    topic = both(Topic(), 9.95)
    topic.plan(10)
    for minute in range(0, 60, 5):  # a day later both send what they kept, an hour's worth at a time
        both(topic, 10.0 + minute / 60 * 20)
        topic.plan(34 + minute / 60)
        assert topic.low() == pytest.approx(9.5 + minute / 60 * 20), "as far as they have come"
        assert topic.held() == [Held.BEHIND] * 2
    both(topic, 34.95)
    topic.plan(35)
    assert topic.ready(33)
    assert not topic.ready(34)


def test_source_stopped_for_a_day_and_one_partition_never_comes_back() -> None:
    topic = both(Topic(), 9.95)
    topic.plan(10)
    assert isinstance(topic.plan(20), NothingToPlan)
    assert not topic.ready(9)
    topic.send(0, 33.98)
    topic.plan(34)
    assert topic.ready(32), "partition 0 shows that time has passed; partition 1 has been quiet for a day"


def test_a_partition_that_was_behind_holds_no_longer_than_the_silence() -> None:
    topic = Topic()
    topic.send(0, 9.9)
    topic.send(1, 5.0)  # one straggler, five hours old
    topic.plan(10)
    topic.send(0, 10.8)
    topic.plan(10.9)
    assert topic.low() == 4.5
    topic.send(0, 10.95)
    topic.plan(11)
    assert topic.low() == pytest.approx(10.45), "an hour later it counts as idle"


def test_behind_by_exactly_the_delay_is_not_behind() -> None:
    topic = Topic()
    topic.send(0, 9.9)
    topic.send(1, 9.5)
    topic.plan(10)
    assert topic.held() == ["", ""]
    topic.send(1, 9.5)
    topic.plan(10 + 1 / HOUR)
    assert topic.held() == ["", Held.BEHIND]


# ---------------------------------------------------------------- partitions that come later, topics that come again


def test_partition_added_later_and_empty() -> None:
    """It holds nothing before a plan has met it; from then on what the policy says of one that never had a record."""
    for idle, ready in (("wait", False), ("follow", True), ("clock", True)):
        topic = both(Topic(idle=idle), 10.9)
        topic.plan(11)
        assert topic.ready(9)
        topic.send(2)
        assert isinstance(topic.plan(11.05), NothingToPlan), "an empty partition is worth no batch"
        assert topic.ready(9)
        both(topic, 11.9)
        topic.plan(12)
        assert topic.ready(10) == ready, idle
    assert topic.facts.partitions[2].max_event_ms is None


def test_partition_added_later_with_records() -> None:
    """From the plan that meets it, it holds windows until its own records have passed them: no longer, no shorter."""
    for idle in ("wait", "follow", "clock"):
        topic = both(Topic(idle=idle), 10.4)
        topic.plan(10.5)
        topic.spec = replace(topic.spec, ingest=replace(topic.spec.ingest, max_records=4))
        topic.send(2, 10.41, 10.45, 10.9, 11.4)
        both(topic, 11.6, 11.7)
        topic.plan(11.75)
        assert topic.certify(10).blockers == (2,), f"{idle}: it has a backlog"
        both(topic, 11.76)
        topic.plan(11.8)
        topic.plan(11.81)
        assert topic.ready(10) == (idle != "wait"), "read to its end"


def test_topic_replayed_from_the_start() -> None:
    """The producer sends all again: the watermark stands still, and does not fall back to the old events."""
    for idle in ("wait", "follow", "clock"):
        topic = both(Topic(idle=idle), *(h + 0.9 for h in range(10)))
        topic.plan(10)
        before = topic.low()
        both(topic, *(h + 0.9 for h in range(5)))
        topic.plan(10.2)
        assert topic.low() >= before, idle
        assert topic.ready(8)
        assert not topic.ready(9)
        both(topic, 9.95)
        topic.plan(10.3)
        assert not topic.ready(9), f"{idle}: its last hour ends when something later comes"
        both(topic, 10.6)
        topic.plan(10.7)
        assert topic.ready(9), idle


def test_first_start_with_seven_days_of_retention() -> None:
    """Capped batches: partitions progress unevenly, one is nearly empty, one empty. No hour closes before the last
    partition with a backlog has passed it, and the clock stands in for nobody while what is read is days old."""
    topic = Topic(4)
    topic.spec = replace(topic.spec, ingest=replace(topic.spec.ingest, max_records=40))
    week = [h / 2 - 168 for h in range(2 * 168)]
    topic.send(0, *week)
    topic.send(1, *(e for e in week for _ in range(3)))
    topic.send(2, -100.0)
    closed = -1000
    clock = 0.0
    while not isinstance(topic.plan(clock), NothingToPlan):
        low = topic.low()
        unread = [topic.logs[p][topic.ends[p]] for p in (0, 1) if topic.ends[p] < len(topic.logs[p])]
        if unread:
            assert low is None or low <= min(unread), "nothing closes before what is still to be read"
        if lags(topic.spec.windows, topic.facts):
            assert {2, 3} <= set(topic.certify(-100).blockers)
            assert topic.certify(-170).blockers[-1] == 3
        closed = max(closed, -1000 if low is None else low)
        clock += 0.1
    assert closed == pytest.approx(-1.0)
    both(topic, clock - 0.01)
    topic.plan(clock)
    assert topic.ready(-2)


def test_loads_of_old_data_are_not_closed_by_the_clock() -> None:
    """13 years behind: the clock says nothing of this topic, drained or silent, until the spec says so on purpose."""
    old = 13 * 365 * 24
    for policy in ("hold", "close"):
        topic = Topic(on_silence=policy, start_ms=at(-2 * old))
        topic.send(0, -old, -old + 1)
        topic.send(1, -old)
        topic.plan(10)
        assert topic.held() == [Held.LAG] * 2
        assert "windows.idle_max_lag" in topic.certify(1 - old).reason
        topic.plan(20)
        assert topic.low() == -old - 0.5
        topic.spec = replace(topic.spec, windows=replace(topic.spec.windows, idle_max_lag_ms=None))
        topic.plan(21)
        assert topic.low() == (20.5 if policy == "close" else 9.5), policy
        topic.spec = replace(topic.spec, windows=replace(topic.spec.windows, idle="follow"))
        assert topic.low() == -old + 0.5


@pytest.mark.parametrize(("lag", "trusted"), [(24.5, True), (24.5 + 1 / HOUR, False), (-0.05, True)])
def test_how_old_the_newest_event_may_be(lag: float, trusted: bool) -> None:
    """The delay and `idle_max_lag`, by the clock at which something was read last."""
    topic = Topic()
    topic.send(0, 10 - lag)
    topic.send(1, -30.0)
    topic.plan(10)
    assert lag_ms(topic.facts) == round(lag * HOUR)
    assert lags(topic.spec.windows, topic.facts) != trusted
    assert not lags(replace(topic.spec.windows, idle_max_lag_ms=None), topic.facts)
