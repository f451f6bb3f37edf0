"""Waits for windows: what many of them ask the ledger at once, and what each makes of the answer. Times are UTC ms.

A wait names the topics and windows that it must know of; the process that runs waits asks for all of them together
(`Look`) and lets each decide. A wait is a value: what it still needs after a look is another wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.core.base.instants import iso
from tidegate.core.base.wording import many
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window import readiness, turn
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import CLOSED, OPEN, WindowKey, WindowState
from tidegate.core.window.watermark import TopicFacts

WindowRef = tuple[str, int]
"""(pipeline, start of the window)."""

MOST_ASKED = 5000
"""Windows that one wait asks for at a time; a wait for more of them goes from the oldest on."""
MOST_NAMED = 3
"""Windows that a text gives reasons for; the others are counted."""


@dataclass(frozen=True)
class Standing:
    """A window that has a row. `generation`: the number in force; None: nothing has been published yet. `owes`: of one
    that is CLOSING, the first batch planned before that has not landed."""

    state: WindowState
    generation: int | None
    owes: int | None = None


@dataclass(frozen=True)
class Look:
    """The ledger's answer. A topic of which nothing has landed is not in `facts`, an OPEN window not in `standings`.

    Facts that have not changed since the look before are the same object."""

    facts: Mapping[str, TopicFacts]
    standings: Mapping[WindowRef, Standing]


class WaitLedger(Protocol):
    """Read-only, and cheap however many ask."""

    def look(self, pipelines: Collection[str], windows: Collection[WindowRef]) -> Look:
        """Ask with at most two statements; nothing is written. Raises LedgerError."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Answer:
    """`text` is for people; `certificate` is that of a window that is judged by its watermark."""

    done: bool
    text: str
    certificate: Certificate | None = None


class Wait(Protocol):
    """What waits: asked for `pipeline`'s facts and for `refs`, then told what the ledger says."""

    @property
    def pipeline(self) -> str: ...

    def refs(self) -> tuple[WindowRef, ...]: ...

    def decide(self, look: Look, now_ms: int) -> tuple[Answer, Wait]:
        """The answer, and the wait to go on with if it is not done."""
        ...


NOTHING_LANDED = TopicFacts(None, None, ())


def certify(pipeline: str, windows: Windows, look: Look, window: WindowKey, now_ms: int) -> Certificate:
    """The certificate as the close will decide it, by what has landed."""
    return readiness.certify(pipeline, windows, look.facts.get(pipeline, NOTHING_LANDED), window, now_ms)


def settled(facts: TopicFacts | None, now_ms: int) -> bool:
    """Whether an answer by these facts stays as it is however late it gets: no plan's clock is ahead of `now_ms`."""
    return facts is None or facts.clock_ms is None or facts.clock_ms <= now_ms


@dataclass(frozen=True)
class ReadyWait:
    """Until the window may be closed, and the one that it is built on is published. One that is closing or closed
    already has been ready, and stays so."""

    pipeline: str
    windows: Windows
    window: WindowKey

    def refs(self) -> tuple[WindowRef, ...]:
        """The window itself, since another task may have closed it, and the one that it is built on."""
        ground = turn.before(self.window, self.windows)
        return tuple((self.pipeline, key.start_ms) for key in (self.window, ground) if key is not None)

    def decide(self, look: Look, now_ms: int) -> tuple[Answer, Wait]:
        """Decide by the window's state, else by the watermark and by the window before."""
        name, standing = f"{self.pipeline} {iso(self.window.start_ms)}", self._standing(look, self.window)
        if standing is not None and standing.state != OPEN:
            ground = None if standing.generation is not None else turn.before(self.window, self.windows)
            if ground is not None and not self._published(look, ground):
                return Answer(False, f"{name}: {standing.state}, but it {turn.words(ground)}"), self
            return Answer(True, f"{name}: ready: it is {standing.state} now"), self
        certificate = certify(self.pipeline, self.windows, look, self.window, now_ms)
        facts = look.facts.get(self.pipeline, NOTHING_LANDED)
        certificate = turn.in_turn(
            certificate, self.windows, lambda key: self._published(look, key), lambda: facts.copied
        )
        return Answer(certificate.ready, certificate.text(), certificate), self

    def _published(self, look: Look, key: WindowKey) -> bool:
        standing = self._standing(look, key)
        return standing is not None and standing.generation is not None

    def _standing(self, look: Look, key: WindowKey) -> Standing | None:
        return look.standings.get((self.pipeline, key.start_ms))


