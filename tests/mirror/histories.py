"""Seeded histories of a source table: what its log says, and how a topic delivers it, late and repeated.

Knows nothing of the product."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

Key = tuple[Any, ...]
Position = tuple[int, int, int]


@dataclass(frozen=True)
class Event:
    """`op`: c, u, d or r. `content`: the values beside the key; None of a delete."""

    key: Key
    position: Position
    op: str
    content: tuple[Any, ...] | None
    batch: int = 0
    partition: int = 0
    offset: int = 0
    ms: int | None = field(default=None, compare=False)
    """When it happened, by the source."""

    @property
    def deleted(self) -> bool:
        return self.op == "d"

    @property
    def arrival(self) -> tuple[int, int, int]:
        return self.batch, self.partition, self.offset


@dataclass(frozen=True)
class History:
    """`batches`: by id - 1. `floors`: by id - 1, the smallest position that a batch above it brings for the first time;
    None where nothing new comes any more."""

    kinds: tuple[str, ...]
    buckets: int
    batches: tuple[tuple[Event, ...], ...]
    floors: tuple[Position | None, ...]

    def events(self, first: int, last: int) -> list[Event]:
        return [e for batch in self.batches[first - 1 : last] for e in batch]


KINDS = {
    "bigint": lambda n: n - 2,
    "int": lambda n: -n,
    "string": lambda n: f"key {n}",
    "binary": lambda n: bytes([n, 255]),
    "boolean": lambda n: bool(n % 2),
    "date": lambda n: 15_000 + n,
    "decimal(12,2)": lambda n: f"{n - 3}.25",
    "timestamp": lambda n: 1_357_344_000_000_000 + n,
}
"""Hive type -> a value of it by a number: days and microseconds for times, texts for decimals."""


def draw(rng: random.Random) -> History:
    kinds = rng.choice(
        [("bigint",), ("bigint",), ("string",), ("int", "string"), ("string", "string"), ("boolean", "decimal(12,2)")]
        + [(kind,) for kind in KINDS]
    )
    keys = list(dict.fromkeys(tuple(KINDS[kind](n // (1 + i)) for i, kind in enumerate(kinds)) for n in range(8)))
    keys = keys[: rng.randint(1, len(keys))]
    log = _log(rng, keys, rng.randint(1, 60))
    delivered = _delivered(rng, log)
    count = rng.randint(1, 8)
    marks = sorted(rng.randint(0, len(delivered)) for _ in range(count - 1))
    cuts = zip([0, *marks], [*marks, len(delivered)], strict=True)
    batches = tuple(_landed(rng, n, delivered[a:b]) for n, (a, b) in enumerate(cuts, 1))
    return History(kinds, rng.randint(1, 4), batches, _floors(batches))


def _log(rng: random.Random, keys: list[Key], count: int) -> list[Event]:
    """What the source's log says, in its order."""
    found: list[Event] = []
    alive: set[Key] = set()
    commit = row = 0
    while len(found) < count:
        if rng.random() < 0.6 or not found:
            commit, row = commit + rng.randint(1, 3), rng.randint(0, 2)
        else:
            row += 1
        key, position = rng.choice(keys), (commit, row, 0)
        if key in alive and rng.random() < 0.3:
            alive.discard(key)
            found.append(Event(key, position, "d", None))
            if rng.random() < 0.3:  # an upsert beside it: the key became an equal one
                found.append(Event(key, position, "u", _content(rng)))
                alive.add(key)
        else:
            op = "u" if key in alive else rng.choice("cr")
            alive.add(key)
            found.append(Event(key, position, op, _content(rng)))
    return found


def _content(rng: random.Random) -> tuple[Any, ...]:
    return rng.choice([None, "a", "b", ""]), rng.choice([None, *range(4)])


def _delivered(rng: random.Random, log: list[Event]) -> list[Event]:
    """At least once, and not in the log's order: each with a delay, some again much later."""
    delay, again = rng.choice([0, 3, 30]), rng.choice([0, 0.1, 0.5])
    waiting = [(at + rng.uniform(0, delay), e) for at, e in enumerate(log)]
    repeats = [e for e in log if rng.random() < again]
    waiting += [(rng.uniform(log.index(e), len(log) * 1.5), e) for e in repeats]
    return [e for _, e in sorted(waiting, key=lambda pair: pair[0])]


def _landed(rng: random.Random, batch: int, events: list[Event]) -> tuple[Event, ...]:
    """With the coordinates of a topic of two partitions. A row that a snapshot has read may come again as an update."""
    found = []
    for n, e in enumerate(events):
        op = e.op if e.deleted or rng.random() < 0.8 else "u"
        found.append(replace(e, op=op, batch=batch, partition=rng.randint(0, 1), offset=100 * batch + n))
    rng.shuffle(found)
    return tuple(found)


def _floors(batches: tuple[tuple[Event, ...], ...]) -> tuple[Position | None, ...]:
    floors: list[Position | None] = []
    for n in range(1, len(batches) + 1):
        seen = {(e.key, e.position, e.deleted) for batch in batches[:n] for e in batch}
        new = [e.position for batch in batches[n:] for e in batch if (e.key, e.position, e.deleted) not in seen]
        floors.append(min(new, default=None))
    return tuple(floors)
