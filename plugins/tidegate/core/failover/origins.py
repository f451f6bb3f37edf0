"""At a third site: which copies are of records that came to the site before as copies, behind its mark (F3).

There nobody reads them: what they are of has landed, or is read where it was written. Their copies look like all
others. Only the copier that replaced their header can say it, or the log of the site before.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from tidegate.core.source.behind import Behind
from tidegate.core.source.coordinates import Coordinate


class Origins:
    """Of a partition of the site before. `behind`: what is a copy there, behind its mark."""

    def __init__(self, partition: int, behind: Behind) -> None:
        self._partition, self._behind = partition, behind
        self._seen, self._copies = array("q"), set[int]()

    def see(self, offset: int, values: Sequence[bytes | None]) -> None:
        """The next record of the log itself, in order, with its headers `tidegate-source`."""
        self._seen.append(offset)
        if self._behind.has(self._partition, offset, values):
            self._copies.add(offset)

    def was_copy(self, copy: Coordinate) -> bool | None:
        """Whether the record that was copied is such a copy; None: nothing tells."""
        if not self._behind.is_own(self._partition, copy.offset):
            return False
        if copy.of is not None:
            return copy.of in self._behind.topic_ids
        at = bisect_left(self._seen, copy.offset)
        return copy.offset in self._copies if self._seen[at : at + 1] == array("q", [copy.offset]) else None
