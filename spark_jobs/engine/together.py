"""Small chunks of several ranges, decoded and routed as one: a thousand partitions cost like a few."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.engine.tally import Tally
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.source.records import Chunk

ENOUGH_RECORDS, ENOUGH_BYTES = 8_192, 8 * 1024 * 1024
"""Chunks of one part wait until together they have so much."""


@dataclass(frozen=True)
class Span:
    """Records from one piece, by its index among the task's pieces: `count` from `start` on."""

    piece: int
    range: OffsetRange
    tally: Tally
    start: int
    count: int


class Together:
    """Chunks that wait. All of them go by the same rules."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._spans: list[Span] = []
        self._records = self._bytes = 0

    def add(self, piece: int, wanted: OffsetRange, tally: Tally, chunk: Chunk) -> None:
        self._spans.append(Span(piece, wanted, tally, self._records, len(chunk)))
        self._chunks.append(chunk)
        self._records += len(chunk)
        if self._records < ENOUGH_RECORDS:  # few enough to look at each
            self._bytes += chunk.bytes

    @property
    def enough(self) -> bool:
        return self._records >= ENOUGH_RECORDS or self._bytes >= ENOUGH_BYTES

    def take(self) -> tuple[Chunk, Spans] | None:
        """Everything that waits; None if nothing does."""
        if not self._chunks:
            return None
        found = _joined(self._chunks), Spans(self._spans)
        self.__init__()  # type: ignore[misc]
        return found


class Spans:
    """Spans of a chunk's records by their piece; in order, without holes."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._starts = [s.start for s in spans]

    def __iter__(self) -> itertools.chain[Span]:
        return itertools.chain(self._spans)

    def of(self, row: int) -> Span:
        return self._spans[bisect_right(self._starts, row) - 1]

    def pieces(self) -> pa.Array:
        """The piece of each record."""
        if len(self._spans) == 1:
            return pa.repeat(pa.scalar(self._spans[0].piece, pa.int32()), self._spans[0].count)
        return pa.array(itertools.chain(*([s.piece] * s.count for s in self._spans)), pa.int32())


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    headers = None
    if any(c.headers is not None for c in chunks):
        headers = list(itertools.chain(*(c.headers or [None] * len(c) for c in chunks)))
    copies = None
    if any(c.copies is not None for c in chunks):
        copies = list(itertools.chain(*(c.copies or [False] * len(c) for c in chunks)))
    return Chunk(
        list(itertools.chain(*(c.offsets for c in chunks))),
        list(itertools.chain(*(c.timestamps for c in chunks))),
        list(itertools.chain(*(c.keys for c in chunks))),
        list(itertools.chain(*(c.values for c in chunks))),
        headers,
        copies=copies,
    )
