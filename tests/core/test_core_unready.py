"""A window that is not ready, or not published: since when, and what helps it first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core_status import NOW, SLA, SPEC, SURVEY, WINDOWS, found, only, pause, status, surveyed
from core_values import HOUR, T0

from tidegate.core.look import concerns as rules
from tidegate.core.look.overdue import Since
from tidegate.core.look.status import Lag, PipelineStatus
from tidegate.core.look.survey import Block, OpenRow, Survey
from tidegate.core.source.progress import BatchLook, Look, Progress
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.forecast import Forecast
from tidegate.core.window.readiness import certify
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

# ---------------------------------------------------------------- windows that are not ready

NEXT = WindowKey(T0 + 90 * HOUR, T0 + 91 * HOUR)
FACTS = TopicFacts(3, T0, (PartitionFacts(partition=0, max_event_ms=T0, drained=False, advanced_ms=T0),))
SHOULD = NEXT.end_ms + HOUR


def blocked(now: int = NOW, survey: Survey = SURVEY, **more: Any) -> PipelineStatus:
    """`NEXT` waits for partition 0, since `SHOULD`."""
    one = replace(survey, facts=FACTS)
    return status(now_ms=now, survey=one, next_window=certify("p", WINDOWS, FACTS, NEXT, now), **more)


EXACT = Since(0)


def test_a_window_is_not_ready_once_the_sla_is_over() -> None:
    assert found(blocked(SHOULD + SLA), front=EXACT) == found(blocked(), front=None) == []
    one = only(blocked(SHOULD + SLA + 1), front=EXACT)
    assert one.kind == "unready_window"
    assert one.what.startswith("window 2013-01-08T18:00Z is not ready 2.0 h after it should have been: ")
    assert one.what.endswith(certify("p", WINDOWS, FACTS, NEXT, NOW).reason)
    assert "p.ingest" in one.advice
    assert "more than 2.0 h" in only(blocked(SHOULD + SLA + 1), front=Since(0, False)).what
    assert found(blocked(SHOULD + SLA + 1), front=Since(SHOULD + 1)) == [], "those before it were late"
    assert found(blocked(survey=replace(SURVEY, pause=pause("ingest"))), front=EXACT) == []
    assert rules.is_blocked(blocked())
    assert not rules.is_blocked(status())


def test_no_batch_has_landed_for_long() -> None:
    def advice(landed: int) -> str:
        look = BatchLook(3, True, 0, landed, {0: Look(start=0, end=1, log_start=0, high_watermark=9)})
        return only(blocked(survey=replace(SURVEY, progress=Progress("id", look, look))), front=EXACT).advice

    assert advice(NOW - SLA - 1).startswith("no batch has landed for 2.0 h: is p.ingest paused, or failing? nothing if")
    assert advice(NOW - SLA).startswith("nothing if p.ingest is running")


def test_what_helps_a_window_comes_in_this_order() -> None:
    waits = certify("p", WINDOWS, FACTS, NEXT, NOW)
    open_batch = OpenRow(batch_id=7, state="WRITING", refused="dirty")
    lag = Lag(records=5, partitions={0: 5, 3: 9})
    closing = replace(SURVEY, closing={NEXT.start_ms: 7}, open_batch=open_batch)
    assert rules.step(blocked(survey=closing, lag=lag), waits).startswith("airflow dags backfill p.archive")
    refused = blocked(survey=replace(SURVEY, open_batch=open_batch), lag=lag)
    assert rules.step(refused, waits).startswith("batch 7 was refused: dirty; ")
    stuck = replace(SURVEY, open_batch=open_batch, blocks=(Block("batch 7", "odd"),))
    assert "tidegate repair p --batch 7" in rules.step(blocked(survey=stuck, lag=lag), waits)
    assert rules.step(blocked(lag=lag), waits).startswith("records wait: 5 in partition 0; the next run of p.ingest")
    unscheduled = replace(SPEC, ingest=replace(SPEC.ingest, schedule=None))
    assert "airflow dags trigger p.ingest" in rules.step(blocked(lag=lag, pipeline=unscheduled), waits)
    held = blocked(survey=replace(SURVEY, pause=pause("ingest")), lag=lag)
    assert "tidegate unpause p --only ingest" in rules.step(held, waits)
    landed = BatchLook(3, True, 0, NOW - HOUR)
    quiet = blocked(survey=replace(SURVEY, progress=Progress("id", landed, landed)), lag=lag)
    assert "no batch has landed for 60 min" in rules.step(quiet, waits)
    assert rules.step(blocked(), waits).startswith("nothing if p.ingest is running")
    (drained,) = (replace(one, drained=True) for one in FACTS.partitions)
    for blocks, words in (
        (drained, "partition 0 needs a later record"),
        (
            replace(drained, open_transaction_since_ms=T0),
            "commit or abort the transaction that is open in partition 0",
        ),
    ):
        by_facts = certify("p", WINDOWS, replace(FACTS, partitions=(blocks,)), NEXT, NOW)
        assert rules.step(blocked(), by_facts).startswith(words)
    several = blocked(lag=Lag(records=1, partitions={3: 9}))
    assert rules.step(several, waits).startswith("nothing if p.ingest is running"), "of others nothing waits"


def test_what_helps_a_window_that_is_closing() -> None:
    command = "airflow dags backfill p.archive -s 2013-01-08T18:00Z -e 2013-01-08T18:00Z"

    def helps(**more: Any) -> str:
        return rules.closing_step(surveyed(**more), NEXT)

    assert helps() == ""
    assert helps(building=frozenset({NEXT.start_ms})) == f"if no run is at work: {command}"
    closing = {NEXT.start_ms: 7}
    assert helps(closing=closing) == helps(closing=closing, open_batch=OpenRow(batch_id=7, state="WRITING")) == command
    before = OpenRow(batch_id=6, state="WRITING")
    assert helps(closing=closing, open_batch=before).startswith("nothing if p.ingest is running")
    assert helps(closing=closing, open_batch=replace(before, refused="odd")).startswith("batch 6 was refused: odd; ")
    stuck = helps(closing=closing, open_batch=before, blocks=(Block("batch 6", "odd"),))
    assert "tidegate repair p --batch 6" in stuck
    note = ArchiveNote(ended=(NEXT.start_ms,))
    assert helps(closing=closing, note=note).startswith("look at the log of the failed task")
    assert "look at the log" in helps(building=frozenset({NEXT.start_ms}), note=note)
    one = only(blocked(survey=replace(SURVEY, closing=closing)), front=EXACT)
    assert (one.kind, one.advice) == ("late_window", command)
    assert one.what == "window 2013-01-08T18:00Z is closing, and not published 8.0 h after it should have been"
    assert found(blocked(survey=replace(SURVEY, closing=closing, pause=pause("archive"))), front=EXACT) == []


def test_when_it_is_worth_asking_whether_a_window_is_late() -> None:
    def may(now: int = SHOULD + SLA + 1, **more: Any) -> bool:
        return rules.may_be_unready(blocked(now, **more))

    assert may()
    assert not may(SHOULD + SLA)
    assert not may(pipeline=replace(SPEC, windows=replace(WINDOWS, idle="follow")))
    assert not rules.may_be_unready(status())
    assert not rules.may_be_unready(replace(blocked(), survey=None))
    ready = certify(
        "p", WINDOWS, TopicFacts(3, T0, (replace(FACTS.partitions[0], max_event_ms=NOW, advanced_ms=NOW),)), NEXT, NOW
    )
    assert ready.ready
    assert not rules.may_be_unready(replace(blocked(), next_window=ready))
    coming = Forecast(NOW, "pace")
    assert not may(expected=coming), "a first load that comes nearer"
    assert may(expected=replace(coming, at_ms=None))
    passed = replace(blocked(expected=coming).next_window, watermark_ms=NEXT.start_ms)
    assert rules.may_be_unready(replace(blocked(expected=coming), next_window=passed))
