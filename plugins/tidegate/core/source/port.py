"""What the rules need of a source: its traits, the state of one log, and the questions that a task asks it.

A source is a folder of `tidegate/sources`. Rules ask its traits and never its name. An *offset* is an int in a *lane*
(a Kafka partition); plans, receipts and columns call the lane `partition`. `tests/contract` holds every source to this.

Each changing call ends in one of three ways: it returns (done), raises a definite error (refused, nothing changed), or
raises an error that says that the outcome is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a source can promise; each field is a question that a rule asks.

    `identity`: a log that was deleted and created again has another id (R6). Without it `LogState.topic_id` is the
    log's name, and a recreated log that has grown past the planned end can't be told from the old one; the ledger gives
    each log that an operator accepts an id of its own (`LogState.known_as`).
    `transactions`: the readable end may lie before the log's end.
    `dense`: an offset holds at most one record, so that gaps have names and offsets add up.
    `rereadable`: a second reading gives the same records, so that replay and heal may read from the source.
    `expires`: the log forgets records by itself, so that there is a time to loss.
    `remembers`: it keeps our ends under a mark, which is the second witness of R11.
    `windowed`: it has no log and is read window by window, each whole (`core.batch.readings`)."""

    identity: bool
    transactions: bool
    dense: bool
    rereadable: bool
    expires: bool
    remembers: bool
    windowed: bool = False


ALL = Traits(identity=True, transactions=True, dense=True, rereadable=True, expires=True, remembers=True)


@dataclass(frozen=True)
class Lane:
    """Offsets exclusive: the next record's. The last stable offset is what a read_committed reader can reach; without
    transactions it is the high watermark.

    `leader_epoch`: of the leader that told the ends; every record below them is of it or an earlier one."""

    log_start: int
    last_stable_offset: int
    high_watermark: int
    leader_epoch: int | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class LogState:
    """`retention_ms` and `retention_bytes` (of one lane) are None where nothing is deleted for that reason.

    `deletes`: whether retention deletes at all (a topic may only be compacted); None: we may not read the topic's
    settings, and the other fields say nothing. `segment_bytes`: what the log deletes at once."""

    topic: str
    topic_id: str
    partitions: dict[int, Lane]
    retention_ms: int | None = None
    retention_bytes: int | None = None
    deletes: bool | None = True
    segment_bytes: int | None = None
    traits: Traits = ALL

    def is_another(self, topic_id: str | None) -> bool:
        """R6: whether this is another log than the one of that id; None: no log has been accepted yet."""
        return topic_id is not None and topic_id != self.topic_id

    def known_as(self, accepted: str | None) -> LogState:
        """This log under the id that the ledger has accepted.

        Without the trait `identity` every log of this name looks alike: which era of it this is (`orders`, `orders#2`
        after `tidegate source reset`) is what an operator said last."""
        if self.traits.identity or accepted is None or accepted.partition(_ERA)[0] != self.topic_id:
            return self
        return replace(self, topic_id=accepted)

    def next_era(self) -> LogState:
        """Without the trait `identity`: this log under the id that it gets as a new one, which no log had before."""
        name, _, number = self.topic_id.partition(_ERA)
        return replace(self, topic_id=f"{name}{_ERA}{int(number or 1) + 1}")


_ERA = "#"
"""In an id of a log without an identity of its own; no source allows it in a name."""


@dataclass(frozen=True)
class ForWorkers:
    """Settings of the client that reads the records. `secrets` travel in a private file, never in a plan."""

    settings: dict[str, str]
    secrets: dict[str, str] = field(default_factory=dict, repr=False)


class Source(Protocol):
    """One connection; it may be asked about any log there.

    What to do about troubles is said by the kind of source (`core.source.trouble`): also where no server answers."""

    @property
    def traits(self) -> Traits: ...

    def look(self, topic: str) -> LogState:
        """Raises SourceUnavailable (retry), SourceError if the topic does not exist."""
        ...

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """First offset at or after the source's timestamp, for each lane; the high watermark where there is none."""
        ...

    def cuts(self, topic: str, ends: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Offsets, of lanes with (end, leader epoch), where the records of later leaders begin, if that is below the
        end.

        Lanes whose log was not cut there, or of which the source cannot tell, are left out."""
        ...

    def remember(self, group: str, topic: str, offsets: dict[int, int], mark: str = "") -> None:
        """Tell the source's own tools how far we are. Informational: the ledger alone decides. `mark` says whose it is.

        Never called without the trait `remembers`."""
        ...

    def remembered(self, group: str, topic: str, mark: str = "") -> dict[int, int]:
        """Offsets (exclusive) that were last remembered with this `mark`, by lane; others are left out.

        Never called without the trait `remembers`."""
        ...

    def for_workers(self) -> ForWorkers:
        """What the reader of records needs; nothing is asked."""
        ...


class Unmarked:
    """The part of a `Source` that has neither leader epochs nor the trait `remembers`."""

    def cuts(self, topic: str, ends: dict[int, tuple[int, int]]) -> dict[int, int]:
        return {}

    def remember(self, group: str, topic: str, offsets: dict[int, int], mark: str = "") -> None:
        raise NotImplementedError("this source remembers nothing")

    def remembered(self, group: str, topic: str, mark: str = "") -> dict[int, int]:
        raise NotImplementedError("this source remembers nothing")
