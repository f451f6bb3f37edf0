"""Deliveries `PENDING -> SENDING(epoch, nonce) -> STANDING(token)`: what stands of a window in a further system.

A window of which the ledger has no row, and one whose row is of an older generation than the one in force, are due.
Of a delivery of late or dirty rows the unit is a batch, and its version is what is called its generation here (D9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.base.choice import Choice
from tidegate.core.base.fields import read_as
from tidegate.core.deliver import units
from tidegate.core.deliver.places import Place
from tidegate.core.deliver.port import Attempt, Content, Tries
from tidegate.core.files.receipt import FileEntry
from tidegate.core.target.port import Token


class DeliveryState(Choice):
    """PENDING: somebody wants it sent again. SENDING: a try was begun, and nobody has said that it stands. STANDING: it
    was read back. REFUSED: the system or a file said no to this generation, and no retry helps: a person decides.
    SKIPPED: a person said that this generation is not to be sent."""

    PENDING = "PENDING"
    SENDING = "SENDING"
    STANDING = "STANDING"
    REFUSED = "REFUSED"
    SKIPPED = "SKIPPED"


PENDING, SENDING, STANDING, REFUSED, SKIPPED = DeliveryState
WANTED = (PENDING, SENDING)
"""A row in these states is due."""


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """A window's row. `generation`, `digest`, `epoch` and `nonce` are of the newest try. `since_ms`: when the state
    began (UTC). `why`: of PENDING, REFUSED and SKIPPED; of SENDING the last words of the try,
    if it had any.

    `stood`: the newest generation that was read back there, with its `content` and since when (UTC ms)."""

    pipeline: str
    name: str
    window_ms: int
    generation: int
    digest: str
    state: DeliveryState
    epoch: int
    nonce: str
    since_ms: int
    why: str = ""
    stood: int | None = None
    content: Content | None = None
    stood_ms: int | None = None

    @property
    def unit(self) -> str:
        """The window or batch in words."""
        return units.in_words(units.side_of(self.name), self.window_ms)

    @property
    def lacks(self) -> Content | None:
        """What the newest try has read back there, which does not count as delivered yet; None: it has not come so
        far."""
        came = self.state == SENDING and self.stood == self.generation and (self.stood_ms or 0) >= self.since_ms
        return self.content if came else None

    @property
    def token(self) -> Token:
        """Of the newest try."""
        return read_as(Token, self, unit=self.window_ms)

    def attempt(self, rows: int) -> Attempt:
        """The newest try. `rows`: of the generation's manifest."""
        return Attempt(token=self.token, nonce=self.nonce, rows=rows)


@dataclass(frozen=True)
class Version:
    """A batch's part of a side table as it is now (D9): the number of that version, its rows, and their manifest's
    digest."""

    number: int
    rows: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Due:
    """A window whose generation in force does not stand in a further system. `published_ms`: when that generation came
    into force (UTC). `row`: what the ledger has of it there; None: nothing yet. `side`: as `Delivery.side`."""

    window_ms: int
    generation: int
    published_ms: int
    row: Delivered | None = None
    side: str = ""

    @property
    def unit(self) -> str:
        """The window or batch in words."""
        return units.in_words(self.side, self.window_ms)

    @property
    def why(self) -> str:
        """What kept it from being there, in words; empty: nothing did."""
        return self.row.why if self.row is not None and self.row.state in WANTED else ""


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """How far a delivery is, by the ledger. `standing`: windows whose generation in force stands there. `due`: windows
    whose does not; `oldest`: the one of them that came into force first, `held_by` what it waits for (D11). `skipped`:
    windows that are left out. `refused`: windows that wait for a person; `refusal`: the oldest of them."""

    name: str
    standing: int = 0
    due: int = 0
    skipped: int = 0
    refused: int = 0
    refusal: Due | None = None
    oldest: Due | None = None
    newest_ms: int | None = None
    """Start of the newest window that stands there, or the newest batch."""
    held_by: tuple[tuple[str, int], ...] = ()

    @property
    def why(self) -> str:
        """What keeps the oldest from being there, in words; empty: nothing does."""
        return units.held_in_words(self.name, self.held_by) or (self.oldest.why if self.oldest is not None else "")

    @property
    def unit(self) -> str:
        """What is counted: window | batch."""
        return "batch" if units.side_of(self.name) else "window"


