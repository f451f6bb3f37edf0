"""What is the matter with a pipeline, and what to do about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core_status import DELIVERY, NOW, SLA, SPEC, SURVEY, TOPIC, WINDOWS, found, only, pause, status, surveyed
from core_values import HOUR, T0

from tidegate.core.base.instants import DAY_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.batch.refusal import RefusalKind
from tidegate.core.completeness.rules import Held
from tidegate.core.daily.purge import KeptOut
from tidegate.core.deliver.port import Content
from tidegate.core.deliver.states import PENDING, REFUSED, Backlog, Delivered
from tidegate.core.deliver.states import Due as Undelivered
from tidegate.core.deliver.units import held_way_on
from tidegate.core.late.reopen import Choice
from tidegate.core.look import concerns as rules
from tidegate.core.look.overdue import Concern, Since
from tidegate.core.look.status import Lag, PipelineStatus
from tidegate.core.look.survey import Block, OpenRow, Told
from tidegate.core.mirror.applies import APPLIED, Apply, Merging, Tried
from tidegate.core.mirror.applies import REFUSED as MERGE_REFUSED
from tidegate.core.mirror.applies import Told as Table
from tidegate.core.replay.abandoned import Unfinished
from tidegate.core.source.loss_forecast import AHEAD, LossForecast
from tidegate.core.source.loss_warning import CRITICAL, WARN, TimeToLoss
from tidegate.core.tell.notices import AuditOutcome
from tidegate.core.window.answer import Comparison
from tidegate.core.window.due import ArchiveNote, Due
from tidegate.core.window.states import BUILDING, QUIET_MS, REPLAY, ROLLBACK, WindowKey
from tidegate.core.window.watermark import PartitionFacts, TopicFacts


def test_a_pipeline_that_is_well() -> None:
    assert found(status()) == []
    assert found(status(survey=None)) == []


# ---------------------------------------------------------------- what waits for a person


def test_alarms_are_cleared_by_their_subject() -> None:
    blocks = (Block("window 20130105T040000Z", "odd\nlong"), Block("batch 7", ""), Block("partition 3", "cut"))
    window, batch, partition = found(surveyed(blocks=blocks))
    assert window == Concern(
        "window 2013-01-05T04:00Z is blocked: odd",
        "find out why, then: tidegate repair p --window 2013-01-05T04:00Z --why '...'",
        "alarm",
        "window 20130105T040000Z",
    )
    assert (batch.what, batch.subject) == ("batch 7 is blocked: ", "batch 7")
    assert batch.advice.endswith("tidegate repair p --batch 7 --why '...'")
    assert "tidegate source rewind p" in partition.advice
    assert "tidegate source skip p" in partition.advice


def test_a_refused_batch() -> None:
    refused = OpenRow(batch_id=7, state="WRITING", refused="dirty\nmore", refused_kind=RefusalKind.DIRTY_LIMIT)
    one = only(surveyed(open_batch=refused))
    assert (one.what, one.kind, one.subject) == ("batch 7 was refused: dirty", "dirty_limit", "batch 7")
    assert "tidegate repair p --release 7" in one.advice
    assert found(surveyed(open_batch=OpenRow(batch_id=7, state="WRITING"))) == []


def test_what_only_a_person_can_land() -> None:
    blocks = (Block("batch 6", "other"), Block("batch 7", "odd"))
    refused = OpenRow(batch_id=7, state="WRITING", refused="dirty")
    assert rules.stuck_batch("p", blocks, None) == ""
    assert rules.stuck_batch("p", blocks[:1], OpenRow(batch_id=7, state="WRITING")) == ""
    found = rules.stuck_batch("p", blocks, refused)
    assert found == "batch 7 is blocked: odd; find out why, then: tidegate repair p --batch 7 --why '...'"
    assert rules.stuck_batch("p", blocks[:1], refused).startswith("batch 7 was refused: dirty; ")


# ---------------------------------------------------------------- what only Kafka can say


def loss(level: str, **more: Any) -> TimeToLoss:
    forecast = LossForecast(partition=0, state=AHEAD, at_pace_ms=HOUR, stopped_ms=HOUR, room_ms=9 * HOUR, unread=5)
    return TimeToLoss(level, (replace(forecast, **more),), 2 * HOUR, 9 * HOUR, None)


def test_a_topic_that_was_recreated() -> None:
    one = only(status(topic=replace(TOPIC, topic_id="new"), lag=Lag(records=1, lost=3), loss=loss(CRITICAL)))
    assert (one.kind, one.subject) == ("source_reset", "new")
    assert "it is new, the offsets belong to id" in one.what
    assert "tidegate source reset p" in one.advice


def test_offsets_that_are_gone_or_soon_will_be() -> None:
    gone = only(status(lag=Lag(records=1, lost=1), loss=loss(CRITICAL)))
    assert (gone.kind, gone.what) == ("data_loss", "1 offset is gone from the topic before they were read")
    near = only(status(lag=Lag(records=1), loss=loss(CRITICAL)))
    assert near.kind == "loss_ahead"
    assert near.what.startswith("partition 0 loses unread records in about 60 min")
    assert "<expires flights>" in near.advice
    assert "p.ingest" in near.advice
    assert found(status(lag=Lag(records=1), loss=loss(WARN))) == []


def test_without_kafkas_answer_what_was_told_stands() -> None:
    told = tuple(Told(kind, f"{kind}!", "do", 0) for kind in ("source_reset", "data_loss", "loss_ahead", "late_window"))
    made = found(status(survey=replace(SURVEY, told=told), topic=None, lag=Lag(records=0, lost=9)))
    assert [(c.kind, c.what, c.advice) for c in made] == [
        (kind, f"{kind}!", "do") for kind in ("source_reset", "data_loss", "loss_ahead")
    ]
    assert found(surveyed(told=told)) == [], "Kafka has answered"


# ---------------------------------------------------------------- pauses


def test_a_pause_that_is_over() -> None:
    one = only(surveyed(pause=pause("ingest", until_ms=NOW - HOUR)))
    assert one.what.startswith("paused until 2013-01-09T03:00Z, which is over since 60 min: paused on purpose since")
    assert "tidegate unpause p" in one.advice
    assert found(surveyed(pause=pause("ingest", until_ms=NOW + 1))) == []


def test_a_pause_that_loses_records() -> None:
    held = replace(SURVEY, pause=pause("ingest"))
    one = only(status(survey=held, loss=loss(WARN)))
    assert (one.kind, one.what.split(":")[0]) == (
        "loss_ahead", "ingest is paused, and unread records are lost in about 60 min",
    )  # fmt: skip
    assert one.advice == "tidegate unpause p --only ingest; or <keeps little flights>"
    assert [c.kind for c in found(status(survey=held, loss=loss(CRITICAL)))] == ["loss_ahead"], "said once"
    assert found(status(survey=replace(SURVEY, pause=pause("archive")), loss=loss(WARN))) == []
    ends = replace(SURVEY, pause=pause("ingest", until_ms=NOW + 1))
    assert only(status(survey=ends, loss=loss(WARN))).kind == "loss_ahead"
    assert found(status(survey=held, loss=loss(WARN, stopped_ms=3 * HOUR))) == []


# ---------------------------------------------------------------- merges

APPLY = Apply(pipeline="p", first=3, last=5, epoch=7, nonce="n")
TRIED = Tried(apply=APPLY, state=MERGE_REFUSED, began_ms=0, why="odd\nlong")


def merging(**more: Any) -> PipelineStatus:
    return status(merging=Merging(**more))


def test_a_merge_that_was_refused() -> None:
    one = only(merging(tried=TRIED, since_ms=0, waiting=4))
    assert (one.kind, one.subject) == ("refused_merge", "apply 3-5")
    assert one.what == "the merge of batches 3 to 5 was refused: odd"
    assert "tidegate apply p --again" in one.advice
    purge = only(merging(tried=replace(TRIED, apply=replace(APPLY, first=6), why=None)))
    assert purge.what == "a purge of its tombstones was refused: "
    assert found(merging(tried=replace(TRIED, state=APPLIED))) == []


def test_batches_that_wait_to_be_merged() -> None:
    assert found(merging(since_ms=NOW - SLA, waiting=4)) == found(merging(waiting=4)) == []
    one = only(merging(since_ms=NOW - SLA - 1, waiting=1200))
    assert (one.kind, one.what) == (
        "late_merge", "1,200 landed batches wait to be merged, the oldest for 2.0 h",
    )  # fmt: skip
    assert "tidegate apply p" in one.advice
    assert only(merging(since_ms=0, waiting=1)).what.startswith("a landed batch waits to be merged")
    assert only(merging(since_ms=0, waiting=2)).what.startswith("2 landed batches wait to be merged")
    late = Merging(since_ms=0, waiting=1)
    assert found(status(merging=late, survey=replace(SURVEY, pause=pause("apply")))) == []
    assert found(status(merging=late, survey=replace(SURVEY, pause=pause("apply", until_ms=NOW + 1)))) == []
    assert len(found(status(merging=late, survey=replace(SURVEY, pause=pause("ingest"))))) == 1


def test_events_that_a_purge_has_kept_out_are_told_for_a_week() -> None:
    told = Table(below_purge=1200)
    one = only(merging(told=told, kept_out_ms=NOW - 7 * DAY_MS))
    assert (one.kind, one.what) == (
        "below_purge",
        "1,200 events were kept out of the table, older than its purge of tombstones; the last 7.0 days ago",
    )
    assert "tidegate where p --key" in one.advice
    assert found(merging(told=told, kept_out_ms=NOW - 7 * DAY_MS - 1)) == []
    assert found(merging(told=told)) == found(merging(kept_out_ms=NOW)) == []
    both = found(merging(told=told, kept_out_ms=NOW, tried=TRIED))
    assert [c.kind for c in both] == ["below_purge", "refused_merge"]


def test_a_day_that_was_built_without_events_of_before_its_purge_is_told_for_a_week() -> None:
    note = KeptOut(at_ms=NOW - 7 * DAY_MS, day="2013-01-04", events="3 events of before")
    one = only(status(kept_out=note))
    assert (one.kind, one.what) == ("below_purge", "2013-01-04 was built without 3 events of before; 7.0 days ago")
    assert "tidegate where p --key" in one.advice
    assert found(status(kept_out=replace(note, at_ms=note.at_ms - 1))) == []


# ---------------------------------------------------------------- deliveries

ROW = Delivered(
    pipeline="p", name="ch", window_ms=T0, generation=1, digest="d", state=PENDING, epoch=1, nonce="n", since_ms=0,
    why="broke", content=Content(rows=1, checksum=1),
)  # fmt: skip
WAITS = Undelivered(window_ms=T0, generation=1, published_ms=NOW - HOUR - 1)


def delivering(backlog: Backlog, **more: Any) -> PipelineStatus:
    return status(backlogs=(backlog,), **more)


def test_windows_that_wait_for_a_delivery() -> None:
    late = Backlog(name="ch", due=1, oldest=WAITS)
    one = only(delivering(late))
    assert (one.kind, one.subject) == ("late_delivery", "delivery ch")
    assert one.what == "a published window waits for the delivery ch, the oldest (2013-01-05T00:00Z) for 60 min"
    assert one.advice.endswith("tidegate deliver p --to ch")
    many = only(delivering(replace(late, due=1200, oldest=replace(WAITS, row=ROW))))
    assert many.what.startswith("1,200 published windows wait for the delivery ch")
    assert many.what.endswith("; the last try: broke")
    assert only(delivering(replace(late, due=2))).what.startswith("2 published windows wait")
    assert found(delivering(replace(late, oldest=replace(WAITS, published_ms=NOW - HOUR)))) == []
    assert found(delivering(replace(late, oldest=None))) == []
    assert found(delivering(late, survey=replace(SURVEY, pause=pause("deliver")))) == []
    assert len(found(delivering(late, survey=replace(SURVEY, pause=pause("archive"))))) == 1


def test_d11_windows_that_wait_until_rows_have_left_another_table() -> None:
    held = Backlog(name="ch", due=1, oldest=replace(WAITS, row=ROW), held_by=(("late", 7),))
    one = only(delivering(held))
    assert one.what.endswith(f" for 60 min; {held.why}")
    assert "ch.late does not stand without them yet" in one.what
    assert one.advice == held_way_on("p", "ch", held.held_by)


def test_windows_that_a_further_system_has_refused() -> None:
    refusal = Undelivered(window_ms=T0, generation=1, published_ms=0, row=replace(ROW, state=REFUSED))
    late = Backlog(name="ch", refused=1, refusal=refusal, due=1, oldest=WAITS)
    first, second = found(delivering(late))
    assert (first.kind, second.kind, first.subject) == ("refused_delivery", "late_delivery", "delivery ch")
    assert first.what == "2013-01-05T00:00Z cannot be delivered to ch: broke"
    assert "tidegate deliver p 2013-01-05T00:00Z --to ch" in first.advice
    quiet = only(delivering(replace(late, refused=1200), survey=replace(SURVEY, pause=pause("deliver"))))
    assert quiet.what.startswith("2013-01-05T00:00Z and 1,199 more cannot be delivered")
    both = replace(SPEC, deliver=(DELIVERY, replace(DELIVERY, name="db")))
    backlogs = (late, Backlog(name="db", refused=1, refusal=refusal))
    paused = status(pipeline=both, backlogs=backlogs, survey=replace(SURVEY, pause=pause("deliver")))
    assert [c.subject for c in found(paused)] == ["delivery ch", "delivery db"], "a pause lets none of them go"
    assert found(delivering(replace(late, refused=2)))[0].what.startswith("2013-01-05T00:00Z and 1 more cannot")
    assert only(delivering(replace(late, due=0, oldest=None, refusal=replace(refusal, row=None)))).what.endswith("ch: ")


def test_late_and_dirty_rows_on_their_way_are_told_by_batches() -> None:
    spec = replace(SPEC, deliver=(replace(DELIVERY, name="ch.late", side="late"),))
    waits = replace(WAITS, window_ms=12, generation=0, side="late")
    one = only(status(pipeline=spec, backlogs=(Backlog(name="ch.late", due=1, oldest=waits),)))
    assert one.what == "late rows wait for the delivery ch.late, the oldest (batch 12) for 60 min"
    many = only(status(pipeline=spec, backlogs=(Backlog(name="ch.late", due=2, oldest=waits),)))
    assert many.what.startswith("late rows of 2 batches wait for the delivery ch.late")
    refusal = replace(waits, row=replace(ROW, state=REFUSED))
    refused = only(status(pipeline=spec, backlogs=(Backlog(name="ch.late", refused=1, refusal=refusal),)))
    assert refused.what == "batch 12 cannot be delivered to ch.late: broke"
    assert "tidegate deliver p --batch 12 --to ch.late;" in refused.advice


def test_each_delivery_has_its_own_sla() -> None:
    other = replace(DELIVERY, name="iceberg", sla_ms=None)
    spec = replace(SPEC, deliver=(other, DELIVERY))
    late = Backlog(name="ch", due=1, oldest=WAITS)
    assert only(status(pipeline=spec, backlogs=(replace(late, name="iceberg"), late))).subject == "delivery ch"
    assert found(status(pipeline=spec, backlogs=(late,))) == []
    assert only(status(pipeline=replace(SPEC, deliver=(DELIVERY,) * 2), backlogs=(Backlog(name="x"), late))).subject


# ---------------------------------------------------------------- windows that are held, late rows, audits


def test_windows_that_another_count_holds_too_long() -> None:
    comparison = Comparison(verdict="short", action="hold", text="10 of 12", source="sql")
    long, young = Held(T0, NOW - SLA - 1, comparison), Held(T0 + HOUR, NOW - SLA, comparison)
    one = only(status(held=(long, young)))
    assert (one.kind, one.what) == (
        "held_window", "1 window is held by another system's count, the oldest (2013-01-05T00:00Z): 10 of 12",
    )  # fmt: skip
    assert one.advice.endswith("tidegate complete p 2013-01-05T00:00Z --why '...'")
    assert found(status(held=(young,))) == []


def test_late_rows_that_nothing_takes_up() -> None:
    refused = Choice(WindowKey(T0, T0 + HOUR), None)
    over = replace(refused, window=WindowKey(T0 + HOUR, T0 + 2 * HOUR), over=("too many", "too old"))
    one = only(status(late_left=(over, refused)))
    assert (one.kind, one.what, one.advice) == (
        "late_rows",
        "reopening 2013-01-05T00:00Z was refused: its late rows wait",
        "tidegate reopen p 2013-01-05T00:00Z says why",
    )
    assert only(status(late_left=(refused,) * 1201)).what.startswith("reopening 2013-01-05T00:00Z and 1,200 more was")
    assert only(status(late_left=(refused,) * 2)).what.startswith("reopening 2013-01-05T00:00Z and 1 more was")
    assert found(status(late_left=(over,))) == []
    assert rules.late_words((refused,), "p") == ""
    assert rules.late_words((refused, over), "p") == (
        "late rows of 2013-01-05T01:00Z wait, over the budget: too many; too old; to take them up: "
        "tidegate reopen p 2013-01-05T01:00Z --over-budget --why '...'"
    )
    assert " and 2 more wait" in rules.late_words((over,) * 3, "p")
    assert " and 1 more wait" in rules.late_words((over,) * 2, "p")


def test_the_newest_audit_is_told() -> None:
    one = only(surveyed(audit=AuditOutcome(T0, 2, "odd")))
    assert (one.kind, one.subject) == ("audit_failed", "audit")
    assert one.advice == "tidegate audit p shows them all"


def test_due_windows_of_a_paused_archive_are_expected() -> None:
    free = Due(WINDOWS, (Interval(T0, T0 + HOUR),))
    late = Since(NOW - SLA - 1)
    assert only(status(due=free), since=late).kind == "late_window"
    assert found(status(due=free, survey=replace(SURVEY, pause=pause("archive"))), since=late) == []
    note = ArchiveNote(ended=(T0,), noted_ms=NOW)
    held = replace(SURVEY, pause=pause("archive"), note=note)
    assert only(status(due=free, survey=held), since=late).what.startswith("the archive run of a window has ended")


def test_a_silent_topic_whose_windows_hold() -> None:
    clock = replace(SPEC, windows=replace(WINDOWS, idle="clock", on_silence="hold"))
    part = PartitionFacts(partition=0, max_event_ms=T0, drained=True, advanced_ms=T0)
    quiet = replace(SURVEY, facts=TopicFacts(3, T0, (part,)))
    kinds = [c.kind for c in found(status(pipeline=clock, survey=quiet, lag=Lag(records=0)))]
    assert kinds == ["watermark"]


# ---------------------------------------------------------------- replays that were left


def unfinished(hour: int, kind: str = REPLAY, ago: int = QUIET_MS) -> Unfinished:
    return Unfinished(T0 + hour * HOUR, 2, kind, BUILDING, NOW - ago)  # type: ignore[arg-type]


def test_replays_that_stopped_on_their_way() -> None:
    assert found(surveyed(replays=(unfinished(0, ago=QUIET_MS - 1),))) == []
    one = only(surveyed(replays=tuple(unfinished(h) for h in (0, 1, 5))))
    assert (one.kind, one.subject) == ("replay_left", "2013-01-05T00:00Z")
    assert one.what.startswith("a replay of 3 windows from 2013-01-05T00:00Z on has stopped on its way: ")
    assert one.advice == (
        "to go on: tidegate replay p -s 2013-01-05T00:00Z -e 2013-01-05T01:00Z; "
        "tidegate replay p -s 2013-01-05T05:00Z -e 2013-01-05T05:00Z"
    )
    assert only(surveyed(replays=(unfinished(0),))).what.startswith("a replay of 1 window from")
    row = only(surveyed(replays=tuple(unfinished(h) for h in (0, 1, 2))))
    assert row.advice == "to go on: tidegate replay p -s 2013-01-05T00:00Z -e 2013-01-05T02:00Z"
    assert only(surveyed(replays=(unfinished(0), unfinished(1)))).what.startswith("a replay of 2 windows from")
    three, many = (only(surveyed(replays=tuple(unfinished(2 * h) for h in range(n)))) for n in (3, 5))
    assert three.advice.count("tidegate replay") == many.advice.count("tidegate replay") == 3
    assert "more" not in three.advice
    assert many.advice.endswith(", and so on for 2 more ranges")


def test_rollbacks_that_stopped_are_told_one_by_one() -> None:
    made = found(surveyed(replays=(unfinished(9), *(unfinished(h, ROLLBACK) for h in range(4)))))
    assert [(c.kind, c.subject) for c in made] == [
        ("replay_left", f"2013-01-05T0{h}:00Z") for h in (9, 0, 1, 2)
    ]  # fmt: skip
    assert made[1].what.startswith("a rollback of 2013-01-05T00:00Z has stopped on its way: ")
    assert made[1].advice == "tidegate rollback p 2013-01-05T00:00Z --why '...'"
