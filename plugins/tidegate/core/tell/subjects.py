"""What an event or an alarm is about: `batch 12`, `window 20130105T040000Z`; as it is kept, and as people read it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from tidegate.core.base.instants import iso
from tidegate.core.window.cut import parse_window_id, window_id

_ID = re.compile(r"\b\d{8}T\d{6}Z")
_ISO = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?Z")


def of_window(start_ms: int) -> str:
    """The subject as it is kept; `start_ms`: UTC."""
    return f"window {window_id(start_ms)}"


def said(subject: str) -> str:
    """The subject for people: windows by their start as everywhere, `window 2013-01-05T04:00Z`; anything else as it
    is."""
    return _with(subject, _ID, lambda text: iso(parse_window_id(text)))


def meant(text: str) -> str:
    """Inverse of `said`; what is kept already stays."""
    return _with(text, _ISO, lambda iso_text: window_id(_ms(iso_text)))


def _with(subject: str, pattern: re.Pattern[str], other: Callable[[str], str]) -> str:
    if not subject.startswith(("window ", "windows ")):
        return subject
    try:
        return pattern.sub(lambda match: other(match[0]), subject)
    except (ValueError, OverflowError):  # no date
        return subject


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
