"""The overflow partition: for dynamic values beyond `sink.max_partitions`, that no directory can be named after, or
whose partition's whole name is too long for Hive's metastore, or for the keys of an object store.

A window has at most `max_partitions` distinct combinations of dynamic values beside its overflow partition. Rows of all
others go there, valid as they are; what they said is kept as text in the column `_overflow`, which only the files of
that partition hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.core.base.partition_values import (
    MAX_PARTITION_NAME,
    PartitionValues,
    fits,
    metastore_name_length,
    partition_path,
)
from tidegate.core.base.storage import can_rename
from tidegate.core.base.wording import many
from tidegate.core.spec.pipeline import Pipeline

OVERFLOW_VALUE = "__tidegate_overflow__"
OVERFLOW_COLUMN = ("_overflow", "map<string,string>")
MAX_COUNTED = 1000
"""Distinct values beyond the limit that are counted for each window; more are said to be at least as many."""
MAX_KEY_BYTES = 1024
"""Of an object's key in S3's protocol: the whole path in its bucket."""
OWN_BYTES = 160
"""Of a data file's key, for what is neither the work directory nor its partition: `/tmp/<attempt>/data/`, a name."""


@dataclass(frozen=True)
class Known:
    """The combinations that windows have already. `values` has each once; `windows` are pairs of a window's start
    (UTC ms) and indices into it, sorted."""

    values: tuple[PartitionValues, ...] = ()
    windows: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @classmethod
    def of(cls, found: Mapping[int, Iterable[PartitionValues]]) -> Known:
        values = tuple(sorted({v for each in found.values() for v in each}, key=str))
        index = {v: i for i, v in enumerate(values)}
        return cls(values, tuple((w, tuple(sorted(index[v] for v in set(found[w])))) for w in sorted(found)))

    def by_window(self) -> dict[int, set[PartitionValues]]:
        return {w: {self.values[i] for i in indices} for w, indices in self.windows}


@dataclass(frozen=True)
class Overflow:
    """What one window of an attempt sent to its overflow partition. `values`: distinct combinations, at least, since
    no more than MAX_COUNTED are told apart; `samples` are for people, bounded."""

    window_ms: int
    rows: int
    values: int
    samples: tuple[str, ...] = ()


def overflow_values(pipeline: Pipeline) -> PartitionValues:
    """Values of the overflow partition: OVERFLOW_VALUE for text columns, Hive's null partition for those of other
    types."""
    return tuple(
        (name, OVERFLOW_VALUE if pipeline.column(name).type == "string" else None)
        for name in pipeline.dynamic_partitions
    )


def has_a_name(time: PartitionValues, values: PartitionValues, workdir: str) -> bool:
    """Whether a partition of a window (`time`) can be called by these values: as directories below `workdir` (a URI),
    and in the metastore."""
    return (
        all(fits(text, name) for name, text in values)
        and metastore_name_length((*time, *values)) <= MAX_PARTITION_NAME
        and key_bytes((*time, *values), workdir) <= MAX_KEY_BYTES
    )


def key_bytes(values: PartitionValues, workdir: str) -> int:
    """Of a data file's key in an object store, at most; 0 where files have no keys."""
    return 0 if can_rename(workdir) else bytes_of_key(workdir) + OWN_BYTES + len(partition_path(values).encode())


def bytes_of_key(path: str) -> int:
    """Of an object's key, by its URI."""
    return len(path.split("://", 1)[1].partition("/")[2].encode())


def staying(rows: Mapping[PartitionValues, int], known: set[PartitionValues], limit: int) -> set[PartitionValues]:
    """Which combinations keep a partition of their own: what the window has already, then those with the most rows."""
    new = sorted((v for v in rows if v not in known), key=lambda v: (-rows[v], str(v)))
    return known | set(new[: max(0, limit - len(known))])


def told(overflow: Overflow, names: Iterable[str], limit: int) -> str:
    """The words for the log and the events."""
    more = "or more " if overflow.values >= MAX_COUNTED else ""
    return (
        f"{many(overflow.rows, 'row')} with {many(overflow.values, f'{more}value')} of "
        f"{', '.join(names)} went to the overflow "
        f"partition (at most {limit:,} in a window, and none that no directory can be named after or that make a "
        f"partition's name longer than the {MAX_PARTITION_NAME} characters of Hive's metastore, or a file's key longer "
        f"than the {MAX_KEY_BYTES:,} bytes of an object store's), "
        f"such as {', '.join(overflow.samples)}"
    )
