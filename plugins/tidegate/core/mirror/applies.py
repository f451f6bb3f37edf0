"""Merges as the ledger knows them, and its copy of what the table says (M4): the table tells, the ledger remembers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

from tidegate.core.base.choice import Choice
from tidegate.core.mirror.balance import Totals
from tidegate.core.mirror.copied import NOTHING, Copied
from tidegate.core.mirror.jobs import START, Position, ServerLog
from tidegate.core.mirror.next_merge import BatchRange
from tidegate.core.mirror.servers import purge_words

_NAME = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)\.([1-9][0-9]*)-(\S+)")


class ApplyState(Choice):
    """OPEN: a task works on it, or died. OVERTAKEN: the table has its batches by another one. REFUSED: a person has to
    look."""

    OPEN = "OPEN"
    APPLIED = "APPLIED"
    OVERTAKEN = "OVERTAKEN"
    REFUSED = "REFUSED"


OPEN, APPLIED, OVERTAKEN, REFUSED = ApplyState


@dataclass(frozen=True, kw_only=True)
class Apply:
    """A try to merge batches `first` to `last` (inclusive), or one of upkeep (`BatchRange`). `epoch` counts the tries
    of a pipeline; with `nonce` it names the try's directory (R9)."""

    pipeline: str
    first: int
    last: int
    epoch: int
    nonce: str

    @property
    def name(self) -> str:
        """`<first>-<last>.<epoch>-<nonce>`: of its directory, and in the summary of its commit."""
        return f"{self.first}-{self.last}.{self.epoch}-{self.nonce}"

    @property
    def merges(self) -> bool:
        """Whether it takes any batch; else it is upkeep."""
        return BatchRange(self.first, self.last).merges

    @property
    def subject(self) -> str:
        """What it is called in the event log."""
        return f"apply {self.first}-{self.last}" if self.merges else f"upkeep at {self.last}"


def parse_apply(pipeline: str, name: str) -> Apply | None:
    """The inverse of `Apply.name`; None for anything else."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    first, last, epoch, nonce = found.groups()
    return Apply(pipeline=pipeline, first=int(first), last=int(last), epoch=int(epoch), nonce=nonce)


@dataclass(frozen=True, kw_only=True)
class Told(Totals):
    """What a keyed table said of itself when it was last looked at. `attempt`: of the commit that made it so.
    `purged_below`, `purged_upto`: M5, and the last batch that was in the table then. `below_purge`: events that it has
    kept out, over the table's life; `kept_out`: samples of the newest merge's, for people, not copied.
    `buckets`: how many it has, not copied; 0: it does not say. `begins`: the greatest position of its first merge with
    events, `last_position`: of all merges; None before any. `copied`: what it says of copies (S8)."""

    upto: int = 0
    snapshot: str | None = None
    attempt: str = ""
    purged_below: Position = START
    purged_upto: int = 0
    below_purge: int = 0
    kept_out: tuple[str, ...] = field(default=(), compare=False)
    buckets: int = field(default=0, compare=False)
    begins: Position | None = None
    last_position: Position | None = None
    copied: Copied = NOTHING

    @classmethod
    def by(cls, prefix: Told) -> Told:
        """What a snapshot, which knows more, says of itself."""
        return cls(**{f.name: getattr(prefix, f.name) for f in fields(cls)})

    def of_server(self, server: str) -> Told:
        """The same with what is known of positions of that server alone (S11); of the only one, empty, this."""
        if not server:
            return self
        logs = self.copied.servers
        log = next((one for one in logs if one.name == server), ServerLog(server))
        # whose the others are nobody knows: a commit of an earlier release has kept them out, or they are of a server
        # that is named no more
        kept_out = log.below_purge + max(0, self.below_purge - sum(one.below_purge for one in logs))
        mine = replace(self, begins=log.begins, last_position=log.last, purged_below=log.purged_below)
        return replace(mine, below_purge=kept_out)

    def has(self, before: Told) -> bool:
        """Whether it holds all that made the table what it was `before`; not if it was taken back, and what was in it
        is not merged again."""
        return self.upto >= before.upto and self.copied.has(before.copied.rounds)

    @property
    def purge_words(self) -> str:
        """The marker of the newest purge, or those."""
        return purge_words(self.purged_below, self.copied.servers)


def taken_back(old: Told | None, now: Told) -> bool:
    """Whether somebody has taken the table back since the ledger copied `old`. M4: the copy follows the table, back
    never without a word.

    `old` must have been read before the table: a merge that another task has committed in between looks like a table
    that was taken back."""
    return old is not None and now.upto < old.upto


@dataclass(frozen=True, kw_only=True)
class Landed:
    """What a merge can take. `rows`: of data, by batch, of those above the table's last one that have landed or were
    given up; `newest`: the greatest of all that have landed or were given up, 0 for none. `open_batch`: the one that
    has not."""

    rows: Mapping[int, int]
    newest: int
    open_batch: int | None


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A try as the ledger has it. `why`: of a refused one. UTC ms."""

    apply: Apply
    state: ApplyState
    began_ms: int
    done_ms: int | None = None
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class Merging:
    """How far a keyed table is, as the ledger has it. `told`: what it said when it was last looked at (`told_ms`, UTC);
    None before the first look. `newest`: the greatest batch that has landed or was given up, 0 for none; `waiting`:
    those above the table's last one, of which the oldest has landed at `since_ms` (UTC), and the first of all at
    `first_ms`. `tried`: the newest try. `kept_out_ms`: when events were last seen that a purge has kept out (UTC);
    None: never. `spec_ms`: when the newest spec came (UTC)."""

    told: Told | None = None
    told_ms: int | None = None
    newest: int = 0
    waiting: int = 0
    since_ms: int | None = None
    tried: Tried | None = None
    kept_out_ms: int | None = None
    first_ms: int | None = None
    spec_ms: int | None = None

    @property
    def upto(self) -> int:
        """The last batch in the table; 0 for none."""
        return 0 if self.told is None else self.told.upto

    @property
    def refused(self) -> Tried | None:
        """The try that a person has to look at: no other one was begun since."""
        return self.tried if self.tried is not None and self.tried.state == REFUSED else None


