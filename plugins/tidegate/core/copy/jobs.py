"""What a job that reads chunks is told (`core.batch.jobs.CopyPlan`), and what it reports of each."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.copy.port import KeyRange, LogPosition, SourceTable
from tidegate.core.copy.rounds import ChunkFile


@dataclass(frozen=True)
class ChunkPlan:
    """A chunk's attempt: its files and its receipt go to `attempt_dir` (a URI). `batch_id`: what its rows have for a
    batch, below 0. `table`: which of the plan's it is of."""

    number: int
    batch_id: int
    attempt: str
    attempt_dir: str
    keys: KeyRange
    table: int = 0


@dataclass(frozen=True)
class CopiedColumn:
    """A column of the files, and the source's column that it is taken from. `type`: a Hive type."""

    name: str
    of: str
    type: str


@dataclass(frozen=True)
class CopiedTable:
    """A table that is read. `columns`: those of the pipeline that it has; `said`: (column, value) of those that tell
    which table a row is of (S11)."""

    table: SourceTable
    columns: tuple[CopiedColumn, ...]
    said: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ChunkReceipt:
    """`_receipt.json` of a chunk's attempt: written last. `low`, `high`: S2."""

    attempt: str
    low: LogPosition
    high: LogPosition
    files: tuple[ChunkFile, ...]
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(f.rows for f in self.files)
