"""Rounds and chunks as the ledger has them: which key ranges are to be read, which attempt of each was accepted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tidegate.core.base.choice import Choice
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.copy.complete import Look
from tidegate.core.copy.port import KeyRange, LogPosition, TableRange
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.copied import RoundIn
from tidegate.core.mirror.jobs import Position
from tidegate.core.mirror.parts import KeyPart, server_of

LOOKS_KEPT = 1_000
"""Looks at the connector that are remembered: about a week of them."""
RESUMED_MS = 24 * 3_600_000
"""A comparison that died is gone on with for so long, and holds up purges; later its rows say too little of what is
there now, and a purge may have taken tombstones of what was deleted since."""
WAS_COMPARED = "compared: "
"""With which `Round.why` begins of a comparison that came to its end."""
_NAME = re.compile(r"([1-9][0-9]*)\.([1-9][0-9]*)-(\S+)")


class RoundState(Choice):
    """OPEN: its chunks are cut, read and merged. COMPARED: they are cut and read, and not merged, but compared with the
    table. WHOLE: the table has said that all of it is in. GIVEN_UP: a person said so; what is in the table stays there.
    ENDED: it was compared, or would have been; nothing of it was merged, or ever will be."""

    OPEN = "OPEN"
    COMPARED = "COMPARED"
    WHOLE = "WHOLE"
    GIVEN_UP = "GIVEN_UP"
    ENDED = "ENDED"


class ChunkState(Choice):
    """CUT: its range is known, and nothing is accepted. READ: the files of one attempt are. Whether it is in the table
    the table tells (S8)."""

    CUT = "CUT"
    READ = "READ"


UNDER_WAY = (RoundState.OPEN, RoundState.COMPARED)
"""One round of a pipeline at most, or of each of its servers where there are several (S11)."""
BRINGS_NOTHING = (RoundState.GIVEN_UP, RoundState.ENDED)
"""Nothing more of it is read or merged."""


@dataclass(frozen=True)
class Claim:
    """What a comparison without a difference says of a table that has batches 1 to `upto`, and these `rounds`: what the
    newest whole copy did not read is in these `columns` as the source has it."""

    upto: int
    rounds: tuple[RoundIn, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Round:
    """One reading of the whole source table, or of all its shards, or of a `part` of its keys. `table`: as the spec
    names it or them; empty: none is read, all rows of a server that is gone go (`workflow.copy.drop`). `key`: its
    columns there, in the order of bounds. `columns`: the mirror's, when it began; empty: not known. `confirmed`: the
    newest comparison of all its keys that has found no difference, and its `claim`; 0: none. `ended`: its last chunk is
    cut. `why`: of one that was asked for, or given up. UTC ms."""

    pipeline: str
    number: int
    table: str
    key: tuple[str, ...]
    state: RoundState
    ended: bool = False
    why: str = ""
    begun_ms: int = 0
    done_ms: int | None = None
    part: KeyPart | None = None
    columns: tuple[str, ...] = ()
    confirmed: int = 0
    claim: Claim | None = None

    def as_of(self, table: Told) -> Round:
        """The same with the columns that a comparison has confirmed; not confirmed where the table was taken back since
        (S12), so that it lacks what was compared."""
        if self.claim is None or table.upto < self.claim.upto or not table.copied.has(self.claim.rounds):
            return replace(self, confirmed=0, claim=None)
        more = tuple(one for one in self.claim.columns if one not in self.columns)
        return replace(self, columns=(*self.columns, *more) if self.columns else ())

    @property
    def server(self) -> str:
        """The one that it reads, of several (S11); empty of the only one."""
        return server_of(self.part)

    @property
    def drops(self) -> bool:
        """Whether it drops the rows of a server that is gone: it is no copy of one that comes back."""
        return not self.table and self.state not in BRINGS_NOTHING

    @property
    def words(self) -> str:
        """`copy 3`, `copy 3 (id 7 to 9)`, `copy 3 (server a)`."""
        return f"copy {self.number}" + ("" if self.part is None else f" ({self.part.words})")


@dataclass(frozen=True)
class ChunkFile:
    """`path`: below the attempt's directory."""

    path: str
    rows: int
    bytes: int


