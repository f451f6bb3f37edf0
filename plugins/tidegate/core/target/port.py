"""The port to tables: how windows and batches reach their readers, whatever kind of table it is.

What a change of a table ends with is one of three: done, refused (CatalogueError: nothing has changed), or unknown
(CatalogueUnsure: it may still be executed). Every step can be made again and comes to the same end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from tidegate.core.base.clock import Clock
from tidegate.core.base.fields import read_as
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.base.storage import Storage
from tidegate.core.files.receipt import FileEntry
from tidegate.core.spec.pipeline import Fields, Pipeline
from tidegate.core.window.states import BuiltGeneration, Moved, PublishedGeneration, WindowKey

if TYPE_CHECKING:
    from tidegate.core.mirror.jobs import Bucket, Daily, TableColumn
    from tidegate.core.target.prefix import Merged, Prefix


class Unit(Enum):
    """What is published at once, and replaced at once."""

    WINDOW = "window"
    BATCH = "batch"
    PREFIX = "prefix"
    """Batches 1 to a last one, all that have landed up to it."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """What a publication is known by, everywhere. `unit`: a window's start (UTC ms), or a batch."""

    pipeline: str
    unit: int
    generation: int
    epoch: int
    digest: str

    @classmethod
    def of(cls, generation: BuiltGeneration | PublishedGeneration) -> Token:
        """Of a window's generation."""
        return read_as(cls, generation, unit=generation.window.start_ms, generation=generation.number)


class Site(Protocol):
    """What a target works with."""

    pipeline: Pipeline
    storage: Storage
    clock: Clock
    request_ttl_ms: int
    """How long a request without an answer may still be executed."""

    @property
    def say(self) -> Callable[[str], None]:
        """Takes a line for the task's log."""
        ...

    def landed_fields(self) -> Fields:
        """How files that have landed call their columns, where files have to say ids. Raises LedgerError."""
        ...


class Intents(Protocol):
    """Requests of a generation's that may be executed late (R8). Raises LostComparison when it has been overtaken."""

    generation: BuiltGeneration | PublishedGeneration
    """As the ledger has it now."""

    def declare(self, location: str) -> str:
        """The call id of a change about to be made (R8). Raises CatalogueUnsure while another one may be executed."""
        ...

    def answer(self, call_id: str) -> None:
        """That change has a definite answer."""
        ...


class Fence(Intents, Protocol):
    """The ledger's side of a publication: what a target asks and tells it, so that a task that comes late does no harm.

    Methods raise LostComparison when the generation has been overtaken."""

    def still_mine(self) -> bool:
        """Whether no other task has taken a step: asked before any alarm (R10)."""
        ...

    def refuse_if_ahead(self) -> None:
        """Raises StorageAhead where storage has a record of a generation that the ledger does not know (R11, C8)."""
        ...

    def show(self, location: str) -> None:
        """Record SWAPPING to `location` (R12); before it no reader may meet the generation. Done if it is recorded."""
        ...

    def occupant(self, location: str) -> PublishedGeneration | None:
        """The generation before this one that the ledger knows at `location`."""
        ...

    def block(self, reason: str) -> None:
        """An alarm: a person must look at the window."""
        ...

    def published(self, start_ms: int, end_ms: int) -> dict[int, int]:
        """Rows of windows that begin in `[start_ms, end_ms)` and have a generation in force, by their start."""
        ...

    def reason(self) -> str:
        """Why the window is complete, by its certificate, in words; empty without one."""
        ...


@dataclass(frozen=True)
class Intent:
    """What `Fence.declare` wrote down: a change that may still be executed until `deadline_ms` (R8)."""

    call_id: str
    window: WindowKey
    location: str
    deadline_ms: int


@dataclass(frozen=True)
class Verified:
    """`mended`: what was put right in place; `lost_files`: what only a rebuild can bring back."""

    mended: tuple[str, ...]
    lost_files: tuple[str, ...]


BATCH = "_batch"
"""What a batch's part of a side table is named by, before anything else."""

Shown = dict[PartitionValues, str]
"""What readers are shown: (column, value) pairs of each part of the table, and where its rows are.

Those of a window begin with `Target.values`; those of a batch with `BATCH` and its number, then as the window's if
a batch has rows of several."""


Batches = Mapping[int, Iterable[FileEntry]]
"""Batches, and files of theirs."""


