"""What tries leave at the other cluster, so that one which comes late does no harm: records, and intents (R8).

Hive compares nothing when it switches a partition, and executes some requests late. So, as in the pipeline's own
table: before each change a try writes an intent down, then asks the ledger; a definite answer removes it. A try begins
only after the ledger knows its epoch, and changes nothing while it sees another's intent that is younger than a request
may live: what it does not see yet will find, asking, that it has been overtaken.

A record says what a try is about to show. It is never changed; the newest one decides whether a try comes late.

    delivered/<window>/<generation>.<epoch>-<nonce>             a record
    delivered/<window>/<generation>.<epoch>-<nonce>.<n>.asked   an intent: until when its request may be executed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.base.clock import Clock
from tidegate.core.base.errors import DeliveryAhead, DeliveryRefused, LostComparison, PathMissing
from tidegate.core.base.instants import iso
from tidegate.core.base.plain import dumps, loads
from tidegate.core.deliver import units
from tidegate.core.deliver.port import Attempt, Holds
from tidegate.core.target.paths import join
from tidegate.core.target.port import Token
from tidegate.core.window.cut import is_number
from tidegate.core.window.states import BuiltGeneration, PublishedGeneration
from tidegate.targets.cluster.copying import Copied, Files

_ASKED = ".asked"
Order = tuple[int, int]
"""(generation, epoch): later tries have greater ones."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a try is about to show: the files at `place` (a URI), since when (UTC ms)."""

    token: Token
    nonce: str
    place: str
    since_ms: int
    files: tuple[Copied, ...]

    @property
    def order(self) -> Order:
        """By which records of a window are sorted."""
        return self.token.generation, self.token.epoch


def name_of(attempt: Attempt) -> str:
    """`<generation>.<epoch>-<nonce>`: of a try's record and of its place, below the window's name."""
    return f"{attempt.token.generation}.{attempt.token.epoch}-{attempt.nonce}"


def order_of(name: str) -> Order | None:
    """The order that `name_of` put into a name; None for any other name."""
    numbers, dash, _ = name.partition("-")
    generation, dot, epoch = numbers.partition(".")
    if not (dash and dot and is_number(generation) and is_number(epoch)):
        return None
    return int(generation), int(epoch)


class Tries:
    """Records and intents below `workdir`. `side`: as `Delivery.side`. Raises StorageError."""

    def __init__(self, storage: Files, workdir: str, clock: Clock, request_ttl_ms: int, side: str = "") -> None:
        self._storage, self._workdir, self._clock, self._ttl_ms = storage, workdir, clock, request_ttl_ms
        self.side = side

    def words(self, unit: int) -> str:
        """The window or batch."""
        return units.in_words(self.side, unit)

    @property
    def are_none(self) -> bool:
        """Whether no try has ever shown anything."""
        return not self._storage.list_names(join(self._workdir, "delivered"))

    def records(self, window_ms: int) -> list[Record]:
        """Those of a window, newest first."""
        found = []
        for name in self._names(window_ms):
            if not name.endswith(_ASKED) and order_of(name) is not None:
                try:
                    found.append(loads(Record, self._storage.read(join(self._folder(window_ms), name))))
                except PathMissing:  # swept meanwhile: it was not the newest
                    continue
        return sorted(found, key=lambda record: record.order, reverse=True)

    def refuse_late(self, attempt: Attempt) -> None:
        """Raises DeliveryAhead where a later try has left a record."""
        mine = attempt.token.generation, attempt.token.epoch
        newest = max(filter(None, map(order_of, self._names(attempt.token.unit))), default=(0, 0))
        if newest >= mine:
            come = f"generation {newest[0]}, try {newest[1]}, has come"
            raise DeliveryAhead(
                f"{self.words(attempt.token.unit)}: {come}: this is generation {mine[0]}, try {mine[1]}",
                generation=newest[0],
                epoch=newest[1],
            )

    def wait_for_none(self, window_ms: int) -> None:
        """Raises DeliveryRefused while a request of another try may be executed."""
        folder = self._folder(window_ms)
        for name in self._names(window_ms):
            if not name.endswith(_ASKED):
                continue
            try:
                deadline_ms = int(self._storage.read(join(folder, name)))
            except PathMissing:  # answered meanwhile
                continue
            if deadline_ms > self._clock.now_ms():
                raise DeliveryRefused(
                    f"{self.words(window_ms)}: a request of an earlier try got no answer, and may be executed until "
                    f"{iso(deadline_ms)}",
                    advice="it goes on by itself then",
                )
            self._storage.delete(join(folder, name))

    def begin(self, record: Record, name: str) -> None:
        """Write the record down, before the first change."""
        self._storage.write_new(join(self._folder(record.token.unit), name), dumps(record).encode())

    def ask(self, window_ms: int, name: str) -> str:
        """Write an intent down; its path."""
        path = join(self._folder(window_ms), f"{name}{_ASKED}")
        self._storage.write_new(path, str(self._clock.now_ms() + self._ttl_ms).encode())
        return path

    def answered(self, intent: str) -> None:
        """Its request has a definite answer, or was never sent."""
        self._storage.delete(intent)

    def forget(self, window_ms: int, older_than: Order) -> None:
        """Delete records that a later one has made needless."""
        for name in self._names(window_ms):
            order = order_of(name)
            if order is not None and order < older_than and not name.endswith(_ASKED):
                self._storage.delete(join(self._folder(window_ms), name))

    def _folder(self, window_ms: int) -> str:
        return join(self._workdir, "delivered", units.id_of(self.side, window_ms))

    def _names(self, window_ms: int) -> Sequence[str]:
        return self._storage.list_names(self._folder(window_ms)) or []


class TryFence:
    """Implements `core.target.port.Intents` of a try: intents at the other cluster, and the ledger asked after each."""

    def __init__(self, tries: Tries, name: str, generation: PublishedGeneration, holds: Holds) -> None:
        self.generation: BuiltGeneration | PublishedGeneration = generation
        self._tries, self._name, self._holds = tries, name, holds
        self._asked = 0

    def declare(self, location: str) -> str:
        """Raises LostComparison where the try has been overtaken; nothing was sent then (D5)."""
        self._asked += 1
        intent = self._tries.ask(self.generation.window.start_ms, f"{self._name}.{self._asked}")
        if not self._holds():
            self._tries.answered(intent)
            unit = self._tries.words(self.generation.window.start_ms)
            raise LostComparison(f"{unit}: a later try or generation has taken over")
        return intent

    def answer(self, call_id: str) -> None:
        """The change has a definite answer."""
        self._tries.answered(call_id)
