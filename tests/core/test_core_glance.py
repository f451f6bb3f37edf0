"""What the first page shows of a pipeline: whether a batch is open, whether something waits for a human."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.look.survey import NOTHING, Block, Head, OpenRow
from tidegate.core.look.views import GenerationRow
from tidegate.core.tell.pauses import Pause
from tidegate.core.window.states import BUILT, CURRENT, RETIRED

GENERATION = GenerationRow(
    window_ms=0,
    number=2,
    state=CURRENT,
    epoch=1,
    nonce="n",
    kind="reopen",
    directory="d",
    location="l",
    rows=1,
    digest="x",
    built_ms=5,
    published_ms=6,
    retired_ms=None,
    late=(7, 9),
)
PAUSE = Pause(1, 0, "anna", "power", ("archive",))


def test_late_rows_are_taken_up_by_the_generation_in_force_alone() -> None:
    assert [GENERATION.took_up(batch) for batch in (6, 7, 8, 9)] == [False, True, False, True]
    for state in (BUILT, RETIRED):
        assert not replace(GENERATION, state=state).took_up(7)


@pytest.mark.parametrize(
    ("head", "waits"),
    [
        (Head("p"), False),
        (Head("p", stuck=True), True),
        (Head("p", told=frozenset({"late_rows"})), True),
        (Head("p", told=frozenset({"late_window"})), True),
        (Head("p", told=frozenset({"late_window"}), pause=PAUSE), False),
        (Head("p", told=frozenset({"late_window"}), pause=replace(PAUSE, until_ms=9)), True),
        (Head("p", told=frozenset({"late_rows", "late_window"}), pause=PAUSE), True),
        (Head("p", stuck=True, pause=PAUSE), True),
    ],
)
def test_what_waits_for_a_human(head: Head, waits: bool) -> None:
    assert head.waits_at(10) is waits


BATCH = OpenRow(batch_id=3, state="SEALED")


@pytest.mark.parametrize(
    ("batch", "blocks", "held"),
    [
        (None, (), 0),
        (BATCH, (), 0),
        (replace(BATCH, refused="dirty"), (), 1),
        (replace(BATCH, blocked="odd"), (Block("batch 3", "odd"),), 1),
        (replace(BATCH, blocked="odd", refused="dirty"), (Block("batch 3", "odd"),), 1),
        (replace(BATCH, refused="dirty"), (Block("window 20130105T040000Z", "odd"), Block("partition 1", "cut")), 3),
    ],
)
def test_what_is_held_is_counted_once(batch: OpenRow | None, blocks: tuple[Block, ...], held: int) -> None:
    assert replace(NOTHING, open_batch=batch, blocks=blocks).held == held
