"""A topic's life by a seed: producers with disorder, idleness, bursts, skewed clocks and restarts. It keeps the truth.

Nothing here knows how the pipeline judges; see `settings` for what a seed decides.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from tests.simulation.calendar import DAY, HOUR, MINUTE
from tests.simulation.settings import Setting
from tests.simulation.topic import BAD, FILTERED, GOOD, Record, Topic, Transaction

YEAR = 365 * DAY


@dataclass
class Producer:
    """Sends to some partitions. `skew` (ms) is what its clock is ahead by; `lag` how long events are under way."""

    partitions: tuple[int, ...]
    per_window: float
    lag: int
    tail: bool
    skew: int
    transactional: bool
    outages: list[tuple[int, int]]
    keeps: bool  # what it could not send is sent when it is back
    sent: list[int] = field(default_factory=list)  # events of late: what a restart repeats
    kept: list[int] = field(default_factory=list)


class World:
    """`topic` is what Kafka has; `advance` lets time pass."""

    def __init__(self, setting: Setting, rng: random.Random) -> None:
        self.setting, self._rng = setting, rng
        self.topic = Topic(setting.partitions)
        self.now = setting.start - setting.history
        self._to_add = list(setting.added)
        self._silences = self._draw_silences()
        self.producers = [self._producer() for _ in range(rng.choice((1, 2, 4)))]
        if setting.idle == "wait" and rng.random() < 0.9:  # a partition that nobody ever writes to holds everything
            self.producers[0].partitions = tuple(self.topic.logs)

    # ------------------------------------------------------------ who sends

    def _producer(self) -> Producer:
        s, rng = self.setting, self._rng
        known = list(self.topic.logs)
        mine = tuple(rng.sample(known, rng.randint(1, len(known))))
        skew = 0
        if "fast" in s.weather and rng.random() < 0.5:
            skew = rng.choice((MINUTE, 4 * MINUTE, 20 * MINUTE))
        if "slow" in s.weather and rng.random() < 0.5:
            skew = -rng.choice((MINUTE, 20 * MINUTE, s.size, s.delay + 2 * s.size))
        if "year ahead" in s.weather and rng.random() < 0.3:
            skew = YEAR
        outages = []
        if "outages" in s.weather:
            for _ in range(rng.randint(1, 3)):
                begins = self.now + int(rng.random() * (s.end - self.now))
                outages.append((begins, begins + rng.choice((s.size, 3 * s.size, DAY))))
        lag = int(rng.random() * max(s.delay, MINUTE)) * (2 if s.disorder == "tail" else 1)
        rate = rng.choice((2.0, 8.0, 25.0)) if s.max_records > 1 else 0.5
        tail = s.disorder == "tail"
        transactional = s.transactions and rng.random() < 0.6
        return Producer(mine, rate, lag, tail, skew, transactional, outages, rng.random() < 0.5)

    def _draw_silences(self) -> list[tuple[int, int]]:
        s, rng = self.setting, self._rng
        if "silence" not in s.weather:
            return []
        begins = [s.start + int(rng.random() * s.windows) * s.size for _ in range(2)]
        return [(b, b + rng.choice((2, 6)) * s.size + s.silence) for b in begins]

    # ------------------------------------------------------------ time passes

    def advance(self, to: int) -> None:
        """What happens up to `to` (UTC ms)."""
        while self._to_add and self._to_add[0] <= to:
            self._to_add.pop(0)
            new = self.topic.add_partition()
            for p in self.producers:
                if self._rng.random() < 0.6:
                    p.partitions = (*p.partitions, new)
        for producer in self.producers:
            self._let_send(producer, self.now, min(to, self.setting.end))
        self.now = to
        if to >= self.setting.end:  # whoever is left hanging is fenced by the broker, some time later
            for t in self.topic.open:
                t.ends = min(t.ends, self.setting.end + 2 * self.setting.size)
        self.topic.end_transactions(to)
        self.topic.retain(to - self.setting.retention)

    def _let_send(self, producer: Producer, since: int, to: int) -> None:
        rng, s = self._rng, self.setting
        wanted = producer.per_window * (to - since) / s.size
        if "bursts" in s.weather and rng.random() < 0.02:
            wanted = wanted * 10 + 5
        count = math.floor(wanted + rng.random()) if to > since else 0
        times = sorted(since + 1 + int(rng.random() * (to - since)) for _ in range(count))
        awake = [at for at in times if not _within(at, producer.outages)]
        if len(awake) < count and producer.keeps:
            asleep = [at for at in times if _within(at, producer.outages)]
            producer.kept += [self._event(producer, at) for at in asleep]
        awake = [at for at in awake if not _within(at, self._silences)]
        batch = [(rng.choice(producer.partitions), self._event(producer, at), at) for at in awake]
        if awake and producer.kept:  # it is back
            batch = [(rng.choice(producer.partitions), event, awake[0]) for event in producer.kept] + batch
            producer.kept = []
        if "resends" in s.weather and producer.sent and awake and rng.random() < 0.03:
            batch += [(rng.choice(producer.partitions), event, awake[-1]) for event in producer.sent]
        if batch:
            self._append(producer, batch)
            producer.sent = [event for _, event, _ in batch][-20:]

    def _event(self, producer: Producer, at: int) -> int:
        rng = self._rng
        lag = int(rng.random() * producer.lag)
        if producer.tail and rng.random() < 0.1:
            lag += int(producer.lag * rng.paretovariate(0.9))
        if "old records" in self.setting.weather and rng.random() < 0.002:
            lag += 30 * DAY
        return at + producer.skew - min(lag, 300 * DAY)

    def _append(self, producer: Producer, batch: list[tuple[int, int, int]]) -> None:
        rng, s = self._rng, self.setting
        transactions: dict[int, Transaction] = {}
        for partition, event, at in batch:
            record: Record | None = Record(event, GOOD, at)
            if "bad records" in s.weather:
                record = self._spoilt(event, at)
            if s.gaps and rng.random() < 0.03:
                record = None  # compacted before anybody read it
            if producer.transactional and partition not in transactions:
                transactions[partition] = self._begin(partition)
            self.topic.append(partition, record, at, transactions.get(partition))

    def _begin(self, partition: int) -> Transaction:
        rng, s = self._rng, self.setting
        held = rng.choice((0, 0, 0, 0, s.tick, 3 * s.size if rng.random() < 0.1 else 0))
        return self.topic.begin(partition, self.now + held, rng.random() < 0.9)

    def _spoilt(self, event: int, at: int) -> Record:
        dice = self._rng.random()
        if dice < 0.02:
            return Record(event, BAD, at)
        if dice < 0.03:
            return Record(None, GOOD, at)
        return Record(event, FILTERED if dice < 0.08 else GOOD, at)


def _within(at: int, spans: list[tuple[int, int]]) -> bool:
    return any(a <= at < b for a, b in spans)


__all__ = ["HOUR", "World"]