@dataclass(frozen=True)
class ClosedWait:
    """Until no batch that was planned before the window began to close can bring it rows any more."""

    pipeline: str
    window: WindowKey

    def refs(self) -> tuple[WindowRef, ...]:
        """The window itself."""
        return ((self.pipeline, self.window.start_ms),)

    def decide(self, look: Look, now_ms: int) -> tuple[Answer, Wait]:
        """Decide by the batch that it waits for. Whatever else there is to say, the task that closes it says."""
        name, standing = f"{self.pipeline} {iso(self.window.start_ms)}", look.standings.get(self.refs()[0])
        if standing is None or standing.owes is None:
            return Answer(True, f"{name}: no batch stands in the way of its close"), self
        text = f"{name} is closing: batch {standing.owes} was planned before and must land"
        return Answer(False, text), self


@dataclass(frozen=True)
class PublishedWait:
    """Until each of `missing` (oldest first) is published, at `at_least` this generation; `of` is how many were asked
    for at first."""

    pipeline: str
    windows: Windows
    missing: tuple[WindowKey, ...]
    at_least: int
    of: int

    def refs(self) -> tuple[WindowRef, ...]:
        """The oldest ones, a bounded number."""
        return tuple((self.pipeline, key.start_ms) for key in self.missing[:MOST_ASKED])

    def decide(self, look: Look, now_ms: int) -> tuple[Answer, PublishedWait]:
        """What is published once needs not be asked for again."""
        asked, later = self.missing[:MOST_ASKED], self.missing[MOST_ASKED:]
        open_ones = tuple(key for key in asked if self._generation(look, key) < self.at_least)
        left = replace(self, missing=open_ones + later)
        if open_ones:
            return Answer(False, left.text(look, now_ms)), left
        if later:
            done = self.of - len(later)
            return Answer(False, f"{self.pipeline}: {done:,} of {many(self.of, 'window')} published so far"), left
        return Answer(True, f"{self.pipeline}: {self._all()}"), left

    def text(self, look: Look, now_ms: int) -> str:
        """Which windows are missing, and who holds the oldest of them."""
        named = "; ".join(self._why(look, key, now_ms) for key in self.missing[:MOST_NAMED])
        more = len(self.missing) - MOST_NAMED
        rest = f"; and {more:,} more, up to {iso(self.missing[-1].start_ms)}" if more > 0 else ""
        return f"{self.pipeline}: {len(self.missing):,} of {many(self.of, 'window')} not published: {named}{rest}"

    def _all(self) -> str:
        if self.of == 0:
            return "no window of this time: it ends before windows.start, and nothing belongs there"
        return f"{many(self.of, 'window')} published"

    def _generation(self, look: Look, key: WindowKey) -> int:
        standing = look.standings.get((self.pipeline, key.start_ms))
        return (standing and standing.generation) or 0

    def _why(self, look: Look, key: WindowKey, now_ms: int) -> str:
        name, standing = iso(key.start_ms), look.standings.get((self.pipeline, key.start_ms))
        if standing is not None and standing.generation is not None:
            return f"{name} (generation {standing.generation} is in force, {self.at_least} is asked for)"
        if standing is not None and standing.state != OPEN:
            step = "closed, and being published" if standing.state == CLOSED else "closing: batches must land first"
            return f"{name} ({step}; see {self.pipeline}.archive)"
        certificate = certify(self.pipeline, self.windows, look, key, now_ms)
        if certificate.ready:
            look_at = f"`tidegate explain {self.pipeline} {name}` says why"
            return f"{name} (its watermark has passed, but {self.pipeline}.archive has not closed it: {look_at})"
        return f"{name} (blocked: {certificate.reason})"


def union(waits: Sequence[Wait]) -> tuple[set[str], set[WindowRef]]:
    """What one look must bring for all of them."""
    return {wait.pipeline for wait in waits}, {ref for wait in waits for ref in wait.refs()}
