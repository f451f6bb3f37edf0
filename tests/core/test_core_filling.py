"""What a backfill does next with each window of its range, and where a rebuild that was interrupted goes on."""

from __future__ import annotations

import pytest
from core_values import HOUR

from tidegate.core.publish import backfill as rules
from tidegate.core.publish.backfill import Facts, Run
from tidegate.core.window.states import WindowKey

KEY = WindowKey(0, HOUR)
READY, ACTIVE = Facts(frozenset(), HOUR), Run("r", True, False)
PUBLISHED, ENDED = Facts(frozenset({0}), HOUR), Run("r", False, False)
NOT_READY = Facts(frozenset({HOUR}), HOUR - 1)


@pytest.mark.parametrize(
    ("run", "facts", "tried", "verdict"),
    [
        (None, PUBLISHED, (), rules.DONE),
        (ENDED, PUBLISHED, (0,), rules.DONE),
        (ACTIVE, PUBLISHED, (), rules.DONE),  # somebody verifies it
        (None, Facts(frozenset({0}), None), (), rules.DONE),  # whatever the watermark says now
        (None, READY, (), rules.CREATE),
        (None, READY, (HOUR,), rules.CREATE),  # another window was tried
        (ENDED, READY, (), rules.CLEAR),
        (Run("r", False, True), READY, (), rules.CLEAR),  # marked as a success by hand
        (ACTIVE, READY, (), rules.WORKING),
        (ACTIVE, READY, (0,), rules.WORKING),
        (ENDED, READY, (0,), rules.FAILED),
        (None, READY, (0,), rules.FAILED),  # somebody has deleted it
        (None, NOT_READY, (), rules.NOT_READY),
        (ACTIVE, NOT_READY, (), rules.NOT_READY),  # waits for the watermark, perhaps for hours
        (ENDED, NOT_READY, (0,), rules.NOT_READY),
        (None, Facts(frozenset(), None), (), rules.NOT_READY),
        (None, Facts(frozenset(), HOUR + 1), (), rules.CREATE),
    ],
)
def test_to_fill(run: Run | None, facts: Facts, tried: tuple[int, ...], verdict: str) -> None:
    assert rules.to_fill(KEY, run, facts, tried) == verdict


@pytest.mark.parametrize(
    ("run", "facts", "tried", "verdict"),
    [
        (Run("r", False, True, "this"), PUBLISHED, (), rules.DONE),
        (Run("r", False, True, "this"), PUBLISHED, (0,), rules.DONE),
        (Run("r", False, True, "that"), PUBLISHED, (), rules.CLEAR),
        (Run("r", False, True, "that"), PUBLISHED, (0,), rules.FAILED),  # somebody else has begun it since
        (Run("r", False, True), PUBLISHED, (), rules.CLEAR),
        (Run("r", False, False, "this"), PUBLISHED, (), rules.CLEAR),  # failed when this one was run before
        (Run("r", False, False, "this"), PUBLISHED, (0,), rules.FAILED),
        (Run("r", False, False, "this"), PUBLISHED, (HOUR,), rules.CLEAR),
        (Run("r", True, False, "that"), PUBLISHED, (), rules.WORKING),
        (Run("r", True, True, "this"), PUBLISHED, (0,), rules.WORKING),
        (None, PUBLISHED, (), rules.CREATE),
        (None, PUBLISHED, (0,), rules.FAILED),
        (None, READY, (), rules.NOT_PUBLISHED),
        (ENDED, READY, (), rules.NOT_PUBLISHED),
        (None, Facts(frozenset({HOUR}), HOUR), (), rules.NOT_PUBLISHED),  # another one is
    ],
)
def test_to_rebuild(run: Run | None, facts: Facts, tried: tuple[int, ...], verdict: str) -> None:
    assert rules.to_rebuild(KEY, run, facts, tried, "this") == verdict


def test_a_rebuild_that_was_interrupted_is_gone_on_with() -> None:
    keys = [WindowKey(n, n + 1) for n in range(3)]
    ours, old, wider = "a to c, begun 2", "a to c, begun 1", "a to d, begun 3"

    def marks(*given: tuple[str | None, bool], among: list[WindowKey] = keys) -> str | None:
        runs = {n: Run("r", False, well, mark) for n, (mark, well) in enumerate(given)}
        return rules.unfinished_mark(runs, among, "a to c, begun ")

    assert marks((ours, True), (ours, False), (old, True)) == ours
    assert marks((old, True), (ours, True), (old, False)) == ours
    assert marks((ours, True), (wider, True)) == ours
    assert marks((ours, True), (ours, True)) == ours, "the third has no run yet"
    assert marks((ours, True), (ours, True), (ours, True)) is None
    assert marks((ours, True), (ours, True), (ours, False)) == ours
    assert marks((old, True), (old, True), (old, True)) is None, "the newest has rebuilt them all"
    assert marks((wider, True), (None, True)) is None
    assert marks((ours, True), among=keys[:1]) is None
    assert marks((ours, False), among=keys[:1]) == ours
    assert marks() is None
