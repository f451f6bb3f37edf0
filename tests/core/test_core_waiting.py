"""What waits make of the ledger's answer: done or not, why, and what is left to wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.spec.pipeline import Windows
from tidegate.core.tell import announcement
from tidegate.core.tell.announcement import LONGEST_TEXT, Notice
from tidegate.core.window.answer import Comparison
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import WindowKey
from tidegate.core.window.waits import (
    MOST_ASKED,
    Answer,
    ClosedWait,
    Look,
    PublishedWait,
    ReadyWait,
    Standing,
    certify,
    settled,
    union,
)
from tidegate.core.window.watermark import PartitionFacts, TopicFacts

SPEC = Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=HOUR, idle="follow")
NOW = T0 + 1000 * HOUR


def window(hour: int) -> WindowKey:
    return WindowKey(T0 + hour * HOUR, T0 + (hour + 1) * HOUR)


def keys(first: int, last: int) -> tuple[WindowKey, ...]:
    return tuple(window(hour) for hour in range(first, last))


def seen(hour: float) -> dict[str, TopicFacts]:
    """Partition 0 of `p` has seen events up to then, an hour more than its watermark."""
    event = T0 + int(hour * HOUR)
    return {"p": TopicFacts(7, NOW, (PartitionFacts(partition=0, max_event_ms=event, drained=False, advanced_ms=NOW),))}


def look(facts: dict[str, TopicFacts] | None = None, **generations: tuple[str, int | None]) -> Look:
    """`h3=("CLOSED", 1)`: hour 3 is closed, and generation 1 is in force."""
    return Look(facts or {}, {("p", window(int(k[1:])).start_ms): Standing(*v) for k, v in generations.items()})


PUBLISHED = ("CLOSED", 1)


# ---------------------------------------------------------------- until a window is ready


def test_a_window_that_is_not_ready_says_who_holds_it() -> None:
    wait = ReadyWait("p", SPEC, window(3))
    answer, left = wait.decide(look(seen(3.5)), NOW)
    assert left is wait
    assert answer == Answer(False, answer.certificate.text(), certify("p", SPEC, look(seen(3.5)), window(3), NOW))
    assert answer.text.startswith("p 2013-01-05T03:00Z: blocked: partition 0: last event 2013-01-05T03:30Z")
    assert answer.certificate.decided_ms == NOW


def test_a_window_whose_end_the_watermark_has_reached_is_ready() -> None:
    answer, _ = ReadyWait("p", SPEC, window(3)).decide(look(seen(5)), NOW)
    assert (answer.done, answer.certificate.ready) == (True, True)


def test_a_topic_of_which_nothing_has_landed() -> None:
    answer, _ = ReadyWait("p", SPEC, window(3)).decide(look({"other": seen(9)["p"]}), NOW)
    assert answer.text == (
        "p 2013-01-05T03:00Z: blocked: no batch has landed yet: run the ingest DAG (an empty topic has none)"
    )


@pytest.mark.parametrize("state", ["CLOSING", "CLOSED"])
def test_a_window_that_somebody_has_closed_stays_ready(state: str) -> None:
    answer, _ = ReadyWait("p", SPEC, window(3)).decide(look(seen(0), h3=(state, None)), NOW)
    assert answer == Answer(True, f"p 2013-01-05T03:00Z: ready: it is {state} now")
    still, _ = ReadyWait("p", SPEC, window(3)).decide(look(seen(0), h3=("OPEN", None)), NOW)
    assert not still.done


def test_when_an_answer_lasts() -> None:
    assert settled(None, 0)
    assert settled(TopicFacts(None, None, ()), 0)
    assert settled(TopicFacts(1, 5, ()), 5)
    assert not settled(TopicFacts(1, 5, ()), 4)


def test_what_all_waits_want_to_know() -> None:
    waits = [
        ReadyWait("p", SPEC, window(0)),
        PublishedWait("q", SPEC, keys(0, 2), 1, 2),
        ReadyWait("p", SPEC, window(0)),
    ]
    assert union(waits) == ({"p", "q"}, {("p", T0), ("q", T0), ("q", T0 + HOUR)})


# ---------------------------------------------------------------- until windows are published


def published(first: int, last: int, at_least: int = 1) -> PublishedWait:
    return PublishedWait("p", SPEC, keys(first, last), at_least, last - first)


def test_each_missing_window_says_why() -> None:
    at = look(seen(4), h0=PUBLISHED, h1=("CLOSED", None), h2=("CLOSING", None))
    answer, left = published(0, 4).decide(at, NOW)
    assert not answer.done
    assert left == replace(published(0, 4), missing=keys(1, 4))
    assert answer.text == (
        "p: 3 of 4 windows not published: "
        "2013-01-05T01:00Z (closed, and being published; see p.archive); "
        "2013-01-05T02:00Z (closing: batches must land first; see p.archive); "
        f"2013-01-05T03:00Z (blocked: {certify('p', SPEC, at, window(3), NOW).reason})"
    )


def test_a_window_that_its_watermark_lets_close_waits_for_its_archive_run() -> None:
    """Another system's count may hold it: who waits cannot see that, and does not call it ready."""
    answer, _ = published(0, 1).decide(look(seen(9)), NOW)
    assert answer.text == (
        "p: 1 of 1 window not published: 2013-01-05T00:00Z (its watermark has passed, but p.archive has not closed it: "
        "`tidegate explain p 2013-01-05T00:00Z` says why)"
    )


