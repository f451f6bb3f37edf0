"""What a person asks of published windows by a run of `<pipeline>.replay`, as that run's conf says it.

Whoever may trigger a run writes its conf, so nothing in it is believed: not a type, not a length, not who it says asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from tidegate.core.base.errors import AskedWrong
from tidegate.core.base.instants import iso
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.cut import window_end, window_from, window_start
from tidegate.core.window.states import WindowKey

T = TypeVar("T")
REPLAY, REOPEN, ROLLBACK, REREAD = "replay", "reopen", "rollback", "reread"
DO = (REPLAY, REOPEN, ROLLBACK, REREAD)
MOST_WINDOWS = 3000
"""Of one run: more of them are several runs, each of which can be cleared."""
LONGEST_REASON = 500
_KEYS = ("do", "window", "from", "until", "generation", "over_budget", "why", "by")


@dataclass(frozen=True)
class Asked:
    """`windows` in order, never empty. `generation` is what a rollback goes back to. `by` is who the conf says asks:
    shown, never believed. `over_budget`: a reopening may exceed what the spec's `late:` allows."""

    do: str
    windows: tuple[WindowKey, ...]
    why: str = ""
    generation: int | None = None
    over_budget: bool = False
    by: str = ""

    def conf(self) -> dict[str, Any]:
        """Inverse of `asked`."""
        first, last = self.windows[0], self.windows[-1]
        found: dict[str, Any] = {"do": self.do}
        if first == last:
            found["window"] = iso(first.start_ms)
        else:
            found |= {"from": iso(first.start_ms), "until": iso(last.end_ms)}
        rest = {"generation": self.generation, "over_budget": self.over_budget, "why": self.why, "by": self.by}
        return found | {key: value for key, value in rest.items() if value not in (None, False, "")}


def asked(conf: Any, windows: Windows, own: WindowKey | None) -> Asked:
    """What the conf asks for; without a window in it, of the run's `own`: its data interval, None if it is no window.

    An empty conf asks for a replay. Raises AskedWrong, which says what there is."""
    if not isinstance(conf, Mapping):
        raise AskedWrong(f"the run's conf is no object of keys and values: {_short(conf)}")
    unknown = [key for key in conf if key not in _KEYS]
    if unknown:
        raise AskedWrong(f"the run's conf has an unknown key: {_short(unknown[0])}")
    do = conf.get("do", REPLAY)
    if do not in DO:
        raise AskedWrong(f"the run's conf asks to do {_short(do)}")
    generation, over_budget = conf.get("generation"), conf.get("over_budget", False)
    whole = isinstance(generation, int) and not isinstance(generation, bool) and 0 < generation < 2**31
    if generation is not None and (do != ROLLBACK or not whole):
        raise AskedWrong(f"`generation` is the number that a rollback goes back to, not {_short(generation)} of {do}")
    if not isinstance(over_budget, bool) or (over_budget and do != REOPEN):
        raise AskedWrong(f"`over_budget` is true or false, and of a reopening: not {_short(over_budget)} of {do}")
    found = Asked(
        do, _windows(conf, windows, own), reason(conf.get("why")), generation, over_budget, reason(conf.get("by"))
    )
    if do == ROLLBACK and (generation is None or len(found.windows) > 1):
        raise AskedWrong("a rollback is of one window, and names the `generation` that it goes back to")
    if do == REREAD and len(found.windows) > 1:
        raise AskedWrong("a second reading is of one window")
    if (do in (ROLLBACK, REREAD) or over_budget) and not found.why:
        what = {ROLLBACK: "a rollback", REREAD: "a second reading"}.get(do, "`over_budget`")
        raise AskedWrong(f"{what} needs a reason: `why`")
    return found


def reason(text: Any) -> str:
    """A reason as the event log takes it: one line of bounded length, nothing that would turn or hide its text."""
    if not isinstance(text, str):
        return ""
    seen = "".join(c if c.isprintable() else " " for c in text[: 8 * LONGEST_REASON])
    line = " ".join(seen.split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def between(windows: Windows, from_ms: int, until_ms: int) -> tuple[WindowKey, ...]:
    """The windows that begin in `[from_ms, until_ms)`. Raises AskedWrong for none, or too many."""
    start = window_start(from_ms, windows)
    start = start if start >= from_ms else window_end(start, windows)
    found: list[WindowKey] = []
    while start < until_ms:
        if len(found) == MOST_WINDOWS:
            raise AskedWrong(f"more than {MOST_WINDOWS:,} windows from {iso(from_ms)} until {iso(until_ms)}")
        found.append(window_from(start, windows))
        start = found[-1].end_ms
    if not found:
        raise AskedWrong(f"no window begins from {iso(from_ms)} until {iso(until_ms)}")
    return tuple(found)


def instant(text: Any, key: str) -> int:
    """UTC ms of an ISO instant; without a zone it is UTC. Raises AskedWrong."""
    try:
        if not isinstance(text, str) or len(text) > 40 or not text.isprintable():
            raise ValueError
        at = datetime.fromisoformat(text.strip())
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return round(at.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise AskedWrong(f"`{key}` is no instant such as 2013-01-05T04:00Z: {_short(text)}") from None


def _windows(conf: Mapping[str, Any], windows: Windows, own: WindowKey | None) -> tuple[WindowKey, ...]:
    if "window" in conf:
        if "from" in conf or "until" in conf:
            raise AskedWrong("the run's conf names `window` and a range: one of both")
        start = _safely(lambda at: window_start(at, windows), instant(conf["window"], "window"))
        return (window_from(start, windows),)
    if "from" in conf or "until" in conf:
        if not ("from" in conf and "until" in conf):
            raise AskedWrong("a range has both `from` (inclusive) and `until` (exclusive)")
        first, last = instant(conf["from"], "from"), instant(conf["until"], "until")
        return _safely(lambda at: between(windows, at, last), first)
    if own is None:
        raise AskedWrong("the run's data interval is no window of the pipeline, and its conf names none")
    return (own,)


def _safely(find: Callable[[int], T], at: int) -> T:
    """Refuse where no calendar has the windows around `at`, as in the year 1."""
    try:
        return find(at)
    except (ValueError, OverflowError):
        raise AskedWrong(f"no window is at {iso(at)}") from None


def _short(value: Any) -> str:
    """Foreign text in a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
