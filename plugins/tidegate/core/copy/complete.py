"""Since which position of its source's log nothing in a mirror is older (S9'), when it is exactly what the source had
at that position (S9), and how that is known (S10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.base.instants import HOUR_MS
from tidegate.core.copy.port import NOWHERE, LogPosition
from tidegate.core.mirror.copied import Complete
from tidegate.core.spec.change_events import SAYS_HOW
from tidegate.core.spec.pipeline import Pipeline

TOLD_EVERY_MS = HOUR_MS
"""A commit that only tells is a snapshot more, and a table keeps so many of them."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """A look at the connector, the topic and the source, in this order. `position`: the connector has delivered, and
    noted that it has, whatever committed below it. `ends`: the topic's, by Kafka partition, of those that have had
    records. `at_ms` (UTC) was before the end of the source's log, `log_end`, was read; where that is not above
    `position` it was read after the `ends`. `server`: whose, where there are several (S11).

    `reader`: which connector, or slot; empty: not known. `gap`: the newest copy that had begun when the connector was
    last found to have lost its place, which copies up to that one may lack (S12); 0: never. `position` is NOWHERE while
    it has none. `number`: of the pipeline's looks, from 1."""

    position: LogPosition
    log_end: LogPosition
    at_ms: int
    ends: Mapping[int, int]
    server: str = ""
    reader: str = ""
    gap: int = 0
    number: int = 0


def complete(looks: Sequence[Look], merged: Mapping[int, int]) -> Complete | None:
    """What the newest look says whose ends are all merged; None if no look does. `looks`: in the order of time;
    `merged`: offsets (exclusive) up to which the table has each partition; empty: nobody knows.

    S10: what is below the position was in the topic when its ends were read, so that it is below the ends. Heartbeats
    in each partition are not needed.

    S9: where the source's log ended at the position once the ends were read, no event in the topic up to them was of a
    later commit: a table that has them, and no more, is exactly what the source had there, if no chunk's HIGH is above.
    Positions of events need not tell of which commit they are (PostgreSQL)."""
    if not merged:  # a topic without records has no ends that could be missing
        return None
    found = [one for one in looks if one.position != NOWHERE and not unmerged(one, merged)]
    if not found:
        return None
    position = max(one.position for one in found)
    times = [one.at_ms for one in looks if one.log_end <= position]
    had = {p: end for p, end in merged.items() if end}
    exact = any(one.log_end <= one.position == position and one.ends == had for one in found)
    return Complete(position, max(times, default=None), exact)


def worth_telling(said: Complete | None, found: Complete | None) -> bool:
    """Whether a commit that only tells is due: a table without events has no merge that would. `said`: what the table
    tells; `found`: what it may tell now. That says more if it is so for the first time, or since an hour later, or
    exactly. What was told stays true of that snapshot, and is never taken back."""
    if found is None or found.at_ms is None:
        return bool(found and found.servers) and said is None
    if said is None or said.at_ms is None:
        return True
    return found.at_ms >= said.at_ms + TOLD_EVERY_MS or (found.exact and not said.exact)


def of_all(found: Mapping[str, Complete | None]) -> Complete | None:
    """What is told of several servers (S11): a position of each of which anything is known, and the smallest time
    where that is known of all. Never exact: no moment is known at which all of them were so."""
    known = {name: one for name, one in found.items() if one is not None}
    times = [None if one is None else one.at_ms for one in found.values()]
    at_ms = None if None in times else min((ms for ms in times if ms is not None), default=None)
    return Complete((0, 0), at_ms, servers=tuple((n, one.position) for n, one in known.items())) if known else None


def unmerged(look: Look, merged: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """(partition, offset that the table has, offset that the look asks for), both exclusive, of those that it lacks."""
    return [(p, merged.get(p, 0), end) for p, end in sorted(look.ends.items()) if merged.get(p, 0) < end]


def kept(pipeline: Pipeline) -> tuple[str, ...]:
    """Columns of a mirror's row that say what it is."""
    return tuple(c.name for c in pipeline.columns if not c.hidden and c.name not in SAYS_HOW)


def unread(pipeline: Pipeline, copied: Sequence[str]) -> tuple[str, ...]:
    """Columns that came after the newest whole copy began, which had `copied`; none where that is not known.

    A row that has not changed since has null there, whatever the source has by now: a default, or what was in a column
    of another name. No event says so: nothing is complete (S9') until a copy has read them, or a comparison has found
    no difference."""
    return tuple(name for name in kept(pipeline) if name not in copied) if copied else ()
