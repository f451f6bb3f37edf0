"""What a seed decides about one life of a topic and its pipeline: sizes, zones, policies, and the weather."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from tests.simulation.calendar import DAY, HOUR, MINUTE

SIZES = {15 * MINUTE: 220, HOUR: 170, 6 * HOUR: 110, DAY: 50}
"""Length of a window -> windows that a life of such has."""

BEGINNINGS = (
    ("UTC", "2024-02-26"),
    ("Europe/Berlin", "2024-03-28"),  # an hour is left out
    ("Europe/Berlin", "2024-10-24"),  # an hour comes twice
    ("America/Sao_Paulo", "2018-11-01"),  # a day that begins at 01:00
    ("America/Havana", "2024-10-31"),  # midnight comes twice on one date
    ("America/St_Johns", "2010-11-03"),  # a minute after midnight it is yesterday again
    ("Australia/Lord_Howe", "2024-04-03"),  # half an hour
    ("Asia/Kathmandu", "2024-01-10"),
)


@dataclass(frozen=True)
class Setting:
    """Durations in ms; `start` of the first window in UTC ms."""

    size: int
    zone: str
    start: int
    windows: int
    delay: int
    idle: str
    on_silence: str
    silence: int
    max_lag: int | None
    max_age: int | None
    late: str
    future: str
    skew: int
    max_records: int
    source_start: str
    on_data_loss: str
    retention: int
    history: int  # how long the topic is older than its pipeline
    tick: int  # between two ingest runs
    partitions: int
    added: tuple[int, ...]  # when partitions are added
    transactions: bool
    gaps: bool  # compaction
    disorder: str  # bounded | tail
    archive: str  # prompt | slow | paused
    apart: int  # by how much the clocks of the control plane's hosts differ at most
    weather: frozenset[str] = field(default_factory=frozenset)

    @property
    def end(self) -> int:
        """When the producers stop for good."""
        return self.start + self.windows * self.size

    @property
    def is_capped(self) -> bool:
        return self.max_records < 100_000

    @property
    def title(self) -> str:
        size = f"{self.size // MINUTE}m" if self.size < HOUR else f"{self.size // HOUR}h" if self.size < DAY else "1d"
        return f"{size:<4}{self.idle}{'+close' if self.on_silence == 'close' and self.idle == 'clock' else ''}"


WEATHER = ("outages", "bursts", "fast", "slow", "year ahead", "resends", "silence", "bad records", "old records")


def draw(rng: random.Random, size: int | None = None) -> Setting:
    """One life. Nothing but `rng` decides."""
    size = size or rng.choice(list(SIZES))
    zone, day = rng.choice(BEGINNINGS)
    start = int(datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)
    windows = SIZES[size]
    delay = rng.choice((0, size // 4, size, 2 * size))
    max_age = rng.choice((None, None, None, 1))
    history = rng.choice((0, 0, 0, 2 * size, 7 * DAY if size >= HOUR else DAY))
    capped = rng.random() < 0.3
    retention = rng.choice((max(7 * DAY, 20 * size), 60 * DAY, max(2 * DAY, 12 * size)))
    span = windows * size
    return Setting(
        size=size,
        zone=zone,
        start=start,
        windows=windows,
        delay=delay,
        idle=rng.choice(("clock", "clock", "follow", "follow", "wait")),
        on_silence=rng.choice(("hold", "close")),
        silence=rng.choice((HOUR, size, 3 * size)),
        max_lag=rng.choice((DAY, DAY, None, size)),
        max_age=max_age and delay + size * rng.choice((1, 3, 10)),
        late=rng.choice(("side", "reroute", "drop")),
        future=rng.choice(("dirty", "accept")),
        skew=rng.choice((0, 5 * MINUTE, HOUR)),
        max_records=rng.choice((1, 20, 60)) if capped else 1_000_000,
        source_start=rng.choice(("earliest", "earliest", "earliest", "latest")),
        on_data_loss=rng.choice(("record", "record", "fail")),
        retention=retention,
        history=history,
        tick=size // rng.choice((1, 2, 3, 4)),
        partitions=rng.choice((1, 2, 3, 5)),
        added=tuple(sorted(start + int(rng.random() * span) for _ in range(rng.choice((0, 0, 1, 2))))),
        transactions=rng.random() < 0.4,
        gaps=rng.random() < 0.3,
        disorder=rng.choice(("bounded", "bounded", "tail")),
        archive=rng.choice(("prompt", "prompt", "slow", "paused")),
        apart=rng.choice((0, 0, 0, 2 * MINUTE)),
        weather=frozenset(w for w in WEATHER if rng.random() < 0.35),
    )
