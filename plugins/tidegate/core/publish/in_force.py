"""The files of a window for readers by path: those that the ledger has in force, with their partitions' values."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tidegate.core.base.partition_values import PartitionValues, parse_partition_path, partition_path
from tidegate.core.files.receipt import FileEntry
from tidegate.core.target.paths import join
from tidegate.core.window.states import SWAPPING, BuiltGeneration, PublishedGeneration, WindowKey


@dataclass(frozen=True)
class TableFile:
    """`path` is a URI as Hive has it: what looks like an escape (`site=a%2Fb`) is part of the name. `values` are those
    of all partition columns, in the table's order; None is Hive's default partition."""

    path: str
    values: PartitionValues
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class WindowFiles:
    """What a reader by path reads of a window: `files` are all of its rows, each once.

    `why` is empty, or says why they are not to be read now: the window is not published, or its files are being moved.
    `kind`: that of the generation, or late. `swapping`: the generation that is about to replace this one."""

    window: WindowKey
    partition: str
    generation: int | None = None
    kind: str = ""
    location: str | None = None
    certificate: str | None = None
    digest: str | None = None
    published_ms: int | None = None
    files: tuple[TableFile, ...] = ()
    swapping: int | None = None
    why: str = ""

    @property
    def paths(self) -> list[str]:
        return [f.path for f in self.files]

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.files)

    @property
    def bytes(self) -> int:
        return sum(f.bytes for f in self.files)

    def by_values(self) -> dict[PartitionValues, list[str]]:
        """Paths by their partition's values, which are in no file."""
        found: dict[PartitionValues, list[str]] = defaultdict(list)
        for f in self.files:
            found[f.values].append(f.path)
        return dict(found)


def table_file(base: str, below: str, time: PartitionValues, f: FileEntry) -> TableFile:
    """Values as a query of the table gives them: an empty string is Hive's default partition too."""
    dynamic = parse_partition_path(partition_path(f.values))
    return TableFile(join(base, below), time + dynamic, f.rows, f.bytes)


def moved_by(current: PublishedGeneration, newest: BuiltGeneration | None) -> bool:
    """Whether the files of the generation in force may be on their way to another place (`archive.swap: directory`)."""
    return newest is not None and newest.state == SWAPPING and newest.location == current.location
