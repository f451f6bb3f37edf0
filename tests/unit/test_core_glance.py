"""What the first page shows of a pipeline: whether a batch is open, whether something waits for a human."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.look.glance import Head, Told
from tidegate.core.look.views import GenerationRow
from tidegate.core.window.states import BUILT, CURRENT, RETIRED

GENERATION = GenerationRow(0, 2, CURRENT, 1, "n", "reopen", "d", "l", 1, "x", 5, 6, None, late=(7, 9))
TOLD = Told("late_rows", "9 rows", "reopen", 5)


@pytest.mark.parametrize(
    ("state", "open_"),
    [(None, False), ("PLANNED", True), ("WRITING", True), ("SEALED", True), ("LANDED", False), ("ABANDONED", False)],
)
def test_a_batch_is_open_until_it_has_landed_or_was_given_up(state: str | None, open_: bool) -> None:
    assert Head("p", 3, state).open is open_


def test_late_rows_are_taken_up_by_the_generation_in_force_alone() -> None:
    assert [GENERATION.took_up(batch) for batch in (6, 7, 8, 9)] == [False, True, False, True]
    for state in (BUILT, RETIRED):
        assert not replace(GENERATION, state=state).took_up(7)


@pytest.mark.parametrize(
    ("head", "waits"),
    [
        (Head("p"), False),
        (Head("p", 3, "WRITING"), False),
        (Head("p", 3, "WRITING", refused="dirty"), True),
        (Head("p", 3, "SEALED", blocked="an alarm"), True),
        (Head("p", 3, "LANDED", refused="dirty", blocked="an alarm"), False),
        (Head("p", 3, "LANDED", closing=4), False),
        (Head("p", 3, "LANDED", alarms=((7, "odd"),)), True),
        (Head("p", told=(TOLD,)), True),
    ],
)
def test_what_waits_for_a_human(head: Head, waits: bool) -> None:
    assert head.waits is waits
