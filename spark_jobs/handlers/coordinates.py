"""One bit for every offset that a slab's batches read: set when a row of it is met, so that a second one shows.

Memory: a bit for each offset, and one batch of rows. Whatever order and however scattered the rows are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

KEPT = 100
"""Wrong offsets that are remembered for each Kafka partition; all are counted."""
SHOWN = 3


class Coverage:
    """Batches `[first, last]`; `offsets`: how many they read, about."""

    def __init__(self, first: int, last: int, offsets: int) -> None:
        self._first, self._last = first, last
        self._seen = np.zeros(offsets // 8 + 1024, np.uint8)
        self._used = 0  # bytes
        self._spans: list[tuple[int, int, int, int, int]] = []  # batch, partition, start, end, first byte
        self._index: _Index | None = None
        self._rows = 0
        self._excess: dict[int, _Wrong] = {}
        self._strays: dict[int, _Wrong] = {}

    def expect(self, spans: Sequence[Sequence[Any]]) -> None:
        """`[batch, partition, start, end, [[gap start, gap end], ...]]`. A batch may have several of one partition,
        which do not overlap. A redrive's sources stand under its id with a minus: see tidegate.core.audit.coverage."""
        for batch, partition, start, end, gaps in spans:
            size = -(-(end - start) // 8)
            if self._used + size > len(self._seen):
                self._seen = np.concatenate([self._seen, np.zeros(max(size, len(self._seen) // 2), np.uint8)])
            base = self._used
            self._spans.append((batch, partition, start, end, base))
            self._used += size
            self._fill(base * 8 + end - start, (base + size) * 8)  # what is left of the last byte
            for low, high in gaps:  # a row here is one too many
                self._fill(base * 8 + low - start, base * 8 + high - start)
        self._index = None

    def _fill(self, low: int, high: int) -> None:
        while low < high and low % 8:
            self._seen[low // 8] |= 1 << low % 8
            low += 1
        self._seen[low // 8 : high // 8] = 255
        for at in range(max(low, high - high % 8), high):
            self._seen[at // 8] |= 1 << at % 8

    def add(self, path: str, partitions: np.ndarray, offsets: np.ndarray, batches: np.ndarray) -> None:
        """Rows of a file, of all batches."""
        mine = (np.abs(batches) >= self._first) & (np.abs(batches) <= self._last)
        if not mine.all():
            partitions, offsets, batches = partitions[mine], offsets[mine], batches[mine]
        if not len(offsets):
            return
        self._rows += int(np.count_nonzero(batches >= 0))
        if self._index is None:
            self._index = _Index(self._spans)
        at, inside = self._index.find(batches, partitions, offsets)
        if not inside.all():
            self._outside(path, partitions[~inside], offsets[~inside], batches[~inside])
            at, partitions, offsets = at[inside], partitions[inside], offsets[inside]
        if not len(at):
            return
        order = None
        if np.any(at[1:] <= at[:-1]):
            order = np.argsort(at, kind="stable")
            at = at[order]
        twice = np.zeros(len(at), bool)
        twice[1:] = at[1:] == at[:-1]
        where, bits = at >> 3, np.left_shift(1, at & 7).astype(np.uint8)
        twice |= (self._seen[where] & bits) != 0
        starts = np.flatnonzero(np.diff(where, prepend=-1))
        self._seen[where[starts]] |= np.bitwise_or.reduceat(bits, starts)
        if twice.any():
            wrong = np.flatnonzero(twice)
            wrong = wrong if order is None else order[wrong]
            self._too_many(path, partitions[wrong], offsets[wrong])

    def _outside(self, path: str, partitions: np.ndarray, offsets: np.ndarray, batches: np.ndarray) -> None:
        assert self._index is not None
        known = np.isin(batches, self._index.batches)
        self._too_many(path, partitions[known], offsets[known])
        for batch in np.unique(batches[~known]).tolist():
            of_it = batches == batch
            wrong = self._strays.setdefault(batch, _Wrong())
            wrong.add(path, int(partitions[of_it][0]), offsets[of_it])

    def _too_many(self, path: str, partitions: np.ndarray, offsets: np.ndarray) -> None:
        for partition in np.unique(partitions).tolist():
            wrong = self._excess.setdefault(partition, _Wrong())
            wrong.add(path, partition, offsets[partitions == partition])

    def told(self) -> dict[str, Any]:
        """The findings, when every file has been read."""
        return {
            "rows": self._rows,
            "missing": list(self._missing()),
            "excess": [[p, w.rows, w.intervals(), w.files] for p, w in sorted(self._excess.items())],
            "strays": [[b, w.rows, w.partition, w.offsets[0], w.files[0]] for b, w in sorted(self._strays.items())],
        }

    def _missing(self) -> Iterator[list[Any]]:
        """`[batch, partition, rows, the first intervals]` of every batch and partition that lacks any."""
        for (batch, partition), spans in itertools.groupby(sorted(self._spans), key=lambda span: span[:2]):
            rows, first = 0, []
            for _, _, start, end, base in spans:
                part = self._seen[base : base + -(-(end - start) // 8)]
                seen = int.from_bytes(part.tobytes(), "little")  # numpy 1, which Airflow may pin, cannot count bits
                absent = len(part) * 8 - seen.bit_count()
                rows += absent
                if absent and len(first) <= SHOWN:
                    first += _holes(part, start)
            if rows:
                yield [batch, partition, rows, first[: SHOWN + 1]]


class _Index:
    """From (batch, partition, offset) to a bit's number."""

    def __init__(self, spans: Sequence[tuple[int, int, int, int, int]]) -> None:
        table = np.array(sorted(spans) or [(2**30, 0, 0, 0, 0)], np.int64)
        self._keys, self._first, self._count = np.unique(
            table[:, 0] << 32 | table[:, 1], return_index=True, return_counts=True
        )
        self._starts, self._ends, self._bits = table[:, 2], table[:, 3], table[:, 4] * 8
        self.batches = np.unique(table[:, 0])

    def find(self, batches: np.ndarray, partitions: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(bit of each row, whether its batch read that offset)."""
        keys = batches << 32 | partitions
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        known, i = self._keys[at] == keys, self._first[at]
        for one in np.unique(at[self._count[at] > 1]).tolist():  # keys with several spans: redrives
            first, mine = self._first[one], at == one
            starts = self._starts[first : first + self._count[one]]
            i[mine] = first + np.maximum(np.searchsorted(starts, offsets[mine], "right") - 1, 0)
        inside = known & (offsets >= self._starts[i]) & (offsets < self._ends[i])
        return self._bits[i] + offsets - self._starts[i], inside


class _Wrong:
    """Offsets that should not be: all counted, the first ones kept."""

    def __init__(self) -> None:
        self.rows, self.partition = 0, 0
        self.offsets: list[int] = []
        self.files: list[str] = []

    def add(self, path: str, partition: int, offsets: np.ndarray) -> None:
        self.rows += len(offsets)
        self.partition = self.partition if self.offsets else partition
        self.offsets += offsets[: max(0, KEPT - len(self.offsets))].tolist()
        if path not in self.files and len(self.files) <= SHOWN:
            self.files.append(path)

    def intervals(self) -> list[list[int]]:
        found: list[list[int]] = []
        for offset in sorted(set(self.offsets)):
            if found and found[-1][1] == offset:
                found[-1][1] = offset + 1
            else:
                found.append([offset, offset + 1])
        return found


def _holes(part: np.ndarray, start: int) -> list[list[int]]:
    """The first intervals of zero bits, and one more if there are more; bounded work however long the span is."""
    found: list[list[int]] = []
    with_holes = np.flatnonzero(part != 255)
    for at in with_holes[: 64 * (SHOWN + 1)].tolist():
        for bit in range(8):
            if part[at] >> bit & 1:
                continue
            offset = start + at * 8 + bit
            if found and found[-1][1] == offset:
                found[-1][1] = offset + 1
            elif len(found) > SHOWN:
                return found
            else:
                found.append([offset, offset + 1])
    return found
