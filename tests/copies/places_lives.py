"""Lives of a copied mirror whose connector loses its place (S12): the log is purged while it is down, its place is
forgotten, another one takes over. What the table tells has to be so whenever it tells it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.copies.lives import KEYS
from tests.copies.wide_lives import WideLife

FIRST = 1 << 40


class PlaceLife(WideLife):
    """Nothing changes without an event. `had`: the source's rows, by the place of its log since which it had them."""

    often = (
        *("change",) * 6,
        *("deliver",) * 6,
        *("apply",) * 6,
        *("read",) * 4,
        *("again", "part", "back", "recut", "compare", "fix"),
        *("purge", "purge", "purge", "forget", "another"),
    )

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.tombstones = ""
        self.names = 0
        self.had = {0: dict(self.source.rows)}
        self.counts: Counter[str] = Counter()

    def change(self) -> None:
        key, word = self.rng.randrange(KEYS), f"w{self.rng.randrange(10**6)}"
        self.now += 1
        self.source.set(key, None if key in self.source.rows and self.rng.random() < 0.4 else word)
        self.had[self.source.end] = dict(self.source.rows)

    def _wants(self, buckets: int) -> None:
        super()._wants(buckets)
        self._named()

    def _named(self) -> None:
        copy = self.world.pipeline.copy
        assert copy is not None
        name = f"connector {getattr(self, 'names', 0)}"
        self.world.pipeline = replace(
            self.world.pipeline, copy=replace(copy, connect_conn_id="connect", connector=name)
        )

    # ------------------------------------------------------------ what befalls the connector

    def purge(self) -> None:
        """It is down, and the log is purged up to some place: it goes on if its own is there."""
        for _ in range(self.rng.randrange(4)):
            self.change()
        self.source.begin = self.rng.choice([end for end in self.had if end >= self.source.begin])
        if self.rng.random() < 0.5:
            self._looked()
        if self.world.delivered < self.source.begin:
            self._begins_at_the_end()

    def forget(self) -> None:
        """Its place is gone, and it begins once that was seen, at the log's end."""
        self.world.delivered = None  # type: ignore[assignment]
        try:
            self._looked()
        finally:
            self._begins_at_the_end()

    def another(self) -> None:
        self.names += 1
        self._named()
        self._begins_at_the_end()

    def _looked(self) -> None:
        dies, self.dies = self.dies, None
        self.apply()
        if self.rng.random() < 0.3:
            self.world.again()
        self.dies = dies

    def _begins_at_the_end(self) -> None:
        for _ in range(self.rng.randrange(3)):
            self.change()
        self.counts["left out"] += len(self.source.log) - self.world.sent
        self.world.sent, self.world.delivered = len(self.source.log), self.source.end
        self.resent_from = self.world.sent

    # ------------------------------------------------------------ what must hold

    def compare(self, fix: str = "") -> None:
        """What the connector has left out differs, too."""
        self.silent = dict.fromkeys(range(KEYS), 0)
        super().compare(fix)

    def apply(self) -> None:
        super().apply()
        self.told()

    def told(self) -> None:
        """Nothing is older than the place that is told, and if it is exact nothing is newer."""
        found = self.world.standing().copied.complete
        if found is None:
            return
        at = found.position[0] - FIRST
        rows, since = self.world.rows(), max(end for end in self.had if end <= at)
        for key in range(KEYS):
            may = {had.get(key) for end, had in self.had.items() if end >= since}
            assert rows.get(key) in may, f"told {at}: key {key} is {rows.get(key)}, it was {may}"
        if found.exact:
            assert rows == self.had[since], f"told exactly {at}"
        self.counts["told"] += 1
        self.counts["told after a loss"] += bool(self.counts["left out"]) and at == self.source.end

    def end(self) -> None:
        dies, self.dies = self.dies, None
        self.silent = dict.fromkeys(range(KEYS), self.now) if self.counts["left out"] else {}
        super().end()
        self.had[self.source.end] = dict(self.source.rows)
        self._note_delivered()
        for _ in range(2):
            self.apply()
        found = self.world.standing().copied.complete
        assert found is not None
        assert found.position[0] - FIRST == self.source.end, "it goes on"
        self.dies = dies
