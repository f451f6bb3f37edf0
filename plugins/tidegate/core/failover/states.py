"""Switches of the active site as the ledger has them, and the ports that a failover needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.base.offsets import Interval
from tidegate.core.batch.states import OpenBatch
from tidegate.core.failover.counting import Copied
from tidegate.core.failover.crossing import Crossing
from tidegate.core.source.port import LogState

Stretches = Mapping[int, Sequence[Interval]]
"""By partition."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What a switch rests on: both topics, and each partition's readings. `stopped`: how it is known that no copier
    goes on behind the marks (F3)."""

    topic: str
    before_topic_id: str
    topic_id: str
    stopped: str
    crossings: tuple[Crossing, ...]

    def of(self, partition: int) -> Crossing | None:
        return next((c for c in self.crossings if c.partition == partition), None)


@dataclass(frozen=True, kw_only=True)
class Failover:
    """The `number`th switch of a pipeline, from site `before` to `site`; the newest one's site is active."""

    number: int
    site: str
    before: str
    certificate: Certificate
    why: str
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class FailoverRecord:
    """What storage keeps of a switch, from before anything is planned at its site (R11)."""

    pipeline: str
    failover: Failover
    stretches: dict[str, dict[str, tuple[Interval, ...]]]  # of this switch: by topic id, then by partition


@dataclass(frozen=True, kw_only=True)
class Switch:
    """A decided switch. It commits only if the pipeline is at `version`, on topic `certificate.before_topic_id`, and
    `withdrawn`, if there is one, still is as it was seen (F4). `stretches`: by topic id."""

    pipeline: str
    version: int
    number: int
    site: str
    before: str
    certificate: Certificate
    withdrawn: OpenBatch | None
    stretches: Mapping[str, Stretches]


class FailoverLedger(Protocol):
    """Which site is active, and what is never read of which topic."""

    def newest(self, name: str) -> Failover | None:
        """The newest switch; None while the first site has always been active."""
        ...

    def history(self, name: str) -> list[Failover]:
        """All switches, oldest first."""
        ...

    def stretches(self, name: str, topic_id: str) -> dict[int, tuple[Interval, ...]]: ...

    def left(self, name: str, topic_id: str) -> tuple[dict[int, int], dict[int, int]]:
        """Where batches on a topic end, and by which leader epochs that is known, by partition."""
        ...

    def record(self, name: str, number: int) -> FailoverRecord: ...

    def noted(self, name: str, number: int, site: str) -> dict[int, int]:
        """Ends by partition of a site that has returned after the switch of that number; empty: none were noted."""
        ...

    def note_ends(self, name: str, number: int, site: str, found: Mapping[int, int]) -> None:
        """Note them, once. Raises LostComparison where another switch is the newest by now, or ends are noted."""
        ...

    def restore(self, record: FailoverRecord, withdrawn: OpenBatch | None, why: str) -> None:
        """Write back a switch that the ledger has lost. Raises LostComparison unless it is the next one."""
        ...

    def switch(self, switch: Switch, why: str) -> None:
        """One compare-and-set (F4, R5). Raises LostComparison, and changes nothing then."""
        ...


class Standby(Protocol):
    """The log of a site that is not active, and its copier."""

    def look(self, topic: str) -> LogState: ...

    def cuts(self, topic: str, ends: dict[int, tuple[int, int]]) -> dict[int, int]:
        """As `core.source.port.Source.cuts`."""
        ...

    def records(self, topic: str, start: int, end: int, partition: int) -> Iterator[Copied]:
        """Each record of `[start, end)` of a partition that a reader can reach.

        Raises SourceUnavailable."""
        ...

    def fence(self, copiers: Sequence[str]) -> None:
        """End what transactional copiers of these ids have begun, and let none of them write again (F3).

        Raises SourceError."""
        ...
