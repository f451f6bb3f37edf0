"""Windows `OPEN -> CLOSING -> CLOSED` and their generations `BUILDING -> BUILT -> SWAPPING -> CURRENT -> RETIRED`.

A window that no batch has touched and nobody has closed has no row: that means OPEN.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.base.choice import Choice
from tidegate.core.files.receipt import FileEntry


class WindowState(Choice):
    OPEN = "OPEN"
    CLOSING = "CLOSING"
    CLOSED = "CLOSED"


class GenerationState(Choice):
    BUILDING = "BUILDING"
    BUILT = "BUILT"
    SWAPPING = "SWAPPING"
    CURRENT = "CURRENT"
    RETIRED = "RETIRED"
    DISCARDED = "DISCARDED"  # given up, or equal to the current one: never published


class GenerationKind(Choice):
    """Whose rows a generation holds."""

    ARCHIVE = "archive"  # those of the window's landed files
    HEAL = "heal"  # rebuilt where files were lost; a first one too, once it is BUILT
    REPLAY = "replay"  # rebuilt with today's columns
    REOPEN = "reopen"  # those in force, and late ones
    ROLLBACK = "rollback"  # those of an earlier one
    REREAD = "reread"  # those of another reading of a table without a log


OPEN, CLOSING, CLOSED = WindowState
BUILDING, BUILT, SWAPPING, CURRENT, RETIRED, DISCARDED = GenerationState
ARCHIVE, HEAL, REPLAY, REOPEN, ROLLBACK, REREAD = GenerationKind
FORGOTTEN = 0
"""`spec_version` of a generation that came back from a record which does not name the specs of its rows."""
QUIET_MS = 2 * 3_600_000
"""A job that builds a generation may be at work for so long: no other task begins one before."""


@dataclass(frozen=True, order=True)
class WindowKey:
    """`[start_ms, end_ms)` in UTC ms."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Window:
    """`closing_batch`: batches below this id may still owe the window rows; set from CLOSING on."""

    key: WindowKey
    state: WindowState
    closing_batch: int | None
    current: int | None  # generation number in force
    newest: int  # highest generation number ever begun, 0 if none


@dataclass(frozen=True, kw_only=True)
class _Generation:
    """`batches` are all whose rows it holds; those of `late` among them came late for the window and were taken up."""

    pipeline: str
    window: WindowKey
    number: int
    epoch: int
    kind: GenerationKind
    batches: tuple[int, ...]
    late: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BuildingGeneration(_Generation):
    """Being assembled by the task that holds `epoch`."""

    nonce: str
    state = BUILDING


@dataclass(frozen=True, kw_only=True)
class BuiltGeneration(_Generation):
    """Complete in `directory` (a URI), not yet in force; also SWAPPING and DISCARDED.

    Paths of `files` are relative to the directory. `location` is where it goes (a URI), pinned when the swap began.
    """

    directory: str
    files: tuple[FileEntry, ...]
    digest: str
    state: GenerationState = BUILT
    location: str | None = None


@dataclass(frozen=True, kw_only=True)
class PublishedGeneration(_Generation):
    """In force (CURRENT) or once in force (RETIRED); `location` is where it lies (a URI): what is CURRENT has the
    catalogue point there.

    `announced`: its `on_publish` statements have run and its dataset event is on its way.
    """

    location: str
    files: tuple[FileEntry, ...]
    digest: str
    published_ms: int
    state: GenerationState = CURRENT
    announced: bool = False
    epoch: int = 0  # of its assembly
    # of a replay or heal: by whose columns its rows are; None: one or several of the ledger's; else FORGOTTEN
    spec_version: int | None = None


Generation = BuildingGeneration | BuiltGeneration | PublishedGeneration


def rows_by_values(files: tuple[FileEntry, ...]) -> dict[tuple[tuple[str, str | None], ...], int]:
    """Rows of a generation for each combination of dynamic partition values."""
    rows: dict[tuple[tuple[str, str | None], ...], int] = {}
    for f in files:
        rows[f.values] = rows.get(f.values, 0) + f.rows
    return rows


@dataclass(frozen=True)
class Moved:
    """Generation `number` has left the directory that another takes, and lies at `place` (a URI)."""

    number: int
    place: str
