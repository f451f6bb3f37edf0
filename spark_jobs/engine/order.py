"""Rows that wait, brought into the order of their places: which go to the files now, and which go on waiting."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.write import Place, Run

ENOUGH_ROWS = 2_000
"""A place with fewer rows may wait for another flush: a row group costs as much as some hundred rows."""
WAITING_SHARE = 4
"""At most one row in so many goes on waiting, for each is copied once more."""


class Order:
    """Overflow partitions first, then places with many rows before those with few, each place by piece and arrival.

    `numbers` and `pieces` are chunks of int32, a null number is a row that nobody wants; `targets` has the place of
    each number. `waits`: the last ones may go on waiting."""

    def __init__(self, numbers: list[pa.Array], pieces: list[pa.Array], targets: Sequence[Place], waits: bool) -> None:
        number, piece = pa.concat_arrays(numbers), pa.concat_arrays(pieces)
        rows: dict[Place, int] = {}
        found = []
        for one in pc.value_counts(number).to_pylist():
            if one["values"] is not None:
                found.append(one["values"])
                place = targets[one["values"]]
                rows[place] = rows.get(place, 0) + one["counts"]
        places = sorted(rows, key=lambda p: (not p.overflow, -rows[p]))
        rank = {place: i for i, place in enumerate(places)}
        ranks: list[int | None] = [None] * (max(found, default=-1) + 1)
        for n in found:
            ranks[n] = rank[targets[n]]
        self._base = (pc.max(piece).as_py() or 0) + 1
        code = pc.add(pc.multiply(pa.array(ranks, pa.int64()).take(number), self._base), piece)
        order = pc.sort_indices(code)  # stable; nobody's rows come last
        self.spans = [(place, rows[place]) for place in places]
        waiting = self._cut(sum(rows.values())) if waits else 0
        written = sum(count for _, count in self.spans)
        self.written, self.waiting = order.slice(0, written), order.slice(written, waiting)
        self._code = code.take(self.written)

    def _cut(self, rows: int) -> int:
        """Take places with few rows off the end; how many rows these are."""
        waiting = 0
        while self.spans:
            place, count = self.spans[-1]
            if place.overflow or count >= ENOUGH_ROWS or (waiting + count) * WAITING_SHARE > rows:
                break
            waiting += count
            self.spans.pop()
        return waiting

    def runs(self, partitions: Sequence[int], offsets: pa.Array) -> list[list[Run]]:
        """Of each span. `partitions`: the Kafka partition of each piece; `offsets` are those of the rows written."""
        encoded = pc.run_end_encode(self._code)
        ends = encoded.run_ends.to_pylist()
        starts = [0, *ends[:-1]]
        # within a piece rows keep their order of arrival, which is that of their offsets
        first = offsets.take(pa.array(starts, pa.int64())).to_pylist()
        last = offsets.take(pa.array([e - 1 for e in ends], pa.int64())).to_pylist()
        codes = encoded.values.to_pylist()
        found: list[list[Run]] = [[] for _ in self.spans]
        for code, start, end, low, high in zip(codes, starts, ends, first, last, strict=True):
            rank, piece = divmod(code, self._base)
            found[rank].append(Run(piece, partitions[piece], end - start, low, high))
        return found
