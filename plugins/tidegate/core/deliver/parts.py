"""Partitions of a window, here and in a further system: which of them differ, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.base.partition_values import PartitionValues, partition_path
from tidegate.core.base.wording import many
from tidegate.core.deliver.port import NOTHING, Content, Part
from tidegate.core.files.receipt import CHECKSUM_MODULUS


@dataclass(frozen=True)
class Differing:
    """A partition that is not the same on both sides. `values`: as in `site=a`; empty for a window without others than
    time partitions. `here` and `there`: rows."""

    values: str
    here: int
    there: int

    def __str__(self) -> str:
        if self.here == self.there:
            return f"{self.values}: {many(self.here, 'row')}, other values there"
        return f"{self.values}: {many(self.here, 'row')} here, {self.there:,} there"


def added(contents: dict[PartitionValues, Content], values: PartitionValues, more: Content) -> None:
    """Count further rows of a partition."""
    before = contents.get(values, NOTHING)
    total = (before.checksum + more.checksum) % CHECKSUM_MODULUS
    contents[values] = Content(rows=before.rows + more.rows, checksum=total)


def paired(here: Mapping[PartitionValues, Content], there: Mapping[PartitionValues, Content]) -> tuple[Part, ...]:
    """Each partition of either side; a side without it has no rows."""
    every = dict.fromkeys((*here, *there))
    return tuple(Part(values=v, here=here.get(v, NOTHING), there=there.get(v, NOTHING)) for v in every)


def differing(parts: Sequence[Part]) -> tuple[Differing, ...]:
    """Those with other numbers of rows or other values, in the order of their names."""
    found = (Differing(partition_path(p.values), p.here.rows, p.there.rows) for p in parts if p.here != p.there)
    return tuple(sorted(found, key=lambda one: one.values))


def in_words(parts: Sequence[Part], otherwise: str) -> str:
    """How many rows the whole window has on both sides; `otherwise` where that does not tell them apart."""
    here, there = sum(p.here.rows for p in parts), sum(p.there.rows for p in parts)
    if here != there:
        return f"{many(there, 'row')} there, {here:,} were delivered"
    return "values there are not those that were delivered" if differing(parts) else otherwise
