"""Which key ranges of a source's table have to be read to be compared: those whose checksums differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter

from tidegate.core.copy.port import Bound, Checksum, KeyRange
from tidegate.core.copy.rounds import WAS_COMPARED, Chunk, Round, RoundState
from tidegate.core.mirror.parts import KeyPart

MOST_GAPS = 8
"""Ranges that are left of one: rows between more of them are read, too, since each is a query and files of its own."""
_MOST = 2**63 - 1


@dataclass(frozen=True)
class KeyRanges:
    """Ranges of a mirror's key, apart from each other and in order. `columns`: logical ones, in the order of the
    source's primary key, of whole numbers."""

    columns: tuple[str, ...]
    ranges: tuple[KeyRange, ...]


@dataclass(frozen=True)
class Sums:
    """Checksums of a mirror's bucket by ranges: `rows` and `totals` as `Checksum` has them. `unread`: why it has
    none."""

    rows: tuple[int, ...] = ()
    totals: tuple[int, ...] = ()
    unread: str = ""


def differing(ranges: Sequence[KeyRange], source: Sequence[Checksum], mirror: Sequence[Checksum]) -> list[KeyRange]:
    """Those whose checksums differ."""
    return [keys for keys, mine, theirs in zip(ranges, source, mirror, strict=True) if mine != theirs]


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


def read_all(chunks: Sequence[Chunk], part: KeyPart | None) -> bool:
    """Whether the chunks, in the order of their numbers, leave out no key of their tables, or of the part: only then
    does a key that none of them has mean that the source has lost it."""
    first, last = (None, None) if part is None else (part.lower, part.last)
    for _, of_table in groupby(chunks, attrgetter("table")):
        keys = [chunk.keys for chunk in of_table]
        gaps = any(one.upper != other.lower for one, other in pairwise(keys))
        if gaps or keys[0].lower != first or keys[-1].upper != last:
            return False
    return bool(chunks)


def reached(rounds: Iterable[Round], columns: int) -> Bound | None:
    """The last key of the lap of comparisons that is under way; None: the next one begins a lap.

    A lap begins at the least key, and each of its comparisons where the one before has ended; others, of whatever keys
    people have asked for, are no part of it. One that died was given up, and said nothing of its keys."""
    of_key = [part for _, part in lap(rounds) if len(part.first) == columns]
    return None if not of_key or of_key[-1].last == (_MOST,) * columns else of_key[-1].last


def lap(rounds: Iterable[Round]) -> list[tuple[int, KeyPart]]:
    """Numbers and parts of the comparisons of the newest lap (`reached`)."""
    found: list[tuple[int, KeyPart]] = []
    for one in rounds:
        if one.part is None or not one.why.startswith(WAS_COMPARED):
            continue
        if one.part.first == (-_MOST,) * len(one.part.first):
            found = [(one.number, one.part)]
        elif found and one.part.lower == found[-1][1].last:
            found.append((one.number, one.part))
    return found


def not_ended(rounds: Iterable[Round], after: Bound | None, columns: int) -> KeyPart | None:
    """The part of a comparison that died and begins where the lap goes on, behind `after`: what it has read counts."""
    lower = KeyPart((), (-_MOST,) * columns, ()).lower if after is None else after
    parts = (one.part for one in rounds if one.state == RoundState.COMPARED and one.part is not None)
    return next((part for part in parts if part.lower == lower), None)


def spelled_keys(keys: KeyRange, columns: int) -> tuple[str, str]:
    """The first and the last key of a range of whole numbers, as people write them."""
    lower: Bound = (-_MOST,) * columns if keys.lower is None else keys.lower
    upper: Bound = (_MOST,) * columns if keys.upper is None else keys.upper
    first = lower if keys.lower is None else (*lower[:-1], int(lower[-1]) + 1)
    return ",".join(map(str, first)), ",".join(map(str, upper))
