"""Random lives of a mirror that is copied while its source changes: tasks die, rows come and go without an event, the
table is taken back or dropped. In the end it is what the source has, but for rows that have changed without an event
since the newest whole copy began; and after one more copy, whatever has happened."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.copies.worlds import COPYING, CopyWorld
from tests.hooks import Died, Hook, Once, die
from tests.mirror.audits import deep, dropped
from tidegate.core.base.errors import LostComparison, NotReady
from tidegate.core.mirror.balance import imbalance
from tidegate.core.mirror.parts import holds
from tidegate.workflow.apply.taking_back import take_back
from tidegate.workflow.clean.duties import clean

KEYS = 24
TURNS = 40
OFTEN = [
    *("change",) * 6,
    *("deliver",) * 3,
    *("apply",) * 3,
    *("read",) * 4,
    *("again", "part", "part", "back", "drop", "clean"),
]
CALLS = {
    "copies": ("begin", "cut", "attempt", "accept", "whole", "again", "give_up", "forget"),
    "applies": ("begin", "applied", "stands"),
    "iceberg": ("commit",),
    "storage": ("write_new", "delete"),
    "launcher": ("run",),
}
"""Where a process may end, before or after the call."""


class Mortal:
    """A life whose tasks die at random `calls`. `dies`: port, method, before or after it, at which call; or None."""

    calls: Mapping[str, Sequence[str]] = CALLS
    rng: random.Random
    dies: tuple[str, str, bool, int] | None = None

    def _wrap(self, name: str, port: object) -> object:
        if self.dies is None or self.dies[0] != name:
            return port
        _, method, before, at = self.dies
        once = Once(die, at)
        return Hook(port, before={method: once}) if before else Hook(port, after={method: once})

    def _death(self) -> tuple[str, str, bool, int]:
        port = self.rng.choice(list(self.calls))
        return port, self.rng.choice(self.calls[port]), self.rng.random() < 0.5, self.rng.randrange(1, 4)


class Life(Mortal):
    """`seed` decides everything. `silent`: keys whose newest change has no event, with its time; `begun`: when rounds
    began, by number. Times are numbers of changes. `often`: what a turn may be."""

    often: Sequence[str] = OFTEN

    def __init__(self, folder: Path, seed: int, idle: bool = False) -> None:
        self.rng = random.Random(seed)
        rows = self.rng.choice((1, 2, 5))
        self.world = CopyWorld(folder, COPYING.replace("chunk_rows: 3", f"chunk_rows: {rows}"), wrap=self._wrap)
        self.source = self.world.source_table
        self.source.rows = {k: f"old {k}" for k in self.rng.sample(range(KEYS), self.rng.randrange(KEYS))}
        self.source.during = self._meanwhile
        self.trail: list[str] = []
        self.silent: dict[int, int] = {}
        self.begun: dict[int, int] = {}
        self.now = self.before = 0

    def _meanwhile(self) -> None:
        if self.rng.random() < 0.3:
            self.change()

    def change(self) -> None:
        """A transaction of the source; now and then one that no event tells."""
        key, word = self.rng.randrange(KEYS), f"w{self.rng.randrange(10**6)}"
        there = key in self.source.rows
        self.now += 1
        if self.rng.random() < 0.15:
            self.silent[key] = self.now
            if there and self.rng.random() < 0.5:
                self.source.lose(key)
            else:
                self.source.sneak(key, word)
            return
        self.silent.pop(key, None)
        self.source.set(key, None if there and self.rng.random() < 0.4 else word)

    def turn(self) -> None:
        what = self.rng.choice(self.often)
        self.dies = self._death() if self.rng.random() < 0.4 else None
        self.trail.append(f"{what} {self.dies or ''}")
        self.before = self.now
        try:
            getattr(self, what)()
        except (Died, LostComparison, NotReady):
            pass
        finally:
            self.dies = None
            self._note_rounds()
            self.world.close()

    def _note_rounds(self) -> None:
        for one in self.world.context().ledger.copies.rounds(self.world.pipeline.name):
            self.begun.setdefault(one.number, self.before)

    def deliver(self) -> None:
        if self.rng.random() < 0.2:
            self.world.sent = max(0, self.world.sent - self.rng.randrange(4))  # the connector sends some again
        dies, self.dies = self.dies, None  # how batches land is others' matter
        self.world.deliver(self.rng.randrange(1, 9))
        self.dies = dies

    def apply(self) -> None:
        self.world.apply()
        self.sound()

    def read(self) -> None:
        left = [self.rng.randrange(3)]

        def go_on() -> bool:
            left[0] -= 1
            return left[0] >= 0

        self.world.read(go_on=go_on)

    def again(self) -> None:
        self.world.again()

    def part(self) -> None:
        """Some keys are read again."""
        first = self.rng.randrange(KEYS)
        self.world.again(keys=(str(first), str(first + self.rng.randrange(8))))

    def back(self) -> None:
        """Somebody takes the table back to an earlier snapshot."""
        loaded = self.world.loaded()
        if loaded is None or not loaded.metadata.snapshots:
            return
        to = self.rng.choice(loaded.metadata.snapshots).snapshot_id
        take_back(self.world.context(), str(to), "test")

    def drop(self) -> None:
        """Somebody drops the table: it is made anew."""
        if self.rng.random() < 0.3 and self.world.loaded() is not None:
            dropped(self.world)

    def clean(self) -> None:
        """Two days later."""
        self.world.clock.advance(2 * 86_400_000)
        clean(self.world.context())

    def sound(self) -> None:
        assert imbalance(self.world.standing()) is None

    def end(self) -> None:
        """All is delivered, read and merged."""
        self.source.during = lambda: None
        self.source.set(0, "the last word")
        while self.world.sent < len(self.source.log):
            self.world.deliver()
        for _ in range(3):  # a chunk may have to be read again
            self.world.apply()
            self.world.read()
        self.world.apply()
        whole = self.world.standing().copied.whole
        assert whole is not None
        known = {k for k in range(KEYS) if self.silent.get(k, -1) <= self._read_since(k)}
        seen, there = self.world.rows(), self.source.rows
        assert {k: v for k, v in seen.items() if k in known} == {k: v for k, v in there.items() if k in known}
        self.sound()
        self.world.again()
        self.world.read()
        self.world.apply()
        assert self.world.rows() == self.source.rows
        self.sound()
        assert deep(self.world).problems == ()

    def _read_since(self, key: int) -> int:
        """When the newest round began that has read the key and is whole."""
        rounds = [r for r in self.world.standing().copied.rounds if r.swept]
        return max(self.begun.get(r.number, self.now) for r in rounds if r.part is None or holds(r.part, {"id": key}))


def live(folder: Path, seed: int) -> Life:
    """A life from its beginning to its end."""
    life = Life(folder, seed)
    for _ in range(TURNS):
        life.turn()
    life.end()
    return life
