"""Which keys of a source's tables have to be read to be compared: those of ranges, or groups, whose sums differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TypeVar

from tidegate.core.copy.port import Bound, Checksum, Form, KeyGroups, KeyRange
from tidegate.core.copy.rounds import WAS_COMPARED, Chunk, Round, RoundState
from tidegate.core.mirror.parts import KeyPart, is_all

Part = TypeVar("Part")
MOST_BITS = 12
"""Of groups of a table: the database answers with a row of each that a chunk has."""
MOST_GAPS = 8
"""Ranges that are left of one: rows between more of them are read, too, since each is a query and files of its own."""
_MOST = 2**63 - 1


EVERYTHING = (KeyRange(),)


@dataclass(frozen=True)
class TableKeys:
    """Keys of a mirror that are of one table of its source, in parts: `ranges` of whole numbers, apart from each other
    and in order, or EVERYTHING; or `groups`, each number of which is a part.

    Columns go by their logical names. `columns`: the key's, in the order of the source's primary key, with `forms` of
    their texts; `said`: those that tell which table a row is of, with their values (S11); `summed`: those whose texts
    make a row's number."""

    columns: tuple[str, ...]
    ranges: tuple[KeyRange, ...] = EVERYTHING
    groups: KeyGroups | None = None
    forms: tuple[Form, ...] = ()
    said: tuple[tuple[str, str], ...] = ()
    summed: tuple[tuple[str, Form], ...] = ()

    @property
    def parts(self) -> int:
        """How many they are."""
        return len(self.ranges if self.groups is None else self.groups.numbers)


@dataclass(frozen=True)
class Sums:
    """Checksums of a mirror's bucket by parts, those of one table behind those of another: `rows` and `totals` as
    `Checksum` has them. `outside`: rows that are in none of them. `unread`: why it has no sums."""

    rows: tuple[int, ...] = ()
    totals: tuple[int, ...] = ()
    outside: int = 0
    unread: str = ""


def differing(parts: Sequence[Part], source: Sequence[Checksum], mirror: Sequence[Checksum]) -> list[Part]:
    """Those whose checksums differ."""
    return [part for part, mine, theirs in zip(parts, source, mirror, strict=True) if mine != theirs]


def group_bits(rows: int, of: int) -> int:
    """Bits of groups `of` so many rows, or more, of a table that has so many."""
    return min((rows // of).bit_length(), MOST_BITS)


def of_groups(ranges: Sequence[KeyRange], groups: KeyGroups) -> list[KeyRange]:
    """What is to be read of a table whose ranges these are: a predicate that most of the rows meet only costs."""
    some = groups if groups.share <= 1 / 2 else None
    return [KeyRange(keys.lower, keys.upper, some) for keys in ranges] if groups.numbers else []


def joined(ranges: Sequence[KeyRange]) -> list[KeyRange]:
    """The same, in order, neighbours as one."""
    found: list[KeyRange] = []
    for keys in ranges:
        if found and found[-1].upper is not None and found[-1].upper == keys.lower:
            found[-1] = KeyRange(found[-1].lower, keys.upper)
        else:
            found.append(keys)
    return found


def fewer(ranges: Sequence[KeyRange], most: int = MOST_GAPS) -> list[KeyRange]:
    """At most so many ranges that hold all of these, which are in order."""
    size = -(-len(ranges) // most) or 1
    some = [ranges[at : at + size] for at in range(0, len(ranges), size)]
    return [KeyRange(each[0].lower, each[-1].upper) for each in some]


def read_all(chunks: Sequence[Chunk], part: KeyPart | None, tables: Iterable[str]) -> bool:
    """Whether the chunks, in the order of their numbers, leave out no key of these `tables` and their own, or of the
    part: only then does a key that none of them has mean that the source has lost it."""
    first, last = (None, None) if part is None else part.bounds
    for _, of_table in groupby(chunks, attrgetter("table")):
        keys = [chunk.keys for chunk in of_table]
        gaps = any(one.upper != other.lower for one, other in pairwise(keys))
        if gaps or keys[0].lower != first or keys[-1].upper != last or any(one.groups for one in keys):
            return False
    return bool(chunks) and {*tables} <= {chunk.table for chunk in chunks}


def reached(rounds: Iterable[Round], columns: int) -> Bound | None:
    """The last key of the lap of comparisons that is under way; None: the next one begins a lap.

    A lap begins at the least key, and each of its comparisons where the one before has ended; others, of whatever keys
    people have asked for, are no part of it. One that died was given up, and said nothing of its keys."""
    of_key = [part for _, part in lap(rounds) if len(part.first) == columns]
    return None if not of_key or of_key[-1].last == (_MOST,) * columns else of_key[-1].last


def lap(rounds: Iterable[Round]) -> list[tuple[int, KeyPart]]:
    """Numbers and parts of the comparisons of the newest lap (`reached`); `rounds`: of one server."""
    found: list[tuple[int, KeyPart]] = []
    for one in rounds:
        if one.part is None or is_all(one.part) or not one.why.startswith(WAS_COMPARED):
            continue
        if one.part.first == (-_MOST,) * len(one.part.first):
            found = [(one.number, one.part)]
        elif found and one.part.lower == found[-1][1].last:
            found.append((one.number, one.part))
    return found


def not_ended(rounds: Iterable[Round], after: Bound | None, columns: int) -> KeyPart | None:
    """The part of a comparison that died and begins where the lap goes on, behind `after`: what it has read counts."""
    lower = KeyPart((), (-_MOST,) * columns, ()).lower if after is None else after
    parts = (one.part for one in rounds if one.state == RoundState.COMPARED)
    return next((part for part in parts if part is not None and part.columns and part.lower == lower), None)


def spelled_keys(keys: KeyRange, columns: int) -> tuple[str, str]:
    """The first and the last key of a range of whole numbers, as people write them."""
    lower: Bound = (-_MOST,) * columns if keys.lower is None else keys.lower
    upper: Bound = (_MOST,) * columns if keys.upper is None else keys.upper
    first = lower if keys.lower is None else (*lower[:-1], int(lower[-1]) + 1)
    return ",".join(map(str, first)), ",".join(map(str, upper))
