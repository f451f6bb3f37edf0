"""A life of a mirror by days by a seed: events late and repeated, days published, replayed and rolled back in between,
each day compared with an oracle.

python -m tests.mirror.days_lives <first seed> <how many>
"""

from __future__ import annotations

import random
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.mirror import oracle
from tests.mirror.audits import deep
from tests.mirror.days import YAML, DailyWorld, by_days, event
from tests.mirror.histories import Event
from tests.mirror.lives import Wrong
from tidegate.core.base.errors import ReplayRefused

DAYS = 5
OTHER = "name: word, from: $._source.file,"
"""Another column of the same name, which says the same of every event."""


@dataclass
class _Life:
    world: DailyWorld
    rng: random.Random
    days: dict[int, list[Event]] = field(default_factory=dict)
    """Events by the day that they count in."""
    published: int = 0
    commit: int = 0
    log: list[tuple[int, Event]] = field(default_factory=list)
    """(day of the source, event), in the log's order."""
    batch: int = 0
    shown: dict[int, oracle.Rows] = field(default_factory=dict)

    def write(self) -> None:
        """What the source's log says further."""
        now = max([self.published, *(day for day, _ in self.log)])
        for _ in range(self.rng.randint(0, 6)):
            self.commit += self.rng.randint(1, 3)
            now = min(DAYS - 1, now + (self.rng.random() < 0.2))
            word = None if self.rng.random() < 0.3 else self.rng.choice("abc")
            content = None if word is None else (word,)
            one = Event((self.rng.randint(1, 6),), (self.commit, 0, 0), "d" if word is None else "u", content)
            self.log.append((now, one))

    def land(self) -> None:
        """Some of the log, in any order, again and again."""
        known = len(self.log)
        self.write()
        some = self.log[known:] + [e for e in self.log[:known] if self.rng.random() < 0.2]
        self.rng.shuffle(some)
        self.batch += 1
        for offset, (day, e) in enumerate(some):
            at = max(day, self.published)
            arrived = Event(e.key, e.position, e.op, e.content, self.batch, 0, offset)
            self.days.setdefault(at, []).append(arrived)
        sent = [event(e.key[0], e.content[0] if e.content else None, e.position[0], day + 0.5) for day, e in some]
        self.world.land(*sent)

    def end(self, n: int) -> oracle.Rows:
        """What stands when the day ends."""
        return oracle.newest(e for day in range(n + 1) for e in self.days.get(day, []))

    def publish(self) -> None:
        key = event(99, "end", 10**6, self.published + 40)
        self.world.land(key)
        self.batch += 1
        self.world.publish(self.published)
        self.shown[self.published] = self.end(self.published)
        self.published += 1

    def again(self) -> None:
        """A replay, a rollback, a Clear: each shows what was shown."""
        n = self.rng.randrange(self.published)
        step = self.rng.choice(("replay", "clear", "other columns and back"))
        if step == "clear":
            self.world.publish(n)
        elif step == "replay":
            self.world.replay_day(n)
        else:
            self.world.pipeline = by_days(self.world.folder, YAML.replace("name: word,", OTHER))
            try:
                replayed = self.world.replay_day(n).new
            except ReplayRefused as e:  # what the day before holds was decoded from other columns
                if "two contents of one key" not in str(e):
                    raise
                replayed = False
            self.world.pipeline = by_days(self.world.folder)
            if replayed:
                self.world.roll_back(n)

    def compare(self, after: str) -> None:
        for n, rows in self.shown.items():
            wanted = {k[0]: e.content[0] for k, e in rows.items() if e.content is not None}
            gone = {k[0] for k, e in rows.items() if e.deleted}
            found, dead = self.world.rows(n), set(self.world.gone(n))
            if found != wanted or dead != gone:
                raise Wrong(f"{after}, day {n}: {found} and gone {dead}, must be {wanted} and {gone}")


def live(seed: str) -> None:
    """Raises Wrong."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        world = DailyWorld(Path(folder))
        life = _Life(world, rng)
        try:
            for number in range(rng.randint(4, 12)):
                steps = [life.land, life.land] + [life.publish] * (life.published < DAYS)
                steps += [life.again] * (life.published > 0)
                step = rng.choice(steps)
                step()
                life.compare(f"{seed}, step {number}, {step.__name__}")
            found = deep(world)
            if not found.balanced:
                raise Wrong(f"{seed}: {[str(p) for p in (*found.problems, *found.unsettled)][:3]}")
            compared = 0 if found.recomputed is None else found.recomputed.days
            if compared != life.published:
                raise Wrong(f"{seed}: {compared} of {life.published} days were compared: {found.notes}")
        finally:
            world.close()


def main(first: int, count: int) -> None:
    for n in range(first, first + count):
        live(str(n))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
