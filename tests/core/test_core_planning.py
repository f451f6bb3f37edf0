"""Planning: which ranges the next batch has, and when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE

from tidegate.core.base.errors import DataLoss, LogCut, SourceError, TopicRecreated
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.batch.planning import NothingToPlan, PlanningView, advance, first_offsets, plan_batch, revise
from tidegate.core.batch.states import Loss, PartitionPlan, Plan
from tidegate.core.source.log_cut import Cut
from tidegate.core.source.port import Lane, LogState
from tidegate.core.window.lateness import Floor
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

NOW = 100 * HOUR
SPEC = replace(
    PIPELINE,
    windows=replace(PIPELINE.windows, idle="clock", on_silence="hold"),
    ingest=replace(PIPELINE.ingest, max_records=1000),
)
NOTHING = TopicFacts(None, None, ())
VIEW = PlanningView(
    version=5,
    next_batch_id=8,
    accepted_topic_id="id",
    open_batch=None,
    planned_ends={0: 10, 1: 20},
    not_open=(),
    facts=NOTHING,
)
FIRST = replace(VIEW, next_batch_id=1, accepted_topic_id=None, planned_ends={})


def topic(*offsets: tuple[int, int, int], topic_id: str = "id") -> LogState:
    return LogState(topic="flights", topic_id=topic_id, partitions={p: Lane(*o) for p, o in enumerate(offsets)})


def planned(
    state: LogState, view: PlanningView = VIEW, spec=SPEC, first: dict[int, int] | None = None, clock: int = NOW
) -> Plan:
    plan = plan_batch(spec, 3, view, state, first or {}, clock)
    assert isinstance(plan, Plan), plan
    return plan


def nothing(state: LogState, view: PlanningView = VIEW, spec=SPEC, clock: int = NOW) -> str:
    plan = plan_batch(spec, 3, view, state, {}, clock)
    assert isinstance(plan, NothingToPlan), plan
    return plan.reason


def test_a_plan_as_a_whole() -> None:
    view = replace(VIEW, not_open=(5 * HOUR,))
    assert planned(topic((0, 15, 15), (3, 30, 40)), view) == Plan(
        pipeline="flights",
        batch_id=8,
        revision=1,
        spec_version=3,
        rules_version=2,  # unknown fields are ignored: a worker of the release before takes it
        topic="flights",
        topic_id="id",
        clock_ms=NOW,
        floor=Floor(0, (Interval(5 * HOUR, 6 * HOUR),)),
        partitions=(
            PartitionPlan(partition=0, start=10, end=15, log_start=0, last_stable_offset=15, high_watermark=15),
            PartitionPlan(partition=1, start=20, end=30, log_start=3, last_stable_offset=30, high_watermark=40),
        ),
    )
    sending = replace(SPEC, late_policy="reroute")
    assert planned(topic((0, 15, 15), (3, 30, 40)), view, sending).floor == replace(
        Floor(0, (Interval(5 * HOUR, 6 * HOUR),)), reroute_ms=0
    )
    aged = replace(SPEC, windows=replace(SPEC.windows, max_age_ms=10 * HOUR))
    assert planned(topic((0, 15, 15), (3, 30, 40)), view, aged).floor == Floor(90 * HOUR)


def test_what_a_plan_says_of_itself() -> None:
    plan = planned(topic((0, 10, 10), (3, 30, 40)))
    assert plan.ranges == (OffsetRange("flights", 1, 20, 30),)
    assert plan.records == 10
    empty, held = plan.partitions
    assert (empty.drained, empty.has_open_transaction) == (True, False)
    assert (held.drained, held.has_open_transaction) == (False, True)
    assert not replace(empty, end=9).drained
    assert not replace(empty, high_watermark=11).drained


def test_partitions_are_in_order_whatever_the_broker_says_first() -> None:
    state = LogState(topic="flights", topic_id="id", partitions={1: Lane(0, 21, 21), 0: Lane(0, 11, 11)})
    assert [p.partition for p in planned(state).partitions] == [0, 1]


def test_max_records_is_shared_out() -> None:
    small = replace(SPEC, ingest=replace(SPEC.ingest, max_records=100))
    plan = planned(topic((0, 910, 910), (0, 120, 120)), spec=small)
    assert [(p.start, p.end) for p in plan.partitions] == [(10, 99), (20, 30)]
    assert not any(p.drained for p in plan.partitions)


def test_a_partition_that_no_batch_has_planned_starts_at_0_but_for_the_first_batch() -> None:
    state = topic((0, 12, 12), (0, 22, 22), (0, 9, 9))
    assert planned(state).partitions[2].start == 0
    assert planned(state, first={0: 1, 2: 6}).partitions[2].start == 6
    gone, record = topic((0, 12, 12), (0, 22, 22), (4, 9, 9)), replace(SPEC.source, on_data_loss="record")
    with pytest.raises(DataLoss, match=r"partition 2: offsets \[0, 4\) are gone"):
        planned(gone)
    recorded = planned(gone, spec=replace(SPEC, source=record))
    assert (recorded.partitions[2].start, recorded.losses) == (4, (Loss(2, 0, 4, "retention"),))
    assert planned(state, first={0: 1, 2: 6}).partitions[0].start == 10, "what is planned is never asked again"
    assert planned(topic((2, 12, 12)), FIRST, first={0: 7}).partitions[0].start == 7


@pytest.mark.parametrize("known", ["id", None])
def test_another_topic_id_is_another_topic(known: str | None) -> None:
    state, view = topic((0, 12, 12), (0, 22, 22), topic_id="new"), replace(VIEW, accepted_topic_id=known)
    if known is None:
        assert planned(state, view).topic_id == "new"
        return
    with pytest.raises(TopicRecreated, match="has id new, .* belong to id"):
        planned(state, view)


def test_partitions_that_have_gone() -> None:
    with pytest.raises(SourceError, match=r"lost partitions \[1\]"):
        planned(topic((0, 12, 12)))


def test_an_offset_beyond_the_log_is_a_loss_that_nothing_allows() -> None:
    record = replace(SPEC, source=replace(SPEC.source, on_data_loss="record"))
    with pytest.raises(DataLoss, match="next offset is 20, but the log ends at 19") as e:
        planned(topic((0, 12, 12), (0, 19, 19)), spec=record)
    assert "the next run looks again" in e.value.advice
    cut = replace(VIEW, cuts=(Cut(1, "id", 7, 19, 20, 3),))
    with pytest.raises(LogCut, match=r"partition 1: the log was cut at offset 19 .*\n.*tidegate source skip flights"):
        planned(topic((0, 12, 12), (0, 29, 29)), cut, spec=record)
    assert planned(topic((0, 12, 12), (0, 20, 20))).records == 2, "at the end there is nothing new, no loss"


def test_retention_that_passed_unread_offsets_stops_or_is_recorded() -> None:
    state = topic((10, 12, 12), (25, 30, 30))
    with pytest.raises(DataLoss, match=r"partition 1: offsets \[20, 25\) .*\(5 records at most\)"):
        planned(state)
    record = replace(SPEC, source=replace(SPEC.source, on_data_loss="record"))
    plan = planned(state, spec=record)
    assert plan.losses == (Loss(1, 20, 25, "retention"),)
    assert [(p.start, p.end) for p in plan.partitions] == [(10, 12), (25, 30)]


def test_a_loss_is_worth_a_batch_of_its_own() -> None:
    record = replace(SPEC, source=replace(SPEC.source, on_data_loss="record"))
    plan = planned(topic((10, 10, 10), (25, 25, 25)), spec=record)
    assert (plan.ranges, plan.losses) == ((), (Loss(1, 20, 25, "retention"),))


@pytest.mark.parametrize(
    ("start", "log", "pins"),
    [
        ("earliest", (0, 0, 0), False),
        ("earliest", (7, 7, 7), False),
        ("latest", (0, 0, 0), True),  # `latest` would move on with every look
        (12345, (0, 0, 0), True),
        ("latest", (0, 7, 7), True),
        ("earliest", (0, 0, 7), True),  # all of it in an open transaction
    ],
)
def test_the_first_batch_pins_where_reading_begins(start: str | int, log: tuple[int, int, int], pins: bool) -> None:
    spec, state = replace(SPEC, source=replace(SPEC.source, start=start)), topic(log)
    plan = plan_batch(spec, 1, FIRST, state, {0: log[1]}, NOW)
    assert isinstance(plan, Plan) == pins
    later = plan_batch(spec, 1, replace(VIEW, planned_ends={0: log[1]}), state, {}, NOW)
    assert isinstance(later, NothingToPlan), "a later batch needs a better reason"


# ---------------------------------------------------------------- batches without ranges


def facts(*partitions: PartitionFacts, clock: int = 99 * HOUR) -> TopicFacts:
    return TopicFacts(7, clock, partitions)


def quiet(number: int, event: float, advanced: float, offset: int) -> PartitionFacts:
    return PartitionFacts(
        partition=number,
        max_event_ms=int(event * HOUR),
        drained=True,
        advanced_ms=int(advanced * HOUR),
        open_transaction_since_ms=None,
        last_stable_offset=offset,
    )


STILL = topic((0, 10, 10), (0, 20, 20))
BUSY = (quiet(0, 99.5, 99.5, 10), quiet(1, 8, 20, 20))


def test_nothing_new() -> None:
    assert nothing(STILL) == "no new records"
    assert nothing(STILL, replace(VIEW, facts=facts(*BUSY))) == "no new records"


def test_an_empty_batch_that_carries_the_watermark_over_a_windows_end() -> None:
    """Partition 1 was not drained when the newest batch landed; by now it is, and another one stands in for it."""
    before = (BUSY[0], replace(BUSY[1], drained=False))
    plan = planned(STILL, replace(VIEW, facts=facts(*before)))
    assert (plan.ranges, plan.batch_id) == ((), 8)
    wait = replace(SPEC, windows=replace(SPEC.windows, idle="wait"))
    assert nothing(STILL, replace(VIEW, facts=facts(*before)), wait) == "no new records"
    assert nothing(STILL, replace(VIEW, facts=replace(facts(*before), batch_id=None))) == "no new records"


@pytest.mark.parametrize(("event", "worth"), [(8.0, True), (98.9, True), (99.0, False), (99.2, False), (99.5, False)])
def test_only_a_windows_end_is_worth_a_batch(event: float, worth: bool) -> None:
    """The watermark goes from `event` to 99.5 h."""
    follow = replace(SPEC, windows=replace(SPEC.windows, idle="follow"))
    before = facts(BUSY[0], replace(quiet(1, event, event, 20), drained=False))
    found = plan_batch(follow, 3, replace(VIEW, facts=before), STILL, {}, NOW)
    assert isinstance(found, Plan) == worth


def test_the_first_watermark_of_all_is_worth_a_batch() -> None:
    before = facts(BUSY[0], replace(BUSY[1], max_event_ms=None, drained=False))
    assert planned(STILL, replace(VIEW, facts=before)).ranges == ()
    nobody = facts(*(PartitionFacts(partition=p, max_event_ms=None, drained=False, advanced_ms=None) for p in (0, 1)))
    assert nothing(STILL, replace(VIEW, facts=nobody)) == "no new records"


def test_one_empty_batch_for_a_transaction_that_holds_everything_back() -> None:
    held = topic((0, 10, 10), (0, 20, 29))
    landed = replace(VIEW, facts=facts(*BUSY))
    assert planned(held, landed).ranges == ()
    told = replace(landed, facts=facts(BUSY[0], replace(BUSY[1], drained=False, open_transaction_since_ms=NOW)))
    words = nothing(held, told)
    assert "open transactions hold 1 partition back" in words
    assert "partition 1 from offset 20 of 29 on" in words
    another = replace(told.facts.partitions[1], last_stable_offset=19)
    assert planned(held, replace(told, facts=facts(BUSY[0], another))).ranges == (), "another transaction"
    assert planned(held, replace(told, facts=facts(BUSY[0]))).ranges == (), "a partition that no batch has seen"
    assert "hold 1" in nothing(held, VIEW), "before the first landed batch there is nobody to tell"


def test_the_partition_that_holds_most_is_the_example() -> None:
    assert "partition 1 from offset 20 of 99 on" in nothing(topic((0, 10, 12), (0, 20, 99)))
    assert "partition 0 from offset 10 of 25 on" in nothing(topic((0, 10, 25), (0, 20, 30)))


# ---------------------------------------------------------------- facts, starts, revisions


def test_facts_after_a_batch() -> None:
    plan = planned(topic((0, 15, 15), (0, 20, 29), (0, 0, 0)))
    before = facts(quiet(0, 50, 60, 10), replace(quiet(1, 8, 20, 20), open_transaction_since_ms=70 * HOUR))
    after = advance(before, plan, {0: 90 * HOUR, 1: None})
    assert after == TopicFacts(
        8,
        NOW,
        (
            PartitionFacts(
                partition=0,
                max_event_ms=90 * HOUR,
                drained=True,
                advanced_ms=NOW,
                open_transaction_since_ms=None,
                last_stable_offset=15,
                timed_ms=NOW,
            ),
            PartitionFacts(
                partition=1,
                max_event_ms=8 * HOUR,
                drained=False,
                advanced_ms=20 * HOUR,
                open_transaction_since_ms=70 * HOUR,
                last_stable_offset=20,
                timed_ms=20 * HOUR,
            ),
            PartitionFacts(
                partition=2,
                max_event_ms=None,
                drained=True,
                advanced_ms=None,
                open_transaction_since_ms=None,
                last_stable_offset=0,
            ),
        ),
    )
    older = advance(before, plan, {0: 40 * HOUR})
    assert older.partitions[0].max_event_ms == 50 * HOUR, "never back"


@pytest.mark.parametrize(
    ("start", "found"),
    [("earliest", {0: 1, 1: 4}), ("latest", {0: 2, 1: 5}), (1234, {0: 2, 1: 6})],
)
def test_where_a_pipeline_begins(start: str | int, found: dict[int, int]) -> None:
    assert first_offsets(start, topic((1, 2, 3), (4, 5, 6)), {0: 2}) == found


def test_a_refused_batch_takes_a_new_spec_and_nothing_else() -> None:
    plan = replace(planned(topic((0, 15, 15), (0, 22, 22))), revision=4)
    assert revise(plan, SPEC, 9) == replace(plan, revision=5, spec_version=9)
    sending = revise(plan, replace(SPEC, late_policy="reroute"), 9)
    target = plan.floor.oldest_open(SPEC.windows)
    assert sending.floor == replace(plan.floor, reroute_ms=target), "the one that was open for the first revision"
    assert revise(sending, SPEC, 10).floor == plan.floor
    with pytest.raises(SourceError, match="batch 8 reads flights"):
        revise(plan, replace(SPEC, source=replace(SPEC.source, topic="other")), 9)
