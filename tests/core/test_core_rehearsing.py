"""Dry runs of replays: which names are theirs, and when what one has left may go."""

from __future__ import annotations

import pytest
from core_values import HOUR, T0

from tidegate.core.clean.dry_runs import EVENT, Rehearsal, may_go, parse_rehearsal
from tidegate.core.clean.rules import Moment, newest_ms
from tidegate.core.replay.abandoned import GIVEN_UP_MS, Unfinished, is_given_up
from tidegate.core.spec.pipeline import Cleaning
from tidegate.core.target.paths import Layout

PATHS = Layout("file:///lake/t", "file:///lake/t/_tidegate")
TTL = Cleaning(attempts_ms=HOUR)


def test_names_of_dry_runs() -> None:
    assert parse_rehearsal("20130105T040000Z.dry-ab.cd") == Rehearsal(T0 + 4 * HOUR)
    assert parse_rehearsal("20130105T040000Z.dry-ab-cd.e.f") == Rehearsal(T0 + 4 * HOUR)
    assert parse_rehearsal(PATHS.rehearsal_name(T0, "run-7", "n")) == Rehearsal(T0)


@pytest.mark.parametrize(
    "name",
    [
        "20130105T040000Z.2.1-ab",
        "7.1-ab",
        "20130105T040000Z.dry",
        "x.dry-a",
        "20130105T040000Z.dry-",
        "20130105T040000Z-dry.a",
        "20130105T040000Z.wet-a",
        "20130105T040000Z.1.dry-a",
        "20131305T040000Z.dry-a",
        ".dry-a",
        "dry-a",
        "",
    ],
)
def test_names_of_anything_else(name: str) -> None:
    assert parse_rehearsal(name) is None
    assert parse_rehearsal(PATHS.replay_name(T0, 2, 1, "dry")) is None
    assert parse_rehearsal(PATHS.merge_name(T0, 2, 1, "dry")) is None


def moments(*at_ms: int) -> list[Moment]:
    return [Moment(at, EVENT) for at in at_ms]


@pytest.mark.parametrize(
    ("began", "now_ms", "go"),
    [
        ((T0,), T0 + HOUR - 1, False),
        ((T0,), T0 + HOUR, True),
        ((T0,), T0 + 9 * HOUR, True),
        ((T0, T0 + HOUR), T0 + 2 * HOUR - 1, False),
        ((T0 + HOUR, T0), T0 + 2 * HOUR - 1, False),  # the newest counts, in whatever order they come
        ((T0 + HOUR, T0), T0 + 2 * HOUR, True),
        ((T0,), T0 - HOUR, False),
        ((0,), HOUR, True),
    ],
)
def test_what_a_dry_run_left_goes_once_the_newest_of_its_window_is_old(
    began: tuple[int, ...], now_ms: int, go: bool
) -> None:
    found = may_go(moments(*began), TTL, now_ms)
    assert (found.go, found.odd) == (go, False)
    assert found.why


def test_what_the_ledger_knows_of_no_dry_run_is_kept_and_shown() -> None:
    found = may_go([], TTL, T0)
    assert (found.go, found.odd) == (False, True)
    assert "the ledger has no dry run" in found.why


def test_a_spec_that_keeps_attempts_for_ever_keeps_these_too() -> None:
    for history in ([], moments(0)):
        found = may_go(history, Cleaning(attempts_ms=None), T0)
        assert (found.go, found.odd) == (False, False)
        assert "for ever" in found.why


# ---------------------------------------------------------------- replays that nobody goes on with


def begun_at(number: int, *at_ms: int) -> list[Moment]:
    return [Moment(at, "assembling", {"generation": number, "epoch": n + 1}) for n, at in enumerate(at_ms)]


def test_the_newest_event_of_a_generation_says_when_somebody_was_at_it() -> None:
    history = [*begun_at(2, T0 + 2, T0 + 1), *begun_at(3, T0 + 9), Moment(T0 + 20, "assembling", {})]
    assert newest_ms(history, 2) == T0 + 2
    assert newest_ms(history, 3) == T0 + 9
    assert newest_ms(history, 4) is None
    assert newest_ms([], 2) is None


@pytest.mark.parametrize(
    ("began_ms", "event_ms", "now_ms", "over"),
    [
        (T0, T0, T0 + GIVEN_UP_MS - 1, False),
        (T0, T0, T0 + GIVEN_UP_MS, True),
        (T0, T0, T0 + 9 * GIVEN_UP_MS, True),
        (None, T0, T0 + GIVEN_UP_MS - 1, False),
        (None, T0, T0 + GIVEN_UP_MS, True),
        (T0 + 1, T0, T0 + GIVEN_UP_MS, False),
        (T0, T0 + 1, T0 + GIVEN_UP_MS, False),
        (T0, None, T0 + 9 * GIVEN_UP_MS, False),
        (None, None, T0 + 9 * GIVEN_UP_MS, False),
        (T0, T0, T0 - GIVEN_UP_MS, False),
    ],
)
def test_a_replay_is_given_up_a_day_after_its_last_try_began(
    began_ms: int | None, event_ms: int | None, now_ms: int, over: bool
) -> None:
    assert is_given_up(Unfinished(T0, 2, "replay", "BUILDING", began_ms), event_ms, now_ms) is over


@pytest.mark.parametrize(("kind", "state"), [("replay", "BUILT"), ("replay", "SWAPPING"), ("rollback", "BUILDING")])
def test_nothing_else_is_given_up(kind: str, state: str) -> None:
    assert not is_given_up(Unfinished(T0, 2, kind, state, T0), T0, T0 + 9 * GIVEN_UP_MS)


def test_a_day() -> None:
    assert GIVEN_UP_MS == 24 * HOUR
