"""Which tasks that have failed for good are named."""

from __future__ import annotations

from dataclasses import replace

from core_values import PIPELINE as BASE

from tidegate.core.look import failing
from tidegate.core.look.overdue import Concern
from tidegate.core.look.survey import NOTHING
from tidegate.core.spec.pipeline import Delivery
from tidegate.core.tell.notices import FailedTask
from tidegate.core.tell.pauses import Pause

PIPELINE = replace(BASE, deliver=(Delivery(name="dw", kind="mariadb", conn_id="c", table="t"),))


def named(*tasks: str, found: tuple[Concern, ...] = (), pause: Pause | None = None) -> list[str]:
    survey = replace(NOTHING, failed=tuple(FailedTask(60_000, task, "it broke", "look") for task in tasks), pause=pause)
    return [f"{c.what}; {c.advice}" for c in failing.of_tasks(PIPELINE, survey, found, 120_000)]


def test_each_is_named_with_its_age_and_its_error() -> None:
    (what,) = named("readings.ingest write")
    assert what == "readings.ingest write failed for good 60 s ago: it broke; look"


def test_what_is_said_already_is_not_said_twice() -> None:
    assert named("readings.ingest write", found=(Concern("batch 1 was refused: it broke", "x"),)) == []


def test_what_the_yaml_contradicts_is_said_once() -> None:
    """By itself, and not as the task that was refused for it, whose line begins with the name and may be cut."""
    said = "batches have landed under the spec as it was: column a was int, is string; column b was int, is string"
    found = (Concern(said, "take it back"),)
    for last in (f"{PIPELINE.name}: {said}", f"{PIPELINE.name}: {said[:80]} ..."):
        survey = replace(NOTHING, failed=(FailedTask(0, "readings.ingest plan", last, "take it back"),))
        assert list(failing.of_tasks(PIPELINE, survey, found, 60_000)) == []
    other = replace(NOTHING, failed=(FailedTask(0, "readings.ingest plan", f"{PIPELINE.name}: no broker", "wait"),))
    assert len(list(failing.of_tasks(PIPELINE, other, found, 60_000))) == 1


def test_a_pause_on_purpose_explains_it() -> None:
    pause = Pause(0, 0, "me", "why", ("ingest",), 120_001)
    (what,) = named("readings.ingest write", "readings.maintain maintain", pause=pause)
    assert what.startswith("readings.maintain maintain failed")
    assert len(named("readings.ingest write", pause=replace(pause, until_ms=120_000))) == 1, "it is over"


def test_a_task_that_the_yaml_has_no_more_is_forgotten() -> None:
    assert named("readings.deliver old", "readings.copy copy", "readings.compare compare") == []
    assert len(named("readings.deliver dw")) == 1


def test_what_the_topic_says_of_itself_is_why_ingest_fails() -> None:
    found = (Concern("the topic was recreated", "reset", "source_reset"),)
    (what,) = named("readings.ingest plan", "readings.maintain maintain", found=found)
    assert what.startswith("readings.maintain maintain failed")
