"""Copies that do not say what they are of are counted from a known pair of offsets on (F2).

The copier is exact, by a person's word: each record once, in order, none left out. So the k-th copy from the pair on is
of the k-th record from the pair on. What has landed proves the pair: its rows have the timestamps of their copies, and
would not have them if all were shifted by a few records. Timestamps check a pair, they never find one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.core.base.offsets import Interval
from tidegate.core.base.wording import many
from tidegate.core.failover.crossing import Pair, Refusal, RefusalKind
from tidegate.core.source.coordinates import Coordinate

FEWEST = 100
"""So many rows have to be compared: a pair that is wrong by fewer records is found whatever their timestamps are."""
MOST = 1_000
"""Records that are compared: the last ones that have landed."""


@dataclass(frozen=True)
class Landed:
    """What batches found from the pair on: `records` are the intervals of offsets that had one. `unknown`: why that is
    not known of all of them; empty if it is."""

    records: tuple[Interval, ...]
    unknown: str = ""

    @property
    def count(self) -> int:
        return sum(map(len, self.records))

    def offsets(self) -> Iterator[int]:
        return itertools.chain.from_iterable(range(one.start, one.end) for one in self.records)

    def last(self, most: int, below: int) -> list[tuple[int, int]]:
        """(index, offset) of the last `most` of the first `below` records."""
        first = max(0, min(below, self.count) - most)
        return list(itertools.islice(enumerate(self.offsets()), first, min(below, self.count)))


@dataclass(frozen=True)
class Row:
    """A row that has landed: the `index`th record from the pair on."""

    index: int
    offset: int
    kafka_ms: int


@dataclass(frozen=True)
class Copied:
    """A record at a site, with its headers `tidegate-source`."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    sources: Sequence[bytes | None] = ()

    def same(self, other: Copied) -> bool:
        """Whether it may be the other one's copy."""
        return (self.timestamp_ms, self.key, self.value) == (other.timestamp_ms, other.key, other.value)


def coordinates(topic_id: str, partition: int, pair: Pair, known: Landed, landed: int) -> Iterator[Coordinate]:
    """Of one copy after the other, from the pair on. Behind what has landed each offset counts as a record, so it is a
    lower bound there."""
    first = pair.before
    for offset in itertools.chain(known.offsets(), itertools.count(landed)):
        yield Coordinate(topic_id, partition, min(first, offset), offset)
        first = offset + 1


def objection(partition: int, pair: Pair, landed: int, base: int, mark: int) -> Refusal | None:
    """Why nothing can be counted from that pair; copies begin at `base`, and may be none."""
    if pair.before > landed:
        words = f"batches have landed up to {landed}, the pair begins at {pair.before}"
        return _refusal(RefusalKind.BEGINS_ABOVE, partition, words, "say an earlier pair, of a record that has landed")
    if not (base <= pair.here < mark or base == pair.here == mark):
        words = f"the pair's copy at {pair.here} is not between {base} and the mark {mark}"
        return _refusal(RefusalKind.NO_PROOF, partition, words, "look again for the pair; see docs/failover.md")
    return None


def way_back(partition: int, pair: Pair, mark: int, noted: int) -> Refusal | None:
    """F6: on the way back copies begin with the first record behind the mark, where the end was noted. From any other
    pair on, copies that came before could be taken for the site's own records."""
    if pair == Pair(mark, noted):
        return None
    words = f"the pair is {pair}; copying back had to begin at {mark}, and the site's own records end at {noted}"
    return _refusal(RefusalKind.DIFFERENCE, partition, words, f"--pair {partition}={Pair(mark, noted)}, and no other")


