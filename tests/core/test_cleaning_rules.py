"""What may be deleted: one changed fact at a time keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.clean.rules import (
    BatchAttempt,
    BatchFacts,
    GenerationFacts,
    Moment,
    assembly,
    batch_attempt,
    discarded,
    is_success_draft,
    landed,
    landed_files,
    newest_ms,
    overtaken_ms,
    parse_attempt,
    parse_quarantine,
    parse_side,
    quarantined,
    rebuild_attempt,
    retired,
    retired_place,
    side_staging,
    within,
)
from tidegate.core.spec.pipeline import Cleaning
from tidegate.core.target.paths import Assembly, parse_assembly

T0 = 1_357_344_000_000
NOW, OLD = 1_000_000, 0
TTL = Cleaning(1000, 1000, 1000, 1000)
LANDED = BatchFacts(batch_id=7, state="LANDED", epoch=3, side_moved=True, landed_ms=OLD, cleaned_ms=None, newest=False)
RETIRED = GenerationFacts(
    window_ms=T0,
    number=1,
    state="RETIRED",
    epoch=2,
    kind="archive",
    location="file:///t/hour=00",
    built_ms=OLD,
    retired_ms=OLD,
    cleaned_ms=None,
    current=2,
    newer_retired=0,
)


def test_a_landed_directory_goes_only_if_everything_is_right() -> None:
    assert landed(LANDED, True, TTL, NOW).go
    for wrong in (
        replace(LANDED, newest=True),
        replace(LANDED, side_moved=False),
        replace(LANDED, unpublished=(T0,)),
        replace(LANDED, state="SEALED"),
        replace(LANDED, state="ABANDONED"),
        replace(LANDED, landed_ms=NOW - 999),
        replace(LANDED, landed_ms=None),
        None,
    ):
        assert not landed(wrong, True, TTL, NOW).go, wrong
    assert not landed(LANDED, False, TTL, NOW).go
    assert not landed(LANDED, True, replace(TTL, landed_ms=None), NOW).go


def test_attempts_of_batches() -> None:
    writing = replace(LANDED, state="WRITING", landed_ms=None)
    for state in ("PLANNED", "WRITING", "SEALED"):
        facts = replace(writing, state=state)
        assert not batch_attempt(BatchAttempt(7, 3), facts, OLD, TTL, NOW).go
        assert not batch_attempt(BatchAttempt(7, 4), facts, OLD, TTL, NOW).go
    assert batch_attempt(BatchAttempt(7, 2), writing, OLD, TTL, NOW).go
    assert batch_attempt(BatchAttempt(7, 9), LANDED, OLD, TTL, NOW).go
    for since in (None, NOW - 999):
        assert not batch_attempt(BatchAttempt(7, 2), writing, since, TTL, NOW).go
    unknown = batch_attempt(BatchAttempt(8, 1), None, OLD, TTL, NOW)
    assert (unknown.go, unknown.odd) == (False, True)


def test_attempts_of_rebuilds() -> None:
    building = replace(RETIRED, state="BUILDING")
    assert rebuild_attempt(Assembly(T0, 1, 1), building, OLD, TTL, NOW).go
    assert not rebuild_attempt(Assembly(T0, 1, 2), building, OLD, TTL, NOW).go
    for state in ("BUILT", "SWAPPING", "CURRENT", "RETIRED", "DISCARDED"):
        assert rebuild_attempt(Assembly(T0, 1, 2), replace(RETIRED, state=state), OLD, TTL, NOW).go
    assert rebuild_attempt(Assembly(T0, 1, 3), RETIRED, OLD, TTL, NOW).odd
    assert rebuild_attempt(Assembly(T0, 1, 1), None, OLD, TTL, NOW).odd


@pytest.mark.parametrize("state", ["CURRENT", "RETIRED", "BUILT", "SWAPPING"])
def test_an_assembly_directory_goes_when_no_file_of_the_manifest_lies_there(state: str) -> None:
    facts, lower = replace(RETIRED, state=state), Assembly(T0, 1, 1)
    assert assembly(lower, facts, ["a"], [], OLD, TTL, NOW).go
    assert assembly(lower, facts, ["a"], ["_certificate.json", "site=a/g1.1-part"], OLD, TTL, NOW).go
    assert assembly(lower, facts, ["a"], ["a"], OLD, TTL, NOW).odd
    assert assembly(lower, facts, ["a"], ["b"], OLD, TTL, NOW).odd
    assert assembly(Assembly(T0, 1, 3), facts, [], [], OLD, TTL, NOW).odd
    same = assembly(Assembly(T0, 1, 2), facts, [], [], OLD, TTL, NOW)
    assert same.go is (state in ("CURRENT", "RETIRED"))


def test_no_assembly_directory_goes_while_the_generation_is_being_built() -> None:
    """An overtaken task may move a file into it between a cleaner's look and its deletion."""
    for epoch in (1, 2):
        assert not assembly(Assembly(T0, 1, epoch), replace(RETIRED, state="BUILDING"), [], [], OLD, TTL, NOW).go


