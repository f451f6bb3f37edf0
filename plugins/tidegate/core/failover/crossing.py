"""What a partition's copies say of where reading goes on: walked once, in their order (F1).

Reading is strictly next: of the copies behind what has landed the first one of each record is read, repeats are
skipped, and a hole refuses. Contents are never compared: equal records are told apart by their coordinates alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tidegate.core.base.choice import Choice
from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.base.wording import many
from tidegate.core.failover.origins import Origins
from tidegate.core.source.coordinates import HEADER, Coordinate, coordinate_of

MOST_STRETCHES = 1000
"""A copier that repeats itself more often is better repaired than read around."""


class RefusalKind(Choice):
    """Why a failover is refused; each word is the title that people know it by."""

    NO_COORDINATES = "no coordinates"
    DIFFERENCE = "a difference in the overlap"
    NO_PROOF = "a pair that is not proven"
    INVALID = "invalid coordinate"
    OTHER_LOG = "copies of another topic"
    HOLE = "a hole"
    BEGINS_ABOVE = "begins above our end"
    ORIGIN = "origin unknown"
    REPEATS = "too many repeats"
    PARTITIONS = "partition numbers that differ"
    MARK = "mark unknown"
    TRANSACTION = "open transaction"
    OPEN_BATCH = "open batch"
    UNREAD_COPIES = "copies not read yet"
    NOT_NOTED = "end not noted"
    SHRUNK = "topic is not what it was"
    LOG_CUT = "log cut before"
    SAME_TOPIC = "the same topic"
    NOT_BEGUN = "nothing planned"


@dataclass(frozen=True)
class Refusal:
    """`words` hold both readings and their numbers; `advice` says what to do next."""

    kind: RefusalKind
    words: str
    advice: str = ""

    @property
    def line(self) -> str:
        return f"{self.kind}: {self.words}"


@dataclass(frozen=True)
class Pair:
    """The record at offset `before` of the site before has its copy at offset `here`: a person says so, who also says
    that the copier is exact (F2)."""

    before: int
    here: int

    def __str__(self) -> str:
        return f"{self.before}:{self.here}"


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Of one partition. `landed`: where the batches of the site before end; `crossed`: one above the greatest offset
    there that a copy is of, None without a copy; `base`: where the copies may begin here; `mark`: where they end (F3).

    `stretches` of this log hold copies that are not read; `refusals` are empty where the rest may be. With a `pair`
    copies were counted: `crossed` then is a lower bound, since the site before may have offsets without a record.
    `strays`: copies of what came to the site before as copies, behind its mark."""

    partition: int
    landed: int
    crossed: int | None
    base: int
    mark: int
    copies: int = 0
    to_read: int = 0
    repeats: int = 0
    stretches: tuple[Interval, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    pair: Pair | None = field(default=None, metadata=LEFT_OUT)
    strays: int = field(default=0, metadata=LEFT_OUT)

    @property
    def first_to_read(self) -> int:
        """Of copies that were counted: those from here on up to the mark are read."""
        return max([self.base, *(one.end for one in self.stretches)])

    @property
    def left(self) -> int:
        """From this offset on nothing of the site before has crossed or landed."""
        return max(self.landed, self.crossed or 0)

    @property
    def unknown_here(self) -> int:
        """Offsets that have landed and never crossed, at most: some may hold no record."""
        return max(0, self.landed - (self.crossed or 0))


@dataclass
class Walk:
    """Takes a partition's records from `base` up to `mark`, in order; `end` gives what they say.

    `topic_id` is that of the topic that they must be copies of. `others`: of topics that were read before it. Their
    copies are skipped: what they are of has landed, or is read when that site is active again (F6). So are copies of
    such copies, which `origins` tells; None where the site before can have none."""

    partition: int
    topic_id: str
    landed: int
    base: int
    mark: int
    others: Collection[str] = ()
    origins: Origins | None = None
    _next: int = field(init=False)
    _skipping: int | None = field(init=False)
    _stretches: list[Interval] = field(init=False, default_factory=list)
    _crossed: int | None = field(init=False, default=None)
    _copies: int = field(init=False, default=0)
    _read: int = field(init=False, default=0)
    _repeats: int = field(init=False, default=0)
    _strays: int = field(init=False, default=0)
    _bare: list[int] = field(init=False, default_factory=list)
    _bare_count: int = field(init=False, default=0)
    _wrong: list[Refusal] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._next, self._skipping = self.landed, self.base

    def see(self, offset: int, values: Sequence[bytes | None]) -> bool:
        """The next record, with its headers of that name. False: more of them change nothing."""
        try:
            copy = coordinate_of(values)
        except ValueError as e:
            return self._refuse(RefusalKind.INVALID, f"offset {offset}: {e}", "the copier writes the header wrongly")
        if copy is None:
            self._bare_count += 1
            self._bare = [*self._bare[:1], offset]
            return True
        if copy.topic_id in self.others and copy.partition == self.partition:
            return self._skip(offset)
        if (copy.topic_id, copy.partition) != (self.topic_id, self.partition):
            words = (
                f"offset {offset} is a copy from topic id {copy.topic_id}, partition {copy.partition}; batches are of "
                f"{self.topic_id}, partition {self.partition}"
            )
            return self._refuse(
                RefusalKind.OTHER_LOG, words, "copy the topic that was read, each partition into its own"
            )
        self._copies += 1
        self._crossed = max(self._crossed or 0, copy.offset + 1)
        if copy.offset < self._next:
            self._repeats += copy.offset >= self.landed
            return self._skip(offset)
        if copy.first > self._next:
            return self._hole(offset, copy.first)
        stray = self._is_stray(copy)
        if stray is None:
            return self._of_what(offset, copy)
        self._next = copy.offset + 1
        if stray:
            self._strays += 1
            return self._skip(offset)
        self._read += 1
        if self._skipping is not None:
            self._stretches.append(Interval(self._skipping, offset))
            self._skipping = None
        return True

    def _is_stray(self, copy: Coordinate) -> bool | None:
        """F3: whether the record there was a copy itself, which nobody reads there; None: nothing tells."""
        return False if self.origins is None else self.origins.was_copy(copy)

    def _skip(self, offset: int) -> bool:
        self._skipping = offset if self._skipping is None else self._skipping
        return True

    def end(self) -> Crossing:
        if self._skipping is not None:
            self._stretches.append(Interval(self._skipping, self.mark))
        if self._bare_count:
            self._refuse_bare()
        stretches = tuple(one for one in self._stretches if len(one))
        if len(stretches) > MOST_STRETCHES:
            words = f"{many(self._repeats, 'record')} were copied again, in {len(stretches):,} places"
            self._refuse(RefusalKind.REPEATS, words, "copy into a new topic by a transactional copier")
        return Crossing(
            partition=self.partition, landed=self.landed, crossed=self._crossed, base=self.base, mark=self.mark,
            copies=self._copies, to_read=self._read, repeats=self._repeats, stretches=stretches,
            refusals=tuple(self._wrong), strays=self._strays,
        )  # fmt: skip

    def _hole(self, offset: int, first: int) -> bool:
        missing = f"offsets [{self._next}, {first})"
        count = f"{many(first - self._next, 'record')} at most"
        if not self._read:
            words = f"batches have landed up to {self.landed}, the copies here begin at {first}: {missing} ({count})"
            advice = "wait for the first site, or let the copier begin earlier, in a new topic"
            return self._refuse(RefusalKind.BEGINS_ABOVE, words, advice)
        words = f"the copy at {offset} is of the first record from {first} on, the one before ends at {self._next}"
        advice = "the copier has lost records: let it copy again from there on, in the same order"
        return self._refuse(RefusalKind.HOLE, f"{words}: {missing} ({count}) never crossed", advice)

    def _of_what(self, offset: int, copy: Coordinate) -> bool:
        words = (
            f"the copy at {offset} is of the record at {copy.offset} of topic id {self.topic_id}, behind the mark "
            f"there; batches have landed up to {self.landed}. Its header does not say whether that record was a copy "
            "from another site, which is read there, and the log of the active site cannot be asked"
        )
        advice = (
            "let the active site's brokers answer: its log says it; or go back to a site whose own records are the "
            "copies; from now on a copier that says it, see docs/failover.md"
        )
        return self._refuse(RefusalKind.ORIGIN, words, advice)

    def _refuse_bare(self) -> None:
        first, last = self._bare[0], self._bare[-1]
        words = (
            f"{many(self._bare_count, 'record')} from offset {first} to {last} have no header {HEADER}, "
            f"{self._copies:,} have one; below the mark {self.mark} all must be copies that say of what"
        )
        advice = (
            "a copier without coordinates proves nothing (stock MirrorMaker 2 is one), unless it is exact and you know "
            f"a pair of offsets: --pair, see docs/failover.md. If these are producers' own records, written after "
            f"copying had stopped: --mark {self.partition}={first}"
        )
        self._refuse(RefusalKind.NO_COORDINATES, words, advice)

    def _refuse(self, kind: RefusalKind, words: str, advice: str) -> bool:
        self._wrong.append(Refusal(kind, f"partition {self.partition}: {words}", advice))
        return False
