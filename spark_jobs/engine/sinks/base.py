"""File formats: each writes rows to a stream, and gives back what a finished file holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from tidegate.core.target.stored import Bounds

NANOSECONDS_END_MS = 2**63 // 1_000_000 - 1
"""The last time, in the year 2262, that can be counted in nanoseconds since 1970 as pyarrow reads some files."""


class Unreadable(ValueError):
    """A file is what was written, and holds a value that only other readers can read."""


@dataclass(frozen=True)
class Encoding:
    """Columns worth a dictionary, those whose statistics readers use, and those too small for a compressor to help."""

    dictionary: list[str]
    statistics: list[str]
    small: tuple[str, ...] = ()


class Writer(Protocol):
    """One file that is being written. It never closes its stream."""

    bounds: Bounds | None = None
    """Of a closed file, where its kind of table keeps them."""

    def write(self, rows: pa.Table) -> None:
        """Append rows of the schema that the file was opened with."""

    def size(self) -> int:
        """Bytes that the file would have if it ended here, about."""

    def held(self) -> int:
        """Bytes of memory that closing this file would free, about."""

    def close(self, labels: Mapping[str, str]) -> int | None:
        """Finish the file. `labels` go into its footer where the format has room for them.

        Returns how many rows the footer says that there are; None where there is no footer."""


class Joiner(Writer, Protocol):
    """A file that other files become part of."""

    def takes(self, content: bytes) -> bool:
        """Append a whole finished file as it is. False if it is of another kind than this one: nothing was done."""
        return False


class Finished(Protocol):
    """A file that somebody has finished, open for reading."""

    labels: Mapping[str, str]
    """What was given to `Writer.close`; empty where the format has no room for it."""

    rows: int | None
    """None where only reading them all tells."""

    schema: pa.Schema
    """Timestamps are TIMESTAMP, whatever the format makes of them."""

    def groups(self) -> int:
        """Parts that can be read one by one, at least one unless there are no rows."""

    def spans(self, group: int) -> Mapping[str, tuple[Any, Any]]:
        """Smallest and largest value of a group's columns, of those that are known without reading them."""

    def group(self, group: int, columns: Sequence[str]) -> pa.Table: ...

    def batches(self, size: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in order, in batches of about `size` rows."""


class FileFormat(Protocol):
    """A value of `sink.format`. Unless it says otherwise, it keeps any value, and joins files row by row."""

    def extension(self, codec: str) -> str:
        """End of a file's name, with its dot. `codec` is a value of `sink.compression`."""

    def open(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> Writer:
        """Begin a file in `stream`, which is empty."""

    def join(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> Joiner:
        """The same, for a file that is made of others."""

    def worth_taking(self, size: int, file: Finished) -> bool:
        """Whether a finished file of so many bytes had better be taken as it is than written again."""
        return False

    def read(self, stream: BinaryIO, name: str, schema: pa.Schema | None) -> Finished:
        """`schema` is what the file was written with, for formats that do not say it. Raises for a spoilt file."""

    def unfit(self, rows: pa.Table) -> dict[int, tuple[str, str]]:
        """Rows with a value that the format cannot keep: their indices, each with the field and the reason."""
        return {}

    def stamp(self, ms: int) -> int | None:
        """Kafka's timestamp, which may be -1 for none, as files can keep it."""
        return ms
