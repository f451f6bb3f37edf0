"""Runs of batches with a bounded number of offsets: what an audit looks at in one pass over the files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SLAB_OFFSETS = 2**28
"""32 MiB at a bit each."""
SCATTERED = 1_024
"""What a row of a redrive weighs, in offsets: each may be a span of its own, of some 100 bytes instead of a bit."""
UNBOUNDED = 2**31 - 1


@dataclass(frozen=True)
class Slab:
    """Batches with ids `[first, last]`; the first slab reaches down to 0, the last one up to UNBOUNDED."""

    first: int
    last: int
    offsets: int

    def __contains__(self, batch_id: int) -> bool:
        return self.first <= batch_id <= self.last


def slabs(sizes: Iterable[tuple[int, int]], limit: int = SLAB_OFFSETS) -> list[Slab]:
    """Cut (batch id, offsets), in order, into runs of at most `limit` offsets, or of one batch that has more."""
    cut: list[Slab] = []
    first = last = held = 0
    for batch_id, offsets in sizes:
        if held and held + offsets > limit:
            cut.append(Slab(first, last, held))
            first, held = last + 1, 0
        held += offsets
        last = batch_id
    return [*cut, Slab(first, UNBOUNDED, held)]