def test_discarded_generations() -> None:
    facts = replace(RETIRED, state="DISCARDED", kind="replay", number=2)
    assert discarded(facts, OLD, TTL, NOW).go
    assert assembly(Assembly(T0, 2, 2), facts, ["a"], ["a"], OLD, TTL, NOW).go
    for wrong in (replace(facts, kind="archive"), replace(facts, doubts=("x",)), replace(facts, blocked=True),
                  replace(facts, working=True), replace(facts, state="BUILT")):  # fmt: skip
        assert not discarded(wrong, OLD, TTL, NOW).go, wrong
    assert not discarded(facts, None, TTL, NOW).go


def test_retired_generations() -> None:
    assert retired(RETIRED, 1, TTL, NOW).go
    assert retired(replace(RETIRED, newer_retired=1), 2, TTL, NOW).go
    for wrong in (
        replace(RETIRED, state="CURRENT"),
        replace(RETIRED, current=None),
        replace(RETIRED, current=1),
        replace(RETIRED, doubts=("x",)),
        replace(RETIRED, blocked=True),
        replace(RETIRED, working=True),
        replace(RETIRED, retired_ms=NOW - 999),
        replace(RETIRED, retired_ms=None),
    ):
        assert not retired(wrong, 1, TTL, NOW).go, wrong
    assert not retired(RETIRED, 2, TTL, NOW).go, "the newest retired one is kept"


def test_the_place_of_a_retired_generation() -> None:
    here, there = "file:///t/hour=00", "file:///t/_tidegate/generations/w.2.1"
    assert retired_place(here, {"a": 1}, there, {"b": 2}, [there, f"{there}/site=a"]).go
    assert retired_place(here, {"b": 2}, there, {"b": 2}, []).odd
    assert retired_place(here, {"b": 1}, there, {"b": 2}, []).go
    for place in (here, f"{here}/site=a", f"{here}/"):
        assert retired_place(here, {}, there, {}, [place]).odd
    for current in (here, f"{here}/x", "file:///t"):
        assert retired_place(here, {}, current, {}, []).odd
    assert within("file:///a/b", "file:///a/b")
    assert not within("file:///a/bc", "file:///a/b")


def test_files_of_a_landed_directory_and_of_side_staging() -> None:
    assert landed_files(["data/x"], ["_receipt.json", "data/duplicate", "failure.json"]).go
    assert landed_files(["data/x"], ["data/x"]).odd
    assert landed_files(["data/x"], ["notes"]).odd
    assert side_staging(LANDED, ["x"], ["y"]).go
    assert side_staging(LANDED, ["x"], ["x"]).odd
    assert not side_staging(replace(LANDED, side_moved=False), [], []).go
    assert not side_staging(replace(LANDED, state="SEALED"), [], []).go
    assert side_staging(None, [], []).odd


