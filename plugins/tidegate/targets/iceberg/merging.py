"""Which manifests a commit merges, so that a look opens few of them, a list names few, and no commit rewrites many.

Neighbours in the order of their units are merged, so a unit stays in few manifests whatever was merged before. A run of
neighbours is chosen by what it costs for each manifest that it saves: small ones come first, and big ones wait until
there are enough of them, as in a log-structured merge tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MOST_ENTRIES = 2_000
"""A merge makes no manifest of more files: so a commit reads and writes no more than these for it."""
MOST_MERGED = 64
"""And it opens no more manifests."""
SLACK = 50
"""Manifests beyond the fewest that merges could come to, for which none is begun."""


def chosen(sizes: Sequence[int]) -> range:
    """The run of manifests to merge into one; empty if none is due. `sizes`: how many files each has, in the units'
    order.

    As long as each commit brings one manifest and merges what this says, there are never more than `fewest` of them,
    SLACK and one: then two neighbours fit into one manifest."""
    if len(sizes) <= fewest(sizes) + SLACK:
        return range(0)
    return min(_runs(sizes), key=lambda run: run[0], default=(0.0, range(0)))[1]


def fewest(sizes: Sequence[int]) -> int:
    """How many manifests there are at least, if only neighbours are merged, and none beyond MOST_ENTRIES: at most one
    more than twice their files by MOST_ENTRIES, as two neighbours have more than one manifest could."""
    made, room = 0, -1
    for size in sizes:
        room -= size
        if room < 0:
            made, room = made + 1, MOST_ENTRIES - size
    return made


def _runs(sizes: Sequence[int]) -> Iterator[tuple[float, range]]:
    """Each run that may be merged, and how many files it rewrites for each manifest that it saves."""
    for first, total in enumerate(sizes):
        for last in range(first + 1, min(len(sizes), first + MOST_MERGED)):
            total += sizes[last]
            if total > MOST_ENTRIES:
                break
            yield total / (last - first), range(first, last + 1)
