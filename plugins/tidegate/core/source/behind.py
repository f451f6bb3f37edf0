"""Copies that come behind the mark: of records that land, or have landed, at the site that they are copied from (F3).

A supervisor may start a fenced copier again. Its copies then lie among the records of the active site's producers. They
become dirty rows: kept, counted and seen, and read where they were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.source.coordinates import HEADER, coordinate_of

FIELD = HEADER
REASON = "a copy from another site, behind the mark of the failover: it is read there"


def is_told(field: str, reason: str) -> bool:
    """Whether a dirty row with these is such a copy."""
    return (field, reason) == (FIELD, REASON)


@dataclass(frozen=True)
class Own:
    """`[start, end)` of a partition: what this site's producers wrote while it was active; `end` None: it still is."""

    partition: int
    start: int
    end: int | None

    def has(self, partition: int, offset: int) -> bool:
        return partition == self.partition and self.start <= offset and (self.end is None or offset < self.end)


@dataclass(frozen=True)
class Behind:
    """`topic_ids`: of the topic at the other sites. A partition that `own` does not name came while this site was
    active: all of it is its own."""

    topic_ids: tuple[str, ...]
    own: tuple[Own, ...]

    def is_own(self, partition: int, offset: int) -> bool:
        """Whether the site's producers wrote there."""
        named = any(own.partition == partition for own in self.own)
        return not named or any(own.has(partition, offset) for own in self.own)

    def has(self, partition: int, offset: int, values: Sequence[bytes | None]) -> bool:
        """Whether the record is such a copy. `values`: of its headers `tidegate-source`."""
        if not self.is_own(partition, offset):
            return False
        try:
            copy = coordinate_of(values)
        except ValueError:
            return False  # no copier wrote it
        return copy is not None and copy.topic_id in self.topic_ids
