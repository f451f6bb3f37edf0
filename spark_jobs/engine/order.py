"""Rows that wait, brought into the order of their places."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.write import Place, Run

ENOUGH_ROWS = 2_000
"""A place with fewer rows is small: a row group costs as much as some hundred rows."""


class Order:
    """Overflow partitions first, then places with many rows before those with few, each place by piece and arrival.

    `numbers` and `pieces` are chunks of int32, a null number is a row that nobody wants; `targets` has the place of
    each number. Small places are in the order of their numbers: the same one in each flush."""

    def __init__(self, numbers: list[pa.Array], pieces: list[pa.Array], targets: Sequence[Place]) -> None:
        number, piece = pa.concat_arrays(numbers), pa.concat_arrays(pieces)
        rows: dict[Place, int] = {}
        first: dict[Place, int] = {}
        found = []
        for one in pc.value_counts(number).to_pylist():
            if one["values"] is not None:
                found.append(one["values"])
                place = targets[one["values"]]
                rows[place] = rows.get(place, 0) + one["counts"]
                first[place] = min(one["values"], first.get(place, one["values"]))
        places = sorted(rows, key=lambda p: (not p.overflow, -rows[p] if rows[p] >= ENOUGH_ROWS else 0, first[p]))
        rank = {place: i for i, place in enumerate(places)}
        ranks: list[int | None] = [None] * (max(found, default=-1) + 1)
        for n in found:
            ranks[n] = rank[targets[n]]
        self._base = (pc.max(piece).as_py() or 0) + 1
        code = pc.add(pc.multiply(pa.array(ranks, pa.int64()).take(number), self._base), piece)
        order = pc.sort_indices(code)  # stable; nobody's rows come last
        self.spans = [(place, rows[place]) for place in places]
        self.rows = order.slice(0, sum(rows.values()))
        self._code = code.take(self.rows)

    def runs(self, partitions: Sequence[int], offsets: pa.Array) -> list[list[Run]]:
        """Of each span. `partitions`: the Kafka partition of each piece; `offsets` are those of `rows`."""
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
