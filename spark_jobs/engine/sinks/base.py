"""What a file format has to do: write rows to a stream, and tell at the end how many it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Encoding:
    """Columns worth a dictionary, and those whose statistics readers use."""

    dictionary: list[str]
    statistics: list[str]


class Writer(Protocol):
    """One file that is being written. It never closes its stream."""

    def write(self, rows: pa.Table) -> None:
        """Append rows of the schema that the file was opened with."""

    def close(self, labels: Mapping[str, str]) -> int | None:
        """Finish the file. `labels` go into its footer where the format has room for them.

        Returns how many rows the footer says that there are; None where there is no footer."""


class FileFormat(Protocol):
    """A value of `sink.format`."""

    def extension(self, codec: str) -> str:
        """End of a file's name, with its dot. `codec` is a value of `sink.compression`."""

    def open(self, stream: BinaryIO, schema: pa.Schema, encoding: Encoding, codec: str) -> Writer:
        """Begin a file in `stream`, which is empty."""
