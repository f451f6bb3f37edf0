"""What people are told of: what begins and ends, what is sent, and that no text can harm a chat."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tidegate.core.tell.notices import (
    CRITICAL,
    GIVE_UP_MS,
    INFO,
    KEEP_MS,
    KINDS,
    MOST_TEXT,
    RAISED,
    RESOLVED,
    WARNING,
    AuditOutcome,
    Finding,
    Happening,
    Message,
    Notice,
    NotTold,
    changes,
    columns_changed,
    harmless,
    messages,
    of_audit,
    of_event,
    payload,
)


def notice(key: str = "k", **times: Any) -> Notice:
    return Notice(Finding(kind="alarm", key=key, subject="s", what="w"), 1_000, **times)


def test_what_begins_and_what_is_over() -> None:
    found = [
        Finding(kind="alarm", key="new", subject="s", what="w"),
        Finding(kind="alarm", key="old", subject="s", what="w"),
        Finding(kind="data_loss", key="n", subject="s", what="w"),
    ]
    back = notice("back", told_ms=1, ended_ms=2)
    once = Notice(Finding(kind="task_failed", key="t", subject="s", what="w", once=True), 1)
    known = [notice("old"), notice("gone"), back, once]
    got = changes([*found, Finding(kind="alarm", key="back", subject="s", what="w")], known, ("data_loss",))
    assert [f.key for f in got.begun] == ["new", "back"]
    assert [n.finding.key for n in got.over] == ["gone"]


def test_what_is_sent_and_what_is_given_up() -> None:
    fresh, known = notice("a"), notice("b", told_ms=5)
    over, closed = notice("c", told_ms=5, ended_ms=6), notice("d", told_ms=5, ended_ms=6, closed_ms=7)
    send, given_up = messages([closed, over, known, fresh], 2_000)
    assert {(m.notice.finding.key, m.status) for m in send} == {("a", RAISED), ("c", RESOLVED)}
    assert given_up == []
    send, given_up = messages([closed, over, known, fresh], 1_001 + GIVE_UP_MS)
    assert ({m.notice.finding.key for m in send}, {n.finding.key for n in given_up}) == (set(), {"a", "c"})


@pytest.mark.parametrize(
    ("hostile", "gone"),
    [
        ("<!channel> <@U1>", ("<", "@U")),
        ("@all @here", ("@a", "@h")),
        ("[click](http://evil)", ("](",)),
        ("a\x00b\x1b[31m\u202e\u2028c\r", ("\x00", "\x1b", "\u202e", "\u2028", "\r")),
        ("<script>alert(1)</script> & </b>", ("<", "& ")),
    ],
)
def test_hostile_text_calls_nobody(hostile: str, gone: tuple[str, ...]) -> None:
    body = payload(
        "p",
        "o",
        Message(Notice(Finding(kind="alarm", key="k", subject="s", what=hostile, advice=hostile), 1), RAISED),
        2,
    )
    for part in gone:
        assert part not in body["text"]
        assert part not in harmless(hostile)
    assert body["what"] == hostile, "for programs it is as it was"
    assert json.loads(json.dumps(body)) == body


def test_long_texts_are_cut() -> None:
    body = payload(
        "p",
        "o",
        Message(Notice(Finding(kind="alarm", key="k", subject="s", what="w" * 99_999, advice="a" * 99_999), 1), RAISED),
        2,
    )
    assert len(json.dumps(body)) < 20_000


def test_events_that_are_news() -> None:
    def event(what: str, **detail: Any) -> Happening:
        return Happening(9, 1, "ann", what, "batch 3", detail)

    assert of_event(event("planned", losses=[])) is None
    assert of_event(event("spec registered"), "") is None
    assert of_event(event("landed")) is None
    found = of_event(event("planned", losses=[{"partition": 1, "start": 4, "end": 9}]))
    assert found is not None
    assert (found.kind, found.key, found.once) == ("data_loss", "event/9", True)
    assert "5 offsets" in found.what
    assert of_event(event("abandoned", reason="in vain", kind="redrive")) is None, "its rows stay what they were"
    given_up = of_event(event("abandoned", reason="spoilt", kind="ingest"))
    assert given_up is not None
    assert "given up by ann: spoilt" in given_up.what
    accepted = of_event(event("topic accepted", before="x"))
    assert accepted is not None
    assert accepted.kind == "source_reset"


def test_columns_in_words() -> None:
    assert columns_changed([("a", "int")], [("a", "int")]) == ""
    assert columns_changed([("a", "int"), ("b", "int")], [("a", "bigint"), ("c", "int")]) == (
        "new: c int; no longer filled: b; changed: a from int to bigint"
    )


def test_the_whole_message() -> None:
    found = Finding(
        kind="late_window", key="late_window", subject="p", what="2 windows wait", advice="run: x", log_url="http://log"
    )
    raised = payload("p", "own", Message(Notice(found, 60_000), RAISED), 120_000, "http://board")
    assert raised == {
        "version": 1,
        "id": "p/late_window/60000/raised",
        "status": "raised",
        "pipeline": "p",
        "owner": "own",
        "kind": "late_window",
        "severity": "critical",
        "subject": "p",
        "title": "p: late window",
        "what": "2 windows wait",
        "advice": "run: x",
        "since": "1970-01-01T00:01Z",
        "ended": None,
        "at": "1970-01-01T00:02Z",
        "links": {"board": "http://board", "log": "http://log"},
        "text": "[critical] p: late window\n2 windows wait\nWhat to do: run: x\nhttp://board\nhttp://log",
    }
    over = payload("p", "own", Message(Notice(found, 60_000, 61_000, 120_000), RESOLVED), 180_000)
    assert (over["id"], over["title"]) == ("p/late_window/60000/resolved", "p: published after all")
    assert (over["ended"], over["links"]["log"]) == ("1970-01-01T00:02Z", "http://log")
    assert over["text"] == "[resolved] p: published after all\n2 windows wait\nhttp://log"
    assert payload("p", "o", Message(Notice(replace(found, kind="watermark"), 1), RESOLVED), 2)["title"] == "p: over"
    for kind, words in (
        ("dirty_limit", "the batch is not refused any more"),
        ("refused", "the batch is not refused any more"),
        ("audit_failed", "the audit finds nothing any more"),
    ):
        assert payload("p", "o", Message(Notice(replace(found, kind=kind), 1), RESOLVED), 2)["title"] == f"p: {words}"


def test_findings_of_events_in_full() -> None:
    base = Happening(9, 1, "ann", "", "batch 3", {})
    loss = {"partition": 1, "start": 4, "end": 9}
    found = of_event(replace(base, what="planned", detail={"losses": [loss] * 7}))
    assert found == Finding(
        kind="data_loss",
        key="event/9",
        subject="batch 3",
        what="35 offsets were gone from the topic before batch 3 read them ("
        + ", ".join(["partition 1: 4 to 9"] * 5)
        + ")",
        advice="the ledger has recorded them as lost; give the topic a longer retention, or the pipeline more room",
        once=True,
    )
    assert of_event(replace(base, what="planned", detail=None)) is None
    assert of_event(replace(base, what="planned", detail={"losses": "odd"})) is None
    assert of_event(replace(base, what="abandoned", detail={"reason": "spoilt"})) == Finding(
        kind="data_loss",
        key="event/9",
        subject="batch 3",
        what="batch 3 was given up by ann: spoilt",
        advice="its records are in no table",
        once=True,
    )
    assert of_event(replace(base, what="topic accepted", subject="new", detail={"before": "old"})) == Finding(
        kind="source_reset",
        key="event/9",
        subject="new",
        what="the topic was recreated and accepted by ann: it is new, before it was old",
        advice="offsets of the new topic are read from its start",
        once=True,
    )
    assert of_event(replace(base, what="spec registered", subject="spec 2"), "new: x int") == Finding(
        kind="schema_change",
        key="event/9",
        subject="spec 2",
        what="spec 2 changes the columns: new: x int",
        advice="",
        once=True,
    )


def test_findings_of_audits() -> None:
    assert of_audit("p", None) == of_audit("p", AuditOutcome(1, 0)) == []
    (one,) = of_audit("p", AuditOutcome(60_000, 1, "a file is gone", "clear it"))
    assert one == Finding(
        kind="audit_failed", key="audit", subject="audit",
        what="the audit of 1970-01-01T00:01Z found 1 problem, the first: a file is gone", advice="clear it",
    )  # fmt: skip
    (many,) = of_audit("p", AuditOutcome(60_000, 1_200, "x"))
    assert many.what == "the audit of 1970-01-01T00:01Z found 1,200 problems, the first: x"
    assert many.advice == "tidegate audit p shows them all"


def test_one_problem_is_one_and_two_are_several() -> None:
    (two,) = of_audit("p", AuditOutcome(60_000, 2, "x"))
    assert "found 2 problems," in two.what


def test_severities() -> None:
    assert {Finding(kind=kind, key="k", subject="s", what="w").severity for kind in KINDS} == {CRITICAL, WARNING, INFO}
    assert (KINDS["late_window"], KINDS["watermark"], KINDS["schema_change"]) == (CRITICAL, WARNING, INFO)
    assert (GIVE_UP_MS, KEEP_MS) == (7 * 86_400_000, 30 * 86_400_000)


def test_an_error_says_whether_others_may_get_through() -> None:
    assert (NotTold("x").this_one, NotTold("x", this_one=True).this_one, NotTold("x").retry) == (False, True, True)
    assert str(NotTold("x", advice="do y")) == "x\n  what to do: do y"


def test_the_oldest_is_sent_first() -> None:
    younger, older = (
        Notice(Finding(kind="alarm", key=key, subject="s", what="w"), at) for key, at in (("a", 5), ("b", 4))
    )
    assert [m.notice for m in messages([younger, older], 6)[0]] == [older, younger]
    told = replace(older, told_ms=5)
    assert messages([told], 10 + GIVE_UP_MS) == ([], []), "what holds and was told of is not given up"
    at_the_edge = messages([older], 4 + GIVE_UP_MS)
    assert ([m.status for m in at_the_edge[0]], at_the_edge[1]) == ([RAISED], [])


def test_a_text_keeps_its_lines_and_its_letters() -> None:
    assert harmless("a\tb\nc é") == "a\tb\nc é"
    assert harmless("a & b") == "a &amp; b"
    assert len(harmless("a" * 9_999)) == MOST_TEXT
