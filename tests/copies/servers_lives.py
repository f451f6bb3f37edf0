"""Random lives of a mirror whose tables lie on two or three servers: tasks die, connectors lag, rows come and go
without an event, copies of one server, or of some of its keys, are begun again, servers are compared, while one may be
down, and old tombstones are purged.
What is told of each server is compared with what it had."""

from __future__ import annotations

import random
from pathlib import Path

from tests.copies.lives import Mortal
from tests.copies.servers import A, B, C, ServersWorld, spelled
from tests.fakes.source_table import position
from tests.hooks import Died
from tests.mirror.audits import deep
from tidegate.core.base.errors import LostComparison, NotReady
from tidegate.core.mirror.balance import imbalance
from tidegate.core.mirror.copied import Complete

KEYS = 12
SILENT = 3
"""Keys from there on change without events, too."""
TURNS = 30
OFTEN = [
    *("change",) * 6,
    *("deliver",) * 4,
    *("apply",) * 3,
    *("read",) * 5,
    "again",
    "part",
    "compare",
    "compare",
    "fix",
    "age",
    "age",
]
State = dict[int, str]


class Life(Mortal):
    """`seed` decides everything, of so `many` servers. `history`: of each, its rows since an end of its log and a
    time."""

    def __init__(self, folder: Path, seed: int, many: int = 2) -> None:
        self.rng = random.Random(seed)
        self.names = (A, B, C)[:many]
        rows = self.rng.choice((1, 2, 5))
        kept = self.rng.choice(("", ", tombstones: 2d"))
        yaml = spelled(self.names)
        yaml = yaml.replace("chunk_rows: 3", f"chunk_rows: {rows}").replace("buckets: 3", f"buckets: 3{kept}")
        self.world = ServersWorld(folder, yaml, self.names, wrap=self._wrap)
        self.history: dict[str, list[tuple[int, int, State]]] = {}
        self.told = self.compared = self.purges = 0
        for name, server in self.world.source_tables.items():
            server.rows = {k: f"old {k}" for k in self.rng.sample(range(KEYS), self.rng.randrange(KEYS))}
            server.during = lambda name=name: self.change(name) if self.rng.random() < 0.3 else None
            self.history[name] = [(server.end, 0, dict(server.rows))]
        if self.rng.random() < 0.6:  # else its first copies are read while all else goes on
            for name in self.names:
                self.last_word(name, SILENT)
            self._settled()

    def change(self, name: str = "") -> None:
        """A transaction of a server; now and then one that no event tells."""
        name = name or self.rng.choice(self.names)
        server, key = self.world.source_tables[name], self.rng.randrange(KEYS)
        self.world.clock.advance(1)
        if key < SILENT and self.rng.random() < 0.5:
            server.rows.pop(key, None)
        else:
            server.set(key, None if self.rng.random() < 0.3 else f"w{self.rng.randrange(10**6)}")
        self.history[name].append((server.end, self.world.clock.now_ms(), dict(server.rows)))

    def last_word(self, name: str, key: int) -> None:
        """An event."""
        server = self.world.source_tables[name]
        server.set(key, "the last word")
        self.history[name].append((server.end, self.world.clock.now_ms(), dict(server.rows)))

    def turn(self) -> None:
        what = self.rng.choice(OFTEN)
        if what not in ("change", "deliver") and self.rng.random() < 0.3:
            self.dies = self._death()
        try:
            getattr(self, what)()
        except (Died, LostComparison, NotReady):
            pass
        finally:
            self.dies = None
            if what == "apply" and self.world.loaded() is not None:
                self.sound()
            self.world.close()

    def deliver(self) -> None:
        """Some connectors, some of them late."""
        names = self.rng.sample(self.names, self.rng.randrange(1, len(self.names) + 1))
        self.world.deliver(*names, most=self.rng.randrange(1, 9))

    def apply(self) -> None:
        self.world.apply()

    def read(self) -> None:
        """One that is down holds up no other."""
        self.world.down = {self.rng.choice(self.names)} if self.rng.random() < 0.2 else set()
        found = self.world.read(go_on=lambda: self.rng.random() < 0.5)
        assert all(one.error is not None for name, one in found.items() if name in self.world.down)

    def again(self) -> None:
        self.world.again(self.rng.choice(self.names))

    def part(self) -> None:
        """Some keys of a server are read again."""
        self.world.again(self.rng.choice(self.names), keys=self._some_keys())

    def compare(self, fix: str = "") -> None:
        """What differs for certain has changed without an event."""
        whole = {name for name in self.names if self._is_whole(name)}
        self.world.down = {self.rng.choice(self.names)} if self.rng.random() < 0.2 else set()
        found = self.world.compared(fix, self._some_keys() if self.rng.random() < 0.5 else None)
        assert found.keys() == set(self.names)
        for name, one in found.items():
            assert one.unanswered or name not in self.world.down
            self.compared += not one.unanswered
            known = [int(sample.key.rpartition("=")[2]) for sample in one.samples]
            assert not one.exact or name not in whole or all(key < SILENT for key in known), one

    def fix(self) -> None:
        self.compare("by hand")

    def _some_keys(self) -> tuple[str, str]:
        first = self.rng.randrange(KEYS)
        return str(first), str(first + self.rng.randrange(6))

    def _is_whole(self, name: str) -> bool:
        return self.world.loaded() is not None and self.world.standing().copied.whole_of(name) is not None

    def age(self) -> None:
        """All is delivered, days pass, and an event of each server comes: what was deleted before is old enough to be
        purged."""
        dies, self.dies = self.dies, None
        while self.world.deliver() is not None:
            pass
        self.world.clock.advance(5 * 86_400_000)
        for name in self.names:
            self.last_word(name, self.rng.randrange(SILENT, KEYS))
        self.world.deliver()
        self.dies = dies
        before = 0 if self.world.loaded() is None else self.world.standing().purged
        self.world.apply()
        self.purges += self.world.standing().purged > before

    def sound(self) -> None:
        """The sums; that readers see all or nothing; and what is told of each server."""
        standing = self.world.standing()
        assert imbalance(standing) is None
        seen = self.world.found()
        assert not seen or standing.copied.whole is not None, "readers see a part of the servers"
        if standing.copied.complete is not None:
            self.told += 1
            self._none_older(seen, standing.copied.complete)

    def _none_older(self, seen: dict[tuple[str, int], str], told: Complete) -> None:
        """Each row is as of some moment since what was told of its server, and since the time."""
        for name, at in told.servers:
            history = self.history[name]
            by_log = max((n for n, (end, _, _) in enumerate(history) if position(end) <= at), default=0)
            by_time = max((n for n, (_, ms, _) in enumerate(history) if ms < (told.at_ms or 0)), default=0)
            for key in range(SILENT, KEYS):
                may = {state.get(key) for _, _, state in history[max(by_log, by_time) :]}
                assert seen.get((name, key)) in may, f"{name}, key {key}: {seen.get((name, key))}, told {told}"

    def end(self) -> None:
        """All is delivered, read and merged; once more by a copy of each server."""
        self.world.clock.advance(2 * 86_400_000)  # a comparison that died holds nothing up any more
        self.world.down = set()
        for name, server in self.world.source_tables.items():
            server.during = lambda: None
            self.last_word(name, 0)
        self._settled()
        known = {k: v for k, v in self.world.source.items() if k[1] >= SILENT}
        assert {k: v for k, v in self.world.found().items() if k[1] >= SILENT} == known
        for name in reversed(self.names):
            self.world.again(name)
            self._settled()
        assert self.world.found() == self.world.source
        assert {name: one.differ for name, one in self.world.compared().items()} == {name: {} for name in self.names}
        self.sound()
        assert self.told
        assert deep(self.world).problems == ()

    def _settled(self) -> None:
        while self.world.deliver() is not None:
            pass
        for _ in range(4):  # a chunk may have to be read again, and one server is read after the other
            self.world.apply()
            self.world.read()
        self.world.apply()


def live(folder: Path, seed: int, many: int = 2) -> Life:
    """A life from its beginning to its end."""
    life = Life(folder, seed, many)
    for _ in range(TURNS):
        life.turn()
    life.end()
    return life