def refused_again(tried: Tried | None, first: int) -> str | None:
    """Why a merge that begins with batch `first` would be refused once more; None if it is worth a try. What has landed
    does not change, so the same events are refused for the same reason until a person says otherwise. Upkeep has none,
    and stops no merge."""
    if tried is None or tried.state != REFUSED or tried.apply.first != first or not tried.apply.merges:
        return None
    return tried.why


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """`read_ms`: whatever is not merged became readable after this instant (UTC): later on the topic was asked for its
    ends, to which a merged batch has read all partitions; None: no batch says so. `settled`: the newest batch with
    events that had landed before the instant that was asked for; None: none had. `left_out`: dirty rows of merged
    batches that a redrive may still bring."""

    read_ms: int | None = None
    settled: int | None = None
    left_out: bool = False


class ApplyLedger(Protocol):
    """Merges of a pipeline into its keyed table."""

    def told(self, name: str) -> Told | None:
        """The copy of what the table said; None before the first look."""
        ...

    def landed(self, name: str, after: int) -> Landed:
        """What has landed, of batches above `after` with their rows."""
        ...

    def rows(self, name: str, upto: int) -> int:
        """Rows of data of all landed batches up to that one."""
        ...

    def newest(self, name: str) -> Tried | None:
        """The try with the greatest epoch."""
        ...

    def upkeep(self, name: str) -> Tried | None:
        """The newest try of upkeep that has come to an end, APPLIED or REFUSED; commits of copies do not count."""
        ...

    def horizon(self, name: str, upto: int, before_ms: int) -> Horizon:
        """What batches 1 to `upto` say of events that are still to come. `before_ms`: UTC."""
        ...

    def tries(self, name: str, epochs: Iterable[int]) -> dict[int, Tried]:
        """Those of these tries that the ledger has, by epoch."""
        ...

    def begin(
        self,
        name: str,
        first: int,
        last: int,
        nonce: str,
        conflicts: str = "",
        base: str | None = None,
        copied: int | None = None,
    ) -> Apply:
        """The next epoch, OPEN. `conflicts`: why a person has those of it taken, for the event. `base`: the snapshot
        that upkeep was begun on. `copied`: the round of a copy that it brings rows of, or ends. Others may be OPEN
        beside it: the first one that commits wins (M1)."""
        ...

    def holds(self, apply: Apply) -> bool:
        """Whether it is OPEN still: asked before the commit (C1)."""
        ...

    def refuse(self, apply: Apply, why: str) -> None:
        """OPEN -> REFUSED. Raises LostComparison if it was overtaken."""
        ...

    def applied(self, apply: Apply, snapshot: str | None) -> None:
        """OPEN or OVERTAKEN -> APPLIED: the table says so. Done if it is, or if the ledger has forgotten it."""
        ...

    def overtaken(self, apply: Apply) -> None:
        """OPEN -> OVERTAKEN: the table has moved on, and the task gives it up. Nothing otherwise."""
        ...

    def stands(self, name: str, old: Told | None, now: Told, why: str = "") -> None:
        """The copy becomes `now`, if it is still `old`; the try that made the table so is APPLIED, and those that are
        OPEN for batches which the table has by now are OVERTAKEN, as is upkeep that was begun before it, or on another
        snapshot: it can commit no more (M1), and its begin may have arrived late. Events that a purge has kept out
        since are in the event log; so is a table that was taken back, `why` if a person said so.

        Raises LostComparison if another task has looked since."""
        ...
