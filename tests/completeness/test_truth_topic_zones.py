"""Counts whose windows are named by local text where clocks change: an hour that comes twice is nobody's guess."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from tests.truth_tellers import Said
from tidegate.completeness.audit_topic import TopicTruth
from tidegate.core.base.errors import TruthUnknown
from tidegate.core.spec.pipeline import Completeness
from tidegate.core.window.states import WindowKey

HOUR = 3_600_000
BERLIN = "Europe/Berlin"


def expected(
    monkeypatch: pytest.MonkeyPatch, zone: str, start: str, size_ms: int, *messages: tuple[str, int]
) -> object:
    """What the topic says of the window that begins at `start` (with an offset)."""
    settings = Completeness(
        source="topic", conn_id="kafka", topic="audit", window_path="$.window", count_path="$.count"
    )
    said = [Said(json.dumps({"window": at, "count": n}).encode(), i) for i, (at, n) in enumerate(messages)]
    monkeypatch.setattr(TopicTruth, "_messages", lambda self, since: iter(said))
    start_ms = int(datetime.fromisoformat(start).timestamp() * 1000)
    return TopicTruth({}, settings, zone).expected(WindowKey(start_ms, start_ms + size_ms))


@pytest.mark.parametrize("start", ["2024-10-27T02:00+02:00", "2024-10-27T02:00+01:00"])
def test_an_hour_that_comes_twice_needs_an_offset(monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    """Else the counts of both would be taken for the first one's, and the second would never have any."""
    both = (("2024-10-27T02:00", 5), ("2024-10-27T02:00", 7))
    with pytest.raises(TruthUnknown, match="offset 0: .*'2024-10-27T02:00' comes twice in Europe/Berlin: .* an offset"):
        expected(monkeypatch, BERLIN, start, HOUR, *both)
    plain = (("2024-10-27T02:00+02:00", 5), ("2024-10-27T02:00+01:00", 7))
    assert expected(monkeypatch, BERLIN, start, HOUR, *plain) == (5 if "+02" in start else 7)


def test_it_concerns_no_other_window(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (("2024-10-27T02:00", 5), ("2024-10-27T03:00", 7), ("2024-10-27T01:00", 9))
    assert expected(monkeypatch, BERLIN, "2024-10-27T03:00+01:00", HOUR, *said) == 7
    assert expected(monkeypatch, BERLIN, "2024-10-27T01:00+02:00", HOUR, *said) == 9


def test_an_hour_that_is_skipped_is_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that counts all hours of the clock says 0 of it: not of the hour after."""
    said = (("2024-03-31T02:00", 0), ("2024-03-31T03:00", 7))
    assert expected(monkeypatch, BERLIN, "2024-03-31T03:00+02:00", HOUR, *said) == 7
    assert expected(monkeypatch, BERLIN, "2024-03-31T03:00+02:00", HOUR, said[0]) is None


def test_windows_of_which_only_one_begins_then_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two midnights a day begins at the first; windows of 90 minutes at one of two o'clocks."""
    assert expected(monkeypatch, "America/Havana", "2024-11-03T00:00-04:00", 25 * HOUR, ("2024-11-03", 7)) == 7
    assert expected(monkeypatch, BERLIN, "2024-10-27T02:00+02:00", 90 * 60_000, ("2024-10-27T02:00", 7)) == 7
    assert expected(monkeypatch, BERLIN, "2024-10-27T02:00+01:00", 90 * 60_000, ("2024-10-27T02:00", 7)) == 7