def proof(
    partition: int,
    pair: Pair,
    known: Landed,
    rows: Sequence[Row],
    offsets: Sequence[int],
    times: Sequence[int],
    back_from: str = "",
) -> Refusal | None:
    """Why the pair is not proven. `offsets` and `times` (UTC ms) are of all copies from the pair on. `back_from`: the
    active site on the way back, where no other pair may be said (F6)."""
    more = f"the pair is right: let more records land at site {back_from}, and be copied back; then again"
    if known.unknown:
        advice = "say a later pair, from which on batches have read each offset"
        return _refusal(RefusalKind.NO_PROOF, partition, known.unknown, _ANEW if back_from else advice)
    differ = [row for row in rows if row.kafka_ms != times[row.index]]
    if differ:
        return _differs(partition, pair, differ, len(rows), offsets, times)
    if len(rows) < FEWEST:
        words = f"{many(len(rows), 'row')} that landed could be compared from pair {pair} on, {FEWEST} are needed"
        advice = more if back_from else "say an earlier pair; rows have to carry their timestamps (kafka_columns)"
        return _refusal(RefusalKind.NO_PROOF, partition, words, advice)
    by = _fits_too(rows, times)
    if by is not None:
        words = (
            f"{many(len(rows), 'row')} agree, and would agree if each copy were {many(abs(by), 'record')} "
            f"{'later' if by > 0 else 'earlier'}: timestamps from {rows[0].kafka_ms} to {rows[-1].kafka_ms} repeat"
        )
        advice = more if back_from else "say an earlier pair, or let more records land"
        return _refusal(RefusalKind.NO_PROOF, partition, words, advice)
    return None


def _differs(
    partition: int, pair: Pair, differ: Sequence[Row], of: int, offsets: Sequence[int], times: Sequence[int]
) -> Refusal:
    first = differ[0]
    words = (
        f"from pair {pair} on, the record at {first.offset} landed with timestamp {first.kafka_ms}, its copy at "
        f"{offsets[first.index]} has {times[first.index]}; {len(differ):,} of {many(of, 'row')} differ"
    )
    advice = (
        "the pair is another one, or the copier is not exact, or the topic has message.timestamp.type=LogAppendTime; "
        "see docs/failover.md"
    )
    return _refusal(RefusalKind.DIFFERENCE, partition, words, advice)


def _fits_too(rows: Sequence[Row], times: Sequence[int]) -> int | None:
    """By how many records all copies could be shifted, and would still agree. Were the pair wrong by so many, the right
    one would be found here."""
    for by in (sign * n for n in range(1, FEWEST) for sign in (1, -1)):
        reached = [row for row in rows if 0 <= row.index + by < len(times)]
        if reached and all(row.kafka_ms == times[row.index + by] for row in reached):
            return by
    return None


def crossed_end(
    partition: int, landed: int, count: int, ours: Iterator[Copied], copies: Iterator[Copied]
) -> int | Refusal:
    """F6: where the `count` copies that were read end in the log that they are of, now that both logs can be read.

    `ours`: records of that log from `landed` on; `copies`: those that were read."""
    end, seen = landed, 0
    for copy in copies:
        mine = next(ours, None)
        if mine is None or not mine.same(copy):
            here = "that log has ended" if mine is None else f"the one at {mine.offset} is another ({_told(mine)})"
            words = f"the record at {copy.offset} was read as the copy of the next one from {end} on ({_told(copy)}); "
            return _refusal(RefusalKind.DIFFERENCE, partition, words + here, _NOT_EXACT)
        end, seen = mine.offset + 1, seen + 1
    if seen != count:
        words = f"{many(count, 'copied record')} were read, of {landed} and what follows; {seen:,} are there to compare"
        return _refusal(RefusalKind.DIFFERENCE, partition, words, _NOT_EXACT)
    return end


_ANEW = "name the returned site anew, with another name, and copy into a new topic"
_NOT_EXACT = "nothing says what of the returned site has been read: name it anew, with another name"


def _told(one: Copied) -> str:
    key = "no key" if one.key is None else f"key {one.key[:40]!r}"
    return f"timestamp {one.timestamp_ms}, {key}, {many(len(one.value or b''), 'byte')}"


def _refusal(kind: RefusalKind, partition: int, words: str, advice: str) -> Refusal:
    return Refusal(kind, f"partition {partition}: {words}", advice)
