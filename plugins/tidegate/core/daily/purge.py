"""Which tombstones a day purges (M5, M6): below a position that was readable long before anything could come that no
day up to it has.

An event that is in no day up to D came into a later one either because the source committed it after D had ended, or
because D was closing when it was read. So it became readable after D's end, or after a batch of before that close had
read the whole topic. By the source's promise, `sink.tombstones: N`, it is not older than what was readable N before:
`core.mirror.purge.refusal` with D's end for the time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.mirror.jobs import START, Position

Seen = tuple[tuple[int, int], ...]
"""(when all events of days up to one had been read, UTC ms; their greatest commit), in the order of days."""


@dataclass(frozen=True)
class Purged:
    """What a day purges: tombstones below `below`, START: none. `seen`: what it tells later days."""

    below: Position = START
    seen: Seen = ()


NO_PURGE = Purged()
KEPT_OUT = "kept out by a purge"
"""What is noted of events below the marker (M5)."""


@dataclass(frozen=True)
class KeptOut:
    """The newest note of it: when it was made (UTC), of which day, and which events those are, in words."""

    at_ms: int
    day: str
    events: str


def settled(seen: Seen, before_ms: int) -> Position | None:
    """The greatest position that had been read by then; None if nothing had."""
    commits = [commit for at_ms, commit in seen if at_ms <= before_ms]
    return (max(commits), 0, 0) if commits else None


def grown(seen: Seen, at_ms: int, last: Position | None, before_ms: int) -> Seen:
    """What a day tells later ones, with its own events, which had been read at `at_ms` and end at `last`; without what
    is older than the newest entry of `before_ms`, which is all that a purge asks for."""
    known = max((commit for _, commit in seen), default=0)
    mine = (at_ms, max(known, 0 if last is None else last[0]))
    every = (*seen, mine) if mine[1] else seen
    old = [n for n, (at, _) in enumerate(every) if at <= before_ms]
    return every[old[-1] :] if old else every
