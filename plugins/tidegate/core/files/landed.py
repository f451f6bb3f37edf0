"""Landed files of a window, and what batches still owe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.files.receipt import FileEntry

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class OwedSpan:
    """What one batch owes a window from one Kafka partition: offsets inclusive, as found in the batch's manifest."""

    batch_id: int
    partition: int
    rows: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True)
class LandedFile:
    """A data file of a landed batch on its way to its window."""

    batch_id: int
    entry: FileEntry
