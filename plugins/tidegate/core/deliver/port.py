"""The port to a further system: the rows of a published generation become what stands for their window there.

What a change ends with is one of three: done (it returns), refused (DeliveryRefused: nothing has changed that a reader
meets), or unknown (DeliveryUnsure: it may be executed, now or later). Unknown is answered by the next try, under an
epoch of its own, which looks first. A system that refuses the user raises DeliveryDenied: windows stay due. All of it
runs in a process that has the worker's libraries, started by the control plane (`spark_jobs/handlers/deliver.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.files.merge import Source
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import Token

WINDOW_COLUMN = ("_window", "timestamp")
"""The first column of each table there: the window's start. What stands for a window are the rows that have it."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table there. `pipeline` and `delivery` are whose it is. `columns`: (name, Hive type), `_window` first, then
    columns that partition the pipeline's own table, then all others: the order of each batch. All but `_window` may be
    null. `options`: keys that only this kind of delivery has, and their values as text. `spec`: the pipeline as it is,
    for a system that takes files as they are. `side`: late | dirty where batches of that table come instead of
    windows; `name` is that of the windows' table then, too."""

    pipeline: str
    delivery: str
    name: str
    columns: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...] = ()
    spec: Pipeline | None = None
    side: str = ""

    @property
    def partitions(self) -> tuple[str, ...]:
        """The columns by which an hour is divided here: the first ones after `_window`."""
        return () if self.spec is None else self.spec.dynamic_partitions


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try to send one generation. `token.unit` is the window's start (UTC ms), `token.epoch` the delivery's own
    epoch of that window: (generation, epoch) only rises from one compare-and-set to the next. `nonce`: hex, drawn for
    this try. `rows`: what the manifest says."""

    token: Token
    nonce: str
    rows: int

    @property
    def staging(self) -> str:
        """The part of a staging's name that is this try's alone (D1): `[0-9a-f_]`, sorted by window."""
        t = self.token
        return f"{t.unit}_{t.generation}_{t.epoch}_{self.nonce}"


@dataclass(frozen=True, kw_only=True)
class Content:
    """What rows are, however they are ordered: how many, and the sum of their hashes modulo 2**64."""

    rows: int
    checksum: int


NOTHING = Content(rows=0, checksum=0)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A partition of a window by the columns `Table.partitions`: its rows in the generation's files, and those that
    readers there meet. Both checksums are of one kind, which need not be the one of `Standing`."""

    values: PartitionValues
    here: Content
    there: Content


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What readers there meet of a window, read back. `token`: of the try it came by, where the system keeps it and
    knows that these are its rows still. `behind`: copies there that do not show it (yet), in words, which the system
    itself brings on. `lacking`: why it does not count as delivered yet, though all of it was sent: fewer copies than
    were asked for show it."""

    content: Content
    token: Token | None = None
    behind: tuple[str, ...] = ()
    lacking: str = ""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A table is not there, or is a new one. `left`: None where nothing stands there; where only a part of it is
    missing, (start in UTC ms, rows) of each window of which the rest has rows."""

    left: tuple[tuple[int, int], ...] | None = None


Tries = Mapping[int, tuple[int, int]]
"""(generation, epoch) of the try by which each window came, by the window's start (UTC ms)."""


class Rows(Protocol):
    """The generation's rows, read from its files by its manifest, in bounded memory; or the files as they are."""

    def batches(self) -> Iterator[Any]:
        """Record batches (pyarrow) with the table's columns in their order, of the Arrow types of their Hive types
        (timestamps: microseconds, UTC). Each call reads the files anew. Raises JobError for a file that is not the
        manifest's; what was sent by then must not be shown."""
        ...

    @property
    def files(self) -> tuple[Source, ...]:
        """The manifest's files."""
        ...

    def opened(self, file: Source) -> BinaryIO:
        """The bytes of a file. Raises JobError where it is missing."""
        ...

    def prove(self, file: Source, copy: BinaryIO) -> None:
        """Read the rows of a copy. Raises JobError unless number and checksum are the manifest's."""
        ...

    def count(self, path: str, copy: BinaryIO) -> int:
        """Rows of a file that is in no manifest, by its name's format. Raises JobError where it cannot be read."""
        ...


Checksum = Callable[[Any], int]
"""Sum of the hashes of a record batch's rows modulo 2**64, over all its columns by position, whatever they are called.
The same values of the same Arrow types give the same hashes. A system computes it of what it sends, in the form in
which it can read that back, and of what it has read back."""
Holds = Callable[[], bool]
"""Asks the ledger whether the try is still wanted: its row is SENDING with its generation, epoch and nonce, and no
newer generation is in force (D5)."""
Needed = Callable[[set[str]], set[str]]
"""Of these stagings (`Attempt.staging`), those that a try may still use. Asked after they were listed, so that a try
which began later is not among them."""


class FurtherSystem(Protocol):
    """One table there, by one connection. Raises DeliveryRefused (`retry` says whether another try may succeed without
    a person) and DeliveryUnsure."""

    def missing(self) -> Missing | None:
        """What of the table is missing, for sure; None: nothing. It is asked before `prepare`, and changes nothing."""
        ...

    def prepare(self) -> list[str]:
        """Create the table, or add columns that it lacks, nullable; looks first. What was done, in words.

        Raises DeliveryRefused for a table that is another's, or whose columns do not take ours."""
        ...

    def tries(self) -> Tries | None:
        """Of all windows of which something stands there, by what was committed together with their rows; None: the
        system keeps no such thing. Asked after `prepare`, at each run's beginning: one question, however many."""
        ...

    def send(self, attempt: Attempt, rows: Rows, holds: Holds) -> Standing:
        """Let the generation stand for its window and nothing else of it, and read that back (D7).

        `holds` is asked after the look and after the staging exists, right before the first change that a reader meets
        (D5); False raises LostComparison, and nothing may be shown. An older token that comes late is refused or
        without effect. A second time for the same content ends at the same standing."""
        ...

    def standing(self, window_ms: int) -> Standing:
        """What stands for the window, counted and summed from its rows (D7, D8); a missing window has zero rows."""
        ...

    def parts(self, window_ms: int, rows: Rows) -> tuple[Part, ...]:
        """What stands for the window beside the rows that should, partition by partition: each that either side has.

        Asked for a window that differs as a whole. Raises JobError for a file here that is not its manifest's."""
        ...

    def sweep(self, needed: Needed) -> list[str]:
        """Remove stagings of this pipeline and delivery that no try needs; what was removed, in words. A staging is
        listed first, then asked about."""
        ...

    def close(self) -> None: ...