def test_a_clock_that_is_ahead_of_ours_is_not_believed() -> None:
    """Partition 0 is drained, so a plan's clock stands in for it, but never more than ours."""
    parts = (
        PartitionFacts(partition=0, max_event_ms=T0 + 2 * HOUR, drained=True, advanced_ms=T0 + 2 * HOUR),
        PartitionFacts(partition=1, max_event_ms=T0 + 9 * HOUR, drained=False, advanced_ms=T0 + 10 * HOUR),
    )
    at = look({"p": TopicFacts(7, T0 + 10 * HOUR, parts)})
    wait = replace(published(7, 8), windows=replace(SPEC, idle="clock"))
    early, _ = wait.decide(at, T0 + 8 * HOUR + HOUR // 2)
    assert "blocked: partition 0" in early.text
    assert early.done is False
    assert "its watermark has passed, but" in wait.decide(at, T0 + 10 * HOUR)[0].text


def test_what_is_published_is_done_with() -> None:
    _, left = published(0, 3).decide(look(h0=PUBLISHED), NOW)
    assert left.refs() == (("p", T0 + HOUR), ("p", T0 + 2 * HOUR))
    answer, left = left.decide(look(h1=PUBLISHED, h2=("CLOSED", 9)), NOW)
    assert (answer, left.refs()) == (Answer(True, "p: 3 windows published"), ())
    assert published(0, 1).decide(look(h0=PUBLISHED), NOW)[0].text == "p: 1 window published"


def test_another_pipelines_window_is_not_ours() -> None:
    other = Look({}, {("q", T0): Standing("CLOSED", 1)})
    assert not published(0, 1).decide(other, NOW)[0].done


def test_a_close_waits_for_the_batch_that_may_still_owe_rows() -> None:
    wait = ClosedWait("p", window(0))
    assert wait.refs() == (("p", T0),)
    owing = Look({}, {("p", T0): Standing("CLOSING", None, 812), ("q", T0): Standing("CLOSING", None)})
    answer, left = wait.decide(owing, NOW)
    assert answer == Answer(False, "p 2013-01-05T00:00Z is closing: batch 812 was planned before and must land")
    assert left == wait
    for free in (look(), look(h0=("CLOSING", None)), look(h0=PUBLISHED)):
        assert wait.decide(free, NOW)[0] == Answer(True, "p 2013-01-05T00:00Z: no batch stands in the way of its close")


def test_a_generation_that_is_too_old_is_waited_out() -> None:
    answer, left = published(0, 2, at_least=2).decide(look(h0=PUBLISHED, h1=("CLOSED", 2)), NOW)
    assert answer.text == (
        "p: 1 of 2 windows not published: 2013-01-05T00:00Z (generation 1 is in force, 2 is asked for)"
    )
    assert left.decide(look(h0=("CLOSED", 2)), NOW)[0].done


def test_only_some_are_named() -> None:
    answer, _ = published(0, 3).decide(look(), NOW)
    assert answer.text.count("blocked") == 3
    assert " more" not in answer.text
    answer, _ = published(0, 2000).decide(look(), NOW)
    assert answer.text.count("blocked") == 3
    assert answer.text.startswith("p: 2,000 of 2,000 windows not published: ")
    assert answer.text.endswith("; and 1,997 more, up to 2013-03-29T07:00Z")
    assert published(0, 4).decide(look(), NOW)[0].text.endswith("; and 1 more, up to 2013-01-05T03:00Z")


def test_a_long_interval_is_asked_for_in_parts() -> None:
    wait = published(0, MOST_ASKED + 2)
    assert len(wait.refs()) == MOST_ASKED
    assert wait.refs()[-1] == ("p", window(MOST_ASKED - 1).start_ms)
    first_part = Look({}, dict.fromkeys(wait.refs(), Standing("CLOSED", 1)))
    answer, left = wait.decide(first_part, NOW)
    assert answer == Answer(False, "p: 5,000 of 5,002 windows published so far")
    assert left.missing == keys(MOST_ASKED, MOST_ASKED + 2)


def test_there_is_nothing_to_wait_for_before_the_first_window() -> None:
    answer, _ = published(0, 0).decide(look(), NOW)
    assert answer == Answer(True, "p: no window of this time: it ends before windows.start, and nothing belongs there")


# ---------------------------------------------------------------- what others are told

CERTIFICATE = Certificate(
    pipeline="flights",
    window=window(4),
    ready=True,
    reason="because",
    decided_ms=T0 + 1,
    batch_id=7,
    watermark_ms=T0 + 5 * HOUR,
    partitions=(),
    blockers=(),
)
NOTICE = Notice(
    window=window(4),
    number=3,
    kind="replay",
    rows=10,
    digest="d1",
    location="file:///x",
    published_ms=T0 + 9 * HOUR + 7,
    announced=False,
    files=5,
    partitions=4,
    first_batch=1,
    last_batch=8,
    batches=6,
    late_rows=3,
    taken_up=2,
    rerouted_rows=1,
    certificate=CERTIFICATE,
)


def test_what_an_event_says() -> None:
    assert announcement.extra(PIPELINE, NOTICE) == {
        "pipeline": "flights",
        "table": "lake.flights",
        "window": "20130105T040000Z",
        "window_start": "2013-01-05T04:00:00+00:00",
        "window_end": "2013-01-05T05:00:00+00:00",
        "partition": "date=2013-01-05/hour=04",
        "generation": 3,
        "kind": "replay",
        "rows": 10,
        "files": 5,
        "partitions": 4,
        "digest": "d1",
        "location": "file:///x",
        "published_at": "2013-01-05T09:00:00.007000+00:00",
        "first_batch": 1,
        "last_batch": 8,
        "batches": 6,
        "late_rows": 3,
        "late_rows_taken_up": 2,
        "rerouted_rows": 1,
        "watermark": "2013-01-05T05:00:00+00:00",
        "ready_reason": "because",
        "decided_at": "2013-01-05T00:00:00.001000+00:00",
        "warning": None,
    }


def test_an_event_of_a_window_whose_certificate_is_lost() -> None:
    extra = announcement.extra(PIPELINE, replace(NOTICE, certificate=None))
    assert [extra[k] for k in ("watermark", "ready_reason", "decided_at", "warning")] == [None] * 4
    early = replace(NOTICE, certificate=replace(CERTIFICATE, watermark_ms=None))
    assert announcement.extra(PIPELINE, early)["watermark"] is None


def test_texts_of_an_event_are_cut() -> None:
    def reason(length: int) -> object:
        return announcement.extra(
            PIPELINE, replace(NOTICE, certificate=replace(CERTIFICATE, reason="r" * length))
        )["ready_reason"]  # fmt: skip

    assert reason(LONGEST_TEXT) == "r" * LONGEST_TEXT
    assert reason(LONGEST_TEXT + 1) == "r" * LONGEST_TEXT + "..."


@pytest.mark.parametrize(("action", "warned"), [("warn", True), ("publish", False), ("hold", False)])
def test_a_warning_is_told(action: str, warned: bool) -> None:
    found = replace(
        CERTIFICATE, completeness=Comparison(verdict="short", action=action, text="3 rows too few", source="audit")
    )
    assert announcement.warning(found) == ("3 rows too few" if warned else None)
    notice = replace(NOTICE, certificate=found)
    assert announcement.extra(PIPELINE, replace(notice, taken_up=0))["warning"] == announcement.warning(found)
    since = "3 rows too few; since then 2 late rows were taken up" if warned else None
    assert announcement.extra(PIPELINE, replace(notice, taken_up=2))["warning"] == since
    assert announcement.warning(None) is None


@pytest.mark.parametrize(
    ("changes", "same"),
    [({}, True), ({"rows": 4, "kind": "x"}, True)]
    + [({key: "other"}, False) for key in ("window_start", "generation", "digest")],
)
def test_which_event_is_of_this_generation(changes: dict, same: bool) -> None:
    known = announcement.extra(PIPELINE, NOTICE)
    assert announcement.same(known | changes, known) is same
    assert not announcement.same({}, known)


@pytest.mark.parametrize(
    ("kind", "age_ms", "announced", "due"),
    [
        ("archive", announcement.GRACE_MS, False, True),
        ("archive", announcement.GRACE_MS - 1, False, False),
        ("reopen", 0, False, True),
        ("reopen", 0, True, False),
        ("archive", announcement.GRACE_MS, True, False),
    ],
)
def test_who_tells_of_it(kind: str, age_ms: int, announced: bool, due: bool) -> None:
    notice = replace(NOTICE, kind=kind, announced=announced)
    assert announcement.due(notice, NOTICE.published_ms + age_ms) is due
