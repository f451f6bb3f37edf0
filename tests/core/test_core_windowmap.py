"""One state for each window of a map: which of two facts counts, and where one state becomes the next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.look import window_map
from tidegate.core.look.glance import Mark
from tidegate.core.look.window_map import LATE, MEANINGS, PUBLISHED, REOPENED, REPLAYED, ROLLED_BACK, Judge
from tidegate.core.spec.pipeline import Completeness, Pipeline
from tidegate.core.window.answer import Answer
from tidegate.core.window.due import ArchiveNote
from tidegate.core.window.states import WindowKey
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

NOW = T0 + 9 * HOUR
KEY = WindowKey(T0, T0 + HOUR)
DELAYED = replace(PIPELINE, windows=replace(PIPELINE.windows, watermark_delay_ms=HOUR))


def facts(*events: int | None) -> TopicFacts:
    """One Kafka partition that has more to read for each newest event."""
    return TopicFacts(
        7,
        NOW,
        tuple(
            PartitionFacts(partition=p, max_event_ms=at, drained=False, advanced_ms=NOW) for p, at in enumerate(events)
        ),
    )


def judge(*events: int | None, pipeline: Pipeline = PIPELINE, note: ArchiveNote | None = None, at: int = NOW) -> Judge:
    return Judge(pipeline, facts(*events), note, at)


@pytest.mark.parametrize(
    ("mark", "events", "state"),
    [
        (None, (T0,), window_map.OPEN),
        (None, (), window_map.OPEN),
        (None, (None,), window_map.OPEN),
        (None, (T0 + HOUR - 1, T0 + HOUR - 1), window_map.OPEN),
        (None, (T0, T0 + HOUR - 1), window_map.OPEN),
        (None, (T0, T0 + HOUR), window_map.BLOCKED),
        (None, (None, T0 + HOUR), window_map.BLOCKED),
        (None, (T0 + HOUR - 1, T0 + 2 * HOUR), window_map.BLOCKED),
        (None, (T0 + HOUR, T0 + 2 * HOUR), window_map.READY),
        (None, (T0 + HOUR,), window_map.READY),
        (Mark(start_ms=T0, state="CLOSING"), (T0,), window_map.WORKING),
        (Mark(start_ms=T0, state="CLOSED"), (T0 + HOUR,), window_map.WORKING),
        (Mark(start_ms=T0, state="CLOSED", building="BUILDING"), (T0,), window_map.WORKING),
        (Mark(start_ms=T0, state="OPEN", building="BUILT"), (T0,), window_map.WORKING),
        (Mark(start_ms=T0, state="OPEN"), (T0,), window_map.OPEN),
        (Mark(start_ms=T0, state="OPEN", blocked="an alarm"), (T0,), window_map.ALARM),
        (
            Mark(start_ms=T0, state="CLOSED", blocked="an alarm", number=1, kind="archive", rows=5),
            (T0,),
            window_map.ALARM,
        ),
        (
            Mark(start_ms=T0, state="CLOSED", blocked=None, number=1, kind="archive", rows=5),
            (T0,),
            window_map.PUBLISHED,
        ),
        (
            Mark(start_ms=T0, state="CLOSED", blocked=None, number=1, kind="archive", rows=0),
            (T0 + HOUR,),
            window_map.PUBLISHED,
        ),
        (
            Mark(start_ms=T0, state="CLOSED", blocked=None, number=1, kind="archive", rows=5, building="BUILDING"),
            (T0,),
            window_map.PUBLISHED,
        ),
        (
            Mark(start_ms=T0, state="CLOSED", blocked=None, number=1, kind="archive", rows=5, late=1),
            (T0,),
            window_map.LATE,
        ),
        (
            Mark(start_ms=T0, state="CLOSED", blocked=None, number=3, kind="rollback", rows=5, late=9),
            (T0,),
            window_map.LATE,
        ),
        (Mark(start_ms=T0, state="OPEN", late=1), (T0,), window_map.OPEN),
        (Mark(start_ms=T0, state="CLOSED", blocked=None, number=2, kind="replay", rows=5), (T0,), window_map.REPLAYED),
        (Mark(start_ms=T0, state="CLOSED", blocked=None, number=2, kind="heal", rows=5), (T0,), window_map.REPLAYED),
        (Mark(start_ms=T0, state="CLOSED", blocked=None, number=2, kind=None, rows=5), (T0,), window_map.REPLAYED),
        (Mark(start_ms=T0, state="CLOSED", blocked=None, number=2, kind="reopen", rows=5), (T0,), window_map.REOPENED),
        (
            Mark(start_ms=T0, state="CLOSED", blocked=None, number=3, kind="rollback", rows=5),
            (T0,),
            window_map.ROLLED_BACK,
        ),
        (
            Mark(
                start_ms=T0,
                state="OPEN",
                answer=Answer(source="x", rows=1, expected=9, problem=None, asked_ms=T0, since_ms=T0),
            ),
            (T0 + HOUR,),
            window_map.READY,
        ),
    ],
)
def test_each_window_has_one_state(mark: Mark | None, events: tuple[int | None, ...], state: str) -> None:
    assert judge(*events).state(KEY, mark) == state
    assert state in MEANINGS


def test_the_watermark_is_behind_the_events_by_its_delay() -> None:
    for event, state in ((T0 + 2 * HOUR - 1, window_map.OPEN), (T0 + 2 * HOUR, window_map.READY)):
        found = judge(event, pipeline=DELAYED)
        assert (found.low_ms, found.high_ms) == (event - HOUR, event - HOUR)
        assert found.state(KEY, None) == state


def test_the_lowest_and_the_highest_watermark() -> None:
    several = judge(T0 + 5, T0 + 3, T0 + 9)
    assert (several.low_ms, several.high_ms) == (T0 + 3, T0 + 9)
    unknown = judge(T0 + 5, None)
    assert (unknown.low_ms, unknown.high_ms) == (None, T0 + 5)
    assert (judge().low_ms, judge().high_ms) == (None, None)


def test_a_plans_clock_that_is_ahead_says_no_more_than_the_clock_of_now() -> None:
    """A topic that has been silent for long enough is as far as the clock."""
    windows = replace(PIPELINE.windows, idle="clock", topic_silence_ms=HOUR, on_silence="close")
    drained = TopicFacts(7, NOW, (PartitionFacts(partition=0, max_event_ms=T0 + 1, drained=True, advanced_ms=T0 + 1),))
    for now_ms, state in ((T0 + HOUR - 1, window_map.OPEN), (T0 + HOUR, window_map.READY)):
        assert Judge(replace(PIPELINE, windows=windows), drained, None, now_ms).state(KEY, None) == state


def test_a_window_whose_run_has_ended_is_due() -> None:
    ended = ArchiveNote(ended=(T0,))
    assert judge(T0 + HOUR, note=ended).state(KEY, None) == window_map.DUE
    assert (
        judge(T0 + HOUR, note=ended).state(
            KEY, Mark(start_ms=T0, state="CLOSED", blocked=None, number=1, kind="archive", rows=5)
        )
        == window_map.PUBLISHED
    )
    assert judge(T0, note=ended).state(KEY, None) == window_map.OPEN
    assert judge(T0 + HOUR, note=ArchiveNote(ended=(T0 + HOUR,))).state(KEY, None) == window_map.READY


COUNTED = replace(PIPELINE, completeness=Completeness(source="topic", conn_id="kafka", topic="audit", patience_ms=HOUR))
SHORT = Answer(source="audit", rows=1, expected=9, problem=None, asked_ms=T0 + HOUR, since_ms=T0 + HOUR)


def test_a_window_that_another_system_holds_says_so() -> None:
    mark = Mark(start_ms=T0, state="OPEN", answer=SHORT)
    held = judge(T0 + HOUR, pipeline=COUNTED, at=T0 + HOUR)
    assert held.state(KEY, mark) == window_map.HELD
    assert held.state(KEY, None) == window_map.READY, "nobody has been asked yet"
    assert held.state(KEY, replace(mark, answer=replace(SHORT, rows=9))) == window_map.READY
    assert judge(T0 + HOUR, pipeline=COUNTED).state(KEY, mark) == window_map.READY, "its patience is over"
    assert judge(T0, pipeline=COUNTED, at=T0 + HOUR).state(KEY, mark) == window_map.OPEN
    assert judge(T0 + HOUR, at=T0 + HOUR).state(KEY, mark) == window_map.READY, "nobody is asked any more"
    ended = judge(T0 + HOUR, pipeline=COUNTED, note=ArchiveNote(ended=(T0,)), at=T0 + HOUR)
    assert ended.state(KEY, mark) == window_map.HELD


def test_what_is_done_is_in_the_table() -> None:
    published = ("archive", "replay", "reopen", "rollback")
    kinds = {
        judge(T0).state(KEY, Mark(start_ms=T0, state="CLOSED", blocked=None, number=1, kind=kind, late=n))
        for kind in published
        for n in (0, 1)
    }
    assert kinds == {PUBLISHED, REPLAYED, REOPENED, ROLLED_BACK, LATE}
