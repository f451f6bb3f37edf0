"""A life of a mirror by days that purges tombstones, by a seed: a connector sends again what it sent by the promise.
Each day has the rows that an oracle says, and of the tombstones those that were not purged; nothing is kept out.

python -m tests.mirror.days_purge_lives <first seed> <how many>
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from tests.mirror import oracle
from tests.mirror.audits import deep
from tests.mirror.days import DAY, event
from tests.mirror.histories import Event
from tests.mirror.lives import Wrong
from tests.mirror.test_days_purge import KEPT, LOG, Lived, told
from tests.world import T0

DAYS = 10
KEPT_DAYS = 2
YAML = KEPT.replace("tombstones: 2d", f"tombstones: {KEPT_DAYS}d")


def live(seed: str) -> int:
    """How many tombstones were purged. Raises Wrong."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        world = Lived(Path(folder), YAML)
        sent: list[tuple[float, float, Event]] = []
        """(day when it was sent first, day of the source, event)"""
        commit, batch, built, kept_out = 100, 0, 0, 0
        try:
            for n in range(DAYS):
                for part in range(rng.randint(1, 2)):
                    now = n + 0.2 + 0.3 * part
                    again = [e for at, _, e in sent if at > now - KEPT_DAYS and rng.random() < 0.3]
                    new = []
                    for _ in range(rng.randint(0, 5)):
                        commit += rng.randint(1, 3)
                        word = None if rng.random() < 0.5 else rng.choice("abc")
                        new.append(
                            Event((rng.randint(1, 9),), (commit, 0, 0), "d" if word is None else "u", word and (word,))
                        )
                    sent += [(now, now, e) for e in new]
                    at_day = {id(e): day for _, day, e in sent}
                    some = [*again, *new]
                    rng.shuffle(some)
                    world.at(now)
                    batch += 1
                    if some:
                        world.land(*(_message(e, at_day[id(e)]) for e in some))
                if rng.random() < 0.8 or n == DAYS - 1:  # else its run comes a day late
                    world.at(n + 1.1)
                    commit += 10
                    world.land(event(99, f"end of {n}", commit, n + 1.1))
                    for m in range(built, n + 1):
                        world.publish(m)
                    built = n + 1
                    kept_out = told(world, n).below_purge
                    _compare(world, n, sent, seed)
                if built and rng.random() < 0.3:
                    world.replay_day(rng.randrange(built))
            if kept_out:
                raise Wrong(f"{seed}: {kept_out} events are kept out, though the promise was kept")
            found = deep(world)
            if not found.balanced:
                raise Wrong(f"{seed}: {[str(p) for p in (*found.problems, *found.unsettled)][:3]}")
            return told(world, built - 1).purged
        finally:
            world.close()


def _message(e: Event, at_day: float) -> tuple[bytes, bytes]:
    return event(e.key[0], e.content[0] if e.content else None, e.position[0], at_day)


def _compare(world: Lived, n: int, sent: list[tuple[float, float, Event]], seed: str) -> None:
    newest = oracle.newest(e for _, _, e in sent)
    rows = {k: w for k, w in (world.rows(n) or {}).items() if k != 99}
    wanted = {k[0]: e.content[0] for k, e in newest.items() if e.content is not None}
    if rows != wanted:
        raise Wrong(f"{seed}, day {n}: {rows}, must be {wanted}")
    below = told(world, n).purged_below
    left = {k[0] for k, e in newest.items() if e.deleted and (e.position[0] + LOG, 0, 0) >= below}
    if not left <= set(world.gone(n)):
        raise Wrong(f"{seed}, day {n}: tombstones of {left - set(world.gone(n))} are gone, at or above {below}")
    assert below[0] - LOG < 10**6
    assert world.clock.now_ms() >= T0 + n * DAY


def main(first: int, count: int) -> None:
    print(sum(live(str(n)) for n in range(first, first + count)), "tombstones purged")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