def damaged(files: Iterable[ChunkFile], there: Mapping[str, int]) -> str | None:
    """What is wrong with the first file that is missing, or not as long as it was; None if all are whole. `there`:
    lengths by path."""
    for one in files:
        if there.get(one.path) != one.bytes:
            return f"{one.path} is {'not as long as it was' if one.path in there else 'gone'}"
    return None


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A key range of a round, of `table`, `schema.name`. `number` is unique within the pipeline. `epoch` counts the
    attempts that were begun; with `nonce` it names the newest one's directory (R9); `tried_ms`: when that one began
    (UTC).

    Of a READ one: `low`, `high` (S2), `rows`, `files` of the accepted attempt, and when it was read (UTC ms)."""

    pipeline: str
    number: int
    round: int
    table: str
    keys: KeyRange
    state: ChunkState = ChunkState.CUT
    epoch: int = 0
    nonce: str = ""
    tried_ms: int | None = None
    low: LogPosition | None = None
    high: LogPosition | None = None
    rows: int = 0
    files: tuple[ChunkFile, ...] = ()
    read_ms: int | None = None

    @property
    def attempt(self) -> str:
        """`<chunk>.<epoch>-<nonce>`: of its directory."""
        return f"{self.number}.{self.epoch}-{self.nonce}"

    @property
    def position(self) -> Position:
        """S1: that of its rows. Of a READ one only."""
        assert self.low is not None, f"chunk {self.number} is not read"
        return (*self.low, self.round)

    @property
    def batch_id(self) -> int:
        """What its rows have for a batch: nothing of a topic."""
        return -self.number


def parse_attempt(name: str) -> tuple[int, int, str] | None:
    """(chunk, epoch, nonce) of `Chunk.attempt`; None for anything else."""
    found = _NAME.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]), found[3])


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How far a copy is, by the ledger: the newest round, the chunks that are cut of it, and how many of them are read,
    with their rows. `since_ms`: when the newest chunk was read (UTC); None: none was. `asked_ms`: when the connector
    last said how far it is (UTC); None: never. `whole`: the newest round of the whole table that is whole, with its
    `columns`; None: none is, or the ledger has forgotten it. `columns_of`: the same of each server; `dropped`: servers
    whose rows a person has dropped since. `gaps`: servers whose connector may have left out what no
    copy has read since (S12), empty of the only one. `asked`: as `asked_ms`, by server.

    `others`: of older rounds that are under way, of other servers (S11)."""

    round: Round
    chunks: int = 0
    read: int = 0
    rows: int = 0
    since_ms: int | None = None
    asked_ms: int | None = None
    whole: int | None = None
    columns: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    asked: tuple[tuple[str, int], ...] = field(default=(), metadata=LEFT_OUT)
    columns_of: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), metadata=LEFT_OUT)
    dropped: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)
    others: tuple[Reading, ...] = field(default=(), metadata=LEFT_OUT)

    @property
    def under_way(self) -> tuple[Reading, ...]:
        """Of rounds that are, in the order of their numbers."""
        mine = (self,) if self.round.state in UNDER_WAY else ()
        return (*self.others, *mine)


class CopyLedger(Protocol):
    """Rounds and chunks of a pipeline."""

    def newest(self, name: str) -> Round | None:
        """The round with the greatest number."""
        ...

    def rounds(self, name: str) -> Sequence[Round]:
        """In the order of their numbers."""
        ...

    def chunks(self, name: str, round_: int) -> Sequence[Chunk]:
        """Of a round, in the order of their numbers, which is that of their keys."""
        ...

    def by_number(self, name: str, numbers: Iterable[int]) -> dict[int, Chunk]:
        """Those of these chunks that the ledger has, of whatever round."""
        ...

    def looks(self, name: str) -> Sequence[Look]:
        """In the order of time, the newest LOOKS_KEPT."""
        ...

    def newest_looks(self, name: str) -> dict[str, Look]:
        """The newest one at each server's connector, of the only one by the empty name."""
        ...

    def merged_ends(self, name: str, upto: int) -> dict[int, int]:
        """Offsets (exclusive) up to which batches 1 to `upto` have read each Kafka partition; empty where any record of
        theirs was lost, given up, left out as dirty, or of another topic than the accepted one, and where reading went
        on behind a cut of the log: then nothing is complete."""
        ...

    def looked(self, name: str, look: Look) -> None:
        """Append it, and forget the server's oldest beyond LOOKS_KEPT. Raises LostComparison where there is one of its
        number: another task has looked meanwhile."""
        ...

    def begin(
        self,
        name: str,
        number: int,
        table: str,
        key: Sequence[str],
        why: str = "",
        only: bool = False,
        part: KeyPart | None = None,
        columns: Sequence[str] = (),
    ) -> Round:
        """A new round, OPEN, or `only` to be COMPARED; of a `part` of the keys. Raises LostComparison if there is one
        of that number, or another one of that server is under way."""
        ...

    def cut(self, round_: Round, after: int, ranges: Sequence[TableRange], ended: bool) -> Sequence[Chunk]:
        """Append chunks behind the round's `after`th (0: none), CUT. `ended`: they are the last ones, and `ranges` may
        be empty then. Raises LostComparison if others were cut meanwhile, or it is not OPEN."""
        ...

    def attempt(self, chunk: Chunk, nonce: str) -> Chunk:
        """The next attempt of a chunk that is CUT (R9), by compare-and-set of its epoch. Raises LostComparison."""
        ...

    def accept(self, chunk: Chunk, low: LogPosition, high: LogPosition, files: Sequence[ChunkFile]) -> Chunk:
        """CUT -> READ, if this attempt is the newest one. Raises LostComparison."""
        ...

    def again(self, chunk: Chunk, why: str) -> Chunk:
        """READ -> CUT: it is too old to be applied (S7). Raises LostComparison."""
        ...

    def whole(self, name: str, number: int) -> None:
        """OPEN -> WHOLE: the table says so. Nothing otherwise."""
        ...

    def merge(self, round_: Round, why: str) -> Round:
        """COMPARED -> OPEN: what it has read is to be merged. Raises LostComparison."""
        ...

    def give_up(self, round_: Round, why: str) -> Round:
        """OPEN -> GIVEN_UP, COMPARED -> ENDED. Raises LostComparison."""
        ...

    def confirm(self, name: str, number: int, by: int, claim: Claim) -> None:
        """The comparison `by` of all keys of a WHOLE round found no difference. Nothing where the ledger has no such
        round, or a later one of those. Raises LostComparison."""
        ...

    def forget(self, round_: Round, why: str) -> None:
        """Delete what is over, and its chunks; the pipeline's chunk of the greatest number stays, so that no other one
        gets a number that was given. Raises LostComparison."""
        ...