class Target(Protocol):
    """The table of a pipeline: its unit is a window. Raises CatalogueError or CatalogueUnsure."""

    unit: Unit
    marks: tuple[str, ...]
    """Files that it writes beside a generation's, for readers by path."""

    @property
    def daily(self) -> Daily | None:
        """How each window follows from the one before; None where it does not."""
        ...

    def beside(self, location: str) -> dict[str, int]:
        """Files that a generation has there beside those of its manifest, with their bytes; -1 of one without which the
        others are unknown. Raises StorageError."""
        ...

    @property
    def name(self) -> str: ...

    def session(self) -> AbstractContextManager[None]:
        """Inside, a call may use the connection of the one before."""
        ...

    def series(self) -> AbstractContextManager[None]:
        """A session in which many windows are published: a table that was right a moment ago is not compared again."""
        ...

    def prepare(self) -> None:
        """Create the table, or give it the pipeline's columns; looks first. Raises CatalogueMismatch."""
        ...

    def fields(self) -> Fields:
        """What its files have to call its fields; empty where they go by name. Raises CatalogueError."""
        ...

    def values(self, key: WindowKey) -> PartitionValues:
        """What the parts of the window are named by, in all that `expected` and `shown` tell."""
        ...

    def place(self, generation: BuiltGeneration) -> str:
        """Where the generation will lie for readers; the same for every try."""
        ...

    def home(self, key: WindowKey) -> str | None:
        """The place of the window's first generation; None if each generation has a directory of its own."""
        ...

    @property
    def reuses_home(self) -> bool:
        """Whether later generations come to the first one's place too: then a cleaner leaves it alone."""
        ...

    def publish(self, fence: Fence, location: str) -> Moved | None:
        """Bring the generation to `location` and show readers it and nothing else of its window.

        Returns where an older one lies now that made way. Raises Alarm, MovedOn, LostComparison."""
        ...

    def standing(self, key: WindowKey) -> list[str]:
        """Where readers of the window are sent."""
        ...

    def mend(self, fence: Fence) -> Verified:
        """Hold the generation in force against its manifest and put right what can be; idle on what is whole."""
        ...

    def refresh(self) -> None:
        """Tell other engines, as the spec says. Failures are said and change nothing."""
        ...

    def expected(self, key: WindowKey, files: tuple[FileEntry, ...], location: str) -> Shown:
        """What readers must be shown of the window with these files."""
        ...

    def shown(self) -> Shown:
        """What readers of the whole table are shown."""
        ...

    def agrees(self, expected: str, shown: str) -> bool:
        """Whether a part that is shown so is as it is expected."""
        ...

    def sweep(self, settled: Settled) -> list[str]:
        """Let go of what the table keeps for tasks that are done; what was done, in words. Deletes no file."""
        ...

    def leftovers(self, now_ms: int) -> list[str]:
        """Paths of files beside its data that nobody can need any more, now or later. Deletes none. Raises
        CatalogueError, StorageError."""
        ...

    def answers(self) -> bool:
        """Whether the table's system answers at all."""
        ...


Settled = Callable[[set[tuple[int, int]]], set[tuple[int, int]]]
"""Of these publications, (unit, generation), those that the ledger has as done: nobody looks for them any more."""
Holds = Callable[[], bool]
"""Asks the ledger whether a change of a side table is still wanted. A table that looks before it changes asks after the
look (C1), and raises LostComparison if it is not. Where a late request shows an empty place only, nobody has to ask."""


class SideTarget(Protocol):
    """A table beside it (late or dirty rows): its unit is a batch. Raises CatalogueError or CatalogueUnsure."""

    unit: Unit
    remedy: str
    """What a person does to have a landed batch shown again."""

    @property
    def name(self) -> str: ...

    def prepare(self) -> None: ...

    def fields(self) -> Fields: ...

    def publish(self, batches: Batches, holds: Holds) -> None:
        """Show these files, which never change their place. A second time changes nothing."""
        ...

    def retire(self, batches: Batches, holds: Holds) -> None:
        """Show these files no more. A second time changes nothing."""
        ...

    def agrees(self, expected: str, shown: str) -> bool: ...

    def sweep(self, settled: Settled) -> list[str]: ...

    def leftovers(self, now_ms: int) -> list[str]: ...

    def expected(self, batches: Batches) -> Shown:
        """What readers are shown of these files."""
        ...

    def shown(self) -> Shown:
        """What readers of the whole table are shown."""
        ...


class PrefixTarget(Protocol):
    """A keyed table: its unit is a prefix of batches. Raises CatalogueError or CatalogueUnsure."""

    unit: Unit

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> tuple[str, ...]:
        """Logical columns that name a row, in the order of their hash."""
        ...

    @property
    def buckets(self) -> int:
        """Number of parts that the table is to be cut into by the hash."""
        ...

    @property
    def tombstones_ms(self) -> int | None:
        """How long tombstones stay; None: for ever."""
        ...

    @property
    def suffix(self) -> str:
        """How the names of its data files end."""
        ...

    def named(self) -> frozenset[str]:
        """URIs of all files that any snapshot which it keeps names. Raises CatalogueError."""
        ...

    def prepare(self) -> None:
        """Create the table, or give it the pipeline's columns; looks first. Raises CatalogueMismatch."""
        ...

    def columns(self) -> tuple[TableColumn, ...]:
        """The table's columns, in order."""
        ...

    def fields(self) -> tuple[tuple[str, int], ...]:
        """(path, id) of its fields. Raises CatalogueError."""
        ...

    def standing(self) -> Prefix:
        """What readers see now. Raises CatalogueError for another's table, and one that does not tell."""
        ...

    def base(self) -> tuple[Prefix, tuple[Bucket, ...]]:
        """One snapshot: what it says of itself, and the files of each bucket that has any.

        Raises CatalogueError for a table whose rows others have changed, too."""
        ...

    def held(self) -> tuple[Prefix, tuple[Bucket, ...]]:
        """The same, also of a table whose rows others have changed. Raises CatalogueError."""
        ...

    def apply(self, before: Prefix, merged: Merged, holds: Holds) -> Prefix:
        """Commit a merge on the snapshot that it has read (M1, C1): its files, and `upto`, in one commit (M3).

        A second time, or after a lost answer, the table is looked at first: what stands is done. Raises
        LostComparison where the table is no longer `before`: the merge is to be made anew."""
        ...

    def at(self, to: str) -> Prefix:
        """What an earlier state says, by its name or id. Raises CatalogueMismatch for none, or one not whole."""
        ...

    def take_back(self, to: str, allow: Callable[[Prefix], object]) -> Prefix:
        """Make it the current one, by compare-and-set, unless `allow` raises; done if it is. Raises LostComparison."""
        ...

    def sweep(self, settled: Settled) -> list[str]: ...
    def leftovers(self, now_ms: int) -> list[str]: ...


class Targets(Protocol):
    """A pipeline's tables."""

    def data(self, site: Site) -> Target | PrefixTarget:
        """The pipeline's own table: `unit` says which of both."""
        ...

    def side(self, site: Site, kind: str) -> SideTarget:
        """`kind`: late | dirty."""
        ...