class DeliveryLedger(Protocol):
    """What stands in further systems. Each change is a compare-and-set that raises LostComparison."""

    def get(self, name: str, delivery: str, window_ms: int) -> Delivered | None: ...

    def within(self, name: str, delivery: str, first_ms: int, until_ms: int) -> Sequence[Delivered]:
        """Rows of windows that begin in `[first_ms, until_ms)`, oldest first."""
        ...

    def standing(self, name: str, delivery: str) -> Tries:
        """Of all windows that are STANDING."""
        ...

    def due(self, name: str, delivery: str, since_ms: int | None, limit: int) -> Sequence[Due]:
        """Windows that begin at `since_ms` or later and are due, oldest first. One that has a row, because somebody has
        named it, is due however old it is: a newer generation of it has to reach those who read the older one."""
        ...

    def in_force(self, name: str, delivery: str, first_ms: int, until_ms: int) -> Sequence[Due]:
        """Windows that begin in `[first_ms, until_ms)` and have a generation in force, due or not, oldest first."""
        ...

    def take(self, name: str, delivery: str, due: Due, digest: str, nonce: str, above: int = 0) -> Delivered:
        """Whatever state -> SENDING(epoch + 1), or the epoch after `above` if the system has seen higher ones (R11).

        Raises LostComparison unless `due.row` is still the row, and `due.generation` in force."""
        ...

    def holds(self, row: Delivered) -> bool:
        """Whether this try is still the row's, SENDING, and its generation in force (D5)."""
        ...

    def stands(self, row: Delivered, content: Content, place: str) -> Delivered:
        """SENDING -> STANDING, of this try, which has read it back at `place`. Raises LostComparison where the delivery
        goes elsewhere by now, too."""
        ...

    def failed(self, row: Delivered, why: str, content: Content | None = None) -> None:
        """Remember the try's last words, and what it has read back there if that alone does not count as delivered yet;
        nothing if it was overtaken."""
        ...

    def refuse(self, row: Delivered, why: str) -> None:
        """SENDING -> REFUSED, of this try; nothing if it was overtaken."""
        ...

    def again(self, row: Delivered, why: str) -> Delivered:
        """Whatever state but PENDING -> PENDING: no try under way may say any more that it stands."""
        ...

    def skip(self, name: str, delivery: str, due: Due, digest: str, why: str) -> Delivered:
        """Whatever state but STANDING -> SKIPPED, of this generation only: a later one is due again."""
        ...

    def goes_to(self, name: str, delivery: str) -> Place | None:
        """Where the delivery goes; None: it has never been sent, or by a release that did not ask."""
        ...

    def move(self, name: str, delivery: str, known: Place | None, place: str, why: str) -> int:
        """From now on it goes to `place`, and so do its side tables: what stands, or is under way, is PENDING by the
        same commit, so that no try to another place says any more that it stands. How many rows that are.

        The first place moves nothing. Raises LostComparison unless `known` is still what the ledger knows."""
        ...

    def needed(self, name: str, delivery: str, stagings: Iterable[str]) -> set[str]:
        """Of these stagings (`Attempt.staging`), those of tries that are SENDING."""
        ...

    def not_left(self, name: str, delivery: str, due: Due, sides: Iterable[str]) -> Sequence[tuple[str, int]]:
        """(side, batch) whose rows the generation holds now, and which do not stand there without them yet (D11).
        `sides`: side tables that the delivery sends."""
        ...

    def side_files(self, name: str, side: str, batch_id: int) -> tuple[int, Sequence[FileEntry]]:
        """A batch's version (0: none), and the files that its part of the side table has of it (D9)."""
        ...
