"""A pause on purpose: when it is over, and when records are about to be lost meanwhile."""

from __future__ import annotations

import pytest

from tidegate.core.source.loss_forecast import AHEAD, LossForecast
from tidegate.core.source.loss_warning import WARN, TimeToLoss
from tidegate.core.tell.pauses import Pause, near_loss


def test_a_pause_is_over_once_its_end_has_come() -> None:
    pause = Pause(1, 0, "anna", "works", ("ingest",), until_ms=5)
    assert [(pause.over(now), pause.covers("ingest", now)) for now in (4, 5)] == [(False, True), (True, False)]
    assert not pause.covers("archive", 4)
    endless = Pause(1, 0, "anna", "works", ("ingest",))
    assert (endless.over(10**15), endless.covers("ingest", 10**15)) == (False, True)


@pytest.mark.parametrize(
    ("left", "room", "unread", "warning", "near"),
    [
        (100, 1_000, 1, 100, True),
        (101, 1_000, 1, 100, False),
        (100, None, 1, 100, True),
        (101, None, 1, 100, False),
        (60, 120, 1, 100, True),  # the log keeps little more than the warning: half of it
        (61, 120, 1, 100, False),
        (60, 121, 1, 100, True),
        (0, 1_000, 0, 100, False),
        (None, 1_000, 1, 100, False),
        (0, 1_000, 1, None, False),
    ],
)
def test_unread_records_are_about_to_be_lost(left, room, unread: int, warning: int | None, near: bool) -> None:
    safe = LossForecast(partition=1, state=AHEAD, stopped_ms=10**9, room_ms=10**10, unread=5)
    one = LossForecast(partition=0, state=AHEAD, stopped_ms=left, room_ms=room, unread=unread)
    assert near_loss(TimeToLoss(WARN, (safe, one), warning, None, None)) is near
    assert not near_loss(TimeToLoss(WARN, (safe,), warning, None, None))


@pytest.mark.parametrize("own", [("ingest", "archive", "replay"), ("ingest", "apply")])
@pytest.mark.parametrize("more", [(), ("copy",), ("copy", "compare"), ("deliver",), ("copy", "deliver")])
def test_a_pause_of_all_dags_names_none(own: tuple[str, ...], more: tuple[str, ...]) -> None:
    words = Pause(1, 0, "anna", "works", (*own, *more, "maintain")).words()
    assert words == "paused on purpose since 1970-01-01T00:00Z by anna: works"
    some = Pause(1, 0, "anna", "works", (*own, *more)).words()
    assert some == f"paused on purpose since 1970-01-01T00:00Z by anna ({', '.join((*own, *more))}): works"
