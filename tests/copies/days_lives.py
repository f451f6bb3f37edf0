"""A life of a mirror by days that is copied, by a seed: the source changes while it is read, events come late and
again, tasks die, copies are read again. No day that is published changes, none shows what the source never had, the
last one is what the source has; and the audit makes each anew from the events and rows that came.

python -m tests.copies.days_lives <first seed> <how many>
"""

from __future__ import annotations

import random
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.copies.days import COPYING, LAST, CopiedDays
from tests.hooks import Died, Hook, Once, die
from tests.mirror.audits import deep
from tests.mirror.lives import Wrong
from tidegate.core.base.errors import JobFailed, LostComparison, NotReady

KEYS, DAYS = 12, 4
CALLS = {
    "copies": ("begin", "cut", "attempt", "accept", "whole"),
    "windows": ("built", "begin_swap", "current"),
    "storage": ("write_new",),
    "launcher": ("run",),
}
"""Where a process may end, before or after the call."""
Values = dict[int, str | None]


@dataclass
class _Life:
    rng: random.Random
    world: CopiedDays
    now: int = 0
    published: int = 0
    ends: list[dict[int, str]] = field(default_factory=list)
    """What the source had at each day's end."""
    history: dict[int, list[str | None]] = field(default_factory=dict)
    """All values of each key, the oldest first."""
    shown: dict[int, Values] = field(default_factory=dict)

    def change(self) -> None:
        source, key = self.world.source_table, self.rng.randrange(KEYS)
        source.at_day = self.now + 0.1
        word = None if key in source.rows and self.rng.random() < 0.4 else f"w{source.end}"
        source.set(key, word)
        self.history.setdefault(key, [None]).append(word)

    def deliver(self) -> None:
        if self.rng.random() < 0.2:
            self.world.sent = max(0, self.world.sent - self.rng.randrange(4))
        self.world.deliver(self.rng.randrange(1, 6))

    def read(self) -> None:
        self.world.read(go_on=lambda: self.rng.random() < 0.5)

    def again(self) -> None:
        self.world.again()

    def end_the_day(self) -> None:
        if self.now + 1 == DAYS:
            return
        self.ends.append(dict(self.world.source_table.rows))
        self.now += 1

    def publish(self) -> None:
        if self.published == len(self.ends):
            return
        if self.rng.random() < 0.8:  # else its last events are late
            while self.world.sent < len(self.world.source_table.log):
                self.world.deliver()
        self.world.until(self.now + 1.5 if self.now + 1 == DAYS else self.published + 1.2)
        self.world.publish(self.published)
        self.shown[self.published] = self.world.told(self.published) or {}
        self.published += 1

    def replay(self) -> None:
        if self.published:
            self.world.replay_day(self.rng.randrange(self.published))

    def compare(self, after: str) -> None:
        for n, rows in self.shown.items():
            if self.world.told(n) != rows:
                raise Wrong(f"{after}: day {n} shows {self.world.told(n)}, it has shown {rows}")

    def end(self) -> None:
        """All is read and delivered; the last day is what the source has."""
        source = self.world.source_table
        source.during = lambda: None
        while self.world.sent < len(source.log):  # nothing is read before an event has come
            self.world.deliver()
        self.world.ingest("what a run that died has left")  # the next run ends an open batch, and takes nothing else
        for _ in range(3):
            self.world.read()
        while self.now + 1 < DAYS:
            self.end_the_day()
        self.ends.append(dict(source.rows))
        self.world.until(DAYS + 0.5)
        for n in range(self.published, DAYS):
            self.world.publish(n)
            self.shown[n] = self.world.told(n) or {}
        wanted = {key: word for key, word in self.ends[-1].items() if key != LAST}
        if self.shown[DAYS - 1] != wanted:
            raise Wrong(f"the last day shows {self.shown[DAYS - 1]}, the source has {wanted}")
        for n, rows in self.shown.items():
            for key in {*rows, *self.ends[n]} - {LAST}:
                self._known(n, key, rows.get(key))

    def _known(self, n: int, key: int, word: str | None) -> None:
        """No day shows a value that the source never had."""
        if word not in self.history.get(key, [None]) and word != f"old {key}":
            raise Wrong(f"day {n} shows {key} as {word}")


def live(seed: str) -> None:
    """Raises Wrong."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        dies: list[tuple[str, str, bool, int] | None] = [None]

        def wrap(name: str, port: object) -> object:
            if dies[0] is None or dies[0][0] != name:
                return port
            _, method, before, at = dies[0]
            once = Once(die, at)
            return Hook(port, before={method: once}) if before else Hook(port, after={method: once})

        yaml = COPYING.replace("chunk_rows: 3", f"chunk_rows: {rng.choice((1, 2, 5))}")
        life = _Life(rng, CopiedDays(Path(folder), yaml, wrap=wrap))
        source = life.world.source_table
        source.rows = {key: f"old {key}" for key in rng.sample(range(KEYS), rng.randrange(KEYS))}
        source.during = lambda: life.change() if rng.random() < 0.3 else None
        life.change()
        try:
            for number in range(rng.randint(10, 25)):
                steps = [life.change] * 4 + [
                    life.deliver,
                    life.read,
                    life.read,
                    life.end_the_day,
                    life.publish,
                    life.replay,
                ]
                step = rng.choice(steps + [life.again] * (rng.random() < 0.3))
                if rng.random() < 0.2:
                    port = rng.choice(list(CALLS))
                    dies[0] = (port, rng.choice(CALLS[port]), rng.random() < 0.5, rng.randrange(1, 4))
                try:
                    step()
                except (Died, LostComparison, NotReady, JobFailed):
                    pass
                finally:
                    dies[0] = None
                    life.world.close()
                life.compare(f"{seed}, step {number}, {step.__name__}")
            life.end()
            found = deep(life.world)
            if not found.balanced:
                raise Wrong(f"{seed}: {[str(p) for p in (*found.problems, *found.unsettled)][:3]}")
            compared = 0 if found.recomputed is None else found.recomputed.days
            if compared != DAYS:
                raise Wrong(f"{seed}: {compared} of {DAYS} days were compared: {found.notes}")
        finally:
            life.world.close()


def main(first: int, count: int) -> None:
    for n in range(first, first + count):
        live(str(n))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
