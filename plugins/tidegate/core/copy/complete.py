"""Since which position of its source's log nothing in a mirror is older (S9'), and how that is known (S10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.copy.port import LogPosition
from tidegate.core.mirror.copied import Complete


@dataclass(frozen=True, kw_only=True)
class Look:
    """A look at the connector, the source and the topic, in this order. `position`: the connector has delivered, and
    noted that it has, whatever committed below it. `at_ms` (UTC) was before the end of the log, `log_end`, was read,
    and that before the topic's `ends` (by Kafka partition, of those that have had records)."""

    position: LogPosition
    log_end: LogPosition
    at_ms: int
    ends: Mapping[int, int]


def complete(looks: Sequence[Look], merged: Mapping[int, int]) -> Complete | None:
    """What the newest look says whose ends are all merged; None if no look does. `looks`: in the order of time;
    `merged`: offsets (exclusive) up to which the table has each partition; empty: nobody knows.

    S10: what is below the position was in the topic when its ends were read, so that it is below the ends. Heartbeats
    in each partition are not needed."""
    if not merged:  # a topic without records has no ends that could be missing
        return None
    found = [one for one in looks if not unmerged(one, merged)]
    if not found:
        return None
    position = max(one.position for one in found)
    times = [one.at_ms for one in looks if one.log_end <= position]
    return Complete(position, max(times, default=None))


def unmerged(look: Look, merged: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """(partition, offset that the table has, offset that the look asks for), both exclusive, of those that it lacks."""
    return [(p, merged.get(p, 0), end) for p, end in sorted(look.ends.items()) if merged.get(p, 0) < end]
