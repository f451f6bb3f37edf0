"""The promise as arithmetic: `read = data + late + dirty + filtered + dropped`, for each range and each window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Balance:
    """Rows of a batch, a range or a whole pipeline. `offsets` planned = `read` + `gaps`.

    `rerouted` of the data rows came late; they are counted as data, so this number is no term of any sum."""

    offsets: int = 0
    read: int = 0
    gaps: int = 0
    data: int = 0
    late: int = 0
    dirty: int = 0
    filtered: int = 0
    dropped: int = 0
    rerouted: int = 0

    def __add__(self, other: Balance) -> Balance:
        return Balance(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def terms(self) -> tuple[int, ...]:
        counted = (self.offsets, self.read, self.gaps, self.data, self.late, self.dirty, self.filtered, self.dropped)
        return (*counted, self.rerouted)

    @property
    def holds(self) -> bool:
        return (
            self.read == self.data + self.late + self.dirty + self.filtered + self.dropped
            and self.offsets == self.read + self.gaps
            and 0 <= self.rerouted <= self.data
        )

    def text(self) -> str:
        sign = "=" if self.read == self.data + self.late + self.dirty + self.filtered + self.dropped else "≠"
        rerouted = f" ({self.rerouted:,} of them rerouted)" if self.rerouted else ""
        return (
            f"read {self.read:,} {sign} data {self.data:,}{rerouted} + late {self.late:,} + dirty {self.dirty:,} "
            f"+ filtered {self.filtered:,} + dropped {self.dropped:,}"
        )


def window_difference(
    owed: Mapping[tuple[int, int], int], published: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], tuple[int, int]]:
    """(batch or 0, Kafka partition) -> (rows owed by the batches, rows in the current manifest) where they differ."""
    keys = set(owed) | set(published)
    pairs = {k: (owed.get(k, 0), published.get(k, 0)) for k in sorted(keys)}
    return {k: v for k, v in pairs.items() if v[0] != v[1]}