def test_quarantine() -> None:
    attempt, window = BatchAttempt(7, 1), Assembly(T0, 1, 1)
    assert quarantined(attempt, LANDED, None, OLD, TTL, NOW).go
    assert quarantined(7, replace(LANDED, state="ABANDONED"), None, OLD, TTL, NOW).go
    assert quarantined(window, None, RETIRED, OLD, TTL, NOW).go
    for facts in (replace(LANDED, unpublished=(T0,)), replace(LANDED, side_moved=False), replace(LANDED, newest=True),
                  replace(LANDED, state="SEALED"), None):  # fmt: skip
        assert not quarantined(attempt, facts, None, OLD, TTL, NOW).go, facts
    for about in (
        replace(RETIRED, state="BUILT"),
        replace(RETIRED, blocked=True),
        replace(RETIRED, current=None),
        None,
    ):
        assert not quarantined(window, None, about, OLD, TTL, NOW).go, about
    for since in (None, NOW - 999):
        assert not quarantined(attempt, LANDED, None, since, TTL, NOW).go


def test_names() -> None:
    assert parse_attempt("12.3-ab") == BatchAttempt(12, 3)
    assert parse_attempt("20130105T000000Z.2.1-ab") == Assembly(T0, 2, 1)
    assert parse_assembly("20130105T000000Z.2.1") == Assembly(T0, 2, 1)
    assert parse_side("7.late") == (7, "late")
    assert parse_quarantine("batch-12.3-ab") == BatchAttempt(12, 3)
    assert parse_quarantine("window-20130105T000000Z.2.1") == Assembly(T0, 2, 1)
    assert parse_quarantine("late-7-ab") == parse_quarantine("dirty-7-ab") == 7
    assert is_success_draft("20130105T000000Z.2.success")
    for name in ("20130105T000000Z.2.x", "20130105T000000Z.2.1", "20130105T000000Z.success", "x.2.success", "success"):
        assert not is_success_draft(name), name
    assert parse_attempt("12.3-a-b") == BatchAttempt(12, 3), "a nonce may have any character"
    assert parse_quarantine("late-7-a-b") == 7
    for name in (
        "12.3.4-ab",
        "",
        "x",
        "12.3",
        "12-ab",
        "12.3-",
        "012.3-ab",
        "²2.3-ab",
        "a.b-c",
        "20139905T000000Z.2.1-ab",
    ):
        assert parse_attempt(name) is None, name
    names = ("", ".2.1", "T.2.1", "20130105T000000Z..1", "20130105T000000Z.2.", "20130105T000000Z.\u0663.2")
    for name in (*names, *(f"20130105T000000Z.{rest}" for rest in ("2", "2.1.1", "2.x", "x.1", "02.1"))):
        assert parse_assembly(name) is None, name
    for name in (
        "7.other",
        "7.x.late",
        "late",
        "x.late",
        "batch-x",
        "window-x",
        "batch-20130105T000000Z.2.1-ab",
        "late-x-1",
        "other-7-ab",
    ):
        assert parse_side(name) is None
        assert parse_quarantine(name) is None, name


def test_ages_come_from_the_event_log() -> None:
    history = [
        Moment(10, "assembling", {"generation": 1, "epoch": 1}),
        Moment(20, "assembling", {"generation": 1, "epoch": 2}),
        Moment(25, "assembling", {"generation": 2, "epoch": 4}),
        Moment(30, "assembling", {"generation": 1, "epoch": 3}),
        Moment(40, "odd", {}),
    ]
    assert overtaken_ms(history, 1, 1) == 20
    assert overtaken_ms(history, 3, 1) is None
    assert overtaken_ms(history, 3) == 25
    assert newest_ms([Moment(5, "discarded", {"generation": 2}), Moment(6, "discarded", {"generation": 3})], 2) == 5
    assert newest_ms([], 2) is None
