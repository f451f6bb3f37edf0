"""Lives of a copied mirror that is also cut into other buckets, purged, compared and put right, as `lives` has them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.copies.lives import KEYS, OFTEN, TURNS, Life
from tests.copies.test_compare import compared
from tests.copies.worlds import COPYING
from tests.fakes.source_table import place
from tests.mirror.worlds import mirror
from tidegate.core.mirror.recut import refusal
from tidegate.workflow.copy import narrow

DAY_MS = 86_400_000
BUCKETS = (1, 2, 3, 6, 12)


class WideLife(Life):
    """`resent_from`: events before it are older than what the connector may send again, by the promise of a purge."""

    often = (*OFTEN, "recut", "recut", "age", "age", "compare", "compare", "fix", "some_keys")

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.yaml = COPYING.replace("chunk_rows: 3", f"chunk_rows: {self.rng.choice((1, 2, 5))}")
        self.tombstones = self.rng.choice(("", ", tombstones: 2d"))
        self.resent_from = self.purges = 0
        self._wants(3)
        self.world.connector = lambda: place(self.source, self.world.delivered)

    def _wants(self, buckets: int) -> None:
        self.buckets = buckets
        yaml = self.yaml.replace("buckets: 3", f"buckets: {buckets}{self.tombstones}")
        self.world.pipeline = mirror(self.world.folder, yaml)

    def _standing(self) -> Any:
        return None if self.world.loaded() is None else self.world.standing()

    def _note_delivered(self) -> None:
        if self.world.sent == len(self.source.log):
            self.world.delivered = self.source.end
        elif self.world.sent:
            newest = json.loads(self.source.log[self.world.sent - 1][1])["source"]["pos"]
            self.world.delivered = max(self.world.delivered, newest)

    def deliver(self) -> None:
        if self.rng.random() < 0.2:
            self.world.sent = max(self.resent_from, self.world.sent - self.rng.randrange(4))
        dies, self.dies = self.dies, None
        self.world.deliver(self.rng.randrange(1, 9))
        self.dies = dies
        self._note_delivered()

    def recut(self) -> None:
        """Somebody wants another number of buckets."""
        standing = self._standing()
        now = standing.buckets if standing is not None and standing.buckets else self.buckets
        self._wants(self.rng.choice([n for n in BUCKETS if refusal(now, n) is None]))
        self.apply()

    def age(self) -> None:
        """All is delivered, days pass, and one more event comes: what was deleted before is old enough to be purged."""
        dies, self.dies = self.dies, None
        while self.world.sent < len(self.source.log):
            self.world.deliver()
        self.resent_from = self.world.sent
        self.world.clock.advance(5 * DAY_MS)
        key = self.rng.randrange(KEYS)
        self.now += 1
        self.silent.pop(key, None)
        self.source.set(key, f"after days {self.now}")
        self.world.deliver()
        self._note_delivered()
        self.dies = dies
        before = self._standing()
        self.world.apply()
        self.purges += before is not None and self.world.standing().purged > before.purged

    def compare(self, fix: str = "") -> None:
        """What differs for certain has changed without an event."""
        standing = self._standing()
        whole = standing is not None and standing.copied.whole is not None
        found = compared(self.world, fix)
        self._note_delivered()
        assert not (found.exact and whole) or sum(found.differ.values()) <= len(self.silent), found

    def fix(self) -> None:
        self.compare("by hand")

    def some_keys(self) -> None:
        first = self.rng.randrange(KEYS)
        compared(self.world, self.rng.choice(("", "by hand")), (str(first), str(first + self.rng.randrange(8))))
        self._note_delivered()

    def end(self) -> None:
        self.world.clock.advance(2 * DAY_MS)  # a comparison that died holds nothing up any more
        super().end()
        assert compared(self.world).differ == {}


def live(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch, kind: type[WideLife] = WideLife) -> WideLife:
    """A life from its beginning to its end."""
    monkeypatch.setattr(narrow, "ROWS", random.Random(seed).choice((1, 3, 1_000)))
    life = kind(folder, seed)
    for _ in range(TURNS):
        life.turn()
    life.end()
    return life
