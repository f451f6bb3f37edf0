"""A log that was cut below what was planned, as an unclean leader election does, and how reading goes on after it.

Each leader of a Kafka partition has an epoch, which only grows. A plan pins the epoch of the leader that told its ends:
all records below them are of that epoch or an earlier one. Where a later leader's records begin below a planned end,
the log was cut there, and other records have taken the offsets from there on, however far it has grown since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.base.fields import read_as
from tidegate.core.source.port import LogState

REASON = "a cut of the log"
RECREATED = "if the topic was deleted and created again, `tidegate source reset <pipeline>` accepts the new one"
"""Beside the advice for a cut, where no id tells a log from its successor."""


@dataclass(frozen=True)
class Cut:
    """Offsets `[start, end)` of a Kafka partition, planned by batch `after_batch` or those before it, that the log gave
    up. `leader_epoch`: of the leader that was asked; None: not known."""

    partition: int
    topic_id: str
    after_batch: int
    start: int
    end: int
    leader_epoch: int | None = None

    def words(self) -> str:
        why = "an unclean leader election?"
        if self.leader_epoch is None:
            why = "its end was lost; or the topic was created again, which `tidegate source reset` accepts"
        return (
            f"partition {self.partition}: the log was cut at offset {self.start} ({why}), and it "
            f"was planned up to {self.end}, by batch {self.after_batch}: what takes the freed offsets is not read"
        )


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """Where the batch after `after_batch` goes on in a partition: at `offset`. With a `lost_start` offsets
    `[lost_start, offset)` are a loss of it; without one it reads again from where the log was cut."""

    partition: int
    after_batch: int
    topic_id: str
    offset: int
    lost_start: int | None = None
    leader_epoch: int | None = None
    why: str = ""

    @property
    def cut(self) -> int:
        """The first offset that is another record now."""
        return self.offset if self.lost_start is None else self.lost_start


def resumption(cut: Cut, skip: bool, why: str) -> Resumption:
    """`skip`: go on at the planned end, and record what took the freed offsets as lost; else read on from the cut."""
    offset, lost = (cut.end, cut.start) if skip else (cut.start, None)
    return read_as(Resumption, cut, offset=offset, lost_start=lost, why=why)


def doubtful(ends: Mapping[int, int], epochs: Mapping[int, int], topic: LogState) -> dict[int, tuple[int, int]]:
    """(end, leader epoch) of partitions whose log may have been cut below what was planned: those with a new leader, or
    that end too early."""
    found = {}
    for p, end in ends.items():
        now, epoch = topic.partitions.get(p), epochs.get(p)
        if now is None or epoch is None or now.leader_epoch is None:
            continue
        if now.leader_epoch != epoch or end > now.high_watermark:
            found[p] = (end, epoch)
    return found


def too_short(ends: Mapping[int, int], topic: LogState) -> dict[int, int]:
    """R6 without the trait `identity`: where each log ends that ends below `ends`. It was cut, or created again; no id
    tells."""
    if topic.traits.identity:
        return {}
    return {p: o.high_watermark for p, o in topic.partitions.items() if o.high_watermark < ends.get(p, 0)}


def found_cuts(
    ends: Mapping[int, int], epochs: Mapping[int, int], topic: LogState, answers: Mapping[int, int], after_batch: int
) -> tuple[Cut, ...]:
    """`answers`: what the broker said of the doubtful ones that were cut. Where no epoch is known, a log that ends
    below the planned end was cut at its end."""
    cuts = []
    for p, end in sorted(ends.items()):
        now = topic.partitions.get(p)
        if now is None:
            continue
        start = answers.get(p)
        if start is None and (p not in epochs or now.leader_epoch is None):
            start = now.high_watermark
        if start is not None and start < end:
            cuts.append(Cut(p, topic.topic_id, after_batch, start, end, now.leader_epoch))
    return tuple(cuts)


class CutLedger(Protocol):
    """What is remembered of cut logs. A cut that was found stops planning until an operator has decided."""

    def open(self, name: str) -> tuple[Cut, ...]:
        """Undecided cuts of the accepted topic, by partition."""
        ...

    def remember(self, name: str, version: int, cuts: Iterable[Cut]) -> None:
        """Store the cuts if the pipeline is still at `version` (R5), which rises."""
        ...

    def settle(self, name: str, cut: Cut, resumed: Resumption) -> None:
        """An operator's decision, if the cut is still the one that was seen; the pipeline's version rises."""
        ...

    def resumptions(self, name: str) -> tuple[Resumption, ...]:
        """All decisions, oldest first."""
        ...

    def restore(self, name: str, resumed: Iterable[Resumption]) -> None:
        """Decisions that the ledger lost, before the batch that went on there is written again."""
        ...
