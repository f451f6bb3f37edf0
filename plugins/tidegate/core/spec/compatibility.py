"""Which changes of a spec a running pipeline can take: those under which what has landed keeps its meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidegate.core.base.instants import DAY_MS, iso
from tidegate.core.spec.evolution import changes
from tidegate.core.spec.pipeline import Pipeline, late_columns, table_columns

_FIXED: tuple[tuple[str, Callable[[Pipeline], Any]], ...] = (
    ("source.kind", lambda p: p.source.kind),
    ("source.topic", lambda p: p.source.topic),
    ("windows.size", lambda p: f"{p.windows.size_ms // 60_000} min"),
    ("windows.timezone", lambda p: p.windows.timezone),
    ("partition_by", lambda p: ", ".join(p.partition_by)),
    ("sink.kind", lambda p: p.sink.kind),
    ("sink.table", lambda p: p.sink.table),
    ("sink.location", lambda p: p.sink.location),
    ("sink.workdir", lambda p: p.sink.workdir),
    ("sink.format", lambda p: p.sink.format),
    ("kafka_columns", lambda p: str(p.kafka_columns).lower()),
)


def incompatible(old: Pipeline, new: Pipeline, promotes: bool = False) -> list[str]:
    """Why `new` cannot take over what `old` has landed; empty if it can.

    Windows would be other windows, directories other directories: rows that landed would be hidden, or shown twice.
    `windows.start` may move back, never forward over hours that may hold landed rows. Columns may change as
    `core.spec.evolution` allows, where the table's readers promote integers or not; those that rows are partitioned by
    keep their types.
    """
    reasons = [f"{key} was {get(old)}, is {get(new)}" for key, get in _FIXED if get(old) != get(new)]
    before, after = old.windows.start_ms, new.windows.start_ms
    if after > before:
        reasons.append(f"windows.start was {iso(before)}, is {iso(after)}")
    elif (before - after) % new.windows.size_ms and new.windows.size_ms < DAY_MS:
        reasons.append(f"windows.start moved from {iso(before)} to {iso(after)}: not by whole windows")
    if not reasons:  # else the columns are another table's
        reasons += [
            f"partition column {name} was {old.column(name).type}, is {new.column(name).type}"
            for name in new.dynamic_partitions
            if old.column(name).type != new.column(name).type
        ]
        reasons += changes(table_columns(old), table_columns(new), new.sink.format, promotes).refused
    return reasons


def renumbered(old: Pipeline, new: Pipeline, keys: Iterable[str]) -> list[str]:
    """Of a source's lists by which its lanes have their numbers: those that were not only appended to. Offsets of a
    lane would become another's."""
    before, after = dict(old.source.options), dict(new.source.options)
    found = ((key, before.get(key), after.get(key)) for key in keys)
    return [
        f"source.{key} was {was}, is {now or 'missing'}: it may only be appended to"
        for key, was, now in found
        if was and not f"{now},".startswith(f"{was},")
    ]


def moved(old: Pipeline, new: Pipeline, keys: Iterable[str]) -> list[str]:
    """Of a table's own keys by which its files are cut: those that have changed."""
    before, after = dict(old.sink.options), dict(new.sink.options)
    found = ((key, before.get(key, "missing"), after.get(key, "missing")) for key in keys)
    return [f"sink.{key} was {was}, is {now}" for key, was, now in found if was != now]


def altered(old: Pipeline, new: Pipeline) -> bool:
    """Whether the tables' columns differ: then the catalogue's come first, and data after."""
    return (table_columns(old), late_columns(old)) != (table_columns(new), late_columns(new))
