"""Subjects of events and alarms: kept in one form, read in the one that people see everywhere."""

from __future__ import annotations

import pytest
from core_values import HOUR, T0

from tidegate.core.tell.subjects import meant, of_window, said


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ("window 20130105T040000Z", "window 2013-01-05T04:00Z"),
        ("window 20130105T040530Z", "window 2013-01-05T04:05:30Z"),
        ("windows 20130105T040000Z to 20130106T000000Z", "windows 2013-01-05T04:00Z to 2013-01-06T00:00Z"),
        ("batch 12", "batch 12"),
        ("spec 3", "spec 3"),
        ("pipeline readings", "pipeline readings"),
        ("", ""),
    ],
)
def test_both_ways(kept: str, words: str) -> None:
    assert said(kept) == words
    assert said(words) == words
    assert meant(words) == kept
    assert meant(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        "window 20131305T040000Z",
        "window 2013-13-05T04:00Z",
        "window x20130105T040000Z",
        "window",
        "20130105T040000Z",
        "2013-01-05T04:00Z",
        "topic 20130105T040000Z",
    ],
)
def test_what_names_no_window_stays(text: str) -> None:
    assert said(text) == meant(text) == text


def test_a_windows_subject() -> None:
    assert of_window(T0 + 4 * HOUR) == "window 20130105T040000Z"
