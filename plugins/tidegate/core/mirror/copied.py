"""What a keyed table says of the copies that are in it (S8): which chunks of which round, and how far back it is whole.

A *round* reads the whole source table once, or a part of its keys, in chunks whose key ranges do not overlap; its
number is the `n` in the position of its rows (S1). Once all of its chunks are in the table, a *sweep* ends it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.mirror.jobs import START, Position, ServerLog
from tidegate.core.mirror.parts import KeyPart, SweptPart, covers, is_all, server_of

Places = tuple[tuple[int, int], ...]
"""Numbers as ascending ranges, inclusive."""


@dataclass(frozen=True)
class RoundIn:
    """The chunks of a round that are in the table, the smallest LOW of them and the greatest, `top` (their `n` is the
    round). `swept`: all its chunks are in, and what they do not name is gone. `part`: the keys that it reads; None: the
    whole table."""

    number: int
    low: Position
    top: Position
    chunks: Places = ()
    swept: bool = False
    part: KeyPart | None = field(default=None, metadata=LEFT_OUT)

    @property
    def server(self) -> str:
        """Whose log its positions are of; empty where there is but one."""
        return server_of(self.part)

    def __contains__(self, chunk: int) -> bool:
        return any(first <= chunk <= last for first, last in self.chunks)


@dataclass(frozen=True)
class Complete:
    """Nothing is older than `position`, (commit, row): whatever committed below it is in the table. So is whatever
    committed before `at_ms` (UTC); None: no look tells. `exact`: and nothing else is in it (S9). `servers`: (name,
    position) of each, where there are several; `position` says nothing then."""

    position: tuple[int, int]
    at_ms: int | None = None
    exact: bool = field(default=False, metadata=LEFT_OUT)
    servers: tuple[tuple[str, tuple[int, int]], ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def spelled(self) -> str:
        """`commit,row`; of several servers `name=commit,row`, with blanks between."""
        if not self.servers:
            return ",".join(map(str, self.position))
        return " ".join(f"{name}={commit},{row}" for name, (commit, row) in self.servers)


@dataclass(frozen=True)
class Copied:
    """`rounds`: in the order of their numbers. `high`: the greatest HIGH of all chunks (S9), as (commit, row, 0).
    `hidden`: readers see an empty table, until the first round is whole. `complete`: since which position of the source
    nothing in the table is older (S9'); None: nothing tells. `by_hand`: a person has let the order decide between
    events that contradict each other (M7, M8): positions say nothing for certain any more. `servers`: where the
    source's tables lie on several; each has rounds of its own, as a part of the keys (S11)."""

    rounds: tuple[RoundIn, ...] = ()
    high: Position = START
    hidden: bool = field(default=False, metadata=LEFT_OUT)
    complete: Complete | None = field(default=None, metadata=LEFT_OUT)
    by_hand: bool = field(default=False, metadata=LEFT_OUT)
    servers: tuple[ServerLog, ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def newest(self) -> int:
        """The newest round with a chunk in the table; 0 for none."""
        return self.rounds[-1].number if self.rounds else 0

    def newest_of(self, server: str) -> int:
        """The same of a server alone (S6); of the only one, empty, `newest`."""
        return max((one.number for one in self.rounds if one.server == server), default=0)

    @property
    def whole(self) -> RoundIn | None:
        """The newest round of the whole table that is whole itself; of several servers, once each that is named has one
        that is."""
        if self.servers:
            found = [self.whole_of(log.name) for log in self.servers if not log.gone]
            return None if None in found else max((r for r in found if r is not None), key=lambda r: r.number)
        return next((r for r in reversed(self.rounds) if r.swept and r.part is None), None)

    @property
    def swept_below(self) -> Position:
        """S5: whatever is older says nothing of the source any more; START before the first round is whole, and of
        several servers, each of which is a part."""
        return START if self.servers or self.whole is None else self.whole.low

    @property
    def swept_parts(self) -> tuple[SweptPart, ...]:
        """S5 of parts that were read after the newest whole round, in the order of their rounds."""
        after = 0 if self.servers or self.whole is None else self.whole.number
        return tuple(SweptPart(r.part, r.low) for r in self.rounds if r.part and r.swept and r.number > after)

    def may_tell(self, found: Complete | None) -> Complete | None:
        """What of `found` a table with these copies tells (S9', S9): nothing before one is whole, nor once a person has
        decided between events; exactly P, unless what was read of the source may be newer. Of several servers it tells
        of those that have a whole one, once readers see the table."""
        if found is None or self.by_hand or (self.whole is None and (self.hidden or not self.servers)):
            return None
        if self.whole is None:
            mine = tuple(one for one in found.servers if self.whole_of(one[0]) is not None)
            return replace(found, at_ms=None, servers=mine) if mine else None
        return replace(found, exact=found.exact and self.high[:2] <= found.position)

    def whole_of(self, server: str) -> RoundIn | None:
        """The newest round of all keys of a server that is whole; of the only one, empty, `whole`."""
        if not server:
            return self.whole
        return next((r for r in reversed(self.rounds) if r.swept and r.server == server and is_all(r.part)), None)

    def none_since(self, log: ServerLog) -> bool:
        """Whether a server has a whole round, and no event of it has come that is newer."""
        whole = self.whole_of(log.name)
        return whole is not None and (log.last is None or log.last < whole.low)

    def floor(self, number: int, server: str = "") -> Position:
        """Below which no LOW of that round may be: it is newer than all that earlier ones have read (S5) of its
        server."""
        return max((r.top for r in self.rounds if r.number < number and r.server == server), default=START)

    def round(self, number: int) -> RoundIn | None:
        """None if no chunk of it is in the table."""
        return next((r for r in self.rounds if r.number == number), None)

    def has(self, rounds: Iterable[RoundIn]) -> bool:
        """Whether all that it once had of these is in it, or what was read of their keys later."""
        return all(self._has(one) for one in rounds)

    def _has(self, one: RoundIn) -> bool:
        mine = self.round(one.number)
        if mine is not None and mine.swept >= one.swept and set(numbers(one.chunks)) <= set(numbers(mine.chunks)):
            return True
        return any(r.swept and r.number > one.number and covers(r.part, one.part) for r in self.rounds)

    def with_chunks(self, step: CopyStep) -> Copied:
        """The same once these chunks of the round are in it, too."""
        old = self.round(step.round) or RoundIn(step.round, step.low, step.top, part=step.part)
        places = ranges([*numbers(old.chunks), *step.chunks])
        grown = replace(old, low=min(old.low, step.low), top=max(old.top, step.top), chunks=places)
        return replace(self._with(grown), high=max(self.high, step.high))

    def with_sweep(self, number: int) -> Copied:
        """The same once the round is whole. Raises LookupError where none of its chunks is in.

        Rounds before it of keys that it has read are forgotten: no row is left of them, its `low` says more than theirs
        (S5), and no LOW of theirs is above its `top`."""
        old = self.round(number)
        if old is None:
            raise LookupError(f"round {number} has no chunk in the table")
        whole = replace(old, swept=True)
        kept = [one for one in self.rounds if one.number > number or not covers(whole.part, one.part)]
        return replace(self, rounds=tuple(kept))._with(whole)

    def _with(self, one: RoundIn) -> Copied:
        others = [r for r in self.rounds if r.number != one.number]
        return replace(self, rounds=tuple(sorted([*others, one], key=lambda r: r.number)))


NOTHING = Copied()


def stays_hidden(shown: bool, copies: bool, after: Copied) -> bool:
    """Whether readers see nothing of a commit yet: the table's first copy is not whole after it. What they once saw
    (`shown`) is never taken from them; nobody waits where the pipeline does not copy."""
    return not shown and copies and after.whole is None


def ranges(values: Collection[int]) -> Places:
    """Numbers, in any order and repeated, as ranges."""
    found: list[tuple[int, int]] = []
    for value in sorted(set(values)):
        if found and value == found[-1][1] + 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return tuple(found)


def numbers(places: Places) -> list[int]:
    """The inverse of `ranges`."""
    return [n for first, last in places for n in range(first, last + 1)]


@dataclass(frozen=True, kw_only=True)
class CopyStep:
    """What a commit does of a copy: it brings `chunks` of a round, or ends the round (`sweep`). `part`: the round's.

    `low`, `top`: the smallest and the greatest LOW of the chunks, with `n`; `high`: the greatest HIGH."""

    round: int
    chunks: tuple[int, ...] = ()
    low: Position = START
    top: Position = START
    high: Position = START
    sweep: bool = False
    part: KeyPart | None = None

    def after(self, before: Copied) -> Copied:
        """What the table says once the commit stands."""
        if self.sweep:
            return before.with_sweep(self.round)
        return before.with_chunks(self)
