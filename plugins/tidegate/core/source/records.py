"""Records as a worker's reader gives them: exact ranges, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.core.base.offsets import OffsetRange

Headers = list[tuple[str | None, bytes | None]]
"""Names and values in their order. A header without name and value stands for headers that cannot be read."""


@dataclass(frozen=True)
class Chunk:
    """Records of one lane in order of offset, as columns. `timestamps` are epoch ms, UTC.

    `headers` (name and value pairs, in order; None for a record without) are there only if the format asks for them.
    `known_bytes`: what `bytes` is, if the reader has counted it. `copies`: of records that come from dirty files,
    whether each was dirty for being a copy from another site."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers | None] | None = None
    known_bytes: int | None = None
    copies: list[bool] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def bytes(self) -> int:
        """Length of keys and values."""
        return bytes_of(self.values) + bytes_of(self.keys) if self.known_bytes is None else self.known_bytes


def bytes_of(texts: list[bytes | None]) -> int:
    """Total length in bytes; null counts as zero."""
    return sum(map(len, filter(None, texts)))


class Reader:
    """Where a task gets its records from; implemented by a source. Fakes override `read`, and `topic_id` to be asked
    for it."""

    def topic_id(self) -> str | None:
        """The log's id as the source knows it now; None: not known, not checked, as without the trait `identity`."""
        return None

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        """Every record of the range, ascending; offsets without a record are left out. Raises JobError.

        Whatever happens to the source, a read ends."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of connections."""
