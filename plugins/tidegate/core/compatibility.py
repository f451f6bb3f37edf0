"""Which changes of a spec a running pipeline can take: those under which what has landed keeps its meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.core.instants import iso
from tidegate.core.pipeline import Pipeline

_FIXED: tuple[tuple[str, Callable[[Pipeline], Any]], ...] = (
    ("source.topic", lambda p: p.source.topic),
    ("windows.size", lambda p: f"{p.windows.size_ms // 60_000} min"),
    ("windows.timezone", lambda p: p.windows.timezone),
    ("partition_by", lambda p: ", ".join(p.partition_by)),
    ("sink.table", lambda p: p.sink.table),
    ("sink.location", lambda p: p.sink.location),
    ("sink.workdir", lambda p: p.sink.workdir),
    ("sink.format", lambda p: p.sink.format),
)


def incompatible(old: Pipeline, new: Pipeline) -> list[str]:
    """Why `new` cannot take over what `old` has landed; empty if it can.

    Windows would be other windows, directories other directories: rows that landed would be hidden, or shown twice.
    `windows.start` may move back, never forward over hours that may hold landed rows.
    """
    reasons = [f"{key} was {get(old)}, is {get(new)}" for key, get in _FIXED if get(old) != get(new)]
    before, after = old.windows.start_ms, new.windows.start_ms
    if after > before:
        reasons.append(f"windows.start was {iso(before)}, is {iso(after)}")
    elif (before - after) % new.windows.size_ms and new.windows.size_ms < 86_400_000:
        reasons.append(f"windows.start moved from {iso(before)} to {iso(after)}: not by whole windows")
    return reasons
